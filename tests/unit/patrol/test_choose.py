"""Which nodes a patrol tests."""

from __future__ import annotations

import dataclasses
import math

from hypothesis import given
from hypothesis import strategies as st

from railgauge.patrol.choose import Candidate, Way, choose, due_after_restart, ways_of

DAYS = st.one_of(st.just(math.inf), st.floats(0, 1000))


def four_leaves(days: float = 1.0) -> list[Candidate]:
    return [Candidate(f"n{i}", f"leaf{(i - 1) // 8 + 1}", days) for i in range(1, 33)]


@st.composite
def fleets(draw: st.DrawFn) -> list[Candidate]:
    count, leaves = draw(st.integers(0, 40)), draw(st.integers(0, 6))
    return [
        Candidate(
            f"n{number}",
            f"leaf{draw(st.integers(1, leaves))}" if leaves else "",
            draw(DAYS),
            tuple(draw(st.lists(st.sampled_from(["changed", "beside a suspect"]), max_size=2))),
        )
        for number in range(count)
    ]


@given(fleets(), st.integers(1, 12), st.integers(0, 4))
def test_never_more_than_asked_for_and_no_other_node(
    fleet: list[Candidate], most: int, least: int
) -> None:
    chosen = choose(fleet, most, least, {}).nodes
    assert len(chosen) <= most and len(set(chosen)) == len(chosen)
    assert set(chosen) <= {one.node for one in fleet}
    assert not chosen or len(chosen) >= max(least, 2)


@given(fleets(), st.integers(2, 12), st.integers(0, 4))
def test_where_enough_are_idle_nodes_are_tested(
    fleet: list[Candidate], most: int, least: int
) -> None:
    enough = min(most, len(fleet)) >= max(least, 2)
    assert bool(choose(fleet, most, least, {}).nodes) == enough


@given(fleets(), st.integers(2, 12))
def test_the_most_urgent_node_is_among_them(fleet: list[Candidate], most: int) -> None:
    chosen = choose(fleet, most, 2, {}).nodes
    if chosen:
        highest = max(one.urgency for one in fleet)
        assert any(one.urgency == highest for one in fleet if one.node in chosen)


def test_a_risk_makes_a_node_due_sooner() -> None:
    fleet = [*(Candidate(f"n{i}", days=3) for i in range(5)), Candidate("n9", "", 1, ("changed",))]
    assert "n9" in choose(fleet, 2, 2, {}).nodes


def test_a_node_at_risk_does_not_starve_the_others() -> None:
    days = {f"n{i}": 10.0 for i in range(12)}
    seen: set[str] = set()
    for _ in range(30):
        fleet = [Candidate(n, "", d, ("changed",) if n < "n3" else ()) for n, d in days.items()]
        chosen = choose(fleet, 3, 2, {}).nodes
        seen |= set(chosen)
        days = {n: 0.0 if n in chosen else d + 1 for n, d in days.items()}
    assert seen == set(days)


def test_a_node_that_failed_across_leaves_is_tested_again_on_its_own() -> None:
    fleet = [dataclasses.replace(one, retest=one.node == "n13") for one in four_leaves()]
    choice = choose(fleet, 4, 3, {})
    assert not choice.cover and choice.nodes == ("n10", "n11", "n12", "n13")


def test_where_its_leaf_has_too_few_it_is_tested_with_others() -> None:
    others = [one for one in four_leaves() if one.leaf != "leaf2"]
    fleet = [*others, Candidate("n13", "leaf2", 1.0, retest=True), Candidate("n14", "leaf2")]
    assert choose(fleet, 4, 3, {}).cover


def test_leaves_are_covered() -> None:
    choice = choose(four_leaves(), 8, 3, {})
    assert choice.cover
    of_leaf = {one.node: one.leaf for one in four_leaves()}
    assert sorted(of_leaf[node] for node in choice.nodes) == sorted(
        f"leaf{number}" for number in (1, 2, 3, 4) for _ in range(2)
    )


def test_nodes_of_one_leaf_cover_nothing() -> None:
    assert not choose(four_leaves()[:8], 8, 3, {}).cover


def test_the_way_that_waits_longest_is_taken() -> None:
    ways: dict[Way, float] = dict.fromkeys(ways_of([f"leaf{i}" for i in (1, 2, 3, 4)]), 1.0)
    fleet = [Candidate("n0", "leaf1", 9.0), *four_leaves()]
    chosen = choose(fleet, 4, 3, {**ways, ("leaf1", "leaf3"): 8.0}).nodes
    of_leaf = {one.node: one.leaf for one in fleet}
    assert {of_leaf[node] for node in chosen} == {"leaf1", "leaf3"}


@given(st.integers(2, 12), st.integers(2, 8), st.integers(4, 12), st.randoms())
def test_in_the_end_every_node_and_every_way_was_seen(
    leaves: int, of_each: int, most: int, chance: object
) -> None:
    """Of nodes that are idle half of the time; a run an hour."""
    days = {f"n{leaf}-{i}": math.inf for leaf in range(leaves) for i in range(of_each)}
    ways: dict[Way, float] = {}
    names = [f"leaf{leaf:02}" for leaf in range(leaves)]
    runs = 40 * (len(days) // most + len(ways_of(names)) + 1)
    hour = 1 / 24
    for _ in range(runs):
        idle = [n for n in days if chance.random() < 0.5]  # type: ignore[attr-defined]
        fleet = [Candidate(n, f"leaf{int(n[1:].split('-')[0]):02}", days[n]) for n in idle]
        choice = choose(fleet, most, 2, ways)
        of_leaf = {one.node: one.leaf for one in fleet}
        days = {n: hour if n in choice.nodes else d + hour for n, d in days.items()}
        ways = {w: d + hour for w, d in ways.items()}
        ways |= dict.fromkeys(ways_of({of_leaf[n] for n in choice.nodes}), hour)
        if math.inf not in days.values() and len(ways) == len(ways_of(names)):
            return
    raise AssertionError("a node or a way was never seen")


RESTARTS = st.dictionaries(
    st.integers(0, 200).map("n{}".format), st.floats(0, 1e5), min_size=1, max_size=80
)


@given(RESTARTS, st.integers(1, 8), st.floats(0, 900), st.floats(60, 7200))
def test_after_a_mass_restart_a_few_have_their_turn_at_a_time(
    restarted: dict[str, float], most: int, settle: float, turn: float
) -> None:
    due = due_after_restart(restarted, most, settle, turn)
    assert due.keys() == restarted.keys()
    assert all(due[node] >= moment + settle for node, moment in restarted.items())
    moments = sorted(due.values())
    for first, later in zip(moments, moments[most:], strict=False):
        assert later - first >= turn * 0.999


@given(RESTARTS, st.floats(0, 900))
def test_a_node_that_restarts_among_few_waits_only_until_it_has_settled(
    restarted: dict[str, float], settle: float
) -> None:
    due = due_after_restart(restarted, len(restarted), settle, 3600)
    assert due == {node: moment + settle for node, moment in restarted.items()}
