"""Where things are in an installed package, and what needs a checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from railgauge import paths
from railgauge.cli import cli
from railgauge.common.errors import PrerequisiteError


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if this program were installed, and had its data in a folder of its own."""
    monkeypatch.setattr(paths, "HOME", paths.PACKAGED)
    monkeypatch.setattr(paths, "SITE", paths.PACKAGED)
    monkeypatch.delenv("RAILGAUGE_RESULTS", raising=False)


def run(*words: str) -> None:
    cli.main(list(words), prog_name="railgauge", standalone_mode=False)


def test_the_tests_run_in_a_checkout() -> None:
    assert paths.is_checkout()


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize("words", [("lab", "up"), ("rehearse", "x"), ("stack", "check")])
def test_what_needs_a_checkout_is_refused_in_a_package(words: tuple[str, ...]) -> None:
    with pytest.raises(PrerequisiteError, match=f"railgauge {words[0]} needs a checkout"):
        run(*words)


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    "words",
    [("accept",), ("gate", "run", "--act"), ("system", "new", "x")],
)
def test_what_needs_a_site_is_refused_in_a_package_without_one(words: tuple[str, ...]) -> None:
    with pytest.raises(PrerequisiteError, match=f"railgauge {words[0]} needs the descriptions"):
        run(*words)


def test_a_site_without_systems_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "SITE", tmp_path)
    monkeypatch.setattr(paths, "SYSTEMS", tmp_path / "configs" / "systems")
    with pytest.raises(PrerequisiteError, match="is no folder"):
        run("system", "check", "x")


def of_site(site: Path | str, **more: str) -> list[str]:
    """SYSTEMS, LEAST_SHARES, references and results in a process with RAILGAUGE_SITE."""
    shown = "paths.SYSTEMS, paths.LEAST_SHARES, paths.references_folder(), paths.results_root()"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RAILGAUGE")}
    return subprocess.run(
        [sys.executable, "-c", f"from railgauge import paths; print({shown}, sep='\\n')"],
        env=environment | {"PYTHONPATH": str(paths.SOURCE), "RAILGAUGE_SITE": str(site)} | more,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()


def test_all_that_is_of_a_site_lies_in_its_folder(tmp_path: Path) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "least_shares.yaml").touch()
    parts = ("configs/systems", "configs/least_shares.yaml", "results/references", "results")
    assert of_site(tmp_path) == [str(tmp_path / part) for part in parts]


def test_a_site_without_shares_has_those_of_the_program(tmp_path: Path) -> None:
    assert of_site(tmp_path)[1] == str(paths.HOME / "configs" / "least_shares.yaml")


def test_results_may_lie_outside_of_the_site(tmp_path: Path) -> None:
    area = str(tmp_path / "results")
    assert of_site(tmp_path / "site", RAILGAUGE_RESULTS=area)[3] == area


def test_an_empty_name_of_a_site_is_none() -> None:
    assert of_site("")[0] == str(paths.HOME / "configs" / "systems")


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
