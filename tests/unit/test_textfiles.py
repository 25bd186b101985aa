"""Files, folders, archives and standard input, as texts: by content, and bounded."""

from __future__ import annotations

import errno
import gzip
import io
import os
import stat
import sys
import tarfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from railgauge import textfiles
from railgauge.textfiles import Text, Unread, read_all
from tests.properties import tries


def archive(members: dict[str, bytes], mode: str = "w") -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as made:  # type: ignore[call-overload]
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            made.addfile(info, io.BytesIO(content))
    return stream.getvalue()


MEMBERS = {"a/one.log": b"one\n", "a/two.log": b"two\n" * 1000}


def read(path: Path) -> list[Text | Unread]:
    return list(read_all([str(path)]))


def texts(path: Path) -> dict[str, str]:
    found = read(path)
    assert all(isinstance(one, Text) for one in found), found
    return {one.name.removeprefix(f"{path}"): one[1] for one in found}


def reason(path: Path) -> str:
    (one,) = (one for one in read(path) if isinstance(one, Unread))
    return one.reason


def test_a_folder_is_read_to_its_bottom_without_hidden_files(tmp_path: Path) -> None:
    (tmp_path / "b" / "c").mkdir(parents=True)
    for name in ("b/c/x", "b/y", "z", ".hidden"):
        (tmp_path / name).write_text(name)
    assert texts(tmp_path) == {"/b/c/x": "b/c/x", "/b/y": "b/y", "/z": "z"}


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_an_archive_is_known_by_its_content(tmp_path: Path, mode: str) -> None:
    (tmp_path / "logs").write_bytes(archive(MEMBERS, mode))
    found = texts(tmp_path / "logs")
    assert found == {f":{name}": content.decode() for name, content in MEMBERS.items()}
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]


def test_a_compressed_log_is_one_text(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(gzip.compress(b"one\n"))
    assert texts(tmp_path / "log") == {"": "one\n"}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\x7fELF\0\0\0", "not a text"),
        (b"PK\x03\x04", "zip"),
        ("# nThread 1\n".encode("utf-16"), "UTF-16"),
        (archive({"inner.tar": archive(MEMBERS)}), "archive within an archive"),
        (archive({"inner.gz": gzip.compress(b"x", mtime=0)}), "archive within an archive"),
        (gzip.compress(b"one\n" * 9, mtime=0)[:-9], "not a whole gzip"),
    ],
    # The workers of a run must collect the same names.
    ids=["program", "zip", "utf-16", "tar in tar", "gzip in tar", "cut gzip"],
)
def test_what_is_no_text_is_named_with_its_reason(tmp_path: Path, content: bytes, why: str) -> None:
    (tmp_path / "x").write_bytes(content)
    assert why in reason(tmp_path / "x")


def test_a_folder_without_files_is_named(tmp_path: Path) -> None:
    (tmp_path / "below" / ".hidden").mkdir(parents=True)
    assert read(tmp_path) == [Unread(str(tmp_path), "a folder without files")]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert "No such file" in reason(tmp_path / "nosuch")


def test_a_pipe_in_a_folder_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert reason(tmp_path) == "not a file"


@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_a_pipe_that_is_named_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    path = tmp_path / "x"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        os.mknod(path, stat.S_IFSOCK | 0o600)
    # Without the protection this test fails, and does not wait.
    monkeypatch.setattr(Path, "open", lambda *_: io.BytesIO())
    assert reason(path) == "not a file"


def test_a_pipe_of_the_shell_is_read() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"one\n")
    os.close(writing)
    assert texts(Path(f"/dev/fd/{reading}")) == {"": "one\n"}
    os.close(reading)


def test_a_name_that_is_too_long_is_named(tmp_path: Path) -> None:
    assert "name too long" in reason(tmp_path / ("x" * 256))


def test_a_path_that_may_not_be_entered_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.stat

    def refuses(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        if path.name == "closed":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real(path, follow_symlinks=follow_symlinks)

    (tmp_path / "closed").write_text("one\n")
    monkeypatch.setattr(Path, "stat", refuses)
    assert reason(tmp_path / "closed") == "Permission denied"
    assert reason(tmp_path) == "Permission denied"


def test_a_link_to_a_folder_is_named_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "logs" / "old").mkdir(parents=True)
    (tmp_path / "logs" / "one").write_text("one\n")
    (tmp_path / "logs" / "link").symlink_to(tmp_path)
    found = read(tmp_path / "logs")
    assert [Path(one.name).name for one in found] == ["link", "one"]
    assert "a link to a folder" in reason(tmp_path / "logs")


def test_links_in_an_archive_lead_nowhere(tmp_path: Path) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as made:
        info = tarfile.TarInfo("passwd")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        made.addfile(info)
    (tmp_path / "x.tar").write_bytes(stream.getvalue())
    assert "a link" in reason(tmp_path / "x.tar")


@pytest.mark.parametrize("bound", ["LARGEST_FILE", "LARGEST_ARCHIVE", "MOST_MEMBERS"])
@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_what_is_too_large_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, mode: str
) -> None:
    monkeypatch.setattr(textfiles, bound, 1)
    (tmp_path / "x").write_bytes(archive({"one": b"1", "two": b"22"}, mode))
    assert "more than" in reason(tmp_path / "x")


@settings(
    max_examples=tries(100),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.integers(512, 7 * 512))
def test_an_archive_that_is_cut_loses_nothing_in_silence(tmp_path: Path, place: int) -> None:
    (tmp_path / "x").write_bytes(archive(MEMBERS)[:place])
    require_no_silent_loss(tmp_path / "x")


@pytest.mark.parametrize("header", [0, 2])
@pytest.mark.parametrize("byte", [0, 100, 148, 257, 263])
def test_an_archive_with_a_damaged_header_loses_nothing_in_silence(
    tmp_path: Path, header: int, byte: int
) -> None:
    content = bytearray(archive(MEMBERS))
    content[header * 512 + byte] ^= 0xFF
    (tmp_path / "x").write_bytes(content)
    require_no_silent_loss(tmp_path / "x")


def require_no_silent_loss(path: Path) -> None:
    found = read(path)
    whole = [one.text.encode() for one in found if isinstance(one, Text)]
    assert whole == list(MEMBERS.values()) or any(isinstance(one, Unread) for one in found)


def test_a_closed_standard_input_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert list(read_all(["-"])) == [Unread("-", "standard input is closed")]
