"""NCCL's debug log: the network, connections and HCAs that a job's ranks really used.

`NCCL_DEBUG=INFO` with one `NCCL_DEBUG_FILE` a rank. A log is believed only as far as its lines are
whole: NCCL ends every line with a newline, so what stands behind the last one is torn ("GDRDMA"
may be missing from a path), and a connection that cannot be read is a problem, not an omission.

Since NCCL 2.22 connections are made when a collective first needs them, after `Init COMPLETE`, and
an algorithm that is not used connects nothing (NCCL_RUNTIME_CONNECT=0 connects all at once).
HCAs that NCCL has merged are named only in logs with NCCL_DEBUG_SUBSYS=INIT,ENV,NET.

`Destroy COMPLETE` is the last word of a communicator, and so the proof of a whole log. It is of the
subsystem INIT up to 2.29 and of DESTROY since 2.30 (versions that do not know a subsystem pass over
its name): a job's logs may lack it, but not those of some ranks only. The same holds for `Connected
all rings` and `Connected all trees`, which follow the connections in question, in all versions.

Formats: NVIDIA/nccl 2.18 to 2.31, src/transport (p2p.cc, shm.cc, net.cc, coll_net.cc, nvls.cc,
net_ib), src/init.cc, src/mnnvl.cc, src/graph/topo.cc, src/debug.cc. Verified by logs of runs:
2.21, 2.27, 2.28 and 2.30 (tests/data/nccl-log). Unverified are 2.22 to 2.26: logs of theirs were
typed after the source of each release (tests/unit/tools/test_nccl_log_versions.py).
"""

from __future__ import annotations

from railgauge.tools.nccl_log import ras
from railgauge.tools.nccl_log.by_hand import BY_HAND, TOOL
from railgauge.tools.nccl_log.hang import last_words_of_all
from railgauge.tools.nccl_log.judge import Used, read
from railgauge.tools.nccl_log.result import CollNet, Connection, Log, Seat
from railgauge.tools.nccl_log.text import ADVICE, parse

__all__ = [
    "ADVICE",
    "BY_HAND",
    "TOOL",
    "CollNet",
    "Connection",
    "Log",
    "Seat",
    "Used",
    "last_words_of_all",
    "parse",
    "ras",
    "read",
]
