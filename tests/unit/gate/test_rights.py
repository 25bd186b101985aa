"""What the user may not do is told before anything is changed.

Slurm's words are those of 24.11.5 and 22.05.8 to a user of each admin level; tests/lab/test_gate.py
asks a real one.
"""

from __future__ import annotations

import getpass
from pathlib import Path

import pytest

from railgauge.cluster import rights
from railgauge.common.errors import PrerequisiteError
from railgauge.slurm import client
from tests.unit.gate.cluster import Answers, Campaigns, Slurm, gate, held, said

ME = getpass.getuser()


def asked(monkeypatch: pytest.MonkeyPatch, answers: Answers) -> list[rights.MissingRight]:
    monkeypatch.setattr(client, "output", answers)
    return rights.missing("lab")


def test_an_administrator_lacks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked(monkeypatch, Answers("admin")) == []


def test_an_operator_may_reserve_and_not_resume(monkeypatch: pytest.MonkeyPatch) -> None:
    (one,) = asked(monkeypatch, Answers("operator"))
    assert str(one) == (
        f"user {ME} may not drain and resume nodes (Slurm 22.05.8: needs adminlevel=admin)"
    )
    assert one.next_step.endswith(f"sacctmgr modify user {ME} set adminlevel=admin")


def test_a_user_that_accounting_does_not_know_is_to_be_added(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    both = asked(monkeypatch, Answers("none", known=False))
    assert [one.step for one in both] == ["drain and resume nodes", "make reservations"]
    assert all(f"sacctmgr add user {ME} account=" in one.next_step for one in both)


@pytest.mark.parametrize("none", ["accounting_storage/none", "(null)"])
def test_without_accounting_no_user_gets_a_level(
    monkeypatch: pytest.MonkeyPatch, none: str
) -> None:
    (one,) = asked(monkeypatch, Answers("operator", accounting=none))
    assert "as root or slurm:" in one.next_step and "sacctmgr" not in one.next_step


def test_a_controller_that_does_not_answer_is_no_missing_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = Answers("admin")
    answers.node = "Unable to contact slurm controller (connect failure)"
    with pytest.raises(PrerequisiteError, match="Unable to contact"):
        asked(monkeypatch, answers)


@pytest.mark.parametrize(
    "command",
    [
        ["run"],
        ["run", "--nodes", "n3", "--update", "true"],
        ["release", "--nodes", "n1", "--why", "x"],
        ["update-done", "--nodes", "n1"],
        ["hold", "--nodes", "n1"],
    ],
)
def test_without_the_rights_nothing_is_changed(
    area: Path,
    nodes: Slurm,
    tests: Campaigns,
    monkeypatch: pytest.MonkeyPatch,
    command: list[str],
) -> None:
    held(nodes, "n1")
    changed: list[int] = []
    nodes.at_each = lambda: changed.append(1)
    monkeypatch.setattr(client, "output", Answers("operator"))
    words, code = said(*command, "--act")
    assert code == 3 and not changed and not list((area / "runs").iterdir())
    assert f"sacctmgr modify user {ME} set adminlevel=admin" in words


def test_what_a_run_would_do_says_that_it_may_not(
    area: Path, nodes: Slurm, tests: Campaigns, monkeypatch: pytest.MonkeyPatch
) -> None:
    held(nodes, "n1")
    monkeypatch.setattr(client, "output", Answers("operator"))
    words, code = said("run")
    assert code == 0 and "may not drain and resume nodes" in words


def test_an_administrator_runs(
    area: Path, nodes: Slurm, tests: Campaigns, monkeypatch: pytest.MonkeyPatch
) -> None:
    tests.bad = set()
    held(nodes, "n1")
    monkeypatch.setattr(client, "output", Answers("admin"))
    assert gate("run", "--act") == 0
