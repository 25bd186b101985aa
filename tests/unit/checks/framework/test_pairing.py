"""Which two nodes meet in each schedule, on any number of nodes and leaves."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from railgauge.checks.framework import pairing
from railgauge.checks.framework.cases import PairCase
from railgauge.checks.framework.schedule import rounds
from railgauge.model.leaves import Leaves
from railgauge.systems import Sweep
from tests.properties import tries

Pair = tuple[str, str]


def on_leaves(*sizes: int) -> Leaves:
    """So many nodes on each leaf: n1 and following on leaf1."""
    leaf_of = [f"leaf{leaf}" for leaf, size in enumerate(sizes, 1) for _ in range(size)]
    return Leaves({f"n{number}": leaf for number, leaf in enumerate(leaf_of, 1)})


def pairs(leaves: Leaves, schedule: Any, **settings: int) -> list[Pair]:
    sweep = Sweep(schedule=schedule, **settings)
    return pairing.pairs(list(leaves.of_node), leaves, sweep)


def in_rounds(found: Sequence[Pair], leaves: Leaves | None, schedule: Any) -> list[list[Pair]]:
    places = [PairCase("gpu", *ends) for ends in found]
    made = rounds(places, Sweep(schedule=schedule), leaves)
    return [[found[number] for number in numbers] for numbers in made]


def partners(found: Sequence[Pair]) -> dict[str, set[str]]:
    met: dict[str, set[str]] = collections.defaultdict(set)
    for one, other in found:
        met[one].add(other)
        met[other].add(one)
    return met


#: A busy machine is no slow schedule.
QUICK = settings(max_examples=tries(60))

SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=6)
SCHEDULES = st.sampled_from(["neighbours", "quiet", "random", "cover", "shift", "tournament"])


# ---- any schedule ----


@QUICK
@given(SIZES, SCHEDULES)
def test_nobody_meets_himself_and_no_pair_comes_twice(sizes: list[int], schedule: str) -> None:
    found = pairs(on_leaves(*sizes), schedule)
    assert all(one != other for one, other in found)
    assert len(set(found)) == len(found)


@QUICK
@given(SIZES, SCHEDULES)
def test_in_a_round_nobody_has_two_partners(sizes: list[int], schedule: str) -> None:
    leaves = on_leaves(*sizes)
    for members in in_rounds(pairs(leaves, schedule), leaves, schedule):
        busy = [node for ends in members for node in ends]
        assert len(busy) == len(set(busy))


@QUICK
@given(SIZES, SCHEDULES)
def test_no_round_mixes_pairs_within_a_leaf_and_across(sizes: list[int], schedule: str) -> None:
    leaves = on_leaves(*sizes)
    for members in in_rounds(pairs(leaves, schedule), leaves, schedule):
        assert len({leaves.within(ends) for ends in members}) == 1


@QUICK
@given(SIZES, st.sampled_from(["neighbours", "random", "tournament"]))
def test_every_node_is_measured(sizes: list[int], schedule: str) -> None:
    leaves = on_leaves(*sizes)
    found = pairs(leaves, schedule)
    assert set(partners(found)) == (set(leaves.of_node) if sum(sizes) > 1 else set())


@QUICK
@given(SIZES, st.sampled_from(["random", "cover", "tournament"]))
def test_the_number_of_pairs_is_known_before_they_are_made(sizes: list[int], schedule: Any) -> None:
    leaves = on_leaves(*sizes)
    nodes, sweep = list(leaves.of_node), Sweep(schedule=schedule)
    most = pairing.count(nodes, leaves, sweep)
    assert len(pairing.pairs(nodes, leaves, sweep)) <= most


# ---- both directions ----


def roles(found: Sequence[Pair]) -> list[set[str]]:
    """Who is server of any pair, and who client."""
    return [{ends[role] for ends in found} for role in (0, 1)]


#: From two nodes to 70, on one leaf or several; random is measured in one round and in more.
_LEAVES = st.one_of(
    st.lists(st.integers(1, 9), min_size=1, max_size=6),
    st.lists(st.just(8), min_size=1, max_size=8),
    st.integers(2, 70).map(lambda count: [count]),
).filter(lambda sizes: 1 < sum(sizes) <= 70)


@QUICK
@given(_LEAVES, SCHEDULES, st.integers(1, 4), st.booleans())
def test_who_is_measured_is_server_once_and_client_once(
    sizes: list[int], schedule: Any, times: int, are_known: bool
) -> None:
    leaves = on_leaves(*sizes)
    nodes, sweep = list(leaves.of_node), Sweep(schedule=schedule, random_rounds=times)
    found = pairing.pairs(nodes, leaves if are_known else None, sweep)
    serving, sending = roles(found)
    assert serving == sending


@pytest.mark.parametrize("schedule", ["random", "tournament", "cover"])
@pytest.mark.parametrize("count", range(3, 71))
def test_where_nobody_has_one_partner_alone_both_roles_cost_no_round(
    schedule: Any, count: int
) -> None:
    sizes = [count // 4 + (leaf < count % 4) for leaf in range(4)]
    leaves = on_leaves(*[size for size in sizes if size])
    nodes = list(leaves.of_node)
    once = {
        "random": pairing.random_partners(nodes, 3, 1),
        "tournament": pairing.tournament_of_leaves(leaves.groups(nodes)),
        "cover": pairing.cover(leaves.groups(nodes)),
    }[schedule]
    found = pairs(leaves, schedule)
    assert list(map(set, found)) == list(map(set, once))
    assert len(in_rounds(found, leaves, schedule)) == len(in_rounds(once, leaves, schedule))


@pytest.mark.parametrize("count", [2, 8, 32, 70])
def test_a_single_random_round_is_measured_both_ways(count: int) -> None:
    leaves = on_leaves(count)
    found = pairs(leaves, "random", random_rounds=1)
    assert len(in_rounds(found, leaves, "random")) == 2
    assert {ends[::-1] for ends in found} == set(found)


@pytest.mark.parametrize("count", range(3, 71, 2))
def test_two_random_rounds_of_an_odd_number_take_two_more_at_most(count: int) -> None:
    leaves = on_leaves(count)
    found = pairs(leaves, "random", random_rounds=2)
    assert len(found) <= count + 1
    assert len(in_rounds(found, leaves, "random")) <= 4


def test_cover_of_two_leaves_goes_both_ways() -> None:
    leaves = on_leaves(4, 4)
    found = pairs(leaves, "cover")
    assert [len(members) for members in in_rounds(found, leaves, "cover")] == [4, 4]


# ---- neighbours ----


@QUICK
@given(SIZES)
def test_neighbours_are_of_one_leaf_where_it_has_three_nodes(sizes: list[int]) -> None:
    leaves = on_leaves(*sizes)
    groups = leaves.groups(list(leaves.of_node))
    few = {node for group in groups if len(group) < 3 for node in group}
    for ends in pairs(leaves, "neighbours"):
        assert few & set(ends) or leaves.within(ends) == "leaf"


@QUICK
@given(SIZES)
def test_every_node_meets_two_others(sizes: list[int]) -> None:
    leaves = on_leaves(*sizes)
    met = partners(pairs(leaves, "neighbours"))
    assert all(len(met.get(node, ())) >= min(sum(sizes) - 1, 2) for node in leaves.of_node)


def test_rings_of_leaves_take_the_rounds_of_one_ring() -> None:
    leaves = on_leaves(8, 8, 8, 8)
    made = in_rounds(pairs(leaves, "neighbours"), leaves, "neighbours")
    assert [len(members) for members in made] == [16, 16]


def test_nodes_of_small_leaves_are_a_ring_across() -> None:
    found = pairs(on_leaves(1, 3, 2), "neighbours")
    assert found[-3:] == [("n1", "n5"), ("n5", "n6"), ("n6", "n1")]


@pytest.mark.parametrize(
    ("sizes", "ends"),
    [
        ((3, 1, 3), [("n1", "n4"), ("n4", "n7")]),
        ((3, 2), [("n1", "n4"), ("n4", "n5"), ("n5", "n3")]),
        ((1, 3, 1), [("n2", "n1"), ("n1", "n5"), ("n5", "n4")]),
    ],
)
def test_one_or_two_such_nodes_have_partners_on_other_leaves(
    sizes: tuple[int, ...], ends: list[Pair]
) -> None:
    assert pairs(on_leaves(*sizes), "neighbours")[-len(ends) :] == ends


def test_two_nodes_of_two_leaves_meet_both_ways() -> None:
    assert pairs(on_leaves(1, 1), "neighbours") == [("n1", "n2"), ("n2", "n1")]


def test_without_leaves_all_nodes_are_one_ring() -> None:
    found = pairing.pairs(["n1", "n2", "n3"], None, Sweep())
    assert found == [("n1", "n2"), ("n2", "n3"), ("n3", "n1")]


# ---- cover ----


@QUICK
@given(SIZES)
def test_cover_has_pairs_of_every_two_leaves_and_none_within(sizes: list[int]) -> None:
    leaves = on_leaves(*sizes)
    found = pairs(leaves, "cover")
    loaded = {frozenset(leaves.of_node[node] for node in ends) for ends in found}
    names = [f"leaf{number}" for number in range(1, len(sizes) + 1)]
    assert loaded == {frozenset(two) for two in itertools.combinations(names, 2)}


@QUICK
@given(SIZES)
def test_in_cover_every_node_meets_every_other_leaf(sizes: list[int]) -> None:
    leaves = on_leaves(*sizes)
    met = partners(pairs(leaves, "cover"))
    for node, leaf in leaves.of_node.items():
        there = {leaves.of_node[other] for other in met.get(node, ())}
        assert there == set(leaves.of_node.values()) - {leaf}


@QUICK
@given(st.integers(2, 9), st.integers(1, 9))
def test_a_round_of_cover_pairs_all_nodes_of_its_leaves_one_to_one(leaves: int, nodes: int) -> None:
    assume(leaves != 3 or nodes % 2 or nodes == 2)
    known = on_leaves(*[nodes] * leaves)
    made = in_rounds(pairs(known, "cover"), known, "cover")
    # Of two leaves all pairs come both ways.
    count = leaves - 1 + leaves % 2 if leaves > 2 else 2
    assert [len(members) for members in made] == [leaves // 2 * nodes] * count
    for members in made:
        of_leaves = [tuple(known.of_node[node] for node in ends) for ends in members]
        assert len({frozenset(two) for two in of_leaves}) == leaves // 2


@pytest.mark.parametrize("nodes", [4, 6, 8, 32])
def test_cover_of_three_equal_leaves_has_all_nodes_and_all_ways_in_each_round(nodes: int) -> None:
    known = on_leaves(nodes, nodes, nodes)
    made = in_rounds(pairs(known, "cover"), known, "cover")
    assert [len(members) for members in made] == [nodes * 3 // 2] * 2
    for members in made:
        ways = collections.Counter(frozenset(known.of_node[n] for n in ends) for ends in members)
        assert list(ways.values()) == [nodes // 2] * 3


@QUICK
@given(st.integers(2, 9), st.integers(2, 9))
def test_cover_loads_uplinks_in_both_directions(leaves: int, nodes: int) -> None:
    known = on_leaves(*[nodes] * leaves)
    ways = {(known.of_node[a], known.of_node[b]) for a, b in pairs(known, "cover")}
    assert all(way[::-1] in ways for way in ways)


def test_cover_of_unknown_leaves_is_nothing() -> None:
    assert pairing.pairs(["n1", "n2"], None, Sweep(schedule="cover")) == []


# ---- tournament ----


@QUICK
@given(SIZES)
def test_a_tournament_on_leaves_has_every_two_nodes_once(sizes: list[int]) -> None:
    leaves = on_leaves(*sizes)
    found = [frozenset(ends) for ends in pairs(leaves, "tournament")]
    # Two nodes that are all there is meet both ways.
    assert len(found) == len(set(found)) * (2 if sum(sizes) == 2 else 1)
    assert set(found) == {frozenset(two) for two in itertools.combinations(leaves.of_node, 2)}


def test_a_tournament_on_leaves_takes_one_round_less_than_nodes() -> None:
    leaves = on_leaves(8, 8, 8, 8)
    assert len(in_rounds(pairs(leaves, "tournament"), leaves, "tournament")) == 31


# ---- random ----


@QUICK
@given(SIZES, st.integers(0, 99))
def test_the_same_seed_is_the_same_pairs(sizes: list[int], seed: int) -> None:
    leaves = on_leaves(*sizes)
    assert pairs(leaves, "random", seed=seed) == pairs(leaves, "random", seed=seed)


def test_another_seed_is_other_pairs() -> None:
    leaves = on_leaves(8, 8)
    assert pairs(leaves, "random", seed=1) != pairs(leaves, "random", seed=2)


@QUICK
@given(st.integers(2, 40), st.integers(1, 5), st.integers(0, 99))
def test_random_gives_every_node_as_many_partners_as_rounds(
    count: int, times: int, seed: int
) -> None:
    names = [f"n{number}" for number in range(count)]
    found = pairing.random_partners(names, times, seed)
    met = partners(found)
    # Of an odd number one rests in each round.
    expected = min(times, count - 1 + count % 2)
    assert sum(map(len, met.values())) == expected * (count - count % 2)
    assert all(expected - count % 2 <= len(met.get(name, ())) <= expected for name in names)


@pytest.mark.parametrize("schedule", ["neighbours", "quiet", "random", "cover", "tournament"])
def test_one_node_has_no_partner(schedule: str) -> None:
    assert pairs(on_leaves(1), schedule) == []
