"""Journals in the store: what is saved is read again, and no other file counts as one."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge.cluster import store
from railgauge.common.errors import PrerequisiteError
from railgauge.gate import journal
from railgauge.gate.journal import Run


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(tmp_path))
    store.publish_rules("lab")
    return store.folder("lab") / "runs"


def begun(**fields: object) -> Run:
    one = Run("20261128T120000Z_abcd", "lab", ["n1"], ["n2"], "now", "root")
    for name, value in fields.items():
        setattr(one, name, value)
    one.save()
    return one


def test_what_is_saved_is_read_again(runs: Path) -> None:
    assert [begun(decided={"n1": "slow"})] == journal.runs("lab") and not journal.lost("lab")


@given(st.integers(min_value=0, max_value=400))
def test_the_beginning_of_a_journal_is_damaged(length: int) -> None:
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setenv("RAILGAUGE_RESULTS", folder)
        store.publish_rules("lab")
        path = store.folder("lab") / "runs" / f"{begun().id}.json"
        content = path.read_bytes().rstrip()
        path.write_bytes(content[: min(length, len(content) - 1)])
        assert not journal.runs("lab")
        [lost] = journal.lost("lab")
        assert lost.damaged and str(path) in lost.words


def test_a_copy_of_a_journal_is_none(runs: Path) -> None:
    one = begun()
    copy = runs / f"{one.id}.orig.json"
    shutil.copy(runs / f"{one.id}.json", copy)
    one.ended = "later"
    one.save()
    assert journal.unended("lab") is None
    [lost] = journal.lost("lab")
    assert lost.path == copy
    assert lost.why == f"id: found {one.id}, expected the name of the file"


def test_a_journal_that_the_store_keeps_is_one_message(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (runs / "20261128T120000Z_abcd.json").write_text("{")
    [lost] = journal.lost("lab")

    def refused(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "replace", refused)
    with pytest.raises(PrerequisiteError, match="Read-only file system"):
        lost.set_aside()


def test_no_journal_makes_a_store_that_is_not_there(runs: Path) -> None:
    """Its file system is not mounted: what is written then is hidden once it is."""
    shutil.rmtree(runs.parent)
    with pytest.raises(PrerequisiteError, match="cannot be written"):
        begun()
    assert not runs.parent.exists()
