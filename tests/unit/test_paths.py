"""Where things are in an installed package, and what needs a checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from railgauge import paths, systems
from railgauge.acceptance import accept
from railgauge.cli import cli
from railgauge.common.errors import ConfigurationError, PrerequisiteError
from railgauge.model import references
from railgauge.site import new


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
@pytest.mark.parametrize("words", [("stack", "check"), ("stack", "solve")])
def test_what_needs_a_checkout_is_refused_in_a_package(words: tuple[str, ...]) -> None:
    with pytest.raises(PrerequisiteError, match=f"railgauge {words[0]} needs a checkout"):
        run(*words)


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    "words",
    [
        ("accept",),
        ("gate", "run", "--act"),
        ("lab", "up"),
        ("rehearse", "x"),
        ("system", "new", "x"),
    ],
)
def test_what_needs_a_site_is_refused_in_a_package_without_one(words: tuple[str, ...]) -> None:
    with pytest.raises(PrerequisiteError, match=f"railgauge {words[0]} needs the descriptions"):
        run(*words)


def test_a_site_without_systems_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "SITE", tmp_path)
    monkeypatch.setattr(paths, "SYSTEMS", tmp_path / "configs" / "systems")
    with pytest.raises(PrerequisiteError, match="is no folder"):
        run("system", "check", "x")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A site's folder outside of the program, with a system of its own."""
    described = tmp_path / "configs" / "systems"
    shutil.copytree(paths.SYSTEMS / "vm-pair", described / "vm-pair")
    monkeypatch.setattr(paths, "SITE", tmp_path)
    monkeypatch.setattr(paths, "SYSTEMS", described)
    systems.load.cache_clear()
    yield tmp_path
    systems.load.cache_clear()


def test_the_lab_comes_with_the_program(site: Path) -> None:
    own = paths.HOME / "configs" / "systems" / "lab"
    assert paths.system_folder("lab") == own
    assert (systems.is_of_lab("lab"), systems.chosen("lab")) == (True, "lab")
    assert systems.load("lab").nodes
    assert references.load("lab").entries
    files = accept.judged_by("lab")
    assert {str(own / "reframe.yaml"), str(references.file_of("lab"))} <= set(files)


def test_a_system_of_the_program_is_known_and_not_the_sites(site: Path) -> None:
    assert systems.names() == ["vm-pair"]
    assert {"dgx-h100", "gb200-nvl72", "lab", "vm-pair"} <= set(systems.known())
    assert systems.load("gb200-nvl72").nodes
    with pytest.raises(ConfigurationError, match="'other' is unknown"):
        systems.chosen("other")


def test_a_new_system_of_a_site_is_like_one_of_the_program(site: Path) -> None:
    new.make("mine", "gb200-nvl72", "login", None, {})
    stored = references.load("mine")
    assert stored.path == site / "results" / "references" / "mine.yaml"
    assert {number.kind for one in stored.entries for number in one.metrics.values()} == {
        "published"
    }
    assert systems.load("mine").nodes == systems.load("gb200-nvl72").nodes


def test_a_session_reads_the_sites_systems_and_the_chosen_one(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RFM_SYSTEM", "lab32:ns")
    assert systems.of_session() == ["lab32", "vm-pair"]


def test_a_site_may_describe_the_lab_itself(site: Path) -> None:
    shutil.copytree(paths.HOME / "configs" / "systems" / "lab", paths.SYSTEMS / "lab")
    assert paths.system_folder("lab") == paths.SYSTEMS / "lab"
    assert systems.names() == ["lab", "vm-pair"]


@pytest.mark.usefixtures("package")
def test_the_lab_of_a_package_lies_in_the_sites_folder(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAILGAUGE_LAB_DIR", raising=False)
    assert paths.lab_folder() == site / ".lab"


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
