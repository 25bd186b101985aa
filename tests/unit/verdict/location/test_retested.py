"""Whom a verdict names after the rounds that a sweep adds by itself, of few nodes and many."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Collection, Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from railgauge.checks.framework.pairing import cover
from railgauge.locating import End, Evidence, Result, Suspect, locate, plan
from railgauge.model.record import Row
from railgauge.model.references import Reference
from railgauge.report.located import name
from railgauge.verdict.campaign.cases import Case
from railgauge.verdict.location import locate as campaign_locate
from railgauge.verdict.location.locate import suspects
from tests import swept
from tests.unit.verdict.decision.test_rules import LIMIT, REFERENCE, bandwidth, case_on, ring

#: `locate_rounds`, unless a system says otherwise.
_ROUNDS = 3

SLOW = End("n2")


def sweep(
    size: int,
    bad: Collection[int],
    share: float = 0.4,
    ways: Collection[frozenset[str]] = (),
    seed: int = 0,
    only_sending: bool = False,
    reference: Reference = REFERENCE,
) -> list[Case]:
    """The pairs of a ring, and those that the sweep measures again: all with a bad node at that
    share of 9.7 Gb/s, where at least 8.1 are expected, with noise of 1 %. `only_sending`: a bad
    node receives well.
    """
    noise = random.Random(seed)
    nodes = [f"n{number}" for number in range(size)]
    slow = {nodes[number % size] for number in bad}

    def good(one: str, other: str) -> bool:
        # Data goes from the client, the second.
        with_bad = {other} if only_sending else {one, other}
        return not slow & with_bad and frozenset((one, other)) not in ways

    def measured(one: str, other: str, number: int) -> Case:
        value = 9.7 * (1 + noise.gauss(0, 0.01)) * (1 if good(one, other) else share)
        row = Row(bandwidth(value, (one, other)), reference, LIMIT)
        whole = case_on((one, other), passed=row.within is not False, rows=(row,), round=number)
        return dataclasses.replace(whole, peer_spread=0.1)

    pairs = ring(nodes)
    # The last pair of an odd ring has a round of its own.
    of_round = [number % 2 for number in range(size - size % 2)] + [2] * (size % 2)
    cases = [measured(a, b, number) for (a, b), number in zip(pairs, of_round, strict=True)]
    # The conductor knows of each pair whether it is good.
    known = Evidence(directed=True)

    def seen(server: str, client: str, number: int, quiet: bool = False) -> Result:
        value = 1.0 if good(server, client) else None
        return Result(End(client), End(server), value, number, quiet=quiet)

    known.add(seen(*pair, number) for pair, number in zip(pairs, of_round, strict=True))
    for number in range(1, _ROUNDS + 1):
        added = plan.added_round([known], list(map(End, nodes)), number, _ROUNDS - number + 1)
        if added is None:
            break
        met = [(server.node, client.node) for client, server in added.pairs]
        more = [measured(*pair, 2 + number) for pair in met]
        cases += [dataclasses.replace(case, quiet=added.quiet) for case in more]
        known.add(seen(*pair, 2 + number, added.quiet) for pair in met)
    return cases


def confirmed(found: Sequence[Suspect]) -> set[str]:
    return {node for suspect in found for node in suspect.failing_nodes}


def names(*numbers: int) -> set[str]:
    return {f"n{number}" for number in numbers}


@given(st.integers(3, 40), st.integers(0, 39), st.sampled_from([0.1, 0.4, 0.7]), st.integers(0, 9))
@example(4, 1, 0.4, 0)
@example(3, 1, 0.4, 0)
@example(4, 0, 0.7, 0)
def test_one_slow_node_is_confirmed_and_no_other(
    size: int, bad: int, share: float, seed: int
) -> None:
    found = suspects(sweep(size, [bad], share, seed=seed))
    assert confirmed(found) == names(bad % size)
    assert all(suspect.confirmed for suspect in found)


@given(st.integers(16, 40), st.integers(0, 39), st.sampled_from([1, 2, 3]), st.integers(0, 9))
def test_two_slow_nodes_next_to_each_other_or_not_are_confirmed_and_no_other(
    size: int, first: int, apart: int, seed: int
) -> None:
    found = suspects(sweep(size, [first, first + apart], seed=seed))
    assert confirmed(found) == names(first % size, (first + apart) % size)


@given(st.integers(6, 15), st.integers(0, 14), st.sampled_from([1, 2, 3]), st.integers(0, 9))
def test_two_slow_nodes_of_few_are_named_and_no_other_is_confirmed(
    size: int, first: int, apart: int, seed: int
) -> None:
    """Of so few pairs the rest may be low by itself."""
    found = suspects(sweep(size, [first, first + apart], seed=seed))
    slow = names(first % size, (first + apart) % size)
    assert confirmed(found) <= slow <= {n for s in found if s.kind == "node" for n in s.nodes}


@given(st.integers(2, 12), st.sets(st.integers(0, 11), max_size=6), st.integers(0, 9))
def test_whatever_is_bad_no_healthy_node_is_confirmed(size: int, bad: set[int], seed: int) -> None:
    assert confirmed(suspects(sweep(size, bad, seed=seed))) <= names(*(n % size for n in bad))


@given(st.integers(2, 40), st.integers(0, 99))
def test_healthy_nodes_are_never_suspects(size: int, seed: int) -> None:
    assert suspects(sweep(size, (), seed=seed)) == []


#: A baseline: the system says that healthy places differ by more.
BASELINE = REFERENCE.model_copy(update={"value": 9.7, "lower": -0.05})


@given(st.integers(4, 16), st.sampled_from([0.9, 0.6, 0.3]), st.integers(0, 9))
@example(4, 0.9, 0)
@example(16, 0.9, 0)
def test_a_node_that_sends_slowly_is_named_and_not_cleared(
    size: int, share: float, seed: int
) -> None:
    """Its partners are good as receivers of others, and it receives well itself."""
    cases = sweep(size, [2], share, seed=seed, only_sending=True, reference=BASELINE)
    found = suspects(cases)
    assert [(s.kind, s.name) for s in found if s.kind == "node"] == [("node", "n2")]
    assert confirmed(found) <= {"n2"}
    assert "n2" not in campaign_locate.locate(cases).passing_nodes


@given(st.integers(4, 40), st.integers(0, 9))
def test_a_slow_way_is_named_and_neither_of_its_ends(size: int, seed: int) -> None:
    found = suspects(sweep(size, (), ways=[frozenset(("n1", "n2"))], seed=seed))
    assert [(s.kind, s.name) for s in found] == [("pair", "n1-n2")] and confirmed(found) == set()


@pytest.mark.parametrize("bad", [(0, 1), (0, 2)])
def test_of_four_nodes_two_bad_ones_never_speak_against_the_others(bad: tuple[int, int]) -> None:
    assert confirmed(suspects(sweep(4, bad))) <= names(*bad)


@given(st.integers(0, 99))
def test_the_ways_out_of_a_leaf_of_four_are_the_leafs_and_no_nodes(seed: int) -> None:
    """All leaves meet each other, as by `cover`; what leaves the first one is slow."""
    chance = random.Random(seed)
    nodes = [[f"n{8 * leaf + number}" for number in range(4)] for leaf in range(4)]
    cases = []
    for number, members in enumerate([[(0, 1), (2, 3)], [(0, 2), (1, 3)], [(0, 3), (1, 2)]]):
        for one, other in members:
            for place, both in enumerate(zip(nodes[one], nodes[other], strict=True)):
                # Data comes and goes.
                pair = both if place % 2 else both[::-1]
                share = chance.uniform(0.33, 0.6) if one == 0 else chance.uniform(0.93, 1)
                row = Row(bandwidth(9.7 * share, pair), REFERENCE, LIMIT)
                passed = row.within is not False
                cases.append(case_on(pair, passed=passed, rows=(row,), round=number))
    leaves = {"ns": {node: f"leaf{n}" for n, of_leaf in enumerate(nodes) for node in of_leaf}}
    found = suspects(cases, leaves)
    # So few results may be of flows that met on one link: more of them confirm it.
    assert [(s.kind, s.name) for s in found] == [("leaf", "leaf0")]
    assert confirmed(found) == set()


@given(st.integers(0, 99), st.sampled_from([4, 6, 8]))
def test_the_ways_out_of_one_leaf_of_three_are_the_leafs_and_no_nodes(seed: int, size: int) -> None:
    """Most values are then below the reference, which is right all the same."""
    chance = random.Random(seed)
    nodes = [[f"n{size * leaf + number}" for number in range(size)] for leaf in range(3)]
    leaf_of = {node: f"leaf{n}" for n, of_leaf in enumerate(nodes) for node in of_leaf}
    met = cover(nodes)
    cases = []
    for place, pair in enumerate(met):
        slow = "leaf0" in (leaf_of[pair[0]], leaf_of[pair[1]])
        share = chance.uniform(0.33, 0.6) if slow else chance.uniform(0.93, 1)
        row = Row(bandwidth(9.7 * share, pair), REFERENCE, LIMIT)
        passed = row.within is not False
        cases.append(case_on(pair, passed=passed, rows=(row,), round=2 * place // len(met)))
    found = suspects(cases, {"ns": leaf_of})
    # So few results may be of flows that met on one link: more of them confirm it.
    assert [(s.kind, s.name) for s in found] == [("leaf", "leaf0")]
    assert confirmed(found) == set()


#: 6 Gb/s is enough.
FLOOR = REFERENCE.model_copy(update={"value": 6.0, "lower": 0.0, "kind": "floor"})


@pytest.mark.parametrize("share", [0.75, 0.8, 0.9])
def test_what_is_no_reason_to_measure_again_clears_a_partner(share: float) -> None:
    """On a busy machine one healthy pair beside the slow node's has lost a fifth."""
    nodes = [f"n{number}" for number in range(1, 9)]
    again = [("n5", other) for other in ("n1", "n2", "n7", "n8")]
    cases = []
    for number, pair in enumerate([*ring(nodes), *again]):
        value = 9.7 * (0.3 if "n5" in pair else share if pair == ("n3", "n4") else 1)
        row = Row(bandwidth(value, pair), FLOOR, LIMIT)
        whole = case_on(pair, passed=row.within is not False, rows=(row,), round=number % 2)
        cases.append(dataclasses.replace(whole, peer_spread=0.1))
    (found,) = suspects(cases)
    assert (found.kind, found.name, found.confirmed) == ("node", "n5", True)
    cleared = [(w.b, w.a) for w in found.evidence if w.says == "clears"]
    assert ("n3", "n4") in cleared


