"""`railgauge lab logs`, which needs no more of a lab than its folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from railgauge.cli import lab
from railgauge.errors import RailgaugeError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The logs of a lab that is up."""
    for name in ("slurmctld", "boot-n5"):
        (tmp_path / f"{name}.log").write_text(f"{name} started\n")
    of_lab = SimpleNamespace(folders=SimpleNamespace(log=tmp_path))
    monkeypatch.setattr(lab, "open_lab", lambda: of_lab)
    return tmp_path


def typed(*words: str) -> Result:
    return CliRunner().invoke(lab.lab, ["logs", *words])


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
