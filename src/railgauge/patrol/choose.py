"""Which nodes a patrol tests: pure, of what is known of each.

A node waits since it was last tested. What makes it likelier to be bad (another fingerprint than
the accepted one, a test that did not accept it, a suspect on its leaf) makes it due sooner: each
reason counts as if it had waited that much longer. So every node has its turn, however many others
are at risk.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Collection, Mapping, Sequence

#: A node at risk for one reason is due as one that has waited so many times as long, for two as one
#: of twice that.
RISK_FACTOR = 4.0

#: Two leaves by name, in order.
Way = tuple[str, str]


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A node that might be tested now.

    `leaf` is "" where it is not known, `days` since it was last tested, infinite where it never
    was. `risks` are reasons to test it sooner. `retest`: it was not accepted by a patrol across
    leaves, and not tested since.
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
    """The nodes of a patrol; `cover`: they are of several leaves, and each two of these meet."""

    nodes: tuple[str, ...] = ()
    cover: bool = False


def choose(
    candidates: Sequence[Candidate], most: int, least: int, ways: Mapping[Way, float]
) -> Choice:
    """At most `most` of them; none where they are fewer than `least`, as nobody would be there to
    tell a bad node from its partner.

    `ways` has of two leaves the days since nodes of both were measured with each other. The leaf of
    the most urgent node, and those whose way to the chosen ones waits longest, give about two nodes
    each, or more where there are fewer leaves.

    First of all come those to be tested again, on one leaf with others of it: across leaves a bad
    node cannot be told from what lies between. That happens once, so that nobody waits for it long.
    """
    by_leaf: dict[str, list[Candidate]] = {}
    for one in sorted(candidates, key=lambda one: (-one.urgency, one.node)):
        by_leaf.setdefault(one.leaf, []).append(one)
    order = [one.node for one in candidates]
    if min(most, len(candidates)) < max(least, 2):
        return Choice()
    for members in by_leaf.values():
        suspects = [one for one in members if one.retest]
        if suspects and members[0].leaf and min(most, len(members)) >= max(least, 3):
            rest = [one for one in members if not one.retest]
            again = [one.node for one in (*suspects, *rest)][:most]
            return Choice(tuple(sorted(again, key=order.index)))
    leaves = _leaves(by_leaf, max(2, most // 2), ways)
    turns = itertools.zip_longest(*(by_leaf[leaf] for leaf in leaves))
    chosen = [one for turn in turns for one in turn if one is not None][:most]
    if len(chosen) < max(least, 2):
        # Too few there: whoever is most urgent, wherever.
        rest = sorted(candidates, key=lambda one: (-one.urgency, one.node))
        chosen += [one for one in rest if one not in chosen][: most - len(chosen)]
    met = {one.leaf for one in chosen}
    nodes = tuple(sorted((one.node for one in chosen), key=order.index))
    return Choice(nodes, len(met) > 1 and "" not in met)


def _leaves(
    by_leaf: Mapping[str, Sequence[Candidate]], most: int, ways: Mapping[Way, float]
) -> list[str]:
    """`by_leaf` begins with that of the most urgent node."""
    first, *others = by_leaf
    chosen = [first]
    while others and len(chosen) < most:

        def waits(leaf: str) -> tuple[float, float]:
            to_chosen = max(ways.get(way(leaf, one), math.inf) for one in chosen)
            return to_chosen, by_leaf[leaf][0].urgency

        following = max(others, key=waits)
        chosen.append(following)
        others.remove(following)
    return chosen


def way(one: str, other: str) -> Way:
    return (one, other) if one < other else (other, one)


def ways_of(leaves: Collection[str]) -> list[Way]:
    """All between these leaves."""
    return list(itertools.combinations(sorted(leaves), 2))


def due_after_restart(
    restarted_s: Mapping[str, float], most: int, settle_s: float, turn_s: float
) -> dict[str, float]:
    """Node -> the moment (s) from which it may be tested, of those that have restarted.

    `settle_s` after its restart where few did. Of a mass restart `most` have their turn every
    `turn_s`: that of a whole fleet is no reason to test all of it at once.
    """
    due: dict[str, float] = {}
    given: list[float] = []
    for node, moment in sorted(restarted_s.items(), key=lambda item: (item[1], item[0])):
        ready = moment + settle_s
        if len(given) >= most:
            ready = max(ready, given[-most] + turn_s)
        given.append(ready)
        due[node] = ready
    return due
