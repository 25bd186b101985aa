"""The version and the commit, from tags, and from the file of a package."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from railgauge import __version__, version
from railgauge.cli import cli
from tests.command_line import invoke


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "tag.gpgSign=false")
    command = ["git", "-C", str(folder), *who, "-c", "commit.gpgSign=false", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "file").write_text("one\n")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "--quiet", "--message=one")
    return tmp_path


def head(checkout: Path) -> str:
    return git(checkout, "rev-parse", "HEAD")[:12]


def test_a_commit_without_a_tag_is_no_release(checkout: Path) -> None:
    assert version.of_checkout(checkout) == (f"{__version__}+dev", head(checkout))


@pytest.mark.parametrize("options", [(), ("--annotate", "--message=release")])
def test_the_commit_of_the_tag_is_the_release(checkout: Path, options: tuple[str, ...]) -> None:
    git(checkout, "tag", *options, f"v{__version__}")
    assert version.of_checkout(checkout) == (__version__, head(checkout))


@pytest.mark.parametrize("tag", ["v999.0.0", __version__, f"v{__version__}rc1", "before-upgrade"])
def test_another_tag_makes_no_release(checkout: Path, tag: str) -> None:
    git(checkout, "tag", tag)
    assert version.of_checkout(checkout) == (f"{__version__}+dev", head(checkout))


def test_the_next_commit_is_no_release(checkout: Path) -> None:
    git(checkout, "tag", f"v{__version__}")
    git(checkout, "commit", "--quiet", "--allow-empty", "--message=two")
    assert version.of_checkout(checkout) == (f"{__version__}+dev", head(checkout))


def test_changed_files_are_no_release(checkout: Path) -> None:
    git(checkout, "tag", f"v{__version__}")
    (checkout / "file").write_text("two\n")
    assert version.of_checkout(checkout) == (f"{__version__}+dev", f"{head(checkout)}+changes")


def test_a_folder_without_git_has_an_unknown_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert version.of_checkout(tmp_path) == (f"{__version__}+dev", "unknown")


@pytest.mark.parametrize("text", [None, "", "1.2.3\n", "1.2.3 0123456789ab"])
def test_a_package_without_its_whole_commit_file_is_no_release(
    tmp_path: Path, text: str | None
) -> None:
    if text is not None:
        (tmp_path / "commit.txt").write_text(text)
    assert version.of_package(tmp_path / "commit.txt") == (f"{__version__}+dev", "unknown")


def test_a_package_has_the_version_of_its_commit(tmp_path: Path) -> None:
    (tmp_path / "commit.txt").write_text("1.2.3 0123456789ab\n")
    assert version.of_package(tmp_path / "commit.txt") == ("1.2.3", "0123456789ab")


def test_the_command_prints_the_version_and_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version, "current", lambda: version.Version("1.2.3", "0123456789ab"))
    answer = invoke(cli, ["--version"])
    assert (answer.output, answer.exit_code) == ("railgauge 1.2.3 (commit 0123456789ab)\n", 0)
