"""Slurm's trouble, and what a user did to it on purpose: never a node's fault, and said so."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from railgauge.lab.cluster import Lab
from railgauge.model.failure import DIRECTION, DISTURBED

from .conftest import PATIENCE_S, Run, start_dead
from .test_accept import start, suspects

Verdict = Callable[[], dict[str, Any]]

PAIRS = ("--", "-n", "Iperf2Pair")

#: Its places in partition ns.
RING = {("n1", "n2"), ("n2", "n3"), ("n3", "n4"), ("n4", "n1")}


@pytest.fixture
def control(cluster: Lab) -> Iterator[Callable[..., str]]:
    """`scontrol update` and the like on the head; all is as before afterwards."""

    def run(*command: str) -> str:
        return cluster.on_head(*command).stdout

    yield run
    run("scontrol", "update", "partitionname=ns", "state=up")
    run("scancel", "--user=root")
    for node in ("n2", "n4"):
        shown = run("scontrol", "show", "node", node)
        if "DRAIN" in shown:
            run("scontrol", "update", f"nodename={node}", "state=resume")
    start_dead(cluster)


def not_started(found: dict[str, Any]) -> dict[str, Any]:
    """The one finding of what was kept from starting."""
    (finding,) = [f for f in found["findings"] if f["kind"] == "no-result"]
    assert finding["weight"] == "inconclusive"
    return dict(finding)


def test_what_a_drained_node_keeps_from_starting_is_one_finding(
    railgauge: Run, verdict: Verdict, control: Callable[..., str]
) -> None:
    control("scontrol", "update", "nodename=n4", "state=drain", "reason=bad disk")
    answer = railgauge("accept", "--partition", "ns", *PAIRS)
    assert "waiting: n4 drained by root: bad disk" in answer.stdout
    found = verdict()
    (finding,) = [f for f in found["findings"] if f["kind"] == "job-disturbed"]
    assert "not measured: n4 drained by root: bad disk" in finding["message"]
    assert finding["weight"] == "inconclusive"
    assert "n4" not in suspects(found)
    # The others go on without it.
    measured = {tuple(m["nodes"]) for m in found["measurements"]}
    assert measured == {("n1", "n2"), ("n2", "n3")}


def test_a_partition_that_is_down_starts_nothing_and_is_said(
    railgauge: Run, verdict: Verdict, control: Callable[..., str]
) -> None:
    control("scontrol", "update", "partitionname=ns", "state=down")
    answer = railgauge("accept", "--partition", "ns")
    assert answer.returncode == 2, answer.stdout
    assert "9 places" in not_started(verdict())["message"]
    assert "partition ns is DOWN" in " ".join(answer.stdout.split())


@pytest.fixture
def busy(control: Callable[..., str]) -> str:
    """A node on which a user's long job runs."""
    control(
        *("sbatch", "--partition=ns", "--nodelist=n2", "--exclusive", "--time=60"),
        *("--output=/dev/null", "--wrap=sleep 3000"),
    )
    deadline = time.monotonic() + PATIENCE_S
    while "n2" not in control("squeue", "--noheader", "--states=R", "--format=%N"):
        assert time.monotonic() < deadline
    return "n2"


@pytest.mark.release
def test_a_sweep_waits_for_a_long_foreign_job_and_says_so(
    railgauge: Run, verdict: Verdict, busy: str
) -> None:
    answer = railgauge("accept", "--partition", "ns", *PAIRS, "-S", "max_pending_time=15s")
    assert f"{busy} busy with job" in answer.stdout
    found = verdict()
    (finding,) = [f for f in found["findings"] if f["kind"] == "no-result"]
    assert "waited" in finding["message"] and finding["weight"] == "inconclusive"
    assert busy not in suspects(found)


def test_idle_nodes_are_measured_while_others_are_busy(
    railgauge: Run, verdict: Verdict, busy: str
) -> None:
    """What was not measured is named, and nothing is waited for."""
    answer = railgauge("accept", "--partition", "ns", "--idle", *PAIRS)
    assert answer.returncode == 2, answer.stdout
    found = verdict()
    assert {tuple(m["nodes"]) for m in found["measurements"]} == {("n3", "n4"), ("n4", "n1")}
    (finding,) = [f for f in found["findings"] if f["kind"] == "node-taken"]
    assert f"not measured: {busy} busy with job" in finding["message"]


