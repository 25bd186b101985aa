"""What is asked of Slurm, with answers as Slurm gives them."""

from __future__ import annotations

import pytest

from railgauge import slurm
from railgauge.errors import EnvironmentProblem

ANSWER = """n1 idle
n2 down*
n3 drained
n4 mixed
n5 idle*
n6 allocated
"""


def test_nodes_that_do_not_answer_are_known_and_drained_ones_are_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slurm, "ask", lambda *_: ANSWER)
    monkeypatch.setattr(slurm, "_REGISTERED_S", 0)
    everyone = [f"n{number}" for number in range(1, 8)]
    assert slurm.dead(everyone) == ["n2", "n5"]
    assert slurm.dead(["n1", "n3"]) == []


def test_a_node_that_registers_with_a_new_controller_is_not_dead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = iter(["n1 idle*\nn2 down*\n", "n1 idle\nn2 down*\n"])
    monkeypatch.setattr(slurm, "ask", lambda *_: next(answers))
    monkeypatch.setattr(slurm.time, "sleep", lambda _: None)
    assert slurm.dead(["n1", "n2"]) == ["n2"]


def test_a_job_is_ended_by_whom_accounting_names_and_by_who_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slurm, "ask", lambda *words: "n4\n" if words[0] == "sacct" else ANSWER)
    monkeypatch.setattr(slurm, "_REGISTERED_S", 0)
    assert slurm.failed_nodes("17", ["n1", "n2", "n4"]) == ("n2", "n4")


def test_no_answer_accuses_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(*_: str) -> str:
        raise EnvironmentProblem("no Slurm")

    monkeypatch.setattr(slurm, "ask", silent)
    assert slurm.dead(["n1"]) == []
