"""The fewest parts that explain what is low.

Each part is weighed by how much likelier its fault makes the results on it, good and low, than the
usual share of low pairs does (`chance.gain`), less what it takes to name it: the logarithm of the
number of such parts. The part that gains most is taken first; what it explains says nothing of the
others any more; and so on. Minimal explanations are R. Reiter's diagnoses (A Theory of Diagnosis
from First Principles, 1987); with logarithms of probabilities the best one is the most probable (J.
de Kleer, B. Williams: Diagnosing Multiple Faults, 1987).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from railgauge.locating import chance
from railgauge.locating.chance import Count
from railgauge.locating.parts import Part, Path, Paths, Witness
from railgauge.locating.results import End

#: A part of the fabric is low at so many nodes of a leaf, and with so many others, at least.
LEAST_NODES, LEAST_FAR = 3, 2

#: A rail is low as a whole at so many nodes at least, and so much of its pairs.
_PLANE, _OF_PLANE = 6, 0.9

#: A fault of a whole leaf, or of all its uplinks, makes more than this share of its pairs low, and
#: spares no node of it: that one is good as often has less than this chance.
WHOLE, _SPARED = 0.7, 0.01

#: A node that is good with most partners must gain so much more: it is named for what comes and
#: goes, and not confirmed.
_MOSTLY_GOOD = math.log(1000)

#: A part is named where it gains more.
LEAST_GAIN = 1.0

#: What is explained by a node or rail that gains less counts as low by itself for the others.
DOUBTFUL = 5.0

#: Gains that differ by less are equal; of both ways of a node, beside one of them.
_EQUAL, _BOTH_WAYS = 0.1, 2.0


class Found(NamedTuple):
    """A part that explains low paths, what its witnesses say, and how much it gains (nats)."""

    part: Part
    witnesses: tuple[Witness, ...]
    lows: tuple[Path, ...]
    gain: float
    level: int

    @property
    def low(self) -> list[Witness]:
        return [witness for witness in self.witnesses if witness.level]

    @property
    def share(self) -> float:
        return len(self.low) / len(self.witnesses)


def explain(paths: Paths) -> list[Found]:
    """The parts that explain the low paths, the one that gains most first."""
    found: list[Found] = []
    known: dict[Part, Found | None] = {}
    while True:
        weighed = []
        for part in paths.candidates():
            if part not in known:
                known[part] = weigh(paths, part)
            if (one := known[part]) is not None and one.gain > LEAST_GAIN:
                weighed.append(one)
        if not weighed:
            return found
        most = max(one.gain for one in weighed)
        ties = [one for one in weighed if one.gain > most - _EQUAL]
        nodes = {one.part.node for one in ties} - {""}
        # Where a node is low both ways, each way alone has others to be compared with, too.
        ties += [
            one
            for one in weighed
            if one.part.node in nodes and not one.part.way and one.gain > most - _BOTH_WAYS
        ]
        degrees = Counter(end for path in paths.open for end in path)
        ranks = {one.part: (_only_partners(one, degrees), len(one.lows)) for one in ties}
        best = max(ties, key=lambda one: (ranks[one.part], one.part.node == "", one.part))
        for one in _as_good(best, [t for t in ties if ranks[t.part] == ranks[best.part]]):
            found.append(one)
            paths.explain(one.part, one.lows, one.gain)
        known = {}


def _as_good(best: Found, ties: Iterable[Found]) -> list[Found]:
    """The nodes and rails that explain a low path of the best one as well: none of them is the
    better explanation.
    """
    if not best.part.of_node:
        return [best]
    lows = set(best.lows)
    others = {
        one.part.node: one
        for one in ties
        if one.part.node not in ("", best.part.node) and not lows.isdisjoint(one.lows)
    }
    return [best, *others.values()]


def _only_partners(one: Found, degrees: Counter[End]) -> int:
    """How many low paths of a node or rail are the only open one of the partner. In a chain of bad
    and healthy nodes the ends tell which is which (R. Karp, M. Sipser: Maximum Matching in Sparse
    Random Graphs, 1981: exact where such nodes form no ring).
    """
    node = one.part.node
    return sum(degrees[b if a.node == node else a] == 1 for a, b in one.lows if node)


def weigh(paths: Paths, part: Part) -> Found | None:
    """What a part explains; None where it cannot be at fault."""
    witnesses = paths.witnesses(part)
    low = [witness for witness in witnesses if witness.level]
    if len(low) < 2 or not _may_be(paths, part, witnesses):
        return None
    best, at = 0.0, 1
    for level in sorted({witness.level for witness in low}):
        groups = of_groups(paths, part, witnesses, level)
        gained = chance.gain(groups)
        if gained > best:
            best, at = gained, level
    lows = tuple(
        path
        for _, ways in paths.paths_on(part)
        for of in ways
        for path in of
        if path in paths.open or (part.of_node and path in paths.behind)
    )
    gained = best - math.log(how_many(paths, part))
    if part.of_node and 2 * len(low) <= len(witnesses):
        gained -= _MOSTLY_GOOD
    return Found(part, tuple(witnesses), lows, gained, at)


def of_groups(
    paths: Paths, part: Part, witnesses: Iterable[Witness], level: int, doubtful: float = 0.0
) -> list[tuple[Count, Count]]:
    """What the others of each group are, and what the witnesses are, at a level (Paths.others)."""
    own: dict[str | Part, Count] = {}
    for witness in witnesses:
        low, count = own.get(witness.group, (0, 0))
        own[witness.group] = Count(low + (witness.level >= level), count + 1)
    others = paths.others(part, own, level, doubtful)
    return [(others[group], count) for group, count in own.items()]


def how_many(paths: Paths, part: Part) -> float:
    """How many parts of a kind there are. A fault one way is twice as many, and rarer."""
    evidence = paths.evidence
    ways = (1.5 if not part.way else 3.0) if evidence.directed else 1.0
    ends = sum(map(len, evidence.ends.values()))
    leaves = len(set(evidence.leaves.values())) or 1
    rails = len({end.rail for of_node in evidence.ends.values() for end in of_node})
    if part.kind == "node":
        return ways * len(evidence.ends)
    if part.kind in ("rail", "inbound"):
        return ways * ends
    if part.kind == "outbound":
        return float(leaves * ends)
    if part.kind == "plane":
        return float(rails)
    if part.kind == "link":
        assert evidence.routes is not None
        return 2.0 * leaves * evidence.routes.spines
    return 4.0 * leaves * (rails if part.rail is not None else 1)


def _may_be(paths: Paths, part: Part, witnesses: Sequence[Witness]) -> bool:
    """Whether the results allow a part of the fabric to be at fault."""
    if part.of_node:
        return True
    low = [witness for witness in witnesses if witness.level]
    share = len(low) / len(witnesses)
    if part.kind == "plane":
        nodes = {node for witness in low for node in witness.nodes}
        return len(nodes) >= _PLANE and share >= _OF_PLANE
    if part.kind == "link":
        return len(low) > 2 and len({w.nodes[0] for w in low}) > 1
    if part.kind == "inbound":
        beside = any(one.name == part.name and one.way == part.way for one in paths.fabric)
        return beside or _good_at_home(paths, part)
    if part.kind == "outbound":
        return _good_otherwise(paths, part, low)
    between, within, far = leaf_counts(paths, part)
    at_leaf = sum(low > 0 for low, _ in between.values())
    if at_leaf < min(LEAST_NODES, max(len(between), 2)) or len(far) < LEAST_FAR:
        return False
    if part.kind == "leaf" and (share < WHOLE or 2 * within.low < within.all or not within.all):
        return False
    # One that is good with all others speaks against a fault of the whole.
    return share <= 0.5 or not any(
        not low and (1 - share) ** count * len(between) < _SPARED for low, count in between.values()
    )


def leaf_counts(paths: Paths, part: Part) -> tuple[dict[str, Count], Count, set[str]]:
    """Of a leaf, or its uplinks: node of it -> its paths to other leaves; the paths within; and the
    nodes of other leaves with low paths.
    """
    between: dict[str, Count] = {}
    far: set[str] = set()
    within = Count(0, 0)
    for _, ways in paths.paths_on(part):
        for path in (path for of in ways for path in of):
            low = path in paths.open or path in paths.behind
            here = [end for end in path if paths.leaf_of.get(end) == part.name]
            if len(here) > 1:
                within = Count(within.low + low, within.all + 1)
                continue
            known = between.get(here[0].node, Count(0, 0))
            between[here[0].node] = Count(known.low + low, known.all + 1)
            if low:
                far.update(end.node for end in path if end not in here)
    return between, within, far


def _good_at_home(paths: Paths, part: Part) -> bool:
    """Whether the end was good with one of its own leaf, in the same way."""
    assert part.end is not None
    leaf = paths.leaf_of[part.end]
    for node, roles in paths.good_with[part.end].items():
        at_home = {paths.leaf_of.get(end) for end in paths.evidence.ends[node]} == {leaf}
        if at_home and False in roles:
            return True
    return False


def _good_otherwise(paths: Paths, part: Part, low: Sequence[Witness]) -> bool:
    """Whether the destination received well from elsewhere, and its senders send well elsewhere."""
    assert part.end is not None
    received = {
        node
        for node, roles in paths.good_with[part.end].items()
        if False in roles
        and part.name not in {paths.leaf_of.get(end) for end in paths.evidence.ends[node]}
    }
    senders = {a for a, b in paths.open if b == part.end and paths.leaf_of.get(a) == part.name}
    sound = sum(
        any(True in roles for node, roles in paths.good_with[end].items() if node != part.end.node)
        for end in senders
    )
    return bool(received) and sound > 1
