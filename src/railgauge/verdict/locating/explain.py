"""The fewest nodes, rails and pairs that explain what is low.

An explanation costs what it takes to name its parts (ln of the number of candidates: two nodes for
a pair), and the good results of these parts. It gains the weights of the low results that they
explain. The best one is searched greedily from every start; parts whose partners are low with them
alone come first. Then parts are dropped that the others make needless: so a healthy node between
two bad ones is not named. Minimal explanations are R. Reiter's diagnoses (A Theory of Diagnosis
from First Principles, 1987); with costs as logarithms of probabilities this is the most probable
one (J. de Kleer, B. Williams: Diagnosing Multiple Faults, 1987).
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from railgauge.verdict.locating import scoring
from railgauge.verdict.locating.evidence import Evidence
from railgauge.verdict.locating.results import End, Low, pair_of

Kind = Literal["node", "rail", "pair"]

#: Explanations that are worse than the best one by no more than this, in nats, are as good. Only a
#: part of all of them is certain.
_EQUALLY_GOOD = 1.0

#: A fault of more than this share of a node's measured rails is the node's.
MOST_RAILS = 0.5

#: The most parts of a group that are tried as a start.
_MOST_STARTS = 24

#: From so many strong low results on, of parts that are low only once, they show how often that
#: happens.
_STRONG_WEIGHT = 6.0
_LEAST_COUNT = 8

#: Where all are weaker, those are strong that weigh so much of the strongest.
_AS_STRONG = 0.75


class Part(NamedTuple):
    """A node, a rail of it, or the way between two nodes."""

    kind: Kind
    nodes: tuple[str, ...]
    rail: str | None = None

    @property
    def name(self) -> str:
        return End(self.nodes[0], self.rail).name if self.kind == "rail" else "-".join(self.nodes)


@dataclasses.dataclass(frozen=True)
class Passes:
    """The results of a part that are not low: the sums of their weights, for faults that are always
    there and for faults that come and go, and their number.
    """

    always: float = 0.0
    at_times: float = 0.0
    count: int = 0


@dataclasses.dataclass(frozen=True)
class Explanation:
    """A part of a good explanation, all low results that it is in, and whether it is part of every
    explanation that is as good.
    """

    part: Part
    lows: tuple[Low, ...]
    certain: bool


def score(lows: Iterable[Low], passes: Passes, most: float = scoring.MOST) -> float:
    """How much more likely a fault of this part makes its results, in nats. The lowest result of
    each round counts, as those of a round may share a cause.
    """
    rounds: dict[int, Low] = {}
    for low in lows:
        if low.round not in rounds or low.always > rounds[low.round].always:
            rounds[low.round] = low
    return _weighed(rounds.values(), passes, most)


def _weighed(lows: Collection[Low], passes: Passes, most: float) -> float:
    weights = [min(low.always, most) for low in lows]
    # A good result does not refute a counter's event in the same round.
    at_times = [
        weight if low.event else scoring.came_and_went(weight)
        for low, weight in zip(lows, weights, strict=True)
    ]
    return scoring.mixture(
        sum(weights) + passes.always,
        sum(at_times) + passes.at_times,
        sum(min(low.often, most) for low in lows) + scoring.NOT_LOW * passes.count,
    )


def _rarity(low: Low) -> float:
    """How rarely a healthy part is as low, in nats."""
    return -math.log(max(low.chance, scoring.TRANSIENT))


def surprise(lows: Iterable[Low], passes: Passes) -> float:
    """How rarely a healthy part is so low in as many rounds, in nats, less the weight of its good
    results. It suffices to ask for more rounds, not to confirm. The chances of several rounds are
    combined by R. A. Fisher's method (Statistical Methods for Research Workers, 1925, 21.1).
    """
    rounds: dict[int, float] = {}
    for low in lows:
        rounds[low.round] = max(rounds.get(low.round, 0.0), _rarity(low))
    total, term, correction = sum(rounds.values()), 1.0, 1.0
    for place in range(1, len(rounds)):
        term *= total / place
        correction += term
    return total - math.log(correction) + passes.always


def passes_of(evidence: Evidence, parts: Collection[Part]) -> dict[Part, Passes]:
    """Part -> its results that are not low."""
    passes = {}
    for part in parts:
        if part.kind == "pair":
            continue
        ends = (
            evidence.ends[part.nodes[0]] if part.kind == "node" else [End(part.nodes[0], part.rail)]
        )
        stands = [evidence.stands[end] for end in ends]
        passes[part] = Passes(
            sum(stand.always for stand in stands),
            sum(stand.at_times for stand in stands),
            sum(stand.count for stand in stands),
        )
    passes.update(_passes_of_pairs(evidence, [part for part in parts if part.kind == "pair"]))
    return passes


def _passes_of_pairs(evidence: Evidence, parts: Sequence[Part]) -> dict[Part, Passes]:
    if not parts:
        return {}
    by_nodes = {part.nodes: part for part in parts}
    # Only the rails count between two nodes that were low.
    by_ends: dict[tuple[End, End], Part] = {}
    low = {low.number for low in evidence.lows}
    for result in evidence.lows:
        if part := by_nodes.get(pair_of(*result.nodes)):
            by_ends[result.a, result.b] = by_ends[result.b, result.a] = part
    weights: dict[Part, list[float]] = {part: [] for part in parts}
    for number, observation in enumerate(evidence.observations):
        part = by_ends.get((observation.a, observation.b))
        if part is not None and number not in low and observation.value and not observation.quiet:
            weights[part].append(evidence.weights[number])
    return {
        part: Passes(
            sum(part_weights), sum(map(scoring.came_and_went, part_weights)), len(part_weights)
        )
        for part, part_weights in weights.items()
    }


def explain(evidence: Evidence, lows: Sequence[Low]) -> tuple[list[Explanation], float]:
    """The parts that explain these results best, and the greatest weight that a result had.

    Where many parts are low only once, as behind a lossy spine, it happens to healthy parts, too.
    Then a single result weighs no more than the rarity of that. The same holds where results are
    left over that no node or rail explains: what they are without it, others are, too.
    """
    most = scoring.MOST
    once = _low_once(evidence, lows)
    if once >= _LEAST_COUNT:
        most = _at_most(most, once, evidence)
    while True:
        explanations = _explained(evidence, lows, most)
        less = _at_most(most, _left_over(evidence, lows, explanations), evidence)
        if less == most:
            return explanations, most
        most = less


def _at_most(most: float, count: int, evidence: Evidence) -> float:
    """The most that a result weighs where so many come by themselves."""
    share = min(count / len(evidence.observations), 0.5) if count else 0.0
    return min(most, -math.log(share)) if share else most


def _explained(evidence: Evidence, lows: Sequence[Low], most: float) -> list[Explanation]:
    covered = _covered(evidence, lows, most)
    passes = passes_of(evidence, covered)
    costs = {part: _cost(evidence, part) for part in covered}
    worth = {
        part: part_lows
        for part, part_lows in covered.items()
        if _gain(part_lows, passes[part], costs[part], most) > 0
    }
    explanations = []
    for parts in _groups(worth):
        group = {part: worth[part] for part in parts}
        explanations += _best(group, passes, costs, most)
    return explanations


def _left_over(evidence: Evidence, lows: Sequence[Low], explanations: Sequence[Explanation]) -> int:
    """How many strong low results, each the only one of its pair, are of no node or rail that is
    low with two partners for certain, while both their ends are good otherwise.
    """
    explained = {
        low
        for explanation in explanations
        if explanation.certain and len(_partners(explanation)) > 1
        for low in explanation.lows
    }
    strong = min(_STRONG_WEIGHT, _AS_STRONG * max((low.always for low in lows), default=0.0))
    times = Counter(pair_of(*low.nodes) for low in lows if not low.event)
    return sum(
        _is_by_itself(evidence, low, strong)
        and low not in explained
        and times[pair_of(*low.nodes)] == 1
        for low in lows
    )


def _partners(explanation: Explanation) -> set[str]:
    nodes = {node for low in explanation.lows if not low.event for node in low.nodes}
    return nodes - set(explanation.part.nodes)


def _low_once(evidence: Evidence, lows: Sequence[Low]) -> int:
    """The number of strong low results that are the only one of both ends, which else are good."""
    counts: dict[End, int] = {}
    for low in lows:
        for end in (low.a, low.b):
            counts[end] = counts.get(end, 0) + 1
    return sum(
        _is_by_itself(evidence, low, _STRONG_WEIGHT)
        and all(counts[end] == 1 for end in (low.a, low.b))
        for low in lows
    )


def _is_by_itself(evidence: Evidence, low: Low, strong: float) -> bool:
    """Whether it is strong, of ends that are good otherwise."""
    return (
        low.always >= strong
        and not low.event
        and all(evidence.stands[end].good > 0 for end in (low.a, low.b))
    )


def _covered(evidence: Evidence, lows: Sequence[Low], most: float) -> dict[Part, list[Low]]:
    """Each part that could be at fault, with the low results that it is in."""
    covered: dict[Part, list[Low]] = {}
    for low in lows:
        parts = []
        for end in (low.a,) if low.event else (low.a, low.b):
            if end.rail is not None:
                parts.append(Part("rail", (end.node,), end.rail))
            if end.rail is None or len(evidence.ends[end.node]) > 1:
                parts.append(Part("node", (end.node,)))
        if not low.event:
            parts.append(Part("pair", pair_of(low.a.node, low.b.node)))
        for part in parts:
            covered.setdefault(part, []).append(low)
    counts = _degrees(covered, ())
    mostly = {end for end, count in counts.items() if count > evidence.stands[end].good}
    for part in [part for part in covered if part.kind == "node"]:
        if not _is_of_node(evidence, part.nodes[0], covered[part], mostly):
            del covered[part]
    # Passes take time to sum up, and only lower the gain: parts without a gain before are left out.
    return {
        part: part_lows
        for part, part_lows in covered.items()
        if sum(max(low.always, low.often, _rarity(low)) for low in part_lows)
        > _cost(evidence, part)
    }


def _is_of_node(
    evidence: Evidence, node: str, lows: Sequence[Low], mostly: Collection[End]
) -> bool:
    """Whether a fault is the node's: most of its rails are low more often than not, beside partners
    that are not, or most of them in each of two rounds. Else it is its rails', or their partners'.
    """
    ends = evidence.ends[node]
    if len(ends) == 1:
        return True
    rounds: dict[int, set[End]] = {}
    for low in lows:
        end, partner = (low.a, low.b) if low.a.node == node else (low.b, low.a)
        if low.event or partner not in mostly:
            rounds.setdefault(low.round, set()).add(end)
    bad = {end for round_ends in rounds.values() for end in round_ends if end in mostly}
    at_once = sum(len(round_ends) > MOST_RAILS * len(ends) for round_ends in rounds.values())
    return len(bad) > MOST_RAILS * len(ends) or at_once > 1


def _cost(evidence: Evidence, part: Part) -> float:
    """The cost of naming a part, in nats."""
    if part.kind == "rail":
        return math.log(len(evidence.stands))
    node = math.log(max(len(evidence.ends), 2))
    return 2 * node if part.kind == "pair" else node


def _gain(lows: Collection[Low], passes: Passes, cost: float, most: float) -> float:
    """What a part's fault explains, less its cost."""
    if not lows:
        return -cost
    # What is rare enough to ask for more rounds must be explained, too.
    rare = sum(min(_rarity(low), most) for low in lows if not low.event) + passes.always
    return max(_weighed(lows, passes, most), rare) - cost


