"""ReFrame's results database after a kill in the middle of making it."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from railgauge.systems import history, reframe_settings


def made(path: Path, *tables: str) -> Path:
    with contextlib.closing(sqlite3.connect(path)) as database:
        for table in tables:
            database.execute(f"CREATE TABLE {table}(uuid TEXT)")
        database.commit()
    path.touch()
    return path


@pytest.mark.parametrize("tables", [(), ("sessions",)], ids=["empty", "first-table"])
def test_what_a_kill_left_is_gone_before_reframe_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tables: tuple[str, ...]
) -> None:
    """Its settings come before its storage, which takes a file that exists for a whole one."""
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(tmp_path))
    database = made(tmp_path / "history.db", *tables)
    configuration = reframe_settings.site_configuration()
    assert configuration["storage"][0]["sqlite_db_file"] == str(database)
    assert not database.exists()


def test_a_database_with_results_and_what_is_none_are_left_alone(tmp_path: Path) -> None:
    whole = made(tmp_path / "whole.db", "sessions", "testcases", "metadata")
    other = tmp_path / "other.db"
    other.write_bytes(b"not a database " * 100)
    for path in (whole, other, tmp_path / "none.db"):
        before = path.read_bytes() if path.exists() else None
        history.drop_half_made(path)
        assert (path.read_bytes() if path.exists() else None) == before
