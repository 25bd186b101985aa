"""A job that asks for what measuring jobs ask for, by what Slurm says of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from railgauge.cluster import probe
from railgauge.slurm import client
from railgauge.slurm.client import SlurmError
from railgauge.systems import Partition

PARTITION = Partition.model_validate(
    {
        "name": "ns",
        "access": ["--partition=batch", "--account=net"],
        "features": ["tcp"],
        "extras": {"nodes": "n[1-4]"},
    }
)


class Slurm:
    """Answers of squeue, one after the other, the last one again; what was called."""

    def __init__(self) -> None:
        self.refuses = ""
        self.says = ["RUNNING|None"]
        self.called: list[tuple[str, ...]] = []

    def output(self, *command: str, limit_s: float = 60) -> str:
        self.called.append(command)
        if command[0] == "sbatch":
            if self.refuses:
                raise SlurmError(f"`sbatch` failed: sbatch: error: {self.refuses}")
            return "7;cluster\n"
        if command[0] == "scancel":
            self.says = ["CANCELLED|None"]
        if command[0] == "squeue":
            return (self.says.pop(0) if len(self.says) > 1 else self.says[0]) + "\n"
        return ""


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slurm]:
    found = Slurm()
    monkeypatch.setattr(client, "output", found.output)
    monkeypatch.setattr(probe, "_POLL_S", 0)
    monkeypatch.setattr(probe, "_SETTLE_S", 0)
    monkeypatch.setattr(probe, "_LIMIT_S", 0.05)
    yield found


def start() -> probe.Probe:
    return probe.start(PARTITION, ["n1", "n2", "n3"], 641)


def test_the_job_asks_for_whole_nodes_all_memory_and_the_time_of_measuring(slurm: Slurm) -> None:
    assert start().asked == "--nodes=3 --exclusive --mem=0 --time=11"
    sbatch = next(command for command in slurm.called if command[0] == "sbatch")
    wanted = {"--nodes=3", "--exclusive", "--mem=0", "--time=11", "--partition=batch"}
    assert wanted | {"--account=net", "--nodelist=n[1-3]"} <= set(sbatch)


def test_a_job_that_starts_is_well_and_is_ended(slurm: Slurm) -> None:
    slurm.says = ["PENDING|None", "PENDING|Priority", "RUNNING|None"]
    assert start().reason == ""
    assert ("scancel", "--quiet", "7") in slurm.called


@pytest.mark.parametrize(
    ("reason", "step"),
    [
        ("PartitionTimeLimit", "MaxTime=11"),
        ("QOSMaxWallDurationPerJobLimit", "MaxWall of the QOS"),
        ("PartitionNodeLimit", "MaxNodes=3"),
        ("MaxMemPerLimit", "MaxMemPerNode=0"),
        ("AccountNotAllowed", "scontrol show partition batch"),
    ],
)
def test_a_limit_is_named_by_slurms_own_reason(slurm: Slurm, reason: str, step: str) -> None:
    slurm.says = ["PENDING|None", "PENDING|PartitionConfig", f"PENDING|{reason}"]
    result = start()
    assert (result.reason, result.standing) == (reason, True)
    assert step in result.next_step
    assert ("scancel", "--quiet", "7") in slurm.called


@pytest.mark.parametrize(
    ("says", "step"),
    [
        ("Batch job submission failed: Requested time limit is invalid (exceeds some limit)", "11"),
        ("Batch job submission failed: Node count specification invalid", "MaxNodes=3"),
    ],
)
def test_a_job_that_is_refused_is_a_limit_too(slurm: Slurm, says: str, step: str) -> None:
    slurm.refuses = says
    result = start()
    assert (result.reason, result.standing) == (says.partition(": ")[2], True)
    assert step in result.next_step


def test_a_job_that_only_waits_proves_nothing(slurm: Slurm) -> None:
    slurm.says = ["PENDING|Resources"]
    result = start()
    assert (result.reason, result.standing, result.next_step) == ("Resources", False, "")
    assert ("scancel", "--quiet", "7") in slurm.called


@pytest.mark.parametrize(
    ("says", "reason"),
    [("CANCELLED|None", "CANCELLED None"), ("NODE_FAIL|", "NODE_FAIL"), ("", "not in the queue")],
)
def test_a_job_that_did_not_run_is_no_proof(slurm: Slurm, says: str, reason: str) -> None:
    slurm.says = [says]
    result = start()
    assert (result.reason, result.standing) == (reason, False)


def test_without_a_time_limit_the_job_asks_for_none(slurm: Slurm) -> None:
    """To Slurm no minutes are no limit, which a partition with MaxTime refuses."""
    asked = probe.start(PARTITION, ["n1"], 0).asked
    assert asked == "--nodes=1 --exclusive --mem=0"


@pytest.mark.parametrize(
    "says",
    [
        "Batch job submission failed: Socket timed out on send/recv operation",
        "Batch job submission failed: Unable to contact slurm controller (connect failure)",
    ],
)
def test_a_controller_that_does_not_answer_is_no_limit(slurm: Slurm, says: str) -> None:
    slurm.refuses = says
    found = start()
    assert found.reason and not found.standing and not found.next_step