def _groups(worth: Mapping[Part, Sequence[Low]]) -> list[list[Part]]:
    """The parts in groups that share low results, directly or through other parts."""
    leader: dict[Part, Part] = {part: part for part in worth}

    def first(part: Part) -> Part:
        while leader[part] != part:
            leader[part] = part = leader[leader[part]]
        return part

    part_of_low: dict[int, Part] = {}
    for part, lows in worth.items():
        for low in lows:
            first_part = part_of_low.setdefault(low.number, part)
            leader[first(part)] = first(first_part)
    groups: dict[Part, list[Part]] = {}
    for part in worth:
        groups.setdefault(first(part), []).append(part)
    return list(groups.values())


def _degrees(covered: Mapping[Part, Sequence[Low]], explained: Collection[Low]) -> Counter[End]:
    """End -> the number of its low results that are not explained yet."""
    left = {low for lows in covered.values() for low in lows if low not in explained}
    return Counter(end for low in left for end in ((low.a,) if low.event else (low.a, low.b)))


def _convicts(
    part: Part,
    covered: Mapping[Part, Sequence[Low]],
    explained: Collection[Low],
    degrees: Mapping[End, int],
) -> bool:
    """Whether a part has several low results, one of which is the only one of its partner. In a
    chain of bad and healthy nodes the ends tell which is which (R. Karp, M. Sipser: Maximum
    Matching in Sparse Random Graphs, 1981: exact where such nodes form no ring).
    """
    left = [low for low in covered[part] if low not in explained]
    if part.kind == "pair" or len(left) < 2:
        return False
    return any(degrees[low.b if low.a.node == part.nodes[0] else low.a] == 1 for low in left)


