"""nccl-tests: bandwidth of NCCL's collectives (all_reduce_perf and its nine siblings).

A good table proves little: ranks that started alone print one each, a sweep may stop early, and
values may be wrong while the exit code of an old version is 0. So a table counts only with its
header (ranks and options), its footer (out of bounds, average, end line) and exit codes
that all agree with its rows and with each other.

Formulas, alignments and exit codes are those of nccl-tests 2.19 (src/common.cu, src/util.cu and the
operations next to them); what older versions printed is noted where it differs.
"""

from __future__ import annotations

from railgauge.tools.nccl_tests.by_hand import BY_HAND
from railgauge.tools.nccl_tests.document import parse_json
from railgauge.tools.nccl_tests.judge import read
from railgauge.tools.nccl_tests.options import (
    OPERATIONS,
    SPLIT,
    SPLIT_IN_RANKS,
    TOOL,
    Options,
    argv,
    busbw_factor,
    version_argv,
)
from railgauge.tools.nccl_tests.result import Device, Result
from railgauge.tools.nccl_tests.text import devices, parse

#: The Spack packages that it needs, with the programs that each brings.
PACKAGES = {TOOL: tuple(f"{operation}_perf" for operation in OPERATIONS), "nccl": ()}

__all__ = [
    "BY_HAND",
    "OPERATIONS",
    "PACKAGES",
    "SPLIT",
    "SPLIT_IN_RANKS",
    "TOOL",
    "Device",
    "Options",
    "Result",
    "argv",
    "busbw_factor",
    "devices",
    "parse",
    "parse_json",
    "read",
    "version_argv",
]
