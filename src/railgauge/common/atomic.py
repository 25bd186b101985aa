"""Files that are there whole or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def temporary_name(path: Path) -> Path:
    """A file next to it that no other process writes: of two hosts, or of containers of equal
    names, two processes may have the same number.
    """
    process = f"{os.uname().nodename}.{os.getpid()}.{os.urandom(4).hex()}"
    return path.with_name(f".{path.name}.{process}")


def write_bytes(path: Path, content: bytes) -> None:
    """Write next to `path` and rename; a crash or a full disk leaves what was there before.

    A link stays one, and its file is replaced. What is no regular file, a device, a pipe or this
    process's own output, is written to.
    """
    folder = os.path.realpath(path.parent)
    own_output = folder == "/dev" or folder.startswith("/proc/")
    if own_output or (path.exists() and not path.is_file()):
        # What was in a file that is behind /dev/stdout stays there.
        with path.open("ab") as stream:
            stream.write(content)
        return
    if path.is_symlink():
        path = Path(os.path.realpath(path))
    temporary = temporary_name(path)
    try:
        with temporary.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """The same of a text, in UTF-8."""
    write_bytes(path, text.encode())


def write_json(path: Path, document: Any) -> None:
    write_text(path, json.dumps(document, indent=2, allow_nan=False) + "\n")
