"""The texts in what a person names: files, folders, archives and standard input, by content.

All of it is bounded, and nothing of an archive is written. What cannot be read is named with its
reason.
"""

from __future__ import annotations

import codecs
import gzip
import os
import stat
import sys
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from railgauge import textfile
from railgauge.common.errors import RailgaugeError

#: The most bytes of a file, of all that an archive holds, and of its members.
LARGEST_FILE = 256 * 2**20
#: A text file above this is offered piece by piece.
LARGE_FILE = 16 * 2**20
LARGEST_ARCHIVE = 1024 * 2**20
MOST_MEMBERS = 100_000

_GZIP = b"\x1f\x8b"
_OTHERS = {
    b"PK\x03\x04": "a zip archive",
    b"\xfd7zXZ\x00": "compressed by xz",
    b"\x28\xb5\x2f\xfd": "compressed by zstd",
    b"BZh": "compressed by bzip2",
}
_HEADER = 512
_PIECE = 4 * 2**20


class Text(NamedTuple):
    name: str
    text: str


class Unread(NamedTuple):
    name: str
    reason: str


class Large(NamedTuple):
    """A text file that is better not held in one piece."""

    name: str
    path: Path

    def pieces(self) -> Iterator[str]:
        """The text in pieces of some MiB, not cut at lines."""
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        with self.path.open("rb") as stream:
            while content := stream.read(_PIECE):
                yield decoder.decode(content)
        yield decoder.decode(b"", final=True)

    def whole(self) -> Text | Unread:
        """All of it at once, or why it cannot be read."""
        try:
            with self.path.open("rb") as stream:
                return _text(self.name, stream.read(LARGEST_FILE + 1))
        except OSError as error:
            return Unread(self.name, error.strerror or str(error))


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _TooLargeError(Exception):
    pass


def read_all(paths: Sequence[str]) -> Iterator[Text | Large | Unread]:
    """The texts of files, of all files below folders, of archives (tar, tar.gz) and of `-`, which
    is standard input. Below a folder names that begin with a dot are passed over.
    """
    for path in paths:
        if path == "-":
            if sys.stdin is None:
                yield Unread("-", "standard input is closed")
            else:
                yield from _opened("-", sys.stdin.buffer)
        else:
            yield from _of_path(Path(path))


def _of_path(path: Path) -> Iterator[Text | Large | Unread]:
    try:
        status = path.stat()
        mode = status.st_mode
        if stat.S_ISDIR(mode):
            yield from _below(path)
        elif stat.S_ISSOCK(mode) or (stat.S_ISFIFO(mode) and _has_name(path)):
            # One that no process has open to write would be waited for.
            yield Unread(str(path), "not a file")
        elif stat.S_ISREG(mode) and LARGE_FILE < status.st_size <= LARGEST_FILE:
            yield from _large(path)
        else:
            with path.open("rb") as stream:
                yield from _opened(str(path), stream)
    except OSError as error:
        yield Unread(str(path), error.strerror or str(error))


def _large(path: Path) -> Iterator[Text | Large | Unread]:
    with path.open("rb") as stream:
        head = stream.read(_HEADER)
        if head.startswith(_GZIP) or _is_tar(head):
            stream.seek(0)
            yield from _opened(str(path), stream)
            return
    kind = _text(str(path), head)
    yield Large(str(path), path) if isinstance(kind, Text) else kind


def _has_name(pipe: Path) -> bool:
    """One that is open already, as `/dev/fd/63` of a shell's `<(...)`, has none."""
    return Path(os.path.realpath(pipe)).exists()


def _below(folder: Path) -> Iterator[Text | Large | Unread]:
    failed: list[OSError] = []
    empty = True
    for where, folders, names in os.walk(folder, onerror=failed.append):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for path in (Path(where, name) for name in folders):
            if path.is_symlink():
                empty = False
                yield Unread(str(path), "a link to a folder: name it to have it read")
        for path in (Path(where, name) for name in sorted(names) if not name.startswith(".")):
            empty = False
            yield from _of_path(path)
    if empty and not failed:
        yield Unread(str(folder), "a folder without files")
    for error in failed:
        yield Unread(str(error.filename), str(error.strerror))


