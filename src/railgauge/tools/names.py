"""Names of tools that reports ask for: a package with a tool's readers takes its time to load."""

from __future__ import annotations

IPERF3 = "iperf3"
NCCL_TESTS = "nccl-tests"
WDT = "wdt"
