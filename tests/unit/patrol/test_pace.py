"""Whether patrols come often enough."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from railgauge.acceptance import session
from railgauge.cli import cli
from railgauge.cluster import store
from railgauge.patrol import pace, run
from railgauge.patrol.choose import (
    Candidate,
    Way,
    choose,
    leaves_at_once,
    patrols_to_meet,
    ways_of,
)
from railgauge.patrol.journal import Patrol
from railgauge.slurm import jobs as slurm_jobs
from tests.command_line import invoke
from tests.unit.report.feeds.test_schemas import require

NOW = datetime.datetime(2026, 11, 22, 12, tzinfo=datetime.timezone.utc)
LEAVES = tuple(f"leaf{number}" for number in range(1, 9))


@pytest.fixture
def results(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("RAILGAUGE_RESULTS", str(tmp_path))
    return tmp_path


def fleet_of(leaves: Sequence[str], of_each: int = 2) -> run.Fleet:
    """Nodes on these leaves, that all are idle."""
    nodes = [Candidate(f"{leaf}-{i}", leaf, 1.0) for leaf in leaves for i in range(of_each)]
    return run.Fleet({"ns": nodes}, {}, 8, {"ns": set(leaves)} if leaves != [""] else {})


def measured(days_ago: float, *ways: Way) -> None:
    """A patrol that has measured these ways."""
    stamp = (NOW - datetime.timedelta(days=days_ago)).strftime("%Y%m%dT%H%M%SZ")
    store.folder("lab").mkdir(parents=True, exist_ok=True)
    lists: dict[str, Any] = {"nodes": [], "leaves": {}, "risks": {}}
    Patrol(f"{stamp}-000001", "lab", stamp, "me", "ns", **lists, cover=True, ways=list(ways)).save()


def test_the_ways_measured_lately_are_counted(results: Path) -> None:
    measured(2, ("leaf1", "leaf2"), ("leaf1", "leaf3"))
    measured(3, ("leaf1", "leaf2"), ("leaf1", "leaf9"))
    measured(8, ("leaf3", "leaf4"))
    paced = pace.of("lab", fleet_of(LEAVES), 8, 7, NOW)
    assert (paced.measured_ways, paced.system_ways) == (2, 28)


def test_ways_may_need_more_patrols_than_nodes_do(results: Path) -> None:
    # 16 nodes are two patrols, and the 28 ways six.
    assert pace.of("lab", fleet_of(LEAVES), 8, 1, NOW).patrols_a_day == 6


def test_nodes_may_need_more_patrols_than_ways_do(results: Path) -> None:
    assert pace.of("lab", fleet_of(LEAVES[:4], of_each=8), 8, 1, NOW).patrols_a_day == 4


def test_leaves_that_are_not_known_have_no_ways(results: Path) -> None:
    paced = pace.of("lab", fleet_of([""], of_each=16), 8, 1, NOW)
    assert (paced.measured_ways, paced.system_ways, paced.patrols_a_day) == (0, 0, 2)


@pytest.mark.parametrize(("leaves", "at_once"), [(4, 2), (7, 3), (8, 4), (13, 4), (20, 5)])
def test_patrols_meet_all_leaves_in_about_as_many_as_the_pace_says(
    leaves: int, at_once: int
) -> None:
    names = [f"leaf{number:02}" for number in range(leaves)]
    days = {f"{leaf}-{i}": math.inf for leaf in names for i in range(2)}
    ways: dict[Way, float] = {}
    patrols = 0
    while len(ways) < len(ways_of(names)):
        patrols += 1
        fleet = [Candidate(node, node[:6], waited) for node, waited in days.items()]
        chosen = choose(fleet, 2 * at_once, 2, ways).nodes
        days = {node: 1.0 if node in chosen else waited + 1 for node, waited in days.items()}
        ways = {way: waited + 1 for way, waited in ways.items()}
        ways |= dict.fromkeys(ways_of({node[:6] for node in chosen}), 1.0)
    least = patrols_to_meet(leaves, leaves_at_once(2 * at_once))
    assert least <= patrols <= 3 * least


@pytest.mark.parametrize("as_json", [False, True])
def test_a_plan_says_how_many_ways_were_measured(
    results: Path, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    monkeypatch.setattr(session, "in_lab", lambda _: False)
    monkeypatch.setattr(slurm_jobs, "preempts", lambda: True)
    monkeypatch.setattr(run, "survey", lambda *_: fleet_of(LEAVES))
    monkeypatch.setattr(run, "plan", lambda *_: None)
    words = ["patrol", "--system", "lab", "--plan", *(["--json"] if as_json else [])]
    answer = invoke(cli, words)
    assert answer.exit_code == 0, answer.output
    if as_json:
        document = json.loads(answer.stdout)
        require("patrol", document)
        assert (document["measured_ways"], document["system_ways"]) == (0, 28)
    else:
        assert "0 of 28 ways between leaves measured in the last 7 days" in answer.output