def _best(
    covered: Mapping[Part, Sequence[Low]],
    passes: Mapping[Part, Passes],
    costs: Mapping[Part, float],
    most: float,
) -> list[Explanation]:
    """The parts of the explanation that gains most in a group, and of those that are as good."""

    # Sets of low results as bits: most starts ask for the gains of the same ones.
    bits: dict[Low, int] = {}
    for lows in covered.values():
        for low in lows:
            bits.setdefault(low, 1 << len(bits))
    own = {part: sum({bits[low] for low in lows}) for part, lows in covered.items()}

    @functools.cache
    def gain_of(part: Part, left: int) -> float:
        lows = [low for low in covered[part] if bits[low] & left]
        return _gain(lows, passes[part], costs[part], most)

    def gain(part: Part, explained: int) -> float:
        return gain_of(part, own[part] & ~explained)

    def total(parts: Sequence[Part]) -> float:
        explained = 0
        gained = 0.0
        for part in parts:
            gained += gain(part, explained)
            explained |= own[part]
        return gained

    @functools.cache
    def next_part(explained: int) -> Part | None:
        """The part that gains most by what is left; one that was chosen has nothing left."""
        left = {part: gained for part in covered if (gained := gain(part, explained)) > 0}
        if not left:
            return None
        lows = {low for low, bit in bits.items() if bit & explained}
        degrees = _degrees(covered, lows)
        return max(left, key=lambda part: (_convicts(part, covered, lows, degrees), left[part]))

    def from_beginning(beginning: Part | None) -> list[Part]:
        chosen = [beginning] if beginning else []
        explained = own[beginning] if beginning else 0
        while (best := next_part(explained)) is not None:
            chosen.append(best)
            explained |= own[best]
        for part in list(chosen):
            rest = [other for other in chosen if other != part]
            if total(rest) > total(chosen):
                chosen = rest
        return chosen

    beginnings = sorted(covered, key=lambda part: gain(part, 0), reverse=True)[:_MOST_STARTS]
    gains = {
        frozenset(chosen): total(chosen) for chosen in map(from_beginning, [None, *beginnings])
    }
    best = max(gains.values())
    good_enough = [parts for parts, gained in gains.items() if gained > best - _EQUALLY_GOOD]
    return [
        Explanation(part, tuple(covered[part]), all(part in parts for parts in good_enough))
        for part in covered
        if any(part in parts for parts in good_enough)
    ]
