"""That the reservation of a run's tests lapses with the run, however that ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from railgauge.gate import lease
from railgauge.slurm import reservations

_RUN = """
import os, signal, sys
from railgauge.gate import lease
lease.LEASE_S = 1
with lease.renewed("railgauge_x"):
    {body}
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What scontrol was asked, a line each."""
    asked = tmp_path / "asked"
    asked.touch()
    scontrol = tmp_path / "bin" / "scontrol"
    scontrol.parent.mkdir()
    scontrol.write_text(f"#!/bin/sh\necho \"$@\" >> '{asked}'\n")
    scontrol.chmod(0o755)
    monkeypatch.setenv("PATH", f"{scontrol.parent}:{os.environ['PATH']}")
    return asked


def run(body: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", _RUN.format(body=body)], stdin=subprocess.PIPE)


def wait_for(asked: Path, lines: int) -> None:
    deadline = time.monotonic() + 200
    while len(asked.read_text().splitlines()) < lines:
        assert time.monotonic() < deadline, asked.read_text()
        time.sleep(0.05)


def silent(asked: Path) -> bool:
    """Whether nothing is asked any more: a renewal that was under way may still be."""
    for _ in range(30):
        before = asked.stat().st_size
        time.sleep(1)
        if asked.stat().st_size == before:
            return True
    return False


def test_the_end_moves_on_while_the_run_lives(calls: Path) -> None:
    alive = run("sys.stdin.read()")
    wait_for(calls, 3)
    line = calls.read_text().splitlines()[0]
    assert line.startswith("update reservationname=railgauge_x endtime=now+1 users=")
    assert alive.stdin is not None
    alive.stdin.close()
    assert alive.wait() == 0 and silent(calls)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_renews_for_a_run_that_was_killed(calls: Path, number: int) -> None:
    with run("sys.stdin.read()") as killed:
        wait_for(calls, 1)
        killed.send_signal(number)
    assert silent(calls)


def test_a_renewal_that_fails_because_the_run_has_ended_is_not_said(
    calls: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    scontrol = calls.parent / "bin" / "scontrol"
    scontrol.write_text(scontrol.read_text() + "echo no answer >&2; exit 1\n")
    monkeypatch.setattr(lease, "LEASE_S", 1)
    with lease.renewed("railgauge_x"):
        wait_for(calls, 1)
    assert "railgauge_x is not renewed" not in capfd.readouterr().err


def test_both_reservations_of_the_gate_run_are_no_obstacle_to_its_jobs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(reservations.RESERVATION_VARIABLE, "railgauge_x")
    assert reservations.ours() == {"railgauge_x", "railgauge_x_untested"}
    monkeypatch.delenv(reservations.RESERVATION_VARIABLE)
    assert reservations.ours() == set()
