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
from collections.abc import Iterable, Iterator

from railgauge.locating import fabric
from railgauge.locating.parts import Part, Paths
from railgauge.locating.results import End
from railgauge.locating.weigh import LEAST_GAIN, Found, weigh

#: What a node or rail gains at least that is low with all of its partners.
_ALL_LOW = LEAST_GAIN + 0.01

#: Gains that differ by less are equal; those of both ways of a node are compared with one of them.
_EQUAL, _BOTH_WAYS = 0.1, 2.0


def explain(paths: Paths) -> list[Found]:
    """The parts that explain the low paths, those that gain most first."""
    found: list[Found] = []
    #: part of the fabric -> what it explains, as long as no other one explains some of that
    known: dict[Part, Found | None] = {}
    while weighed := list(_weighed(paths, known)):
        degrees = Counter(end for path in paths.open for end in path)
        weighed = [_at_least(one, _only_partners(one, degrees)) for one in weighed]
        most = max(one.gain for one in weighed)
        if most <= LEAST_GAIN:
            break
        ties = [one for one in weighed if one.gain > most - _EQUAL]
        if not any(one.part.of_node for one in ties):
            ties = _together(ties[0], weighed) or ties
        nodes = {one.part.node for one in ties} - {""}
        # Where a node is low both ways, each way alone has others to be compared with, too.
        ties += [
            one
            for one in weighed
            if one.part.node in nodes and not one.part.way
            if one.gain > max(most - _BOTH_WAYS, LEAST_GAIN)
        ]
        ranks = {one.part: (_only_partners(one, degrees), len(one.lows)) for one in ties}
        best = max(ties, key=lambda one: (ranks[one.part], round(one.gain, 1), str(one.part)))
        # Of several nodes as good as each other no name decides.
        same = {
            one.part.node: one
            for one in (*ties, best)
            if ranks[one.part] == ranks[best.part] and one.part.of_node == best.part.of_node
        }
        for one in same.values() if best.part.of_node else [best]:
            found.append(one)
            paths.explain(one.part, one.lows)
            lows = set(one.lows)
            known = {p: f for p, f in known.items() if f is None or lows.isdisjoint(f.lows)}
    return found


def _weighed(paths: Paths, known: dict[Part, Found | None]) -> Iterator[Found]:
    """All parts that may be at fault by what is still open; `known` keeps those of the fabric."""
    for part in paths.candidates():
        if part.of_node:
            one = weigh(paths, part)
        elif part in known:
            one = known[part]
        else:
            one = known[part] = weigh(paths, part)
        if one is not None and (part.of_node or one.gain > LEAST_GAIN) and _may_be(paths, one):
            yield one


def _together(best: Found, weighed: Iterable[Found]) -> list[Found]:
    """The node or rail that gains most of those that explain the low paths of a part of the fabric
    better together than that part does; none where they do not.
    """
    left, total, first = set(best.lows), 0.0, None
    for one in sorted(weighed, key=lambda one: -one.gain):
        shared = left.intersection(one.lows) if one.part.of_node and one.gain > 0 else ()
        if len(shared) > 1:
            first = first or one
            total += one.gain * len(shared) / len(one.lows)
            left.difference_update(shared)
    return [first] if first is not None and total > best.gain else []


def _at_least(one: Found, only_partners: int) -> Found:
    """The same, named at least where a node or rail is low with all of its partners, and
    some partners are low with it alone.
    """
    both_ways = one.part.of_node and not one.part.way
    all_low = both_ways and len(one.low) == len(one.witnesses)
    if all_low and (only_partners or any(witness.sound for witness in one.low)):
        return one._replace(gain=max(one.gain, _ALL_LOW))
    return one


def _may_be(paths: Paths, one: Found) -> bool:
    if not one.part.of_node:
        return fabric.may_be(paths, one)
    ends = [one.part.end] if one.part.end else paths.evidence.ends[one.part.node]
    return not (len(ends) == 1 and fabric.is_path_to(paths, one, ends[0]))


def _only_partners(one: Found, degrees: Counter[End]) -> int:
    """How many low paths of a node or rail are the only open one of the partner. In a chain of bad
    and healthy nodes the ends tell which is which (R. Karp, M. Sipser: Maximum Matching in Sparse
    Random Graphs, 1981: exact where such nodes form no ring).
    """
    node = one.part.node
    return sum(degrees[b if a.node == node else a] == 1 for a, b in one.lows if node)
