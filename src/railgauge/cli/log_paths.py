"""What people name where logs can be given: files, folders, patterns, campaigns, tables."""

from __future__ import annotations

import glob
import re
from pathlib import Path
from typing import Literal

from railgauge.common.errors import RailgaugeError

Kind = Literal["logs", "table", "campaign"]

#: So much of a file's beginning shows whether it is a table.
_HEAD = 4096


def expand(word: str) -> list[str]:
    """The paths of a word: itself, those of a pattern in natural order, or several with commas
    between them. RailgaugeError where a pattern matches nothing.
    """
    from railgauge.common.names import natural

    if word == "-" or exists(word):
        return [word]
    paths: list[str] = []
    for part in word.split(","):
        if glob.has_magic(part) and not exists(part):
            # An absolute pattern is none of Path.glob.
            found = sorted(glob.glob(part, recursive=True), key=natural)  # noqa: PTH207
            if not found:
                raise RailgaugeError(
                    f"{part}: no file matches this pattern", next_step="ls; quote a pattern"
                )
            paths += found
        else:
            paths.append(part)
    return paths


def kind_of(path: str, columns: tuple[str, ...]) -> Kind:
    """What a path is: a table has its first line's columns; what does not exist is the name of a
    campaign, if it does not end like a table.
    """
    if path == "-":
        return "logs"
    if not exists(path):
        return "table" if path.endswith(".csv") else "campaign"
    if Path(path).is_dir():
        if path.endswith(".csv"):
            return "table"
        return "campaign" if Path(path, "campaign.json").exists() else "logs"
    return "table" if _is_table(Path(path), columns) else "logs"


def exists(path: str) -> bool:
    """Whether there is a file, folder or pipe of that name."""
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        # Such as a name that is too long: what reads it says so.
        return False


def is_seekable(path: str) -> bool:
    """Whether a path can be read twice, which a pipe and standard input cannot."""
    return path != "-" and (Path(path).is_file() or Path(path).is_dir())


def _is_table(path: Path, columns: tuple[str, ...]) -> bool:
    # A pipe cannot be read twice.
    if not path.is_file():
        return False
    try:
        with path.open("rb") as stream:
            head = stream.read(_HEAD)
    except OSError:
        return path.suffix == ".csv"
    text = head.decode("utf-8", errors="replace")
    if path.suffix != ".csv" or has_columns(text, columns):
        return has_columns(text, columns)
    from railgauge.tools import recognize

    return not recognize.recognize(text)


def has_columns(text: str, columns: tuple[str, ...]) -> bool:
    """Whether the first line that is no remark is a heading with these columns."""
    lines = text.removeprefix("\ufeff").lower().splitlines()
    heading = next((line for line in lines if line.strip() and not line.startswith("#")), "")
    return all(re.search(rf"(?<!\w){column}(?!\w)", heading) for column in columns)
