"""How `railgauge accept` follows its ReFrame session: progress, and one that hangs."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from railgauge.acceptance import follow
from railgauge.model import record
from tests.unit import records
from tests.unit.node.sweeping import PATIENCE_S

HANGS = "print('[----------] start processing checks', flush=True); import time; time.sleep(300)"
ENDS = "print('[       OK ] (1/2) Iperf2Pair %pair=ns:n1:n2 /357b0dcf @lab:ns+builtin')"


def followed(folder: Path, program: str) -> tuple[int, str, list[str]]:
    said: list[str] = []
    command = [sys.executable, "-c", program]
    code, interrupted = follow.follow(command, os.environ, folder / "reframe.out", said.append)
    return code, interrupted, said


def plan(folder: Path, *limits_s: float) -> None:
    """A plan of cases that may take that long."""
    cases = [
        records.planned("Tcp", f"Tcp {number}", f"Tcp_{number}", ["n1"], limit_s=limit_s)
        for number, limit_s in enumerate(limits_s)
    ]
    (folder / "plan.json").write_text(json.dumps(cases))


def test_a_session_in_which_no_case_ends_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow.Watchdog, "MARGIN_S", 0)
    plan(tmp_path, 0.3, 0.5)
    began = time.monotonic()
    code, interrupted, said = followed(tmp_path, HANGS)
    assert interrupted and code != 0
    assert time.monotonic() - began < PATIENCE_S
    assert "no case has ended for" in said[0]


@pytest.fixture
def started_by_nohup() -> Iterator[None]:
    """As `nohup ... &` starts a process: it, and what it starts, ignore both."""
    before = {n: signal.signal(n, signal.SIG_IGN) for n in (signal.SIGINT, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


DEAF = "import signal; [signal.signal(n, signal.SIG_IGN) for n in ({})]; " + HANGS


@pytest.mark.parametrize("deaf_to", ["", "signal.SIGINT,", "signal.SIGINT, signal.SIGTERM"])
def test_a_session_is_stopped_whatever_it_and_its_parent_ignore(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started_by_nohup: None, deaf_to: str
) -> None:
    monkeypatch.setattr(follow.Watchdog, "MARGIN_S", 0)
    monkeypatch.setattr(follow.Interrupt, "PATIENCE_S", 0.3)
    plan(tmp_path, 0.3)
    program = DEAF.format(deaf_to) if deaf_to else HANGS
    began = time.monotonic()
    code, interrupted, _ = followed(tmp_path, program)
    assert interrupted and code != 0
    assert time.monotonic() - began < PATIENCE_S


def test_a_session_hears_the_ctrl_c_that_its_parent_ignores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started_by_nohup: None
) -> None:
    monkeypatch.setattr(follow.Watchdog, "MARGIN_S", 0)
    plan(tmp_path, 0.3)
    assert followed(tmp_path, HANGS)[0] == -signal.SIGINT


def test_a_hangup_that_nohup_ignores_does_not_stop_a_session(
    tmp_path: Path, started_by_nohup: None
) -> None:
    hangs_up_its_parent = f"import os, signal; os.kill(os.getppid(), signal.SIGHUP); {ENDS}"
    assert followed(tmp_path, hangs_up_its_parent)[:2] == (0, "")


def test_a_session_that_ends_is_left_alone(tmp_path: Path) -> None:
    plan(tmp_path, 60)
    assert followed(tmp_path, ENDS) == (0, "", ["  1/2 ok    Iperf2Pair %pair=ns:n1:n2"])
    assert "1/2" in (tmp_path / "reframe.out").read_text()


def test_a_session_without_a_plan_is_followed_all_the_same(tmp_path: Path) -> None:
    assert followed(tmp_path, ENDS)[0] == 0


BEGINS = "print('[----------] start processing checks', flush=True)"


def test_progress_says_how_many_places_a_case_has(tmp_path: Path) -> None:
    places = tuple(record.Place(name, ("n1", "n2")) for name in "abcd")
    name = "RdmaUsage %sweep=ns"
    planned = records.planned("RdmaUsage", name, "RdmaUsage_1", [], places=places)
    (tmp_path / "plan.json").write_text(json.dumps([planned]))
    ends = f"print('[       OK ] ( 1/16) {name} /0b1a8519 @lab:ns+builtin')"
    _, _, said = followed(tmp_path, f"{BEGINS}; {ends}")
    assert said == ["  1/16 ok    RdmaUsage ns, 4 places"]


def test_progress_of_an_unknown_case_is_reframes_own_name(tmp_path: Path) -> None:
    assert followed(tmp_path, ENDS)[2] == ["  1/2 ok    Iperf2Pair %pair=ns:n1:n2"]


def test_a_session_that_is_to_stop_is_stopped_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "_LOOK_S", 0.2)
    plan(tmp_path, 60)
    began = time.monotonic()
    said: list[str] = []
    _, interrupted = follow.follow(
        [sys.executable, "-c", HANGS],
        os.environ,
        tmp_path / "reframe.out",
        said.append,
        stop=lambda: "Slurm preempted job 7",
    )
    assert interrupted == "Slurm preempted job 7"
    assert time.monotonic() - began < PATIENCE_S
