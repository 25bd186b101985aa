"""What Slurm 25.11 and 26.05 changed that the suite meets: `make compat` runs it where it holds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from railgauge.common.atomic import write_text
from railgauge.lab import faults
from railgauge.lab.cluster import Lab

from .conftest import PATIENCE_S, start_dead

pytestmark = pytest.mark.release

#: The node that the tests fail.
NODE = "n3"


@pytest.fixture(autouse=True)
def since_26_05(cluster: Lab) -> None:
    if cluster.release.slurm < (26, 5):
        pytest.skip("railgauge lab up --release forky has Slurm 26.05")


@pytest.fixture
def configure(cluster: Lab) -> Iterator[Callable[..., None]]:
    """Appends lines to slurm.conf; they are gone afterwards."""
    file = cluster.folders.run / "etc" / "slurm.conf"
    before = file.read_text()

    def use(text: str) -> None:
        # Whole: a slurmd that reads half of it ends.
        write_text(file, text)
        cluster.on_head("scontrol", "reconfigure")

    yield lambda *lines: use(before + "\n".join(lines) + "\n")
    use(before)


@pytest.fixture
def submit(cluster: Lab) -> Iterator[Callable[..., str]]:
    """Submits a job that sleeps in partition ns; all jobs are gone afterwards."""

    def submitted(*options: str) -> str:
        answer = cluster.on_head(
            *("sbatch", "--parsable", "--partition=ns", "--exclusive", "--time=10"),
            *("--output=/dev/null", "--wrap=sleep 300", *options),
        )
        return answer.stdout.strip()

    yield submitted
    cluster.on_head("scancel", "--user=root")


def shown(cluster: Lab, job: str) -> str:
    """The state of a job and the reason for which it waits."""
    asked = ("squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T %r")
    return cluster.on_head(*asked).stdout.strip()


def wait_for(cluster: Lab, job: str, state: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not shown(cluster, job).startswith(state):
        assert time.monotonic() < deadline, shown(cluster, job)
        time.sleep(0.3)


def test_a_health_check_at_the_start_alone_does_not_come_again(
    cluster: Lab, configure: Callable[..., None], area: Path
) -> None:
    """`gate hold` as such a program would miss a change without a restart."""
    program, ran = area / "health", area / "ran"
    program.write_text(f"#!/bin/sh\necho $SLURMD_NODENAME >>{ran}\n")
    program.chmod(0o755)
    ran.touch()
    configure(
        f"HealthCheckProgram={program}", "HealthCheckInterval=1", "HealthCheckNodeState=START_ONLY"
    )
    faults.add(cluster, "off", NODE)
    faults.clear(cluster)
    time.sleep(5)
    assert ran.read_text().split() == [NODE]


def test_a_job_within_maxnodes_begins_and_one_above_waits(
    cluster: Lab, submit: Callable[..., str]
) -> None:
    cluster.on_head("scontrol", "update", "partitionname=ns", "MaxNodes=2")
    try:
        wait_for(cluster, submit("--nodes=2"), "RUNNING")
        above = submit("--nodes=3")
        time.sleep(3)
        assert shown(cluster, above) == "PENDING PartitionNodeLimit"
    finally:
        cluster.on_head("scontrol", "update", "partitionname=ns", "MaxNodes=UNLIMITED")


@pytest.mark.parametrize(
    ("option", "state"), [("--requeue=expedite", "EXPEDITING"), ("--no-requeue", "NODE_FAIL")]
)
def test_only_a_job_that_asks_for_it_is_expedited_after_a_node_failure(
    cluster: Lab,
    configure: Callable[..., None],
    submit: Callable[..., str],
    option: str,
    state: str,
) -> None:
    """Campaigns submit with --no-requeue: their jobs end."""
    configure("SlurmctldParameters=enable_expedited_requeue")
    job = submit(option, f"--nodelist={NODE}")
    wait_for(cluster, job, "RUNNING")
    cluster.on_head("scontrol", "update", f"nodename={NODE}", "state=down", "reason=test")
    try:
        wait_for(cluster, job, state)
    finally:
        # It may have come back by itself.
        cluster.on_head("scontrol", "update", f"nodename={NODE}", "state=resume", check=False)
        start_dead(cluster)