@pytest.fixture
def cut(cluster: Lab) -> Iterator[tuple[str, str]]:
    """The way from n1 to n3 is cut, and no other."""
    there = next(n for n in cluster.spec.all_nodes() if n.name == "n3")
    for word in ("add", "del"):
        if word == "del":
            yield "n1", "n3"
        command = cluster.enter("n1", "ip", "route", word, "blackhole", f"{there.address}/32")
        subprocess.run(command, check=True)


def test_a_cut_way_is_named_by_its_ends_and_no_node_is(
    railgauge: Run, verdict: Verdict, cut: tuple[str, str]
) -> None:
    answer = railgauge("accept", "--partition", "ns", "--", "-n", "NodeState|MpiWorld")
    assert answer.returncode == 1, answer.stdout
    assert "failed on node n3" in answer.stdout
    found = verdict()
    unreached = [f for f in found["findings"] if f["kind"] == "launch-failed"]
    assert {tuple(f["nodes"]) for f in unreached} == {("n3",)}
    # Only what needs it is not measured.
    states = {m["nodes"][0] for m in found["measurements"] if m["check"] == "NodeState"}
    assert states == {"n1", "n2", "n4"}
    assert list(cut) in [s["nodes"] for s in found["suspects"] if s["kind"] == "pair"]


@pytest.mark.release
def test_a_controller_that_hangs_accuses_no_node(
    area: Path, verdict: Verdict, cluster: Lab
) -> None:
    """Stopped as a job begins, for longer than srun waits for it."""
    campaign = start(area, "--partition", "ns", *PAIRS)
    deadline = time.monotonic() + PATIENCE_S
    while not cluster.on_head("squeue", "--noheader", "--states=R,CF", "--format=%A").stdout:
        assert time.monotonic() < deadline
    cluster.on_head("pkill", "-STOP", "-x", "slurmctld")
    going_on = threading.Timer(45, cluster.on_head, ["pkill", "-CONT", "-x", "slurmctld"])
    going_on.start()
    output, _ = campaign.communicate(timeout=PATIENCE_S)
    going_on.join()
    start_dead(cluster)
    found = verdict()
    # Under load a pair may be slow all the same: then it was measured.
    silent = [f for f in found["findings"] if f["kind"] in ("silent-node", "no-exit-line")]
    assert not silent, output
    rejecting = {f["kind"] for f in found["findings"] if f["weight"] == "reject"}
    assert rejecting <= {"out-of-reference", "above-limit", DIRECTION}, output
    assert not [s for s in found["suspects"] if "exit line" in s["why"]]
    named = [s for s in found["suspects"] if s["confirmed"] and s["kind"] in ("node", "rail")]
    assert not named, output
    # What was not measured is said to be Slurm's trouble.
    measured = {tuple(m["nodes"]) for m in found["measurements"]}
    disturbed = [f["weight"] for f in found["findings"] if f["kind"] == DISTURBED]
    assert measured >= RING or disturbed, output
    assert set(disturbed) <= {"inconclusive"}, output


@pytest.fixture
def slow_sender(cluster: Lab) -> Iterator[str]:
    """What n2 sends is shaped to 0.4 Gb/s; what it receives is not."""

    def tc(*command: str) -> str:
        answer = subprocess.run(
            cluster.enter("n2", "tc", "qdisc", *command), capture_output=True, text=True, check=True
        )
        return answer.stdout

    words = tc("show", "dev", "eth0", "root").split()
    usual = {name: words[words.index(name) + 1] for name in ("rate", "burst", "lat")}
    shape = ("replace", "dev", "eth0", "root", "tbf")
    tc(*shape, "rate", "400mbit", "burst", "500kb", "latency", "10ms")
    yield "n2"
    tc(*shape, "rate", usual["rate"], "burst", usual["burst"], "latency", usual["lat"])


@pytest.mark.release
def test_the_one_slow_direction_of_a_pair_is_reported(
    railgauge: Run, verdict: Verdict, slow_sender: str
) -> None:
    railgauge("accept", "--partition", "ns", *PAIRS)
    messages = [f["message"] for f in verdict()["findings"] if f["kind"] == "direction"]
    (told,) = [m for m in messages if m.startswith(f"{slow_sender} -> n1")]
    # Under load the other one may be below the floor as well, and then that is told.
    assert "n1 -> n2" in told
