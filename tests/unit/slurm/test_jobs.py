"""What is asked of Slurm, with answers as Slurm gives them."""

from __future__ import annotations

import pytest

from railgauge.slurm import client
from railgauge.slurm import jobs as slurm_jobs
from railgauge.slurm import nodes as slurm_nodes
from railgauge.slurm.client import SlurmError


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


def test_a_job_is_ended_by_the_nodes_that_accounting_names_or_that_are_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client, "output", lambda *words: "n4\n" if words[0] == "sacct" else ANSWER)
    monkeypatch.setattr(slurm_nodes, "REGISTERED_S", 0)
    assert slurm_jobs.failed_nodes("17", ["n1", "n2", "n4"]) == ("n2", "n4")


def test_no_answer_accuses_no_node(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(*_: str) -> str:
        raise SlurmError("no Slurm")

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


def test_the_preempted_jobs_of_a_campaign_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = (
        "7|PREEMPTED|railgauge:A\n8|PREEMPTED|railgauge:B\n9|RUNNING|railgauge:A\n6|PREEMPTED|\n"
        "12|SUSPENDED|railgauge:A\n"
    )
    monkeypatch.setattr(client, "output", lambda *_, **__: answer)
    assert slurm_jobs.preempted_jobs_of("A") == ["7", "12"]


@pytest.mark.parametrize(
    ("line", "preempts"),
    [
        ("PreemptType             = preempt/qos", True),
        ("PreemptType             = preempt/none", False),
        ("PreemptType             = (null)", False),
        ("PreemptMode             = CANCEL", False),
        ("PreemptType = preempt/partition_prio\nPreemptMode = GANG,SUSPEND", True),
        ("PreemptType = preempt/partition_prio\nPreemptMode = OFF", False),
    ],
)
def test_whether_slurm_preempts_is_read_from_its_configuration(
    monkeypatch: pytest.MonkeyPatch, line: str, preempts: bool
) -> None:
    monkeypatch.setattr(client, "output", lambda *_: f"Configuration data\n{line}\n")
    assert slurm_jobs.preempts() is preempts


def test_nodes_with_suspended_jobs_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "output", lambda *_: "n[1-2]\nn9\n")
    assert slurm_jobs.suspended_on(["n2", "n3"]) == {"n2"}
    assert slurm_jobs.suspended_on([]) == set()


def test_the_nodes_of_campaigns_are_those_of_their_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those on which they run, and those for which one waits: it may begin any moment."""
    answer = (
        "n[1-2]|n[1-2]|railgauge:A\nn3||\nn4|n4|of alice\nn5||railgauge:B\n"
        "|n[6-7]|railgauge:C\n||railgauge:D\n|n8|of alice | a comment\n"
    )
    monkeypatch.setattr(client, "output", lambda *_: answer)
    assert slurm_jobs.nodes_of_campaigns() == {"n1", "n2", "n5", "n6", "n7"}
