"""All that Railgauge asks of Slurm, and asks it to do.

`client` (its commands) and `nodes` also run on compute nodes: standard library, Python 3.9.
"""
