"""Programs that run on compute nodes: standard library only, Python 3.9, no import of the rest."""
