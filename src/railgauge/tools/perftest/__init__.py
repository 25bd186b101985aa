"""perftest: RDMA bandwidth and latency between two nodes (ib_write_bw and its five siblings).

Good rows may stand above `Completion with error`, and a row may be cut in the middle of a number.
So a table counts only with the line of dashes that perftest prints below its last row, and a run
only where the exit codes, the server's own output and the options agree with it.

Formulas and limits are those of perftest 25.01 (src/perftest_parameters.c).
"""

from __future__ import annotations

from typing import get_args

from railgauge.tools.perftest.by_hand import BY_HAND
from railgauge.tools.perftest.judge import NO_CLOCK, is_maximum, read
from railgauge.tools.perftest.options import (
    DATA_VALIDATION,
    SWEEP_SIZES,
    TOOL,
    Operation,
    Options,
    Test,
    client_argv,
    server_argv,
    version_argv,
)
from railgauge.tools.perftest.result import Address, Bandwidth, Latency
from railgauge.tools.perftest.text import parse

#: The Spack packages that it needs, with the programs that each brings.
PACKAGES = {
    TOOL: tuple(f"ib_{op}_{test}" for op in get_args(Operation) for test in get_args(Test)),
}

__all__ = [
    "BY_HAND",
    "DATA_VALIDATION",
    "NO_CLOCK",
    "PACKAGES",
    "SWEEP_SIZES",
    "TOOL",
    "Address",
    "Bandwidth",
    "Latency",
    "Operation",
    "Options",
    "Test",
    "client_argv",
    "is_maximum",
    "parse",
    "read",
    "server_argv",
    "version_argv",
]
