"""A sweep whose programs, or whose node, end in the middle: nothing that was written is lost, the
rest can be measured, and no process is left.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from railgauge.lab import faults
from railgauge.lab.cluster import Lab

from .conftest import PATIENCE_S, Run, assert_nothing_runs, start_dead
from .test_accept import jobs_left, start, suspects, sweeps, wait_for_traffic

Verdict = Callable[[], dict[str, Any]]


def pairs(seconds: int) -> tuple[str, ...]:
    """A round is as long as the machine may stand still between what a test sees and does."""
    return ("--partition", "ns", "--", "-n", "Iperf2Pair", "-S", f"Iperf2Pair.duration_s={seconds}")


FIRST_ROUND = {("n1", "n2"), ("n3", "n4")}
ALL = FIRST_ROUND | {("n2", "n3"), ("n4", "n1")}


def measured(found: dict[str, Any]) -> set[tuple[str, ...]]:
    return {tuple(m["nodes"]) for m in found["measurements"] if m["check"] == "Iperf2Pair"}


def kill(lab: Lab, node: str, program: str) -> None:
    module = f"railgauge.node.orchestration.{program}"
    command = lab.enter(node, "pkill", "-KILL", "--oldest", "--full", module)
    assert os.spawnvp(os.P_WAIT, command[0], command) == 0


def resume_measures_the_rest(railgauge: Run, area: Path, verdict: Verdict, left: int) -> None:
    answer = railgauge("accept", "--resume", "latest")
    assert f"session 2: {left} missing" in answer.stdout, answer.stdout
    (again, _) = sweeps(area, "Iperf2Pair")
    assert len(again.places) == left
    assert measured(verdict()) == ALL


@pytest.mark.release
def test_the_conductors_node_that_loses_power_is_named_and_the_rest_resumed(
    railgauge: Run, area: Path, verdict: Verdict, repaired: Lab
) -> None:
    """Slurm lets such a job go on to its time limit, without anybody who conducts it."""
    campaign = start(area, *pairs(15))
    wait_for_traffic(area, rounds=1)
    faults.add(repaired, "off", "n1")
    # Sooner than the job's own limit, seven minutes.
    output, _ = campaign.communicate(timeout=300)
    assert campaign.returncode == 1, output
    found = verdict()
    assert suspects(found) == ["n1"], output
    (told,) = [f for f in found["findings"] if f["weight"] == "reject"]
    assert (told["kind"], told["nodes"]) == ("node-lost", ["n1"])
    assert measured(found) == FIRST_ROUND
    assert jobs_left(repaired) == ""
    faults.clear(repaired)
    start_dead(repaired)
    resume_measures_the_rest(railgauge, area, verdict, left=2)
    # What happened stays said: a user has to look at that node.
    assert suspects(verdict()) == ["n1"]


def test_a_conductor_that_is_killed_accuses_no_node_and_the_rest_is_resumed(
    railgauge: Run, area: Path, verdict: Verdict, cluster: Lab
) -> None:
    campaign = start(area, *pairs(15))
    wait_for_traffic(area, rounds=1)
    kill(cluster, "n1", "conductor")
    campaign.communicate(timeout=PATIENCE_S)
    assert_nothing_runs(cluster)
    found = verdict()
    assert suspects(found) == []
    assert measured(found) == FIRST_ROUND
    resume_measures_the_rest(railgauge, area, verdict, left=2)


def test_an_agent_that_is_killed_names_its_node_and_costs_no_other_node(
    area: Path, verdict: Verdict, cluster: Lab
) -> None:
    campaign = start(area, *pairs(8))
    wait_for_traffic(area)
    kill(cluster, "n3", "agent")
    output, _ = campaign.communicate(timeout=PATIENCE_S)
    assert_nothing_runs(cluster)
    found = verdict()
    assert suspects(found) == ["n3"], output
    assert measured(found) == {pair for pair in ALL if "n3" not in pair}


@pytest.mark.release
def test_a_sweep_that_is_cancelled_accuses_no_node_and_goes_on_with_what_it_lacks(
    railgauge: Run, area: Path, verdict: Verdict, cluster: Lab
) -> None:
    campaign = start(area, *pairs(15))
    wait_for_traffic(area, rounds=1)
    (job,) = cluster.on_head("squeue", "--noheader", "--states=R", "--format=%A").stdout.split()
    cluster.on_head("scancel", job)
    assert_nothing_runs(cluster)
    output, _ = campaign.communicate(timeout=PATIENCE_S)
    assert campaign.returncode == 2, output
    (record,) = area.glob("campaigns/*/campaign.json")
    assert json.loads(record.read_text())["state"] != "running"
    found = verdict()
    (finding,) = [f for f in found["findings"] if f["kind"] == "job-disturbed"]
    assert finding["weight"] == "inconclusive"
    assert "CANCELLED by root" in finding["message"], output
    assert "accept --resume" in finding["next_step"]
    assert suspects(found) == []
    resume_measures_the_rest(railgauge, area, verdict, left=2)
    # Only what a filter left out keeps it from accept.
    found = verdict()
    assert found["verdict"] == "inconclusive"
    assert "job-disturbed" not in {f["kind"] for f in found["findings"]}
