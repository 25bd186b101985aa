"""The changelog: its fragments have names that towncrier reads, and they become its sections."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from railgauge import __version__, paths


def towncrier(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "towncrier", *words, "--dir", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The changelog and its configuration, without fragments."""
    for name in ("pyproject.toml", "CHANGELOG.md"):
        shutil.copy(paths.HOME / name, tmp_path)
    fragments = tmp_path / "changelog.d"
    fragments.mkdir()
    for name in ("README.md", "template.md.jinja"):
        shutil.copy(paths.HOME / "changelog.d" / name, fragments)
    return tmp_path


def test_the_fragments_have_names_that_are_read() -> None:
    drafted = towncrier(paths.HOME, "build", "--draft", "--version", __version__)
    assert drafted.returncode == 0, drafted.stderr


def test_a_fragment_says_something() -> None:
    texts = {path: path.read_text() for path in (paths.HOME / "changelog.d").glob("*.*.md")}
    assert [path.name for path, text in texts.items() if not text.strip()] == []


def test_fragments_become_a_section_with_their_kinds(project: Path) -> None:
    (project / "changelog.d" / "7.added.md").write_text("A command.\n")
    (project / "changelog.d" / "+words.fixed.md").write_text("A message.\n")
    (project / "changelog.d" / "8.internal.md").write_text("A refactoring.\n")
    for version in ("9.1.0", "9.2.0"):
        built = towncrier(project, "build", "--yes", "--version", version, "--date", "2026-01-02")
        assert built.returncode == 0, built.stderr
        (project / "changelog.d" / "9.changed.md").write_text("A default.\n")
    text = (project / "CHANGELOG.md").read_text()
    section = (
        "## [9.2.0] - 2026-01-02\n\n### Changed\n\n- A default. (#9)\n\n"
        "## [9.1.0] - 2026-01-02\n\n"
        "### Added\n\n- A command. (#7)\n\n### Fixed\n\n- A message.\n"
    )
    assert section in text
    assert "refactoring" not in text


def test_a_fragment_of_an_unknown_kind_is_refused(project: Path) -> None:
    (project / "changelog.d" / "7.feature.md").write_text("A command.\n")
    drafted = towncrier(project, "build", "--draft", "--version", "9.1.0")
    assert drafted.returncode != 0 and "7.feature.md" in drafted.stderr
