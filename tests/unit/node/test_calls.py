"""What every node states beside what it measured."""

from __future__ import annotations

import time

import pytest

from railgauge.node import calls


def test_a_clock_that_nobody_sets_has_not_moved() -> None:
    assert abs(calls.clock()["moved_s"]) < 0.05


@pytest.mark.parametrize("step_s", [30.0, -30.0])
def test_a_clock_that_is_set_has_moved(monkeypatch: pytest.MonkeyPatch, step_s: float) -> None:
    wall = time.time
    monkeypatch.setattr(calls.time, "time", lambda: wall() + step_s)
    assert calls.clock()["moved_s"] == pytest.approx(step_s, abs=0.05)
