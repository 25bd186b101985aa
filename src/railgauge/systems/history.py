"""ReFrame's results database: what a kill left in the middle of making it."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

#: The tables that hold results; ReFrame makes them one after the other, in a file that is there.
_TABLES = ("sessions", "testcases")


def drop_half_made(history: Path) -> None:
    """Remove a database that lacks its tables, and so has no results; nothing else is touched.

    ReFrame takes a file that exists for one that is whole: a session that was killed as it made it
    would end every later one with "no such table".
    """
    from reframe.utility.osext import ReadWriteFileLock

    if not history.exists() or _is_whole(history):
        return
    # Under ReFrame's own lock: another session may be making it now.
    with ReadWriteFileLock(str(history.parent / ".db.lock"), 0o644).write_lock():
        if history.exists() and not _is_whole(history):
            history.unlink()
            history.with_name(f"{history.name}-journal").unlink(missing_ok=True)


def _is_whole(history: Path) -> bool:
    """Whether its tables are there; True where SQLite cannot say, which ReFrame then reports."""
    try:
        # One that has gone meanwhile is not made here.
        address = f"{history.absolute().as_uri()}?mode=rw"
        with contextlib.closing(sqlite3.connect(address, uri=True)) as database:
            found = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            return {name for (name,) in found} >= set(_TABLES)
    except sqlite3.Error:
        return True
