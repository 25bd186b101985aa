"""How `railgauge accept` follows its ReFrame session: progress, and one that hangs."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest

from railgauge import accept

HANGS = "print('[----------] start processing checks', flush=True); import time; time.sleep(60)"
ENDS = "print('[       OK ] (1/2) Iperf2Pair %pair=ns:n1:n2 /357b0dcf @lab:ns+builtin')"


def follow(folder: Path, program: str) -> tuple[int, str, list[str]]:
    said: list[str] = []
    command = [sys.executable, "-c", program]
    code, interrupted = accept._follow(command, os.environ, folder / "reframe.out", said.append)
    return code, interrupted, said


def test_a_session_in_which_no_case_ends_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accept._Watchdog, "MARGIN_S", 0)
    (tmp_path / "plan.json").write_text(json.dumps([{"limit_s": 0.3}, {"limit_s": 0.5}]))
    began = time.monotonic()
    code, interrupted, said = follow(tmp_path, HANGS)
    assert interrupted and code != 0
    assert time.monotonic() - began < 30
    assert "no case has ended for" in said[0]


def test_a_session_that_ends_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(json.dumps([{"limit_s": 60}]))
    assert follow(tmp_path, ENDS) == (0, "", ["  1/2 ok    Iperf2Pair %pair=ns:n1:n2"])
    assert "1/2" in (tmp_path / "reframe.out").read_text()


def test_a_session_without_a_plan_is_followed_all_the_same(tmp_path: Path) -> None:
    assert follow(tmp_path, ENDS)[0] == 0
