"""`railgauge accept`: what its options ask of ReFrame."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from railgauge.cli import cli, running


@pytest.mark.parametrize(("words", "options"), [((), ()), (("--runs", "5"), ("--reruns=4",))])
def test_runs_are_repeats_of_which_every_one_counts(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], options: tuple[str, ...]
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(running, "enter", lambda *_: None)
    monkeypatch.setattr(running, "run", lambda *given: asked.append(given[-1]))
    CliRunner().invoke(cli, ["accept", "--system", "lab", "--mode", "baseline", *words])
    assert asked == [options]
