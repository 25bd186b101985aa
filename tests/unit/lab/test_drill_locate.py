"""The drills of located faults go on where they broke off, and count what was right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.lab import drill_locate


@pytest.fixture(autouse=True)
def _runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drill_locate, "RUNS", tmp_path / "drill-locate.jsonl")


def ran(drill: str, right: bool = True, seconds: float = 20.0) -> dict[str, Any]:
    named = "node n2" if right else "nobody"
    return {"drill": drill, "right": right, "rounds": 2, "seconds": seconds, "named": named}


def test_by_turns_what_is_there_counts() -> None:
    assert drill_locate.still_to_run(["mtu", "off"], 2) == ["mtu", "off", "mtu", "off"]
    drill_locate.keep(ran("mtu"))
    assert drill_locate.still_to_run(["mtu", "off"], 2) == ["off", "mtu", "off"]


def test_the_table_has_what_was_right_and_the_spread_and_leaves_out_what_never_ran() -> None:
    for line in (ran("mtu"), ran("mtu", seconds=30), ran("mtu", right=False, seconds=40)):
        drill_locate.keep(line)
    *_, line = drill_locate.table(list(drill_locate.DRILLS)).splitlines()
    assert "2 of 3 | 2: node n2; 1: nobody | 2 | 2 to 2 | 30 | 20 to 40 |" in line


@pytest.mark.parametrize(
    ("kind", "name", "found"),
    [
        ("node", "n2", {"n2"}),
        ("rail", "n2:rxe0", {"n2"}),
        ("leaf", "leaf1", {"leaf1"}),
        ("uplink", "leaf1:spine2", {"leaf1"}),
        ("pair", "n2-n3", {"n2-n3"}),
    ],
)
def test_an_uplink_counts_as_its_leaf_and_a_rail_as_its_node(
    kind: str, name: str, found: set[str]
) -> None:
    suspect = {"kind": kind, "name": name, "nodes": ["n2"]}
    assert drill_locate.named([suspect]) == found


#: Nothing of it is used: faults and acceptance are replaced.
LAB: Any = None


@pytest.fixture
def area(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where runs leave results; each run of a drill begins with nothing there."""
    monkeypatch.setattr(drill_locate, "AREA", tmp_path / "drills")
    monkeypatch.setattr(drill_locate.paths, "HOME", tmp_path)

    def accept(place: Path, drill: drill_locate.Drill) -> dict[str, Any]:
        assert list(place.iterdir()) == []
        (place / "campaign").touch()
        n2 = {"kind": "node", "name": "n2", "nodes": ["n2"], "confirmed": True}
        return {"verdict": "reject", "suspects": [n2]}

    monkeypatch.setattr(drill_locate, "accept", accept)
    monkeypatch.setattr(drill_locate.faults, "add_typed", lambda *_: None)
    monkeypatch.setattr(drill_locate.faults, "clear", lambda *_: None)
    return tmp_path / "drills"


def test_what_a_wrong_run_left_stays_where_the_next_one_does_not_remove_it(
    area: Path, tmp_path: Path
) -> None:
    kept = [drill_locate.run(LAB, "mtu")["kept"] for _ in range(2)]
    assert len(set(kept)) == 2
    assert all((tmp_path / where / "campaign").exists() for where in kept)


def test_what_a_broken_run_left_stays_too(area: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def accept(place: Path, drill: drill_locate.Drill) -> dict[str, Any]:
        (place / "campaign").touch()
        raise AssertionError("no verdict")

    monkeypatch.setattr(drill_locate, "accept", accept)
    with pytest.raises(AssertionError, match="no verdict"):
        drill_locate.run(LAB, "mtu")
    assert len(list(area.glob("wrong/mtu-*/campaign"))) == 1


def test_a_right_run_keeps_nothing_aside(area: Path) -> None:
    assert "kept" not in drill_locate.run(LAB, "shaped-link")
    assert not (area / "wrong").exists()
