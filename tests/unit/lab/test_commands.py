"""`railgauge lab logs`, `uplinks`, `exec` and `fault`, as far as they need little of a lab."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import Result

from railgauge.cli import lab
from railgauge.common.errors import RailgaugeError
from railgauge.lab import faults
from railgauge.lab.fault import Fault
from railgauge.model.uplinks import Uplink, parse
from tests.command_line import invoke


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The logs of a lab that is up."""
    for name in ("slurmctld", "boot-n5"):
        (tmp_path / f"{name}.log").write_text(f"{name} started\n")
    of_lab = SimpleNamespace(folders=SimpleNamespace(log=tmp_path))
    monkeypatch.setattr(lab, "open_lab", lambda: of_lab)
    return tmp_path


def typed(*words: str) -> Result:
    return invoke(lab.lab, ["logs", *words])


def test_logs_without_a_name_are_listed(folder: Path) -> None:
    assert typed().output == "boot-n5\nslurmctld\n"


def test_a_log_is_shown_by_its_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Sequence[str]] = []
    monkeypatch.setattr(os, "execvp", lambda program, argv: started.append(argv))
    typed("slurmctld")
    assert started == [["tail", "-n", "200", str(folder / "slurmctld.log")]]


def test_an_unknown_log_is_answered_with_the_known(folder: Path) -> None:
    error = typed("nosuch").exception
    assert isinstance(error, RailgaugeError) and "boot-n5, slurmctld" in str(error)


# ---- uplinks ----


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[Uplink]:
    """What the leaves of a lab that is up say at each look."""
    looks: list[Uplink] = []
    monkeypatch.setattr(lab, "open_lab", lambda: SimpleNamespace(require_up=lambda: None))
    monkeypatch.setattr(lab.uplinks, "count", lambda cluster: list(looks))
    monkeypatch.setattr(
        lab.time,
        "sleep",
        lambda seconds: looks.__setitem__(
            slice(None),
            [Uplink(u.leaf, u.spine, u.sent_bytes * 3, u.received_bytes) for u in looks],
        ),
    )
    return looks


def test_uplinks_are_told_with_their_balance(counted: list[Uplink]) -> None:
    counted += [Uplink("leaf1", "spine1", 3, 1), Uplink("leaf1", "spine2", 1, 1)]
    lines = invoke(lab.lab, ["uplinks"]).output.splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["leaf1", "spine1", "3", "1", "0"],
        ["leaf1", "spine2", "1", "1", "0"],
        ["leaf1", "balance", "0.8000", "1.0000"],
    ]


def test_what_goes_over_uplinks_in_a_time_is_the_difference(counted: list[Uplink]) -> None:
    counted += [Uplink("leaf1", "spine1", 3, 1)]
    output = invoke(lab.lab, ["uplinks", "--seconds", "1"]).output
    assert [line.split()[2:] for line in output.splitlines()[1:]] == [
        ["6", "0", "0"],
        ["1.0000", "0.0000"],
    ]


def test_a_lab_without_leaves_has_no_uplinks(counted: list[Uplink]) -> None:
    error = invoke(lab.lab, ["uplinks"]).exception
    assert isinstance(error, RailgaugeError) and "no leaves" in str(error)


def test_what_the_lab_tells_of_its_uplinks_is_what_a_site_tells(counted: list[Uplink]) -> None:
    counted += [Uplink("leaf1", "spine1", 3, 1)]
    output = invoke(lab.lab, ["uplinks", "--json"]).output
    (found,) = parse(output)
    assert (found.leaf, found.spine, found.sent_bytes, found.received_bytes) == (
        *("leaf1", "spine1"),
        *(3, 1),
    )


# ---- lab exec ----


@pytest.mark.parametrize(
    ("words", "runs"),
    [
        (["head", "squeue", "-h"], ["root", "squeue", "-h"]),
        (["head", "squeue", "--help"], ["root", "squeue", "--help"]),
        (["head", "id", "--user"], ["root", "id", "--user"]),
        (["--user", "alice", "head", "id"], ["alice", "id"]),
        (["head", "--", "squeue", "-h"], ["root", "squeue", "-h"]),
    ],
)
def test_what_follows_the_machine_is_the_commands(
    monkeypatch: pytest.MonkeyPatch, words: list[str], runs: list[str]
) -> None:
    started: list[list[str]] = []
    of_lab = SimpleNamespace(
        spec=SimpleNamespace(head=SimpleNamespace(name="head")),
        user=lambda name: SimpleNamespace(folder=f"/home/{name}"),
        enter=lambda machine, *command, workdir, user: [user, *command],
    )
    monkeypatch.setattr(lab, "open_lab", lambda: of_lab)

    def run(argv: list[str], check: bool) -> SimpleNamespace:
        started.append(argv)
        return SimpleNamespace(returncode=7)

    monkeypatch.setattr(subprocess, "run", run)
    assert invoke(lab.lab, ["exec", *words]).exit_code == 7
    assert started == [runs]


def test_the_help_of_exec_is_its_own() -> None:
    assert "Run COMMAND on MACHINE" in invoke(lab.lab, ["exec", "--help"]).output


# ---- lab fault ----


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault("slurmctld-restart"), "done: slurmctld-restart\n"),
        (Fault("delay", "n1", 2), "in place: delay n1 2\n"),
    ],
)
def test_a_fault_that_is_over_at_once_is_not_in_place(
    monkeypatch: pytest.MonkeyPatch, fault: Fault, said: str
) -> None:
    monkeypatch.setattr(lab, "open_lab", lambda: None)
    monkeypatch.setattr(faults, "add_typed", lambda *_: fault)
    assert invoke(lab.lab, ["fault", "add", fault.kind]).output == said
