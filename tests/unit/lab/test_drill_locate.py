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
