"""Driving Spack: what a mirror must have, and what is said where Spack fails."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from railgauge import terminal
from railgauge.cli.stack import stack
from railgauge.common.errors import PrerequisiteError, RailgaugeError
from railgauge.stack import build, fetching
from railgauge.stack.fetching import Purpose, Supply
from tests.command_line import invoke
from tests.unit.stack.spack_scopes import copied

SOURCE = {"path": "_source-cache/archive/ab/abc.tar.gz", "url": "https://example.org/x.tar.gz"}


def package(sha256: str, installed: bool = False) -> dict[str, Any]:
    sources = [{**SOURCE, "sha256": sha256}]
    return {"name": "x", "version": "1", "installed": installed, "sources": sources}


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    archive = tmp_path / "mirror" / SOURCE["path"]
    archive.parent.mkdir(parents=True)
    archive.write_bytes(b"source")
    return tmp_path / "mirror"


RIGHT = hashlib.sha256(b"source").hexdigest()


def test_complete_mirror_has_no_problems(mirror: Path) -> None:
    build.require_mirror(mirror)
    assert list(build.source_problems([package(RIGHT)], mirror)) == []


def test_wrong_checksum_in_the_mirror_is_an_error(mirror: Path) -> None:
    damaged = rf"found sha256 {RIGHT}, expected {'0' * 64}"
    with pytest.raises(PrerequisiteError, match=damaged) as caught:
        build.require_sources([package("0" * 64)], Supply(mirror), "lab")
    assert "remove what is damaged" in (caught.value.next_step or "")


def test_source_that_the_mirror_lacks_is_an_error(mirror: Path) -> None:
    (mirror / SOURCE["path"]).unlink()
    missing = r"no such file, expected https://example.org"
    with pytest.raises(PrerequisiteError, match=missing) as caught:
        build.require_sources([package(RIGHT)], Supply(mirror), "lab")
    assert "damaged" not in (caught.value.next_step or "")


def test_source_of_what_is_installed_is_not_needed(mirror: Path) -> None:
    (mirror / SOURCE["path"]).unlink()
    assert list(build.source_problems([package(RIGHT, installed=True)], mirror)) == []


@pytest.mark.parametrize(("made", "found"), [(True, "no _source-cache"), (False, "no such folder")])
def test_folder_that_is_no_mirror_is_refused(tmp_path: Path, made: bool, found: str) -> None:
    folder = tmp_path / "m"
    if made:
        folder.mkdir()
    with pytest.raises(RailgaugeError, match=found):
        build.require_mirror(folder)


@pytest.mark.parametrize(
    "line",
    [
        "==> Error: All fetchers failed for spack-stage-lftp-4.9.2",
        "curl: (6) Could not resolve host: lftp.yar.ru",
    ],
)
def test_build_without_network_and_mirror_names_both_ways_out(line: str) -> None:
    error = build.failure("install", 1, [line], spack(Supply()))
    assert error.next_step is not None and "MIRROR=dir" in error.next_step
    assert "https_proxy" in error.next_step


def test_pin_that_no_recipe_has_is_named() -> None:
    said = [
        "==> Error: No version exists that satisfies these input specs:",
        "    perftest@25.01.0-0.79 target=x86_64",
    ]
    error = build.failure("solve", 1, said, spack(Supply()))
    assert "perftest@25.01.0-0.79" in str(error)
    assert error.next_step is not None and "spack.yaml" in error.next_step


def test_wrong_checksum_from_the_network_is_never_skipped() -> None:
    said = ["==> Error: ChecksumError: sha256 checksum failed for /x/lftp-4.9.2.tar.gz"]
    error = build.failure("install", 1, said, spack(Supply()))
    assert error.next_step is not None and "never skip" in error.next_step


def spack(supply: Supply, folder: Path = Path("/stack")) -> build.Spack:
    """A Spack of the lab's; nothing is there unless `folder` is."""
    return build.Spack(
        root=folder / "spack",
        packages=folder / "spack-packages",
        python=Path("/usr/bin/python3"),
        system="lab",
        environment=folder / "lab/env",
        state=folder,
        supply=supply,
    )


def fake_spack(folder: Path, packages: Sequence[dict[str, Any]], code: int) -> build.Spack:
    """One that ends `mirror create` with `code`, and describes `packages`."""
    program = folder / "spack/bin/spack"
    program.parent.mkdir(parents=True)
    (folder / "described").write_text(json.dumps(list(packages)), encoding="utf-8")
    program.write_text(
        "#!/bin/sh\n"
        f'case "$*" in *describe.py*) cat {folder}/described; exit 0;; esac\n'
        f"echo '==> Error: Failed downloads:'; exit {code}\n",
        encoding="utf-8",
    )
    program.chmod(0o755)
    return spack(Supply(purpose=Purpose.FILL), folder)


