"""iperf3: TCP bandwidth of parallel streams between two nodes, by its JSON.

iperf3 writes one JSON document when it ends: whatever is cut from it is no JSON any more, and an
error stands in it. But a document without an error may still say that nothing arrived, and a
client's own rate is of what it handed to its kernel. So `read` takes what the server received, and
believes a document only where its totals, its intervals, the time that was asked for and both ends
agree. What a run omits at its start (-O) is in no total.
"""

from __future__ import annotations

from railgauge.tools.iperf3.by_hand import BY_HAND
from railgauge.tools.iperf3.judge import read
from railgauge.tools.iperf3.options import TOOL, Options, client_argv, server_argv, version_argv
from railgauge.tools.iperf3.result import Flow, Output
from railgauge.tools.iperf3.text import parse

#: The Spack packages that it needs, with the programs that each brings.
PACKAGES = {TOOL: ("iperf3",)}

__all__ = [
    "BY_HAND",
    "PACKAGES",
    "TOOL",
    "Flow",
    "Options",
    "Output",
    "client_argv",
    "parse",
    "read",
    "server_argv",
    "version_argv",
]
