"""The choice of the nodes that a patrol tests, by what is known of each. Pure.

A node waits since it was last tested. A risk (another fingerprint than the accepted one, a test
that did not accept it, a suspect on its leaf) makes it due sooner: each counts as if the node had
waited that much longer. So every node has its turn, however many others are at risk.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Collection, Mapping, Sequence

#: A node with one risk is due as a node that has waited so many times longer, with two risks twice
#: that much longer.
RISK_FACTOR = 4.0

#: Two leaves by name, in order.
Way = tuple[str, str]


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A node that might be tested now.

    `leaf` is "" where it is not known. `days` are those since its last test, infinite where there
    was none. `risks` are reasons to test it sooner. `retest`: a patrol across leaves did not accept
    it, and it was not tested since.
    """

    node: str
    leaf: str = ""
    days: float = math.inf
    risks: tuple[str, ...] = ()
    retest: bool = False

    @property
    def urgency(self) -> float:
        return self.days * (1 + RISK_FACTOR * len(self.risks))


@dataclasses.dataclass(frozen=True)
class Choice:
    """The nodes of a patrol; `cover`: they are on several leaves, and each two of them meet."""

    nodes: tuple[str, ...] = ()
    cover: bool = False


def choose(
    candidates: Sequence[Candidate], most: int, least: int, ways: Mapping[Way, float]
) -> Choice:
    """The choice of `most` candidates at most; of none where there are fewer than `least`, which
    could not distinguish a bad node from its partner.

    `ways` has for two leaves the days since nodes of both were measured with each other. The leaf
    of the most urgent node, and the leaves with the longest untested path to the chosen ones, give
    about two nodes each, or more where there are fewer leaves.

    Nodes to be tested again come first, with others of their leaf: across leaves a bad node looks
    like a bad path. A node is retested only once, so that no other waits long.
    """
    by_leaf: dict[str, list[Candidate]] = {}
    for candidate in sorted(candidates, key=lambda candidate: (-candidate.urgency, candidate.node)):
        by_leaf.setdefault(candidate.leaf, []).append(candidate)
    order = [candidate.node for candidate in candidates]
    if min(most, len(candidates)) < max(least, 2):
        return Choice()
    for members in by_leaf.values():
        suspects = [candidate for candidate in members if candidate.retest]
        if suspects and members[0].leaf and min(most, len(members)) >= max(least, 3):
            rest = [candidate for candidate in members if not candidate.retest]
            again = [candidate.node for candidate in (*suspects, *rest)][:most]
            return Choice(tuple(sorted(again, key=order.index)))
    leaves = _leaves(by_leaf, leaves_at_once(most), ways)
    turns = itertools.zip_longest(*(by_leaf[leaf] for leaf in leaves))
    chosen = [candidate for turn in turns for candidate in turn if candidate is not None][:most]
    if len(chosen) < max(least, 2):
        # These leaves have too few: the most urgent of all others join.
        rest = sorted(candidates, key=lambda candidate: (-candidate.urgency, candidate.node))
        chosen += [candidate for candidate in rest if candidate not in chosen][: most - len(chosen)]
    met = {candidate.leaf for candidate in chosen}
    nodes = tuple(sorted((candidate.node for candidate in chosen), key=order.index))
    return Choice(nodes, len(met) > 1 and "" not in met)


def leaves_at_once(most: int) -> int:
    """On how many leaves a patrol of so many nodes is, where each of them has two idle ones."""
    return max(2, most // 2)


def patrols_to_meet(leaves: int, at_once: int) -> int:
    """How many patrols it takes at least until each two leaves have met, `at_once` in each.

    The bound of J. Schoenheim, Pacific J. Math. 14 (1964) 1405: a leaf meets `at_once` - 1 others
    in a patrol, so that it is in so many.
    """
    if leaves < 2:
        return 0
    if leaves <= at_once:
        return 1
    of_each = math.ceil((leaves - 1) / (at_once - 1))
    return math.ceil(leaves * of_each / at_once)


def _leaves(
    by_leaf: Mapping[str, Sequence[Candidate]], most: int, ways: Mapping[Way, float]
) -> list[str]:
    """The chosen leaves, beginning with that of the most urgent node, the first of `by_leaf`."""
    first, *others = by_leaf
    chosen = [first]
    while others and len(chosen) < most:

        def waits(leaf: str) -> tuple[float, float]:
            to_chosen = max(ways.get(way(leaf, chosen_leaf), math.inf) for chosen_leaf in chosen)
            return to_chosen, by_leaf[leaf][0].urgency

        following = max(others, key=waits)
        chosen.append(following)
        others.remove(following)
    return chosen


def way(first: str, second: str) -> Way:
    return (first, second) if first < second else (second, first)


def ways_of(leaves: Collection[str]) -> list[Way]:
    return list(itertools.combinations(sorted(leaves), 2))


def due_after_restart(
    restarted_s: Mapping[str, float], most: int, settle_s: float, turn_s: float
) -> dict[str, float]:
    """Node -> the moment (s) from which it may be tested, of nodes that have restarted.

    That is `settle_s` after the restart where few did. After a mass restart `most` nodes have their
    turn every `turn_s`, so that not the whole fleet is tested at once.
    """
    due: dict[str, float] = {}
    turns: list[float] = []
    for node, moment in sorted(restarted_s.items(), key=lambda item: (item[1], item[0])):
        ready = moment + settle_s
        if len(turns) >= most:
            ready = max(ready, turns[-most] + turn_s)
        turns.append(ready)
        due[node] = ready
    return due
