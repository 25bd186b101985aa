"""The programs of checks: which nodes must have, and which only tell more."""

from __future__ import annotations

from pathlib import Path

import pytest

from railgauge import systems
from railgauge.checks.framework import reframe_guard
from tests.unit.checks import ended_jobs


@pytest.mark.parametrize(
    ("name", "needed", "helpers"),
    [
        ("Iperf2Pair", {"iperf"}, set()),
        ("WanTcp", {"iperf"}, {"tc", "ping"}),
        ("NicPair", {"iperf"}, {"ethtool"}),
        (
            "RdmaBandwidth",
            {f"ib_{op}_{test}" for op in ("write", "read", "send") for test in ("bw", "lat")},
            {"ethtool", "rdma"},
        ),
    ],
)
def test_a_required_check_needs_its_tool_and_no_helper(
    tmp_path: Path, name: str, needed: set[str], helpers: set[str]
) -> None:
    partition = systems.load("lab").partition("vm")
    extras = partition.extras.model_copy(update={"required": [name], "transfers": None})
    partition = partition.model_copy(update={"extras": extras, "modules": []})
    with ended_jobs.session("lab", tmp_path) as known:
        kind = known[name].kind
        assert set(reframe_guard.required_programs(kind, partition)) == needed
        assert set(kind.programs.on(partition)) == needed | helpers
