"""The simulated worlds are what they say: figures are worth no more than that."""

from __future__ import annotations

import dataclasses
import random
import statistics

import pytest

from railgauge.locating import Suspect
from railgauge.locating.suspects import Measure
from tests import worlds
from tests.worlds import (
    WORLDS,
    ByDestination,
    ByFlow,
    ByRun,
    Ends,
    Link,
    Links,
    Pairs,
    World,
)


def world(count: int = 32, **changes: object) -> World:
    """Leaves of eight nodes, without faults."""
    drawn = worlds.cluster(random.Random(1), count, routing=ByRun(4))
    drawn.noise = "normal"
    for name, value in changes.items():
        setattr(drawn, name, value)
    return drawn


def values(drawn: World, sender: int, receiver: int, times: int = 50) -> list[float]:
    place = drawn.ends[sender], drawn.ends[receiver]
    results = [drawn.measure([place], number)[0].value for number in range(times)]
    return [value or 0.0 for value in results]


def lost(drawn: World, sender: int, receiver: int) -> bool:
    return statistics.median(values(drawn, sender, receiver)) < 97


def confirmed(kind: str, name: str, nodes: tuple[str, ...] = (), direction: str = "") -> Suspect:
    return Suspect(kind, name, 0.0, nodes, (), (), (), direction=direction)


@pytest.mark.parametrize("name", WORLDS)
def test_a_seed_draws_the_same_campaign(name: str) -> None:
    first, second = (
        [
            drawn.measure(drawn.of_nodes([(drawn.nodes[0], drawn.nodes[-1])]), number)
            for number in range(5)
        ]
        for drawn in (worlds.draw(name, 3), worlds.draw(name, 3))
    )
    assert first == second


@pytest.mark.parametrize("noise", ["normal", "correlated"])
def test_noise_has_a_deviation_of_one_percent(noise: str) -> None:
    drawn = values(world(noise=noise), 0, 20, 4000)
    assert statistics.stdev(drawn) == pytest.approx(1, rel=0.1)


def test_heavy_noise_has_quartiles_nearer_than_normal_noise() -> None:
    quartiles = statistics.quantiles(values(world(noise="heavy"), 0, 20, 4000), n=4)
    # 0.7649 of Student's t with three degrees, over its deviation, the root of three.
    assert quartiles[2] - quartiles[0] == pytest.approx(2 * 0.7649 / 3**0.5, rel=0.1)


@pytest.mark.parametrize(
    ("sender", "receiver", "low"), [(0, 5, True), (5, 0, False), (1, 2, False)]
)
def test_a_bad_sender_is_slow_as_sender_only(sender: int, receiver: int, low: bool) -> None:
    drawn = world(faults=[Ends({0: 0.3}, "sender")])
    assert lost(drawn, sender, receiver) is low


@pytest.mark.parametrize(
    ("sender", "receiver", "low"),
    [
        (0, 11, True),
        (20, 11, True),
        (12, 11, False),
        (11, 0, False),
        (0, 10, False),
        (0, 19, False),
    ],
)
def test_a_link_down_is_on_the_way_to_those_it_leads_to(
    sender: int, receiver: int, low: bool
) -> None:
    drawn = world(routing=ByDestination(4), faults=[Links({Link(1, 3, "down"): 0.3}, True)])
    assert lost(drawn, sender, receiver) is low


@pytest.mark.parametrize(
    ("sender", "receiver", "low"), [(8, 3, True), (9, 19, True), (8, 11, False), (0, 19, False)]
)
def test_a_link_up_is_on_the_way_of_all_of_its_leaf(sender: int, receiver: int, low: bool) -> None:
    drawn = world(routing=ByDestination(4), faults=[Links({Link(1, 3, "up"): 0.3}, True)])
    assert lost(drawn, sender, receiver) is low


def test_with_a_static_hash_a_pair_is_slow_each_time_or_never() -> None:
    faults = [Links({Link(1, 3, "up"): 0.3}, True)]
    drawn = world(routing=ByFlow(4, 5), faults=faults)
    shares = {sum(v < 97 for v in values(drawn, 8, r)) / 50 for r in range(16, 32)}
    assert shares == {0.0, 1.0}


@pytest.mark.parametrize("ordered", [False, True])
def test_bad_pairs_are_as_many_as_asked(ordered: bool) -> None:
    drawn = world(faults=[Pairs(0.15, ordered, 7)])
    bad = [lost(drawn, a, b) for a in range(32) for b in range(32) if a != b]
    assert sum(bad) / len(bad) == pytest.approx(0.15, abs=0.05)


@pytest.mark.parametrize("ordered", [False, True])
def test_bad_pairs_are_bad_both_ways_or_each_way_for_itself(ordered: bool) -> None:
    drawn = world(faults=[Pairs(0.3, ordered, 7)])
    alike = all(lost(drawn, a, b) == lost(drawn, b, a) for a in range(8) for b in range(a))
    assert alike is not ordered


@pytest.mark.parametrize(
    ("suspect", "innocent"),
    [
        (confirmed("node", "n00"), False),
        (confirmed("node", "n01"), True),
        (dataclasses.replace(confirmed("node", "n01"), confirm=(Measure("n01", "", ""),)), False),
        (confirmed("uplink", "leaf1", direction="up"), False),
        (confirmed("uplink", "leaf1:spine3"), False),
        (confirmed("uplink", "leaf1", direction="down"), True),
        (confirmed("uplink", "leaf1:spine2"), True),
        (confirmed("leaf", "leaf2"), True),
        (confirmed("pair", "n08-n19", ("n08", "n19")), False),
        (confirmed("pair", "n09-n18", ("n09", "n18")), True),
    ],
)
def test_only_a_confirmed_part_that_is_not_at_fault_is_an_innocent(
    suspect: Suspect, innocent: bool
) -> None:
    faults = [Ends({0: 0.3}), Links({Link(1, 3, "up"): 0.3}, True)]
    drawn = world(routing=ByDestination(4), faults=faults)
    assert (drawn.innocents([suspect]) != ([], [])) is innocent


def test_every_two_nodes_meet_once_in_a_pass() -> None:
    drawn = world(17, plan="every pair")
    judge = drawn.judge()
    met = [frozenset(place) for n in range(drawn.rounds_a_pass) for place in drawn.places(n, judge)]
    assert len(met) == len(set(met)) == 17 * 16 // 2