def _opened(name: str, stream: _Readable) -> Iterator[Text | Unread]:
    head = stream.read(_HEADER)
    whole = _Joined(head, stream)
    if head.startswith(_GZIP):
        yield from _unpacked(name, whole)
    elif _is_tar(head):
        yield from _members(name, whole)
    else:
        try:
            yield _text(name, whole.read(LARGEST_FILE + 1))
        except OSError as error:
            yield Unread(name, error.strerror or str(error))


def _unpacked(name: str, stream: _Readable) -> Iterator[Text | Unread]:
    try:
        with gzip.GzipFile(fileobj=stream) as unpacked:  # type: ignore[call-overload]
            head = unpacked.read(_HEADER)
            whole = _Joined(head, unpacked)
            if _is_tar(head):
                yield from _members(name, whole)
            else:
                yield _text(name, whole.read(LARGEST_FILE + 1))
    except (OSError, EOFError, zlib.error) as error:
        yield Unread(name, f"not a whole gzip file: {error}")


def _is_tar(head: bytes) -> bool:
    return head[257:262] == b"ustar"


def _text(name: str, content: bytes) -> Text | Unread:
    if len(content) > LARGEST_FILE:
        return Unread(name, f"more than {LARGEST_FILE // 2**20} MiB")
    for magic, kind in _OTHERS.items():
        if content.startswith(magic):
            return Unread(name, f"{kind}: unpack it")
    if _is_tar(content[:_HEADER]) or content.startswith(_GZIP):
        return Unread(name, "an archive within an archive: unpack it")
    try:
        textfile.refuse_utf16(Path(name), content)
    except RailgaugeError as error:
        return Unread(name, f"{error.message.removeprefix(f'{name}: ')}: {error.next_step}")
    if b"\0" in content[:8192]:
        return Unread(name, "not a text")
    return Text(name, content.decode("utf-8", errors="replace"))


# ---- archives ------------------------------------------------------------------------------


class _Joined:
    """A stream with its first bytes already read."""

    def __init__(self, head: bytes, rest: _Readable) -> None:
        self._head = head
        self._rest = rest

    def read(self, size: int, /) -> bytes:
        taken, self._head = self._head[:size], self._head[size:]
        return taken + self._rest.read(size - len(taken)) if len(taken) < size else taken


class _Counted:
    """An archive's bytes, up to the bound; and how far it is more than zeros."""

    def __init__(self, stream: _Readable) -> None:
        self._stream = stream
        self.count = self.filled = 0

    def read(self, size: int) -> bytes:
        content = self._stream.read(size)
        if used := len(content.rstrip(b"\0")):
            self.filled = self.count + used
        self.count += len(content)
        if self.count > LARGEST_ARCHIVE:
            raise _TooLargeError
        return content


def _members(name: str, stream: _Readable) -> Iterator[Text | Unread]:
    counted = _Counted(stream)
    try:
        with tarfile.open(fileobj=counted, mode="r|") as archive:  # type: ignore[call-overload]
            for number, member in enumerate(archive):
                if number >= MOST_MEMBERS:
                    yield Unread(name, f"more than {MOST_MEMBERS} members")
                    return
                if not member.isdir():
                    yield _member(f"{name}:{member.name}", archive, member)
            end = archive.offset
        while counted.read(tarfile.RECORDSIZE):
            pass
        # Where a header is damaged or missing tarfile ends, too, and says nothing.
        if counted.filled > end or counted.count <= end:
            yield Unread(name, "the archive is damaged or cut: it has no end")
    except _TooLargeError:
        yield Unread(name, f"more than {LARGEST_ARCHIVE // 2**20} MiB in the archive")
    except (tarfile.TarError, OSError, EOFError, zlib.error, ValueError) as error:
        yield Unread(name, f"the archive is damaged or cut: {error}")


def _member(name: str, archive: tarfile.TarFile, member: tarfile.TarInfo) -> Text | Unread:
    if not member.isreg() or member.issparse():
        return Unread(name, "a link, or no usual file")
    if member.size > LARGEST_FILE:
        return Unread(name, f"more than {LARGEST_FILE // 2**20} MiB")
    stream = archive.extractfile(member)
    return _text(name, stream.read() if stream else b"")
