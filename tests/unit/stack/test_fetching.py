"""What Spack needs: the pinned commits, from upstream, a mirror, or a checkout that is there."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path

import pytest

from railgauge.common.errors import PrerequisiteError, RailgaugeError
from railgauge.stack import fetching
from railgauge.stack.fetching import Purpose, Source, Supply


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def upstream(tmp_path: Path) -> tuple[Path, Source]:
    """A repository with two commits, of which the first is pinned."""
    folder = tmp_path / "upstream"
    (folder / "etc/spack/defaults").mkdir(parents=True)
    (folder / "etc/spack/defaults/config.yaml").write_text("config: {}\n", encoding="utf-8")
    (folder / ".gitignore").write_text("/etc/spack/*.yaml\n", encoding="utf-8")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message=pinned")
    pinned = git(folder, "rev-parse", "HEAD")
    (folder / "later").touch()
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message=later")
    return folder, Source("spack", str(folder), pinned, "SPACK_ROOT")


@pytest.fixture(autouse=True)
def _no_checkouts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPACK_ROOT", raising=False)


def test_commit_is_fetched_from_upstream(upstream: tuple[Path, Source], tmp_path: Path) -> None:
    _, source = upstream
    fetched = fetching.checkout(tmp_path / "spack", source, Supply())
    assert git(fetched, "rev-parse", "HEAD") == source.commit
    assert not (fetched / "later").exists()


def test_repository_of_a_hook_that_runs_it_is_left_alone(
    upstream: tuple[Path, Source], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, source = upstream
    mine = tmp_path / "mine"
    mine.mkdir()
    git(mine, "init", "--quiet")
    git(mine, "commit", "--quiet", "--allow-empty", "--message=mine")
    before = git(mine, "rev-parse", "HEAD")
    with monkeypatch.context() as hook:
        hook.setenv("GIT_DIR", str(mine / ".git"))
        fetched = fetching.checkout(tmp_path / "spack", source, Supply())
    assert git(mine, "rev-parse", "HEAD") == before
    assert git(fetched, "rev-parse", "HEAD") == source.commit


def test_given_checkout_that_stands_elsewhere_gives_the_pinned_commit(
    upstream: tuple[Path, Source], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, source = upstream
    monkeypatch.setenv("SPACK_ROOT", str(folder))
    nowhere = dataclasses.replace(source, url=str(tmp_path / "nowhere"))
    fetched = fetching.checkout(tmp_path / "spack", nowhere, Supply())
    assert git(fetched, "rev-parse", "HEAD") == source.commit


@pytest.mark.parametrize("poisoned", ["etc/spack/packages.yaml", "etc/spack/defaults/config.yaml"])
def test_configuration_in_a_given_checkout_reaches_no_solve(
    upstream: tuple[Path, Source],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    poisoned: str,
) -> None:
    folder, source = upstream
    (folder / poisoned).write_text("packages: {all: {require: ['%clang']}}\n", encoding="utf-8")
    monkeypatch.setenv("SPACK_ROOT", str(folder))
    fetched = fetching.checkout(tmp_path / "spack", source, Supply())
    assert "clang" not in "".join(
        path.read_text(encoding="utf-8") for path in (fetched / "etc").rglob("*.yaml")
    )


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("etc/spack/site/packages.yaml", "packages: {all: {require: ['%clang']}}\n"),
        ("etc/spack/packages.yaml", "packages: {all: {require: ['%clang']}}\n"),
        ("etc/spack/defaults/config.yaml", "config: {debug: true}\n"),
        ("etc/spack/defaults/config.yaml", None),
    ],
)
def test_copy_that_a_user_configured_is_refused(
    upstream: tuple[Path, Source], tmp_path: Path, path: str, text: str | None
) -> None:
    _, source = upstream
    changed = fetching.checkout(tmp_path / "spack", source, Supply()) / path
    if text is None:
        changed.unlink()
    else:
        changed.parent.mkdir(exist_ok=True)
        changed.write_text(text, encoding="utf-8")
    with pytest.raises(RailgaugeError, match=f"^{changed}: found") as caught:
        fetching.checkout(tmp_path / "spack", source, Supply())
    assert f"rm -r {tmp_path}/spack" in (caught.value.next_step or "")


def test_copy_as_it_came_is_not_fetched_again(
    upstream: tuple[Path, Source], tmp_path: Path
) -> None:
    _, source = upstream
    (fetching.checkout(tmp_path / "spack", source, Supply()) / "used").touch()
    assert (fetching.checkout(tmp_path / "spack", source, Supply()) / "used").exists()


def test_copy_without_a_note_of_its_origin_is_fetched_again(
    upstream: tuple[Path, Source], tmp_path: Path
) -> None:
    _, source = upstream
    fetched = fetching.checkout(tmp_path / "spack", source, Supply())
    (fetched / ".railgauge-commit").write_text(f"{source.commit}\n", encoding="utf-8")
    (fetched / "etc/spack/packages.yaml").write_text("packages: {}\n", encoding="utf-8")
    fetching.checkout(tmp_path / "spack", source, Supply())
    assert not (fetched / "etc/spack/packages.yaml").exists()


@pytest.mark.parametrize("fetched_before", [False, True])
def test_given_checkout_without_the_commit_is_refused(
    upstream: tuple[Path, Source],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fetched_before: bool,
) -> None:
    _, source = upstream
    if fetched_before:
        fetching.checkout(tmp_path / "spack", source, Supply())
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "--quiet")
    git(other, "commit", "--quiet", "--allow-empty", "--message=other")
    monkeypatch.setenv("SPACK_ROOT", str(other))
    head = git(other, "rev-parse", "HEAD")
    with pytest.raises(RailgaugeError, match=f"found {head}, expected .* {source.commit}"):
        fetching.checkout(tmp_path / "spack", source, Supply())


def test_given_folder_that_is_no_checkout_is_refused(
    upstream: tuple[Path, Source], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "release").mkdir()
    monkeypatch.setenv("SPACK_ROOT", str(tmp_path / "release"))
    with pytest.raises(RailgaugeError, match="found no git checkout") as caught:
        fetching.checkout(tmp_path / "spack", upstream[1], Supply())
    # Nothing can be fetched into it.
    assert caught.value.next_step is not None and "git -C" not in caught.value.next_step


def test_mirror_gives_what_was_packed_into_it(
    upstream: tuple[Path, Source], tmp_path: Path
) -> None:
    _, source = upstream
    (tmp_path / "mirror").mkdir()
    fetching.pack(fetching.checkout(tmp_path / "a", source, Supply()), source, tmp_path / "mirror")
    unpacked = fetching.checkout(tmp_path / "b", source, Supply(tmp_path / "mirror"))
    assert (unpacked / "etc/spack/defaults/config.yaml").is_file()
    assert not (unpacked / "later").exists()


def test_mirror_with_an_archive_that_is_cut_off_is_to_be_filled_again(tmp_path: Path) -> None:
    (tmp_path / fetching.SPACK.archive).write_bytes(b"cut off")
    with pytest.raises(PrerequisiteError, match="cannot be fetched") as caught:
        fetching.checkout(tmp_path / "spack", fetching.SPACK, Supply(tmp_path))
    assert f"make mirror SYSTEM=... MIRROR={tmp_path}" in (caught.value.next_step or "")
    assert not (tmp_path / "spack").exists()


def test_filling_a_mirror_that_cannot_fetch_does_not_send_one_to_make_mirror(
    tmp_path: Path,
) -> None:
    source = dataclasses.replace(fetching.SPACK, url=str(tmp_path / "nowhere"))
    with pytest.raises(PrerequisiteError, match="cannot be fetched") as caught:
        fetching.checkout(tmp_path / "spack", source, Supply(purpose=Purpose.FILL))
    assert "make mirror" not in (caught.value.next_step or "")


def test_solve_that_cannot_fetch_does_not_send_one_to_a_mirror_that_it_does_not_take(
    tmp_path: Path,
) -> None:
    source = dataclasses.replace(fetching.SPACK, url=str(tmp_path / "nowhere"))
    with pytest.raises(PrerequisiteError, match="cannot be fetched") as caught:
        fetching.checkout(tmp_path / "spack", source, Supply(purpose=Purpose.SOLVE))
    step = caught.value.next_step or ""
    assert "SPACK_ROOT=dir" in step
    assert "MIRROR" not in step