@pytest.mark.parametrize("size", [8, 12, 16, 33])
@pytest.mark.parametrize("crowd", [0.5, 0.75])
def test_who_is_slow_while_others_are_busy_is_told_from_who_is_bad(size: int, crowd: float) -> None:
    """The pairs that are measured again meet the load of the listed ones, or they would be good,
    and nobody could tell; then a round of one pair tells.
    """
    leaf_of = {End(f"n{number}"): "leaf1" for number in range(size)}

    def measured(slow_from: float) -> tuple[Suspect, int]:
        noise = random.Random(size)

        def measure(pairs: list[tuple[End, End]], number: int) -> list[Result]:
            slow = len(pairs) >= slow_from * (size // 2)
            return [
                Result(
                    a,
                    b,
                    9.7 * (1 + noise.gauss(0, 0.01)) * (0.5 if slow and SLOW in (a, b) else 1),
                    number,
                )
                for a, b in pairs
            ]

        evidence, rounds = swept.sweep(measure, leaf_of, "neighbours", most=12)
        (suspect,) = locate(evidence).suspects
        return suspect, rounds

    by_load, bad = measured(crowd), measured(0)
    assert (by_load[0].kind, bad[0].kind) == ("load", "node")
    assert name(by_load[0]) == "n2 under load" and name(bad[0]) == "n2"
    assert "while others are busy, good while all else is quiet" in by_load[0].why
    # A bad one is so at once.
    assert by_load[1] > bad[1] + 3
