"""What nodes do not see, or lack: said before anything is measured, and nobody's fault."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from railgauge.lab.cluster import Lab

from .conftest import PATIENCE_S, Run
from .test_accept import start, suspects

Verdict = Callable[[], dict[str, Any]]
OnNode = Callable[..., None]

PAIR = ("accept", "--partition", "ns", "--nodes", "n[1-2]", "--", "-n", "Iperf2Pair")


@pytest.fixture
def on_node(cluster: Lab) -> Iterator[OnNode]:
    """Mounts on a namespace node, gone afterwards."""
    mounted: list[tuple[str, str]] = []

    def run(node: str, *command: str) -> None:
        subprocess.run(cluster.enter(node, *command), check=True)
        mounted.append((node, command[-1]))

    yield run
    for node, place in reversed(mounted):
        subprocess.run(cluster.enter(node, "umount", "--lazy", place), check=True)


def hide(on_node: OnNode, node: str, folder: Path) -> None:
    on_node(node, "mount", "-t", "tmpfs", "none", str(folder))


def test_a_results_area_that_a_node_does_not_see_ends_it_before_anything_is_measured(
    railgauge: Run, area: Path, on_node: OnNode
) -> None:
    hide(on_node, "n2", area)
    answer = railgauge(*PAIR)
    assert answer.returncode == 3, answer.stdout
    assert f"n2 does not see {area} (the results area)" in " ".join(answer.stdout.split())
    assert "--nodes n1" in answer.stdout
    assert not (area / "campaigns").exists()


def test_a_bare_session_ends_so_too(reframe: Run, area: Path, on_node: OnNode) -> None:
    hide(on_node, "n2", area)
    answer = reframe("-c", "reframe/", "-n", "Iperf2Pair", "--system", "lab:ns", "-r")
    assert answer.returncode == 3, answer.stdout
    assert f"n2 does not see {area}" in answer.stdout


def test_a_nodes_name_that_leads_nowhere_is_replaced_by_its_address_in_slurm(
    railgauge: Run, verdict: Verdict, on_node: OnNode
) -> None:
    for node in ("n1", "n2"):
        on_node(node, "mount", "--bind", "/dev/null", "/etc/hosts")
    answer = railgauge(*PAIR)
    assert "1/1 ok" in " ".join(answer.stdout.split()), answer.stdout
    assert verdict()["suspects"] == []


def test_each_thing_that_is_not_as_needed_is_a_line_with_what_to_type(
    railgauge: Run, area: Path, on_node: OnNode
) -> None:
    hide(on_node, "n2", area)
    # What Debian's python3 is linked with.
    library = "/usr/lib/x86_64-linux-gnu/libexpat.so.1"
    on_node("n3", "mount", "--bind", "/dev/null", library)
    answer = railgauge("system", "check", "lab", "--run")
    assert answer.returncode == 1, answer.stdout
    lines = answer.stdout.splitlines()
    hidden = [line for line in lines if f"n2 does not see {area}" in line and "; next: " in line]
    assert hidden, answer.stdout + answer.stderr
    assert [line for line in lines if "n3 does not start python3: " in line and "libexpat" in line]
    assert [line for line in lines if line.startswith("ok") and "one world of 2 ranks" in line]
    assert [line for line in lines if line.startswith("ok") and "sacct knows job" in line]


@pytest.mark.release
def test_what_a_node_lacks_only_when_its_turn_comes_accuses_no_node(
    area: Path, verdict: Verdict, on_node: OnNode, cluster: Lab
) -> None:
    """Busy when the campaign begins, so that it cannot be looked at."""
    hide(on_node, "n2", area)
    job = cluster.on_head(
        *("sbatch", "--parsable", "--partition=ns", "--nodelist=n2", "--exclusive", "--time=10"),
        *("--output=/dev/null", "--wrap=sleep 600"),
    ).stdout.strip()
    while cluster.on_head("squeue", "--noheader", f"--jobs={job}", "--format=%T").stdout != (
        "RUNNING\n"
    ):
        time.sleep(0.3)
    only = ("--nodes", "n[1-2]", "--", "-n", "NodeState")
    campaign = start(area, "--partition", "ns", *only)
    while not list((area / "campaigns").glob("*/plan.json")):
        assert campaign.poll() is None
        time.sleep(0.1)
    cluster.on_head("scancel", job)
    output, _ = campaign.communicate(timeout=PATIENCE_S)
    assert campaign.returncode == 2, output
    found = verdict()
    (told,) = [f for f in found["findings"] if f["kind"] == "environment"]
    assert (told["weight"], told["nodes"]) == ("inconclusive", ["n2"]), output
    assert "RAILGAUGE_RESULTS" in told["next_step"]
    assert suspects(found) == []


@pytest.fixture
def limited(cluster: Lab) -> Iterator[Callable[[str], None]]:
    """Gives the partition of the namespace nodes a limit, which is gone afterwards."""

    def change(*fields: str) -> None:
        cluster.on_head("scontrol", "update", "partitionname=ns", *fields)

    yield change
    change("MaxNodes=UNLIMITED", "MaxTime=UNLIMITED", "MaxMemPerNode=0")


@pytest.mark.release
@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ("MaxNodes=2", "PartitionNodeLimit"),
        ("MaxTime=1", "PartitionTimeLimit"),
        ("MaxMemPerNode=100", "MaxMemPerLimit"),
    ],
)
def test_a_limit_that_no_measuring_job_fits_is_a_problem_with_slurms_reason(
    railgauge: Run, limited: Callable[[str], None], limit: str, reason: str
) -> None:
    limited(limit)
    answer = railgauge("system", "check", "lab", "--run")
    assert answer.returncode == 1, answer.stdout
    (line,) = [line for line in answer.stdout.splitlines() if "ns: measuring jobs" in line]
    assert line.startswith("problem") and f"does not start: {reason}; next: " in line
    assert f"partitionname=ns {limit.partition('=')[0]}=" in line
