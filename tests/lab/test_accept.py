"""`railgauge accept` on a healthy and on a broken network."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from railgauge import paths, systems
from railgauge.campaign.folder import ENDED
from railgauge.lab import faults
from railgauge.lab.cluster import Lab
from railgauge.node.transport import results_file

from .conftest import PATIENCE_S, Run, area_of, assert_nothing_runs, run_command

Verdict = Callable[[], dict[str, Any]]


def suspects(verdict: dict[str, Any]) -> list[str]:
    """The nodes that are suspects, or have a rail that is."""
    found = [s for s in verdict["suspects"] if s["kind"] in ("node", "rail")]
    return sorted({node for suspect in found for node in suspect["nodes"]})


def pairs_found(verdict: dict[str, Any]) -> set[tuple[str, ...]]:
    return {tuple(f["nodes"]) for f in verdict["findings"] if f["check"] == "Iperf2Pair"}


def jobs_left(lab: Lab) -> str:
    # A job on a node without power stays `completing` until Slurm gives the node up.
    return lab.on_head("squeue", "--noheader", "--states=PD,R").stdout


def wait_for_no_job(lab: Lab) -> None:
    """Until the last one has left its nodes: on one that loses power then it would not, and keep
    the others.
    """
    deadline = time.monotonic() + PATIENCE_S
    while left := lab.on_head("squeue", "--noheader").stdout:
        assert time.monotonic() < deadline, left
        time.sleep(0.2)


def start(area: Path, *options: str, **env: str) -> subprocess.Popen[str]:
    """`railgauge accept` in the background."""
    return subprocess.Popen(
        [str(paths.HOME / "bin/railgauge"), "accept", *options],
        cwd=paths.HOME,
        env={**os.environ, "RAILGAUGE_RESULTS": str(area), **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_for_running_job(lab: Lab, nodes: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while nodes not in lab.on_head("squeue", "--noheader", "--states=R", "--format=%N").stdout:
        assert time.monotonic() < deadline, f"no job on {nodes}"
        time.sleep(0.3)


def wait_for_ended(area: Path, cases: int) -> None:
    """Until that many cases have ended: what they measured counts from then on, and not once it was
    written, which ReFrame must still have taken for good.
    """
    deadline = time.monotonic() + PATIENCE_S
    while len(list(area.glob(f"campaigns/*/{ENDED}/*.json"))) < cases:
        assert time.monotonic() < deadline, "no case has ended"
        time.sleep(0.05)


def sweeps(area: Path, check: str) -> list[results_file.Raw]:
    """What the sweeps of a check have left so far."""
    found = area.glob(f"campaigns/*/**/{check}_*/{results_file.FILE}")
    return [results_file.read(path) for path in sorted(found)]


def wait_for_agents(area: Path, rounds: int = 0, check: str = "Iperf2Pair") -> None:
    """Until all agents of a sweep of pairs are there, and so many of its rounds are over."""
    deadline = time.monotonic() + PATIENCE_S
    # All of its agents: a virtual machine may need seconds more than its partner.
    while not any(
        s.begin and len(s.joined) == len(s.begin["nodes"]) and len(s.rounds) >= rounds
        for s in sweeps(area, check)
    ):
        assert time.monotonic() < deadline, "no sweep runs"
        time.sleep(0.05)


def wait_for_traffic(area: Path, rounds: int = 0, check: str = "Iperf2Pair") -> None:
    """Until a sweep of pairs is in a round, after so many others: Slurm has started its step by
    then, and needs its controller again only when the job ends.
    """
    wait_for_agents(area, rounds, check)
    # They prepare the places, and go.
    time.sleep(1.5)


@pytest.fixture(scope="module")
def restarted(cluster: Lab) -> Iterator[tuple[Path, str]]:
    """The area and the output of an accepted campaign in which slurmctld was restarted."""
    with area_of("restarted") as area:
        campaign = start(area, "--nodes", "n1,n2")
        try:
            wait_for_traffic(area)
            faults.add(cluster, "slurmctld-restart")
            output, _ = campaign.communicate(timeout=PATIENCE_S)
        finally:
            faults.clear(cluster)
        assert campaign.returncode == 0, output
        yield area, output


@pytest.mark.release
def test_a_restarted_controller_disturbs_nothing(restarted: tuple[Path, str], cluster: Lab) -> None:
    assert restarted[1].splitlines()[-1].startswith("ACCEPT "), restarted[1]
    assert_nothing_runs(cluster)


@pytest.mark.release
def test_a_campaign_keeps_what_it_saw(restarted: tuple[Path, str]) -> None:
    area, output = restarted
    campaign = next((area / "campaigns").iterdir())
    for name in (
        *("campaign.json", "plan.json", "report.json", "junit.xml", "reframe.out"),
        *("report.html", "summary.md"),
    ):
        assert (campaign / name).stat().st_size > 0, name
    assert (campaign / "verdict.txt").read_text().count("ACCEPT") == 2
    cases = [path.parent for path in campaign.glob("stage/**/sweep.json")]
    assert len(cases) == 2
    for case in cases:
        assert (case / "rfm_job.sh").stat().st_size > 0
    (pairs,) = sweeps(area, "Iperf2Pair")
    assert {role: bool(side.out) for role, side in pairs.sides[0].items()} == {
        "server": True,
        "client": True,
    }
    assert (area / "history.db").exists()
    again = run_command([str(paths.HOME / "bin/railgauge"), "verdict"], area, {}, PATIENCE_S)
    assert again.returncode == 0
    assert again.stdout.splitlines()[-1] == output.splitlines()[-1]


CONGESTION = "net.ipv4.tcp_congestion_control"


def test_a_node_set_in_another_way_is_rejected_and_named(
    railgauge: Run, verdict: Verdict, area: Path, cluster: Lab
) -> None:
    before = railgauge("lab", "exec", "n2", "sysctl", "-n", CONGESTION).stdout.strip()
    railgauge("lab", "exec", "n2", "sysctl", "-w", f"{CONGESTION}=reno")
    try:
        answer = railgauge("accept", "--partition", "ns", "--", "-n", "NodeState")
    finally:
        railgauge("lab", "exec", "n2", "sysctl", "-w", f"{CONGESTION}={before}")
    assert answer.returncode == 1, answer.stdout
    found = verdict()
    said = {f["kind"]: f for f in found["findings"] if f["nodes"] == ["n2"]}
    assert (
        f'n2: sysctl/{CONGESTION} is "reno", expected "cubic" or "bbr"' in said["state"]["message"]
    )
    assert said["state"]["next_step"] == f"sysctl -w {CONGESTION}=cubic"
    assert f'is "reno", expected "{before}"' in said["odd-node"]["message"]
    assert suspects(found) == ["n2"]
    assert set(found["fingerprints"]) == {"n1", "n2", "n3", "n4"}
    answer = railgauge("inventory", "diff", "latest:n1", "latest:n2")
    assert (answer.returncode, f'{CONGESTION} was "{before}"' in answer.stdout) == (1, True)


def test_a_slow_link_is_rejected_and_located(
    railgauge: Run, verdict: Verdict, repaired: Lab
) -> None:
    faults.add(repaired, "rate", "n2", 0.4)
    answer = railgauge("accept", "--partition", "ns")
    assert answer.returncode == 1, answer.stdout
    assert "reject: Iperf2Pair ns n1 n2" in answer.stdout
    found = verdict()
    assert pairs_found(found) == {("n1", "n2"), ("n2", "n3")}
    assert suspects(found) == ["n2"]


@pytest.fixture(scope="module")
def two_bad_nodes(cluster: Lab) -> Iterator[tuple[str, dict[str, Any]]]:
    """Output and verdict where n2 has a wrong MTU, and n4 is off: each bad by itself, and none of
    them the partner of the other.
    """
    with area_of("two-bad-nodes") as area:
        try:
            wait_for_no_job(cluster)
            faults.add(cluster, "mtu", "n2", 1500)
            faults.add(cluster, "off", "n4")
            campaign = start(area, "--partition", "ns", "--", "-n", "Iperf2Pair")
            output, _ = campaign.communicate(timeout=PATIENCE_S)
            assert jobs_left(cluster) == ""
        finally:
            faults.clear(cluster)
        assert campaign.returncode == 1, output
        yield output, json.loads(next(area.glob("campaigns/*/verdict.json")).read_text())


def test_a_wrong_mtu_is_rejected_and_named(two_bad_nodes: tuple[str, dict[str, Any]]) -> None:
    assert "mtu_bytes on n2 eth0 is 1500, expected 4200" in two_bad_nodes[0]


def test_a_node_that_is_off_is_rejected_by_name(two_bad_nodes: tuple[str, dict[str, Any]]) -> None:
    assert suspects(two_bad_nodes[1]) == ["n2", "n4"]


def test_a_node_that_loses_power_in_mid_job_is_named(
    area: Path, verdict: Verdict, repaired: Lab
) -> None:
    campaign = start(area, "--partition", "ns")
    wait_for_traffic(area)
    faults.add(repaired, "off", "n2")
    output, _ = campaign.communicate(timeout=PATIENCE_S)
    assert campaign.returncode == 1, output
    # No tool of its partners, which hung, was waited for to its limit.
    (sweep,) = sweeps(area, "Iperf2Pair")
    outcomes = {place["outcome"] for place in sweep.places.values()}
    assert outcomes == {"done", "lost"}, sweep.places
    found = verdict()
    assert suspects(found) == ["n2"]
    lost = [f for f in found["findings"] if f["check"] == "Iperf2Pair" and f["weight"] == "reject"]
    assert [f["nodes"] for f in lost] == [["n2"]], lost
    # The others were measured all the same.
    measured = {tuple(m["nodes"]) for m in found["measurements"] if m["check"] == "Iperf2Pair"}
    assert ("n3", "n4") in measured
    assert jobs_left(repaired) == ""


def test_a_full_disk_is_rejected_and_named(railgauge: Run, verdict: Verdict, repaired: Lab) -> None:
    """MPI does not start there, which names no disk by itself. Nothing left at all would have Slurm
    drain the node first.
    """
    faults.add(repaired, "disk-full", "n2", 65536)
    answer = railgauge("accept", "--partition", "ns", "--", "-n", "NodeState|MpiWorld")
    assert answer.returncode == 1, answer.stdout
    found = verdict()
    full = [f for f in found["findings"] if f["kind"] == "disk-full"]
    assert {(f["weight"], *f["nodes"]) for f in full} == {("reject", "n2")}, answer.stdout
    assert suspects(found) == ["n2"]


def test_without_accounting_nothing_is_started(railgauge: Run, area: Path, repaired: Lab) -> None:
    faults.add(repaired, "slurmdbd-stop")
    answer = railgauge("accept", "--partition", "ns")
    assert answer.returncode == 3, answer.stdout
    assert "sacct" in answer.stdout
    assert not (area / "campaigns").exists()


def test_accounting_lost_in_mid_campaign_is_inconclusive_until_resumed(
    railgauge: Run, area: Path, verdict: Verdict, repaired: Lab
) -> None:
    campaign = start(area, "--partition", "ns")
    wait_for_running_job(repaired, "n[1-4]")
    faults.add(repaired, "slurmdbd-stop")
    output, _ = campaign.communicate(timeout=PATIENCE_S)
    assert campaign.returncode == 2, output
    assert verdict()["verdict"] == "inconclusive"
    assert jobs_left(repaired) == ""
    assert "next: railgauge accept --resume" in output
    faults.clear(repaired)
    answer = railgauge("accept", "--resume", "latest")
    assert answer.returncode == 0, answer.stdout


def test_a_full_results_area_stops_before_anything_runs(
    railgauge: Run, repaired: Lab, monkeypatch: pytest.MonkeyPatch, area: Path
) -> None:
    (area / "kept").write_text("kept")
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(area))
    faults.add(repaired, "results-full")
    answer = railgauge("accept", "--partition", "ns")
    assert answer.returncode == 3, answer.stdout
    assert "MiB free" in answer.stdout and "next:" in answer.stdout
    faults.clear(repaired)
    assert (area / "kept").read_text() == "kept"


@pytest.mark.release
def test_a_results_area_that_fills_up_gives_no_pass_until_resumed(
    railgauge: Run, repaired: Lab, monkeypatch: pytest.MonkeyPatch, area: Path
) -> None:
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(area))
    # Just what a campaign asks for before it starts; all of it taken once a sweep runs.
    faults.add(repaired, "results-full", value=65 * 2**20)
    here = shlex.quote(str(area))
    runs = f"ls {here}/campaigns/*/stage/*/*/*/*/raw.jsonl.gz > /dev/null 2>&1"
    write = [
        "timeout",
        str(PATIENCE_S),
        "sh",
        "-c",
        f"until {runs}; do sleep 0.1; done; cat /dev/zero > {here}/filler",
    ]
    background = subprocess.Popen(repaired.in_lab_mounts(*write))
    answer = railgauge("accept", "--partition", "ns")
    background.wait()
    assert answer.returncode in (2, 3), answer.stdout
    assert "ACCEPT" not in answer.stdout
    assert jobs_left(repaired) == ""
    subprocess.run(repaired.in_lab_mounts("rm", str(area / "filler")), check=True)
    answer = railgauge("accept", "--resume", "latest")
    assert answer.returncode == 0, answer.stdout


def test_ctrl_c_leaves_a_marked_campaign_and_no_jobs(
    area: Path, verdict: Verdict, cluster: Lab
) -> None:
    campaign = start(area, "--partition", "ns")
    wait_for_ended(area, 1)
    campaign.send_signal(signal.SIGINT)
    output, _ = campaign.communicate(timeout=PATIENCE_S)
    assert campaign.returncode == 2, output
    found = verdict()
    assert "interrupted after" in found["reason"]
    assert found["measurements"], output
    record = json.loads(next((area / "campaigns").glob("*/campaign.json")).read_text())
    assert record["state"] == "interrupted"
    assert jobs_left(cluster) == ""


def test_a_filter_that_leaves_nodes_out_is_inconclusive(railgauge: Run) -> None:
    answer = railgauge("accept", "--partition", "ns", "--", "-n", "NodeState")
    assert answer.returncode == 2, answer.stdout
    assert "required, and without a result on n[1-4]" in answer.stdout


def test_a_mistyped_name_is_rejected_as_nothing_measured(railgauge: Run) -> None:
    answer = railgauge("accept", "--partition", "ns", "--", "-n", "Mistyped")
    assert answer.returncode == 1, answer.stdout
    assert "nothing was measured" in answer.stdout


def test_a_session_that_does_not_begin_is_no_verdict(railgauge: Run, area: Path) -> None:
    answer = railgauge("accept", "--partition", "ns", "--", "--nosuch-option")
    assert answer.returncode == 3, answer.stdout
    assert "unrecognized arguments: --nosuch-option" in answer.stdout
    assert list((area / "campaigns").iterdir()) == []


def test_a_baseline_accepts_nothing(railgauge: Run) -> None:
    answer = railgauge("accept", "--mode", "baseline", "--nodes", "n1,n2")
    assert answer.returncode == 0, answer.stdout
    assert railgauge("verdict", "latest").returncode == 2
    assert "baseline: 9 measurements recorded" in answer.stdout


def test_an_acceptance_cannot_be_set_to_record(railgauge: Run) -> None:
    answer = railgauge("accept", "--nodes", "n1,n2", "--", "-n", "NodeState", "-S", "gate=baseline")
    assert answer.returncode == 1, answer.stdout
    assert "ran as baseline, expected acceptance" in answer.stdout


def test_a_missing_reference_is_inconclusive(railgauge: Run, area: Path) -> None:
    empty = area / "references"
    empty.mkdir()
    answer = railgauge("accept", "--nodes", "n1,n2", RAILGAUGE_REFERENCES=str(empty))
    assert answer.returncode == 2, answer.stdout
    assert "have no reference, no known share of a limit" in answer.stdout


def test_the_plan_submits_nothing(railgauge: Run, cluster: Lab, area: Path) -> None:
    before = cluster.on_head("sacct", "-n", "-X", "-o", "jobid").stdout
    answer = railgauge("accept", "--partition", "ns", "--plan")
    assert answer.returncode == 0, answer.stdout
    assert "3 cases" in answer.stdout and "node-minutes" in answer.stdout
    assert cluster.on_head("sacct", "-n", "-X", "-o", "jobid").stdout == before
    assert not (area / "campaigns").exists()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--system", "nosuch"], f"configs/systems/ has: {', '.join(systems.names())}"),
        (["--partition", "nosuch"], "has no partition 'nosuch'"),
        (["--nodes", "n9"], "n9 not in lab"),
        (["--nodes", "n[1-"], "--nodes n[1-"),
        (["--mode", "nosuch"], "nosuch"),
    ],
)
def test_a_wrong_option_is_one_clear_error(railgauge: Run, options: list[str], says: str) -> None:
    answer = railgauge("accept", *options)
    assert answer.returncode == 3, answer.stdout
    assert says in answer.stdout
    assert "Traceback" not in answer.stdout
