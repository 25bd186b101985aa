"""A changed node that was not held is shown until it is held, tested, or as it was accepted."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from railgauge.cluster import store
from railgauge.gate import coverage
from railgauge.node import gate as node_gate

from .cluster import Slurm, said, taken

WHY = "changed, and not held: max_hold, 2 in 900 s, is reached: firmware changed: kernel/release"


@pytest.fixture(autouse=True)
def three_changed(area: Path, nodes: Slurm) -> None:
    """Of three changed nodes two are held."""
    for name in ("n1", "n2", "n3"):
        nodes.kernel[name] = "6.13"
    assert said("hold", "--nodes", "n[1-4]", "--act")[1] == 1
    assert nodes.open() == {"n3", "n4"}


def remarks() -> list[str]:
    now = datetime.datetime.now(datetime.timezone.utc)
    (line,) = coverage.lines("lab", ["n3"], {}, now)
    return line.remarks


def test_status_and_coverage_show_it(nodes: Slurm) -> None:
    words, _ = said("status")
    shown = [line for line in words.splitlines() if WHY in line]
    assert [line.split()[0] for line in shown] == ["n3"]
    assert "n3: changed since it was accepted, and not held\n  next: raise max_hold" in words
    assert any(WHY in remark for remark in remarks())


def test_what_would_be_done_notes_nothing(nodes: Slurm) -> None:
    nodes.kernel["n4"] = "6.13"
    said("hold", "--nodes", "n4")
    assert store.not_held("lab", "n4") == ""


def test_it_is_shown_until_it_is_accepted() -> None:
    store.accept("lab", taken("n3", "6.13"), "run", "a campaign")
    assert WHY not in said("status")[0]


def test_it_is_shown_until_it_is_held(area: Path, nodes: Slurm) -> None:
    (area / node_gate.HOLDS).unlink()
    said("hold", "--nodes", "n3", "--act")
    assert "n3" not in nodes.open() and WHY not in said("status")[0]


def test_it_is_shown_until_it_is_as_it_was_accepted(nodes: Slurm) -> None:
    nodes.kernel["n3"] = "6.12"
    said("hold", "--nodes", "n3", "--act")
    assert WHY not in said("status")[0]


def test_a_damaged_note_is_one(area: Path) -> None:
    node_gate.not_held_path(area, "n3").write_text("[")
    assert "is damaged" in store.not_held("lab", "n3")
