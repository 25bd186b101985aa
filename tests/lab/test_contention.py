"""Measurements beside load in the lab: real stressors on its namespace nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from railgauge.lab.cluster import Lab

from .conftest import Run, running

#: stress-ng, and the program that keeps it; not whoever looks for them.
STRESSORS = "stress-n[g]|stressor[.]py"


def test_load_is_measured_as_times_no_load_and_none_of_it_is_left(
    railgauge: Run, verdict: Callable[[], Any], cluster: Lab
) -> None:
    answer = railgauge("accept", "--partition", "ns", "--series", "--", "-n", "^Contention")
    found = verdict()
    # Required checks were left out by the filter; nothing else is missing, or wrong.
    assert {f["kind"] for f in found["findings"]} == {"not-measured"}, answer.stdout
    ratios = {ratio["name"]: ratio["value"] for ratio in found["ratios"]}
    measured = {name for name, value in ratios.items() if value}
    assert measured == {"TCP, ns, busy over idle", "TCP, ns, beside over idle"}, answer.stdout
    assert all(name in answer.stdout for name in measured)
    # The lab has one NUMA node.
    assert [case["check"] for case in found["left_out"]] == ["ContentionTcp"]
    nodes = [node.name for node in cluster.in_use() if node.kind == "namespace"]
    assert {node: left for node in nodes if (left := running(cluster, node, STRESSORS))} == {}
