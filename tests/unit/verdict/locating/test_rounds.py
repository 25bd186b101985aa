"""The next round: suspects meet clean partners, and everybody is decided soon."""

from __future__ import annotations

import random

import pytest

from railgauge.verdict.locating import (
    End,
    Evidence,
    Located,
    Observation,
    locate,
    not_excluded,
)
from railgauge.verdict.locating.scoring import GOOD
from tests.rounds import next_round, settled
from tests.unit.verdict.locating.campaigns import Fabric, heavy, located, told

RAILS = ("0", "1")


def campaign(fabric: Fabric, rounds: int) -> tuple[Evidence, Located, list[list[tuple[End, End]]]]:
    evidence = Evidence(fabric.leaves)
    result, measured = locate(evidence), []
    for number in range(rounds):
        places = next_round(evidence, fabric.ends, number, result)
        measured.append(places)
        evidence.add([fabric.measure(a, b, number) for a, b in places])
        result = locate(evidence)
    return evidence, result, measured


@pytest.mark.parametrize("nodes", [2, 3, 7, 16, 33])
@pytest.mark.parametrize("per_leaf", [0, 4])
def test_nobody_has_two_partners_in_a_round(nodes: int, per_leaf: int) -> None:
    fabric = Fabric(nodes, {"n2": 0.3}, rails=RAILS, per_leaf=per_leaf)
    for places in campaign(fabric, 6)[2]:
        ends = [end for place in places for end in place]
        assert len(ends) == len(set(ends))
        assert all(a.node != b.node for a, b in places)


def test_all_take_part_so_that_the_load_is_the_same() -> None:
    fabric = Fabric(16, {"n2:0": 0.3}, rails=RAILS, per_leaf=4)
    assert [len(places) for places in campaign(fabric, 4)[2]] == [16] * 4


def test_without_filling_only_the_undecided_are_measured() -> None:
    fabric = Fabric(16, {"n2": 0.3, "n9": 0.3})
    evidence = Evidence()
    evidence.add(fabric.measure(a, b, 0) for a, b in next_round(Evidence(), fabric.ends, 0))
    places = next_round(evidence, fabric.ends, 1, fill=False)
    assert len(places) == 4


def test_suspects_meet_clean_partners_and_never_each_other() -> None:
    bad = {f"n{number}": 0.3 for number in (2, 5, 11, 20, 27)}
    fabric = Fabric(40, bad)
    evidence = Evidence()
    # The bad ones meet each other in the first round.
    first = [("n2", "n5"), ("n11", "n20"), *(p for p in _pairs(fabric) if not set(p) & set(bad))]
    evidence.add(fabric.measure(End(a), End(b), 0) for a, b in first)
    healthy = [name for name in fabric.names if name not in bad]
    shifted = list(zip(healthy[1::2], healthy[2::2], strict=False))
    evidence.add(fabric.measure(End(a), End(b), 1) for a, b in shifted)
    places = next_round(evidence, fabric.ends, 2)
    met = {(a.node in bad, b.node in bad) for a, b in places if {a.node, b.node} & {"n2", "n11"}}
    assert (True, True) not in met


def _pairs(fabric: Fabric) -> list[tuple[str, str]]:
    return list(zip(fabric.names[::2], fabric.names[1::2], strict=False))


@pytest.mark.parametrize("count", [1, 8, 20])
def test_slow_rails_are_confirmed_by_the_third_round(count: int) -> None:
    for seed in range(5):
        ends = Fabric(128, rails=RAILS).ends
        bad = {end.name: 0.3 for end in random.Random(seed).sample(ends, count)}
        fabric = Fabric(128, bad, rails=RAILS, per_leaf=16, seed=seed)
        _, result, _ = campaign(fabric, 3)
        named = {suspect.name for suspect in result.suspects if suspect.confirmed}
        nodes = {name.split(":")[0] for name in bad}
        # A node with both rails slow is named as a node.
        assert {name.split(":")[0] for name in named} == nodes


def test_a_node_that_was_low_by_chance_is_cleared_by_a_pass() -> None:
    fabric = Fabric(64)
    evidence = Evidence()
    for number in range(3):
        places = next_round(evidence, fabric.ends, number)
        results = [fabric.measure(a, b, number) for a, b in places]
        if number == 0:
            results[0] = results[0]._replace(value=None)
        evidence.add(results)
    assert [suspect for suspect in locate(evidence).suspects if suspect.confirmed] == []


def test_a_bad_pair_is_measured_itself_once_its_ends_are_good_elsewhere() -> None:
    fabric = Fabric(16)
    evidence = Evidence()
    evidence.add(fabric.ring())
    bad = [o._replace(value=17.0, round=2) for o in fabric.places([("n2", "n9")], 2)]
    evidence.add([*bad, *fabric.places([("n3", "n8"), ("n1", "n10"), ("n4", "n7")], 2)])
    assert (End("n2"), End("n9")) in next_round(evidence, fabric.ends, 3)


def test_a_pair_that_stays_bad_is_confirmed_and_then_settled() -> None:
    fabric = Fabric(16, {"n1-n9": 0.3})
    result = campaign(fabric, 16)[1]
    assert told(result) == ["pair n1-n9"] and settled(result)


