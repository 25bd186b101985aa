"""Each rule that keeps an innocent from being confirmed, in the smallest campaign that needs it."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Mapping

from railgauge.locating import End, Evidence, Located, Result, locate
from railgauge.locating.plan import MOST_OTHERS, next_round

LOW, GOOD = 12.0, 24.5

Pairs = Iterable[tuple[str, str]]


def names(count: int) -> list[str]:
    return [f"n{number}" for number in range(count)]


def in_pairs(nodes: Iterable[str]) -> list[tuple[str, str]]:
    """Every two of them."""
    return list(itertools.combinations(nodes, 2))


def results(
    pairs: Pairs, is_low: Callable[[str, str], bool], of_round: int | None = None
) -> list[Result]:
    """Data goes from the first of each pair; each has a round of its own where none is given."""
    return [
        Result(End(a), End(b), LOW if is_low(a, b) else GOOD, k if of_round is None else of_round)
        for k, (a, b) in enumerate(pairs)
    ]


def evidence_of(
    found: Iterable[Result], leaf_of: Callable[[str], str] | None, directed: bool = True
) -> Evidence:
    known = list(found)
    ends = {end for result in known for end in result.ends}
    leaves: Mapping[End, str] = {end: leaf_of(end.node) for end in ends} if leaf_of else {}
    evidence = Evidence(leaves, directed=directed)
    evidence.add(known)
    return evidence


def named(
    found: Iterable[Result], leaf_of: Callable[[str], str] | None, directed: bool = True
) -> list[tuple[str, str, bool]]:
    located = locate(evidence_of(found, leaf_of, directed))
    return [(s.kind, s.name, s.confirmed) for s in located.suspects]


def one_leaf(node: str) -> str:
    return "leaf1"


def of_four(node: str) -> str:
    return f"leaf{int(node[1:]) // 4}"


def never(a: str, b: str) -> bool:
    return False


def always(a: str, b: str) -> bool:
    return True


def with_n0(*partners: str) -> Callable[[str, str], bool]:
    return lambda a, b: "n0" in (a, b) and (a in partners or b in partners)


def test_partners_that_are_never_good_with_another_confirm_nobody() -> None:
    """Each of the four may be bad itself."""
    met = [("n0", f"p{number}") for number in range(4)]
    found = results([*met, *in_pairs(names(20)[1:])], lambda a, b: a == "n0")
    assert [confirmed for _, name, confirmed in named(found, one_leaf) if name == "n0"] == [False]
    cleared = [(f"p{number}", f"n{number + 1}") for number in range(4)]
    found += results(cleared, never)
    assert named(found, one_leaf) == [("node", "n0", True)]


def test_who_is_good_with_most_partners_is_not_confirmed() -> None:
    pairs = in_pairs(names(20))
    few, most = names(20)[1:9], names(20)[1:13]
    assert named(results(pairs, with_n0(*few)), one_leaf) == [("node", "n0", False)]
    assert named(results(pairs, with_n0(*most)), one_leaf) == [("node", "n0", True)]


def test_two_low_partners_of_eight_nodes_may_be_chance() -> None:
    nodes = names(8)
    ring = list(zip(nodes, [*nodes[1:], nodes[0]], strict=True))
    assert named(results(ring, with_n0(*nodes)), one_leaf) == [("node", "n0", False)]
    assert named(results(in_pairs(nodes), with_n0(*nodes)), one_leaf) == [("node", "n0", True)]


def test_who_is_low_beyond_its_leaf_alone_may_be_behind_a_bad_link() -> None:
    """Nobody knows how it is with those of its own leaf."""
    pairs = [(a, b) for a, b in in_pairs(names(16)) if a != "n0" or of_four(b) != "leaf0"]
    found = results(pairs, with_n0(*names(16)))
    assert [c for _, name, c in named(found, of_four, directed=False) if name == "n0"] == [False]
    found += results([("n0", "n1"), ("n0", "n2"), ("n0", "n3")], with_n0(*names(16)))
    assert named(found, of_four, directed=False) == [("node", "n0", True)]


def test_who_was_low_in_one_round_alone_is_not_confirmed() -> None:
    partners = names(20)[1:]
    others = [r._replace(round=3 + k % 2) for k, r in enumerate(results(in_pairs(partners), never))]
    once = results([("n0", other) for other in partners], always, of_round=3)
    assert named([*others, *once], one_leaf) == [("node", "n0", False)]
    twice = [result._replace(round=3 + k % 2) for k, result in enumerate(once)]
    assert named([*others, *twice], one_leaf) == [("node", "n0", True)]


def test_of_four_nodes_one_is_confirmed_by_all_three_others() -> None:
    pairs = in_pairs(names(4))
    assert named(results(pairs, with_n0("n1", "n2", "n3")), one_leaf) == [("node", "n0", True)]
    met_two = [pair for pair in pairs if pair != ("n0", "n3")]
    assert named(results(met_two, with_n0("n1", "n2")), one_leaf) == [("node", "n0", False)]


def test_a_path_that_is_low_once_of_three_times_is_no_witness() -> None:
    """Else many repeats make a node of what comes and goes."""
    pairs = in_pairs(names(12))
    found = [
        result._replace(round=3 * (result.round or 0) + time)
        for time in range(3)
        for result in results(pairs, with_n0(*names(12)) if time == 1 else never)
    ]
    assert named(found, one_leaf) == []


def momentary(slow_rounds: set[int]) -> Located:
    """Four leaves of eight; what leaves or enters the first one is slow in some rounds."""
    nodes = names(32)
    found = []
    for number in range(6):
        for place in range(16):
            a, b = nodes[place], nodes[16 + (place + 3 * number) % 16]
            slow = place < 8 and number in slow_rounds
            found += results([(a, b)], always if slow else never, of_round=number)
        within = [(nodes[k], nodes[k + 1]) for k in range(number % 2, 31, 2) if k % 8 != 7]
        found += results(within, never, of_round=10 + number)
    return locate(evidence_of(found, lambda node: f"leaf{int(node[1:]) // 8}"))


def test_what_slows_a_leaf_in_one_round_is_a_moment() -> None:
    assert momentary({2}).suspects == ()
    assert any("leaf0" in why and "round 2" in why for why in momentary({2}).no_evidence)
    assert [(s.kind, s.name) for s in momentary({0, 1, 2, 3, 4, 5}).suspects] == [
        ("uplink", "leaf0")
    ]


def test_of_a_large_partition_few_more_pairs_than_those_of_suspects_are_measured() -> None:
    nodes = names(600)
    ring = list(zip(nodes, [*nodes[1:], nodes[0]], strict=True))
    evidence = evidence_of(results(ring, with_n0(*nodes)), one_leaf)
    ends = [End(node) for node in nodes]
    pairs = next_round(evidence, locate(evidence), ends, 1, most_others=MOST_OTHERS)
    assert MOST_OTHERS < len(pairs) <= MOST_OTHERS + 2


def test_where_others_are_low_as_often_by_themselves_a_few_partners_confirm_nobody() -> None:
    chance = random.Random(1)
    others = in_pairs(names(20)[1:])
    by_itself = {pair for pair in others if chance.random() < 0.3}
    met = [("n0", other) for other in names(8)[1:]]

    def with_others(a: str, b: str) -> bool:
        return a == "n0" or (a, b) in by_itself

    assert named(results([*met, *others], with_n0(*names(8))), one_leaf) == [("node", "n0", True)]
    noisy = named(results([*met, *others], with_others), one_leaf)
    assert [name for kind, name, confirmed in noisy if confirmed and kind == "node"] == []


def test_a_leaf_with_a_node_that_is_good_with_all_others_is_not_at_fault() -> None:
    """Seven nodes of eight are slow beyond their leaf."""
    nodes = names(24)

    def slow(a: str, b: str) -> bool:
        inside = [int(node[1:]) for node in (a, b) if int(node[1:]) < 8]
        return len(inside) == 1 and inside[0] < 7

    found = named(results(in_pairs(nodes), slow), lambda node: f"leaf{int(node[1:]) // 8}")
    assert not any(kind in ("leaf", "uplink") and confirmed for kind, _, confirmed in found)


def test_what_is_slower_within_a_leaf_than_pairs_of_two_leaves_is_low() -> None:
    """Of two such pairs alone none can be told from the other."""
    between = [(a, b) for a, b in in_pairs(names(8)) if of_four(a) != of_four(b)]
    evidence = evidence_of(
        results([*between, ("n0", "n1"), ("n0", "n2")], lambda a, b: of_four(a) == of_four(b)),
        of_four,
    )
    evidence.judge()
    lows = [evidence.results[number] for number in evidence.lows]
    assert [low.nodes for low in lows] == [("n0", "n1"), ("n0", "n2")]


def test_who_is_worse_than_others_while_all_else_is_quiet_is_no_victim_of_load() -> None:
    """Alone, pairs reach far more than beside others: what they had there is not enough."""
    loaded = results(in_pairs(names(20)), with_n0(*names(20)))
    quiet = [
        Result(End(a), End(b), value, 200 + k, quiet=True)
        for k, (a, b, value) in enumerate(
            [("n0", "n1", 26.0), ("n2", "n0", 26.0), ("n3", "n4", 40)]
        )
    ]
    assert named([*loaded, *quiet], one_leaf) == [("node", "n0", True)]
    as_good = [result._replace(value=40.0) for result in quiet]
    assert named([*loaded, *as_good], one_leaf) == [("load", "n0", True)]


def test_a_result_below_its_bound_clears_no_end() -> None:
    """Three percent below its peers is not low, and not good either where the bound says so."""
    evidence = Evidence(directed=True)
    pairs = [(f"n{number}", f"n{number + 1}") for number in range(1, 13, 2)]
    evidence.add(Result(End(a), End(b), 100.0, bound=97.0) for a, b in pairs)
    evidence.add([Result(End("n13"), End("n14"), 96.9, bound=97.0)])
    located = locate(evidence)
    assert located.suspects == ()
    assert located.passing_nodes == [name for pair in pairs for name in pair]
