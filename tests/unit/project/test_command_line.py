"""Commands that tests run say nothing on standard error that the test does not expect."""

from __future__ import annotations

import click
import pytest

from railgauge import paths
from tests.command_line import invoke, railgauge


@click.command()
def noisy() -> None:
    click.echo("answer")
    click.echo("note: a clock was wrong\n  next: set it", err=True)


def test_an_unexpected_line_on_standard_error_fails_the_test() -> None:
    with pytest.raises(AssertionError, match="note: a clock was wrong"):
        invoke(noisy)
    with pytest.raises(AssertionError, match="note: a clock was wrong"):
        invoke(noisy, stderr=["note: a disk"])


def test_a_line_that_is_expected_must_be_there_and_one_that_is_allowed_need_not() -> None:
    invoke(noisy, stderr=["a clock was wrong"], may_say=["a disk"])
    with pytest.raises(AssertionError, match="a disk"):
        invoke(noisy, stderr=["a clock was wrong", "a disk"])


def test_an_error_is_said_as_bin_railgauge_says_it() -> None:
    answer = railgauge("verdict", "nosuch", stderr=["railgauge: ", "no campaign 'nosuch'"])
    assert answer.exit_code == 3 and "\n  next: " in answer.stderr


def test_all_tests_run_commands_by_the_functions_that_look_at_standard_error() -> None:
    files = (paths.HOME / "tests").rglob("*.py")
    found = [path.name for path in files if "Cli" + "Runner" in path.read_text(encoding="utf-8")]
    assert found == ["command_line.py"]