@pytest.mark.parametrize("seed", range(4))
def test_a_slow_pair_of_many_rails_makes_no_leaf_look_bad(seed: int) -> None:
    rails = ("0", "1", "2", "3")
    fabric = Fabric(256, {}, rails, per_leaf=16, noise=heavy, seed=seed)
    a, b = next_round(Evidence(fabric.leaves), fabric.ends, 0)[0]
    fabric.slow[f"{a.node}-{b.node}"] = 0.3
    result = campaign(fabric, 14)[1]
    assert [s.nodes for s in result.suspects if s.confirmed] == [(a.node, b.node)]


@pytest.mark.parametrize("seed", range(4))
def test_slow_rails_of_one_node_are_not_the_node(seed: int) -> None:
    """Two of four, and the others meet slow rails now and then."""
    rails = ("0", "1", "2", "3")
    ends = [end.name for end in Fabric(64, rails=rails).ends]
    bad = {"n1:0", "n1:1", *random.Random(seed).sample(ends[40:], 12)}
    fabric = Fabric(64, dict.fromkeys(bad, 0.3), rails, per_leaf=16, seed=seed)
    result = campaign(fabric, 4)[1]
    assert "n1" not in {suspect.name for suspect in result.suspects}


def test_healthy_ones_are_settled_after_a_round() -> None:
    assert settled(campaign(Fabric(32), 1)[1])


def test_a_fault_that_comes_and_goes_and_is_away_while_all_else_is_quiet_is_no_load() -> None:
    """It would not be held."""
    fabric = Fabric(16, seed=3)
    busy = [
        o._replace(value=0.7 * o.value)
        if o.value and o.round in (0, 2, 3, 5) and "n3" in (o.a.node, o.b.node)
        else o
        for o in fabric.random_rounds(6)
    ]
    quiet = [o._replace(quiet=True, round=100 + k) for k, o in enumerate(fabric.ring())]
    suspects = located(fabric, [*busy, *quiet]).suspects
    assert [(suspect.kind, suspect.name) for suspect in suspects] == [("node", "n3")]


def test_who_is_slow_once_while_all_else_is_quiet_is_no_load() -> None:
    """Three quiet results have no peers of their own."""
    fabric = Fabric(16, {"n2": 0.3})
    quiet = [
        Observation(End(a), End(b), value, 100 + number, quiet=True)
        for number, (a, b, value) in enumerate(
            [("n2", "n5", 24.5), ("n2", "n7", 17.1), ("n9", "n10", 24.5)]
        )
    ]
    (suspect,) = located(fabric, [*fabric.tournament(), *quiet]).suspects
    assert (suspect.kind, suspect.name) == ("node", "n2")


def alone(fabric: Fabric, node: str, count: int = 7, first: int = 100) -> list[Observation]:
    """A node with others, each time while all else is quiet."""
    return [
        fabric.measure(End(node), End(f"n{5 + k}"), first + k, quiet=True) for k in range(count)
    ]


def test_a_node_that_is_bad_while_all_else_is_quiet_too_is_no_load() -> None:
    """Its own results then are no peers of each other, nor are those of others that were few."""
    fabric = Fabric(16, {"n2": 0.3})
    quiet = alone(fabric, "n2")
    assert told(located(fabric, [*fabric.tournament(), *quiet])) == ["node n2"]
    quiet += alone(fabric, "n4", first=200)
    assert told(located(fabric, [*fabric.tournament(), *quiet])) == ["node n2"]


@pytest.mark.parametrize("count", [1, 3])
def test_who_is_worse_than_others_while_all_else_is_quiet_is_no_load(count: int) -> None:
    """Busy ways slow everybody: n2 alone is better than they are then, and as bad as it was."""
    bad = {"n2": 0.3}
    fabric, free = Fabric(16, bad, rate=12.0), Fabric(16, bad, rate=24.0)
    quiet = [*alone(free, "n2"), *alone(free, "n4", count, first=200)]
    assert told(located(fabric, [*fabric.tournament(), *quiet])) == ["node n2"]


@pytest.mark.parametrize(("spread", "kind"), [(0.01, "node"), (0.1, "load")])
def test_quiet_results_may_differ_by_what_equal_places_do(spread: float, kind: str) -> None:
    fabric, free = Fabric(16, {"n2": 0.4}), Fabric(16)
    quiet = [*alone(free, "n2"), *alone(free, "n4", 1, first=200)]
    quiet[3] = quiet[3]._replace(value=24.5 * 0.94)
    evidence = Evidence(least_spread=spread / GOOD)
    evidence.add([*fabric.tournament(), *quiet])
    assert told(locate(evidence)) == [f"{kind} n2"]


def test_what_is_not_excluded_shrinks_with_every_good_round() -> None:
    assert not_excluded(0) == 1 and not_excluded(3) == pytest.approx(0.512)


def test_suspects_that_alone_are_measured_in_a_late_round_stay_suspects() -> None:
    """Of many results only the new ones are judged: a round of bad ones is no common cause."""
    fabric = Fabric(8000, {"n1": 1, "n3": 1}, per_leaf=40)
    evidence = Evidence(fabric.leaves)
    for number in range(6):
        places = next_round(evidence, fabric.ends, number)
        evidence.add([fabric.measure(a, b, number) for a, b in places])
    evidence.add([fabric.measure(End("n1"), End("n5"), 6), fabric.measure(End("n3"), End("n7"), 6)])
    result = locate(evidence)
    assert sorted(told(result)) == ["node n1", "node n3"] and result.alike == ()
