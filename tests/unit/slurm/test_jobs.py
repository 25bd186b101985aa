"""What is asked of Slurm, with answers as Slurm gives them."""

from __future__ import annotations

import pytest

from railgauge.slurm import client
from railgauge.slurm import jobs as slurm_jobs
from railgauge.slurm import nodes as slurm_nodes
from railgauge.slurm.client import SlurmProblem


def shown(**states: str) -> str:
    return "".join(
        f"NodeName={n} Arch=x86_64 State={s} ThreadsPerCore=1\n" for n, s in states.items()
    )


ANSWER = shown(
    n1="IDLE",
    n2="DOWN+NOT_RESPONDING",
    n3="DOWN+DRAIN",
    n4="MIXED",
    n5="IDLE*",
    n6="ALLOCATED",
)


def test_nodes_that_do_not_answer_are_known_and_drained_ones_are_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client, "output", lambda *_: ANSWER)
    monkeypatch.setattr(slurm_nodes, "REGISTERED_S", 0)
    everyone = [f"n{number}" for number in range(1, 8)]
    assert slurm_nodes.dead(everyone) == ["n2", "n5"]
    assert slurm_nodes.dead(["n1", "n3"]) == []


def test_a_node_that_registers_with_a_new_controller_is_not_dead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = iter([shown(n1="IDLE*", n2="DOWN*"), shown(n1="IDLE", n2="DOWN*")])
    monkeypatch.setattr(client, "output", lambda *_: next(answers))
    monkeypatch.setattr(slurm_nodes.time, "sleep", lambda _: None)
    assert slurm_nodes.dead(["n1", "n2"]) == ["n2"]


def test_a_job_is_ended_by_whom_accounting_names_and_by_who_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client, "output", lambda *words: "n4\n" if words[0] == "sacct" else ANSWER)
    monkeypatch.setattr(slurm_nodes, "REGISTERED_S", 0)
    assert slurm_jobs.failed_nodes("17", ["n1", "n2", "n4"]) == ("n2", "n4")


def test_no_answer_accuses_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(*_: str) -> str:
        raise SlurmProblem("no Slurm")

    monkeypatch.setattr(client, "output", silent)
    assert slurm_nodes.dead(["n1"]) == []


def test_the_node_of_a_batch_script_is_that_of_jobs_that_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[str, ...]] = []

    def ask(*words: str) -> str:
        asked.append(words)
        return "17|n1\n18|n/a\n"

    monkeypatch.setattr(client, "output", ask)
    assert slurm_jobs.batch_hosts(["17", "18"]) == {"17": "n1"}
    assert "--jobs=17,18" in asked[0]
    assert slurm_jobs.batch_hosts([]) == {} and len(asked) == 1
