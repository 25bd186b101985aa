"""Programs that run on compute nodes: standard library only, Python 3.9, no import of the rest."""

import os
import sys

# Called by `python3 -m railgauge.node...`: the folder that it was called in, and this checkout, go
# behind Python's own modules, or each of those would be looked for there first. On a shared file
# system that is some hundred looks of every process, a fifth of the time that an agent takes to
# start where the CPU is emulated; and a json.py that lies there would be taken for Python's.
if sys.argv[:1] == ["-m"]:
    _LIBRARY = os.__file__.rpartition("/")[0]
    sys.path.sort(key=lambda folder: not folder.startswith(_LIBRARY))
