"""Measurements next to load in the lab: real stressors on its namespace nodes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from railgauge.lab.cluster import Lab

from .conftest import Run, lab_command, running, second_lab

pytestmark = pytest.mark.release

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


def test_a_tool_is_measured_far_from_its_nic_where_there_are_two_numa_nodes(
    cluster: Lab, tmp_path: Path, railgauge: Run, verdict: Callable[[], Any]
) -> None:
    with second_lab(cluster, tmp_path / "lab", "lab-numa") as lab:
        answer = lab_command(lab, "up", "--system", "lab-numa")
        assert answer.returncode == 0, answer.stdout
        answer = railgauge(
            *("accept", "--system", "lab-numa", "--", "-n", "ContentionTcp"),
            RAILGAUGE_LAB_DIR=str(lab.folders.lab),
        )
        found = verdict()
        assert {f["kind"] for f in found["findings"]} <= {"not-measured"}, answer.stdout
        assert (found["left_out"], found["ratios"][0]["name"]) == ([], "TCP, vm, far over idle")
        assert found["ratios"][0]["value"], answer.stdout
        shown = railgauge("show", "latest", "n1", "--check", "ContentionTcp").stdout
        for tool in (0, 1):
            assert f"NIC on NUMA node 0, tool on [{tool}]" in shown, shown
