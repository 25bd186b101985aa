"""`railgauge accept`: what its options ask of ReFrame."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from railgauge.cli import cli, running
from tests.command_line import invoke
from tests.unit.verdict.decision.test_rules import PAIR_FAILURE, Recorded


@pytest.mark.parametrize(("words", "options"), [((), ()), (("--runs", "5"), ("--reruns=4",))])
def test_runs_are_repeats_of_which_every_one_counts(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], options: tuple[str, ...]
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(running, "enter", lambda *_: None)
    monkeypatch.setattr(running, "run", lambda *given: asked.append(given[-1]))
    invoke(cli, ["accept", "--system", "lab", "--mode", "baseline", *words])
    assert asked == [options]


@pytest.mark.parametrize(("fails", "code"), [(False, 0), (True, 1)])
def test_a_baseline_that_was_recorded_ends_with_0_and_accepts_nothing(
    tmp_path: Path, fails: bool, code: int
) -> None:
    recorded = Recorded(tmp_path / "20261121T042325Z-lab-91c33c", gate="baseline")
    if fails:
        recorded.fail(0, PAIR_FAILURE)
    verdict = recorded.decide()
    with pytest.raises(SystemExit) as ended:
        running.print_verdict(verdict, running.Shown(as_json=False))
    assert ended.value.code == code
    # `railgauge verdict` of it is no accept.
    assert running.exit_code(verdict, provisional=False) == (1 if fails else 2)


def test_a_baseline_that_lacks_something_does_not_end_with_0(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path / "20261121T042325Z-lab-91c33c", gate="baseline")
    del recorded.runs[0][3]
    with pytest.raises(SystemExit) as ended:
        running.print_verdict(recorded.decide(), running.Shown(as_json=False))
    assert ended.value.code == 2
