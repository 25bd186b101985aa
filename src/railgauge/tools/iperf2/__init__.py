"""iperf2: TCP bandwidth of parallel streams between two nodes.

The client exits 0 when it is refused, when the server dies and on an unknown flag, and its text
does not prove that it ran to its end. So `read` believes a run only where the exit codes, the
server's own rows and the options agree with the client's rows.
"""

from __future__ import annotations

from railgauge.tools.iperf2.by_hand import BY_HAND
from railgauge.tools.iperf2.judge import read, time_to_stable_s
from railgauge.tools.iperf2.options import (
    TOOL,
    Options,
    client_argv,
    commands,
    requested,
    server_argv,
    version_argv,
)
from railgauge.tools.iperf2.result import Stream
from railgauge.tools.iperf2.text import parse

#: The Spack packages that it needs, with the programs that each brings.
PACKAGES = {TOOL: ("iperf",)}

__all__ = [
    "BY_HAND",
    "PACKAGES",
    "TOOL",
    "Options",
    "Stream",
    "client_argv",
    "commands",
    "parse",
    "read",
    "requested",
    "server_argv",
    "time_to_stable_s",
    "version_argv",
]
