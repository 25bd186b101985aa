"""The rounds of a sweep: every place once, and nobody with two partners at a time."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge.checks.framework.cases import Case, NodeCase, PairCase, RailCase, SettingCase
from railgauge.checks.framework.pairing import tournament
from railgauge.checks.framework.schedule import rounds
from railgauge.systems import Sweep

NEIGHBOURS = Sweep()
QUIET = Sweep(schedule="quiet")
RAILS_AT_ONCE = Sweep(rails_at_once=True)


def nodes(count: int) -> list[str]:
    return [f"n{number}" for number in range(1, count + 1)]


def ring(count: int) -> list[PairCase]:
    """As `pair.ring` has it: every node with the one behind it."""
    names = nodes(count)
    ends = zip(names, (*names[1:], names[0]), strict=True)
    return [PairCase("gpu", server, client) for server, client in ends]


def links(count: int, rails: int) -> list[RailCase]:
    """Every rail of every pair of a ring, as `RailLinks` has them: all rails of a pair, then the
    next pair.
    """
    return [RailCase(*pair.ends, rail, rail) for pair in ring(count) for rail in range(rails)]


def across(count: int, rails: int) -> list[RailCase]:
    return [
        RailCase(*pair.ends, rail, (rail + 1) % rails)
        for pair in ring(count)
        for rail in range(rails)
    ]


def sizes(places: Sequence[Case], sweep: Sweep = NEIGHBOURS) -> list[int]:
    return [len(members) for members in rounds(places, sweep)]


# ---- what is so of any places ----

_NODES = st.sampled_from(nodes(7))
_PAIRS = st.tuples(_NODES, _NODES).filter(lambda ends: ends[0] != ends[1])
_RAILS = st.integers(0, 3)

PLACES = st.lists(
    st.one_of(
        st.builds(NodeCase, st.just("gpu"), _NODES),
        _PAIRS.map(lambda ends: PairCase("gpu", *ends)),
        st.builds(
            lambda ends, one, other: RailCase("gpu", *ends, one, other), _PAIRS, _RAILS, _RAILS
        ),
        st.builds(
            lambda ends, name: SettingCase("gpu", *ends, name), _PAIRS, st.sampled_from("ab")
        ),
    ),
    max_size=40,
    unique=True,
)
SWEEPS = st.builds(
    Sweep,
    schedule=st.sampled_from(["neighbours", "tournament", "quiet"]),
    rails_at_once=st.booleans(),
)


@given(PLACES, SWEEPS)
def test_every_place_is_in_one_round(places: list[Case], sweep: Sweep) -> None:
    members = [number for numbers in rounds(places, sweep) for number in numbers]
    assert sorted(members) == list(range(len(places)))


@given(PLACES, SWEEPS)
def test_no_round_is_empty(places: list[Case], sweep: Sweep) -> None:
    assert all(rounds(places, sweep))


@given(PLACES, st.sampled_from(["neighbours", "tournament"]))
def test_no_node_has_two_partners_in_a_round(places: list[Case], schedule: Any) -> None:
    for numbers in rounds(places, Sweep(schedule=schedule)):
        busy = [node for number in numbers for node in places[number].nodes]
        assert len(busy) == len(set(busy))


@given(st.lists(st.sampled_from([*links(5, 3), *across(5, 3)]), unique=True))
def test_no_rail_has_two_partners_in_a_round(places: list[RailCase]) -> None:
    for numbers in rounds(places, RAILS_AT_ONCE):
        busy: list[Hashable] = []
        for place in (places[number] for number in numbers):
            busy += [(place.server, place.server_rail), (place.client, place.client_rail)]
        assert len(busy) == len(set(busy))


@given(PLACES, st.sampled_from(["neighbours", "tournament", "quiet"]))
def test_places_of_a_round_are_under_one_condition(places: list[Case], schedule: Any) -> None:
    for numbers in rounds(places, Sweep(schedule=schedule)):
        assert len({places[number].condition for number in numbers}) == 1


@given(PLACES)
def test_of_a_quiet_sweep_each_place_is_measured_alone(places: list[Case]) -> None:
    assert sizes(places, QUIET) == [1] * len(places)


@given(PLACES, SWEEPS)
def test_the_same_places_are_the_same_rounds(places: list[Case], sweep: Sweep) -> None:
    assert rounds(places, sweep) == rounds(list(places), sweep)


# ---- how many rounds ----


@pytest.mark.parametrize("count", [2, 4, 6, 32, 512])
def test_a_ring_of_an_even_number_of_nodes_takes_two_rounds(count: int) -> None:
    assert sizes(ring(count)) == [count // 2, count // 2]


@pytest.mark.parametrize("count", [3, 5, 7, 33])
def test_a_ring_of_an_odd_number_of_nodes_takes_three_rounds(count: int) -> None:
    assert sizes(ring(count)) == [count // 2, count // 2, 1]


def test_quiet_measures_a_ring_pair_by_pair() -> None:
    assert sizes(ring(8), QUIET) == [1] * 8


@pytest.mark.parametrize("count", [2, 4, 6, 8, 32])
def test_a_tournament_of_n_nodes_takes_one_round_less_than_nodes(count: int) -> None:
    places = [PairCase("gpu", *ends) for ends in tournament(nodes(count))]
    assert sizes(places, Sweep(schedule="tournament")) == [count // 2] * (count - 1)


@pytest.mark.parametrize("count", [3, 5, 7])
def test_in_a_tournament_of_an_odd_number_of_nodes_one_rests_a_round(count: int) -> None:
    places = [PairCase("gpu", *ends) for ends in tournament(nodes(count))]
    assert sizes(places, Sweep(schedule="tournament")) == [count // 2] * count


@pytest.mark.parametrize("count", range(2, 12))
def test_a_tournament_has_every_two_nodes_once(count: int) -> None:
    met = [frozenset(ends) for ends in tournament(nodes(count))]
    assert len(met) == len(set(met))
    assert set(met) == {frozenset(pair) for pair in itertools.combinations(nodes(count), 2)}


# ---- rails ----


def test_rails_come_one_after_the_other() -> None:
    assert sizes(links(4, 8)) == [2] * 16


def test_rails_at_once_take_as_many_rounds_as_one_rail() -> None:
    assert sizes(links(4, 8), RAILS_AT_ONCE) == [16, 16]
    assert sizes(links(5, 8), RAILS_AT_ONCE) == [16, 16, 8]


def test_rails_at_once_do_not_hurry_a_quiet_sweep() -> None:
    quiet = Sweep(schedule="quiet", rails_at_once=True)
    assert sizes(links(4, 2), quiet) == [1] * 8


def test_nodes_are_looked_at_all_at_once() -> None:
    assert sizes([NodeCase("gpu", node) for node in nodes(512)]) == [512]


@pytest.mark.parametrize("sweep", [NEIGHBOURS, QUIET, RAILS_AT_ONCE])
def test_no_places_are_no_rounds(sweep: Sweep) -> None:
    assert rounds([], sweep) == []
