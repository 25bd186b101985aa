"""The checks of tests/lab/checks: a word renamed in a check must not leave them behind."""

from __future__ import annotations

from pathlib import Path

from reframe.frontend.loader import RegressionCheckLoader

from tests.unit.checks import ended_jobs

FOOLING = Path(__file__).parents[2] / "lab/checks/fooling.py"


def test_every_check_that_tries_to_fool_is_there_and_begins(tmp_path: Path) -> None:
    written = FOOLING.read_text().count("\n@rfm.simple_test\n")
    with ended_jobs.runtime("lab", tmp_path):
        found = RegressionCheckLoader([str(FOOLING)]).load_all(force=True)
    assert len({type(check) for check in found}) == written > 20
