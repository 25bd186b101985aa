"""Where things are in an installed package, and what needs a checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

from railgauge import paths
from railgauge.cli import cli
from railgauge.common.errors import PrerequisiteError


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if this program were installed, and had its data in a folder of its own."""
    monkeypatch.setattr(paths, "HOME", paths.PACKAGED)
    monkeypatch.delenv("RAILGAUGE_RESULTS", raising=False)


def run(*words: str) -> None:
    cli.main(list(words), prog_name="railgauge", standalone_mode=False)


def test_the_tests_run_in_a_checkout() -> None:
    assert paths.is_checkout()


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    "words", [("accept",), ("gate", "run", "--act"), ("lab", "up"), ("system", "new", "x")]
)
def test_what_needs_a_checkout_is_refused_in_a_package(words: tuple[str, ...]) -> None:
    with pytest.raises(PrerequisiteError, match=f"railgauge {words[0]} needs a checkout"):
        run(*words)


@pytest.mark.usefixtures("package")
def test_a_package_has_no_results_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PrerequisiteError, match="no results area is named"):
        paths.results_root()


@pytest.mark.usefixtures("package")
def test_a_package_reads_the_results_that_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(tmp_path))
    assert paths.results_root() == tmp_path


def test_what_reads_only_is_no_command_of_a_checkout() -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["read", "--help"], prog_name="railgauge")
    assert stop.value.code == 0
