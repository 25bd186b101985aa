"""Sets of files for transfers: the same everywhere, incompressible, and every difference found."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railgauge.node.runners import file_set
from tests.properties import tries

QUICK = settings(max_examples=tries(40))

Made = tuple[Path, file_set.Manifest]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("original") / "set"
    return folder, file_set.make(folder, files=7, file_bytes=1500, seed=3)


@pytest.fixture
def arrived(original: Made, tmp_path: Path) -> Made:
    """A copy to damage."""
    folder = tmp_path / "set"
    shutil.copytree(original[0], folder)
    return folder, original[1]


def differences(made: Made) -> list[str]:
    found = file_set.verify(*made)["differences"]
    assert isinstance(found, list)
    return found


# ---- make ----


def test_a_seed_gives_the_same_set_everywhere(original: Made, tmp_path: Path) -> None:
    assert file_set.make(tmp_path / "again", files=7, file_bytes=1500, seed=3) == original[1]


def test_the_content_does_not_change_between_versions(tmp_path: Path) -> None:
    # Sender and receiver, or two campaigns, may run different versions of Python.
    made = file_set.make(tmp_path, files=2, file_bytes=100, seed=1)
    assert made["sha256"] == "9d29919d0adb94895ca9093d21eca1a657ba3c23b299b3af4d4b57c8d5e765ce"


def test_another_seed_gives_another_set(original: Made, tmp_path: Path) -> None:
    other = file_set.make(tmp_path / "other", files=7, file_bytes=1500, seed=4)
    assert other["sha256"] != original[1]["sha256"]


def test_all_files_differ(original: Made) -> None:
    digests = [digest for _, digest in original[1]["files"].values()]
    assert len(set(digests)) == original[1]["count"] == 7


def test_a_manifest_states_bytes_and_count(original: Made) -> None:
    assert (original[1]["bytes"], original[1]["count"]) == (7 * 1500, 7)


def test_one_file_is_one_file(tmp_path: Path) -> None:
    file_set.make(tmp_path, files=1, file_bytes=10_000_000)
    assert [path.stat().st_size for path in tmp_path.iterdir()] == [10_000_000]


def test_content_cannot_be_compressed(tmp_path: Path) -> None:
    file_set.make(tmp_path, files=1, file_bytes=2_000_000)
    raw = (tmp_path / "large.bin").read_bytes()
    assert len(zlib.compress(raw, 6)) > 0.999 * len(raw)


def test_many_files_are_spread_over_folders() -> None:
    found = file_set.names(2500)
    assert len(set(found)) == 2500
    assert len({Path(name).parent for name in found}) == 3


def test_files_without_bytes_can_be_made(tmp_path: Path) -> None:
    made = file_set.make(tmp_path, files=2, file_bytes=0)
    assert (made["count"], made["bytes"], differences((tmp_path, made))) == (2, 0, [])


def test_a_folder_that_is_in_use_is_left_alone(original: Made) -> None:
    with pytest.raises(FileExistsError, match="not empty"):
        file_set.make(original[0], files=1, file_bytes=1)
    assert differences(original) == []


@pytest.mark.parametrize(("files", "size"), [(0, 1), (-1, 1), (1, -1)])
def test_a_set_that_cannot_be_is_rejected(files: int, size: int, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected 1 or more"):
        file_set.make(tmp_path, files, size)


# ---- verify ----


def test_a_whole_copy_has_no_differences(arrived: Made) -> None:
    report = file_set.verify(*arrived)
    assert report["differences"] == []
    sums = {key: arrived[1][key] for key in ("count", "bytes", "sha256")}
    assert {key: report[key] for key in sums} == report["expected"] == sums


def test_a_missing_file_is_named(arrived: Made) -> None:
    (arrived[0] / "000" / "002.bin").unlink()
    assert differences(arrived) == ["missing: 000/002.bin"]


def test_a_file_too_many_is_named(arrived: Made) -> None:
    (arrived[0] / ".partial").write_bytes(b"")
    assert differences(arrived) == ["extra: .partial"]


def test_a_short_file_is_named_with_its_bytes(arrived: Made) -> None:
    os.truncate(arrived[0] / "000" / "002.bin", 1499)
    assert differences(arrived) == ["changed: 000/002.bin: 1499 bytes, expected 1500"]


def test_a_changed_byte_is_found(arrived: Made) -> None:
    path = arrived[0] / "000" / "002.bin"
    raw = bytearray(path.read_bytes())
    raw[700] ^= 1
    path.write_bytes(raw)
    assert differences(arrived) == ["changed: 000/002.bin: another sha256"]


def test_preallocated_zeros_are_found(arrived: Made) -> None:
    (arrived[0] / "000" / "002.bin").write_bytes(bytes(1500))
    assert differences(arrived) == ["changed: 000/002.bin: another sha256"]


def test_exchanged_files_are_found(arrived: Made) -> None:
    first, second = (arrived[0] / "000" / name for name in ("001.bin", "002.bin"))
    raw = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(raw)
    assert len(differences(arrived)) == 2


@pytest.mark.parametrize("target", ["000/001.bin", "/nowhere"])
def test_a_symlink_is_no_file(arrived: Made, target: str) -> None:
    path = arrived[0] / "000" / "002.bin"
    path.unlink()
    path.symlink_to(target)
    assert differences(arrived) == ["symlink: 000/002.bin", "missing: 000/002.bin"]


def test_a_symlink_to_a_folder_is_not_followed(arrived: Made) -> None:
    (arrived[0] / "000").rename(arrived[0].parent / "elsewhere")
    (arrived[0] / "000").symlink_to(arrived[0].parent / "elsewhere")
    found = differences(arrived)
    assert found[0] == "symlink: 000"
    assert len(found) == 8


def test_a_pipe_is_not_read(arrived: Made) -> None:
    os.mkfifo(arrived[0] / "pipe")
    assert differences(arrived) == ["other: pipe"]


def test_an_empty_folder_is_no_arrival(original: Made, tmp_path: Path) -> None:
    report = file_set.verify(tmp_path, original[1])
    assert (report["count"], len(report["differences"])) == (0, 7)


def test_of_many_differences_the_first_are_named(tmp_path: Path) -> None:
    made = file_set.make(tmp_path / "set", files=60, file_bytes=1)
    (tmp_path / "empty").mkdir()
    found = differences((tmp_path / "empty", made))
    assert len(found) == 21
    assert found[-1] == "and 40 more"


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"files": {}},
        {"files": []},
        {"files": {"a": 5}},
        {"files": {"a": [1, "b", 2]}},
        {"files": {"a": [1, "0" * 64]}, "count": 1, "bytes": 1, "sha256": "0" * 64},
        file_set.manifest_of({}),
    ],
)
def test_what_is_no_whole_manifest_is_rejected(wrong: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="manifest"):
        file_set.verify(tmp_path, wrong)


def test_a_manifest_that_lost_a_file_is_rejected(original: Made) -> None:
    manifest = json.loads(json.dumps(original[1]))
    del manifest["files"]["000/002.bin"]
    with pytest.raises(ValueError, match="not a whole manifest"):
        file_set.verify(original[0], manifest)


@QUICK
@given(st.integers(1, 30), st.integers(0, 4000), st.integers(0, 99), st.data())
def test_every_changed_byte_of_every_set_is_found(
    files: int, size: int, seed: int, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        made = file_set.make(folder, files, size, seed)
        assert file_set.verify(folder, made, workers=1)["differences"] == []
        name = data.draw(st.sampled_from(sorted(made["files"])))
        raw = bytearray(Path(folder, name).read_bytes())
        if raw and data.draw(st.booleans()):
            raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
        else:
            raw += b"x"
        Path(folder, name).write_bytes(raw)
        found = file_set.verify(folder, made, workers=1)["differences"]
        assert [line.split(": ")[:2] for line in found] == [["changed", name]]


# ---- the command ----


def test_command_makes_and_verifies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, manifest = str(tmp_path / "set"), tmp_path / "manifest.json"
    assert file_set.main(["make", folder, "--files", "3", "--bytes", "10"]) == 0
    manifest.write_text(capsys.readouterr().out)
    assert file_set.main(["verify", folder, str(manifest)]) == 0
    assert json.loads(capsys.readouterr().out)["count"] == 3
    (tmp_path / "set" / "000" / "001.bin").unlink()
    assert file_set.main(["verify", folder, str(manifest)]) == 1
    assert json.loads(capsys.readouterr().out)["differences"] == ["missing: 000/001.bin"]


@pytest.mark.parametrize(
    ("manifest", "why"), [("{", "file_set: "), ("[]", "manifest"), ('{"files": 5}', "manifest")]
)
def test_command_says_what_is_wrong_with_a_manifest(
    manifest: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "manifest.json").write_text(manifest)
    assert file_set.main(["verify", str(tmp_path), str(tmp_path / "manifest.json")]) == 2
    assert why in capsys.readouterr().err


def test_command_says_where_a_folder_is_not_there(
    original: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "manifest.json").write_text(json.dumps(original[1]))
    code = file_set.main(["verify", str(tmp_path / "nowhere"), str(tmp_path / "manifest.json")])
    assert code == 2
    assert "nowhere" in capsys.readouterr().err