@pytest.mark.parametrize("code", [0, 1])
def test_mirror_that_cannot_be_filled_says_what_to_bring_where(
    mirror: Path, tmp_path: Path, code: int
) -> None:
    (mirror / SOURCE["path"]).unlink()
    made = fake_spack(tmp_path, [package(RIGHT)], code)
    with pytest.raises(PrerequisiteError) as caught:
        build.fill_mirror(made, mirror)
    where, url = mirror / SOURCE["path"], SOURCE["url"]
    assert f"{where}: x@1: no such file, expected {url} with sha256 {RIGHT}" in str(caught.value)
    assert "make mirror" not in str(caught.value)


def test_mirror_needs_also_the_source_of_what_is_installed_here(
    mirror: Path, tmp_path: Path
) -> None:
    (mirror / SOURCE["path"]).unlink()
    made = fake_spack(tmp_path, [package(RIGHT, installed=True)], 0)
    with pytest.raises(PrerequisiteError, match="no such file"):
        build.fill_mirror(made, mirror)


def test_network_that_fails_while_a_mirror_is_filled_does_not_send_one_to_make_mirror() -> None:
    said = ["==> Error: All fetchers failed for spack-stage-lftp-4.9.2"]
    error = build.failure("solve", 1, said, spack(Supply(purpose=Purpose.FILL)))
    assert error.next_step is not None and "make mirror" not in error.next_step


def test_environment_is_of_the_checkout_that_solves(tmp_path: Path) -> None:
    """Not of another one, which used the same $RAILGAUGE_STACK_DIR before."""
    for name in ("earlier", "now"):
        (tmp_path / name).mkdir()
        scope = copied(tmp_path / name) / "configs/systems/lab/spack/definitions.yaml"
        scope.write_text(name, encoding="utf-8")
        made = build.environment(tmp_path / "env", tmp_path / name)
    assert (made / "configs/systems/lab/spack/definitions.yaml").read_text() == "now"
    assert sorted(path.name for path in made.iterdir()) == ["configs", "spack", "spack.yaml"]


@pytest.mark.parametrize(
    ("purpose", "command"),
    [
        (Purpose.BUILD, "make stack SYSTEM=lab"),
        (Purpose.FILL, "make mirror SYSTEM=lab MIRROR=..."),
        (Purpose.SOLVE, "bin/stack solve lab"),
    ],
)
def test_command_to_type_again_is_the_one_that_failed(purpose: Purpose, command: str) -> None:
    error = build.failure("solve", 1, ["==> Error: x"], spack(Supply(purpose=purpose)))
    assert error.next_step is not None and error.next_step.endswith(f"then again: {command}")


def test_the_line_that_moves_counts_packages_and_has_spacks_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Callable[[], str]] = []

    @contextlib.contextmanager
    def moving(words: Callable[[], str]) -> Iterator[None]:
        asked.append(words)
        assert words() == "spack install: 0 packages installed; starting"
        yield

    monkeypatch.setattr(terminal, "moving", moving)
    made = fake_spack(tmp_path, [], 0)
    lines = ["[+] /opt/zlib", "[+] /opt/hwloc", "==> Installing openmpi"]
    program = made.root / "bin" / "spack"
    program.write_text("#!/bin/sh\n" + "".join(f"echo '{line}'\n" for line in lines))
    made.run("install")
    assert asked[0]() == "spack install: 2 packages installed; ==> Installing openmpi"


def test_files_from_another_mirror_cannot_be_packed_again(tmp_path: Path) -> None:
    with pytest.raises(PrerequisiteError, match=r"copy spack-63943396d634.tar from that mirror"):
        fetching.pack(tmp_path / "spack", fetching.SPACK, tmp_path)


def test_a_users_and_a_machines_configuration_changes_no_build() -> None:
    assert spack(Supply()).variables()["SPACK_DISABLE_LOCAL_CONFIG"] == "1"


def test_a_stack_below_a_folder_with_a_blank_is_refused_before_anything_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a b"
    monkeypatch.setenv("RAILGAUGE_STACK_DIR", str(folder))
    answer = invoke(stack, ["build", "lab"])
    assert isinstance(answer.exception, RailgaugeError)
    assert f"{folder}: found white space" in str(answer.exception)
    assert "RAILGAUGE_STACK_DIR=..." in (answer.exception.next_step or "")
    assert not folder.exists()
