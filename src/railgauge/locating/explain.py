"""The fewest parts that explain what is low.

Each part is weighed by how much likelier its fault makes the results on it, good and low, than the
usual share of low pairs does (`chance.gain`), less what it takes to name it: the logarithm of the
number of such parts. The part that gains most is taken first; what it explains says nothing of the
others any more; and so on. Minimal explanations are R. Reiter's diagnoses (A Theory of Diagnosis
from First Principles, 1987); with logarithms of probabilities the best one is the most probable (J.
de Kleer, B. Williams: Diagnosing Multiple Faults, 1987).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from railgauge.locating import fabric
from railgauge.locating.parts import Paths
from railgauge.locating.results import End
from railgauge.locating.weigh import LEAST_GAIN, Found, weigh

#: Gains that differ by less are equal; of both ways of a node, beside one of them.
_EQUAL, _BOTH_WAYS = 0.1, 2.0


def explain(paths: Paths) -> list[Found]:
    """The parts that explain the low paths, the one that gains most first."""
    found: list[Found] = []
    while True:
        weighed = [
            one
            for part in paths.candidates()
            if (one := weigh(paths, part)) is not None
            if one.gain > LEAST_GAIN and _may_be(paths, one)
        ]
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
        best = max(ties, key=lambda one: (ranks[one.part], round(one.gain, 1), str(one.part)))
        for one in _as_good(best, [t for t in ties if ranks[t.part] == ranks[best.part]]):
            found.append(one)
            paths.explain(one.part, one.lows, one.gain)


def _may_be(paths: Paths, one: Found) -> bool:
    if not one.part.of_node:
        return fabric.may_be(paths, one)
    ends = [one.part.end] if one.part.end else paths.evidence.ends[one.part.node]
    return not (len(ends) == 1 and fabric.is_path_to(paths, one, ends[0]))


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
