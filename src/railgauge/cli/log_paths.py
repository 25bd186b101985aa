"""What people name where logs can be given: files, folders, patterns, archives, campaigns, tables."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import Literal

from railgauge.errors import RailgaugeError

Kind = Literal["logs", "table", "campaign"]

#: So much of a file's beginning shows whether it is a table.
_HEAD = 4096


def expand(word: str) -> list[str]:
    """The paths of a word: itself, those of a pattern in natural order, or several with commas
    between them. RailgaugeError where a pattern matches nothing.
    """
    from railgauge.names import natural

    if word == "-" or _exists(word):
        return [word]
    paths: list[str] = []
    for part in word.split(","):
        if glob.has_magic(part) and not _exists(part):
            found = sorted(glob.glob(part, recursive=True), key=natural)
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
    if not _exists(path):
        return "table" if path.endswith(".csv") else "campaign"
    if Path(path).is_dir():
        if path.endswith(".csv"):
            return "table"
        return "campaign" if Path(path, "campaign.json").exists() else "logs"
    return "table" if _is_table(Path(path), columns) else "logs"


def _exists(path: str) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        # Such as a name that is too long: what reads it says so.
        return False


def _is_table(path: Path, columns: tuple[str, ...]) -> bool:
    """A pipe cannot be read twice, and counts as what its name says."""
    if not path.is_file():
        return path.suffix == ".csv"
    try:
        with path.open("rb") as stream:
            head = stream.read(_HEAD)
    except OSError:
        return path.suffix == ".csv"
    text = head.decode("utf-8", errors="replace").removeprefix("\ufeff").lower()
    names = [line for line in text.splitlines() if line.strip() and not line.startswith("#")][:1]
    has_columns = bool(names) and all(column in names[0] for column in columns)
    if path.suffix != ".csv":
        return has_columns
    from railgauge.tools import recognize

    return has_columns or not recognize.recognize(text)
