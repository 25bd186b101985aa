"""The fewest nodes, rails and pairs that explain what is low.

An explanation costs what it takes to name its parts (ln of how many there are: two nodes for a
pair), and the good results of these; it gains the weights of the low results that they explain.
The best one is sought by greedy choice from every beginning, first of parts whose partners are low
with them alone; after that, parts that the others make needless are dropped: so a healthy node
between two bad ones is not named. Minimal explanations are R. Reiter's diagnoses (A Theory of
Diagnosis from First Principles, 1987); with costs as logarithms of probabilities this is the most
probable one (J. de Kleer, B. Williams: Diagnosing Multiple Faults, 1987).
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from railgauge.verdict.locating import scoring
from railgauge.verdict.locating.evidence import End, Evidence, Low, pair_of

Kind = Literal["node", "rail", "pair"]

#: Explanations that are so little worse than the best one, in nats, are as good: what is not part
#: of all of them is not certain.
_AS_GOOD = 1.0

#: What most of a node's measured rails have, more than this share, is of the node.
MOST_RAILS = 0.5

#: Of a group of results with more parts than this not every part is tried as a beginning.
_BEGINNINGS = 24

#: Strong low results of parts that are low but once, so many of them, show how often that happens.
_STRONG = 6.0
_ENOUGH = 8


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
    """The weights of a part's results that are not low, for faults that are always there and for
    those that come and go, and their number.
    """

    always: float = 0.0
    at_times: float = 0.0
    count: int = 0


@dataclasses.dataclass(frozen=True)
class Explanation:
    """A part that a good explanation has, all low results that it is in, and whether every one has
    it that is as good.
    """

    part: Part
    lows: tuple[Low, ...]
    certain: bool


def score(lows: Iterable[Low], passes: Passes, most: float = scoring.MOST) -> float:
    """How much more likely a fault of this part makes its results, in nats: of each round the
    lowest of them, as those of a round may share a cause.
    """
    rounds: dict[int, Low] = {}
    for low in lows:
        if low.round not in rounds or low.always > rounds[low.round].always:
            rounds[low.round] = low
    return _weighed(rounds.values(), passes, most)


def _weighed(lows: Collection[Low], passes: Passes, most: float) -> float:
    weights = [min(low.always, most) for low in lows]
    # What a counter says is not taken back by a good result of the same round.
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
    """How rarely a healthy part is so low in as many rounds, in nats, less what its good results
    say for it: enough to ask for more rounds, not to confirm. Chances of several rounds are
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
    """The good results of each part."""
    known = {}
    for part in parts:
        if part.kind == "pair":
            continue
        ends = (
            evidence.ends[part.nodes[0]] if part.kind == "node" else [End(part.nodes[0], part.rail)]
        )
        stands = [evidence.stands[end] for end in ends]
        known[part] = Passes(
            sum(stand.always for stand in stands),
            sum(stand.at_times for stand in stands),
            sum(stand.count for stand in stands),
        )
    known.update(_passes_of_pairs(evidence, [part for part in parts if part.kind == "pair"]))
    return known


def _passes_of_pairs(evidence: Evidence, parts: Sequence[Part]) -> dict[Part, Passes]:
    if not parts:
        return {}
    by_nodes = {part.nodes: part for part in parts}
    # Of several rails between two nodes those count that were low.
    by_ends: dict[tuple[End, End], Part] = {}
    low = {low.number for low in evidence.lows}
    for result in evidence.lows:
        if part := by_nodes.get(pair_of(*result.nodes)):
            by_ends[result.a, result.b] = by_ends[result.b, result.a] = part
    weights: dict[Part, list[float]] = {part: [] for part in parts}
    for number, o in enumerate(evidence.observations):
        part = by_ends.get((o.a, o.b))
        if part is not None and number not in low and not o.quiet:
            weights[part].append(evidence.weights[number])
    return {
        part: Passes(sum(of_part), sum(map(scoring.came_and_went, of_part)), len(of_part))
        for part, of_part in weights.items()
    }


def explain(evidence: Evidence, lows: Sequence[Low]) -> tuple[list[Explanation], float]:
    """The parts that explain these results best, and the most that one result weighed.

    Where many parts are low but once, that is what happens here to healthy ones too, such as behind
    a lossy spine: a single result weighs no more than that is rare.
    """
    most = scoring.MOST
    once = _low_once(evidence, lows)
    if once >= _ENOUGH:
        most = min(most, -math.log(min(once / len(evidence.observations), 0.5)))
    covered = _covered(evidence, lows, most)
    passes = passes_of(evidence, covered)
    costs = {part: _cost(evidence, part) for part in covered}
    worth = {
        part: of_part
        for part, of_part in covered.items()
        if _gain(of_part, passes[part], costs[part], most) > 0
    }
    explanations = []
    for parts in _groups(worth):
        group = {part: worth[part] for part in parts}
        explanations += _best(group, passes, costs, most)
    return explanations, most


def _low_once(evidence: Evidence, lows: Sequence[Low]) -> int:
    """How many strong low results are the only one of both their ends, which are good otherwise."""
    counts: dict[End, int] = {}
    for low in lows:
        for end in (low.a, low.b):
            counts[end] = counts.get(end, 0) + 1
    return sum(
        low.always >= _STRONG
        and not low.event
        and all(counts[end] == 1 and evidence.stands[end].good > 0 for end in (low.a, low.b))
        for low in lows
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
    # Passes cost time to sum up, and take away only: what cannot be worth it without is left out.
    return {
        part: of_part
        for part, of_part in covered.items()
        if sum(max(low.always, low.often, _rarity(low)) for low in of_part) > _cost(evidence, part)
    }


def _is_of_node(
    evidence: Evidence, node: str, lows: Sequence[Low], mostly: Collection[End]
) -> bool:
    """Whether most of its rails are low more often than not, beside partners that are not so, or
    twice most of them in one round: else it is its rails', or their partners'.
    """
    ends = evidence.ends[node]
    if len(ends) == 1:
        return True
    rounds: dict[int, set[End]] = {}
    for low in lows:
        end, partner = (low.a, low.b) if low.a.node == node else (low.b, low.a)
        if low.event or partner not in mostly:
            rounds.setdefault(low.round, set()).add(end)
    bad = {end for of_round in rounds.values() for end in of_round if end in mostly}
    at_once = sum(len(of_round) > MOST_RAILS * len(ends) for of_round in rounds.values())
    return len(bad) > MOST_RAILS * len(ends) or at_once > 1


def _cost(evidence: Evidence, part: Part) -> float:
    """What it takes to name it, in nats."""
    if part.kind == "rail":
        return math.log(len(evidence.stands))
    node = math.log(max(len(evidence.ends), 2))
    return 2 * node if part.kind == "pair" else node


def _gain(lows: Collection[Low], passes: Passes, cost: float, most: float) -> float:
    """What a part's fault explains, without its cost."""
    if not lows:
        return -cost
    # What asks for more rounds must be explained too.
    rare = sum(min(_rarity(low), most) for low in lows if not low.event) + passes.always
    return max(_weighed(lows, passes, most), rare) - cost


def _groups(worth: Mapping[Part, Sequence[Low]]) -> list[list[Part]]:
    """Parts that share low results, also by others between them."""
    leader: dict[Part, Part] = {part: part for part in worth}

    def first(part: Part) -> Part:
        while leader[part] != part:
            leader[part] = part = leader[leader[part]]
        return part

    of_low: dict[int, Part] = {}
    for part, lows in worth.items():
        for low in lows:
            other = of_low.setdefault(low.number, part)
            leader[first(part)] = first(other)
    groups: dict[Part, list[Part]] = {}
    for part in worth:
        groups.setdefault(first(part), []).append(part)
    return list(groups.values())


def _degrees(covered: Mapping[Part, Sequence[Low]], explained: Collection[Low]) -> Counter[End]:
    """How many low results of each end are not explained yet."""
    left = {low for lows in covered.values() for low in lows if low not in explained}
    return Counter(end for low in left for end in ((low.a,) if low.event else (low.a, low.b)))


def _convicts(
    part: Part,
    covered: Mapping[Part, Sequence[Low]],
    explained: Collection[Low],
    degrees: Mapping[End, int],
) -> bool:
    """Whether it has several low results, and one of these is the only one that its partner has:
    of a chain of bad and healthy nodes the ends tell who is who (R. Karp, M. Sipser: Maximum
    Matching in Sparse Random Graphs, 1981: exact where there is no ring of such).
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
    """The explanation of a group of parts that gains most, and those that are as good."""

    def gain(part: Part, without: Collection[Low]) -> float:
        left = [low for low in covered[part] if low not in without]
        return _gain(left, passes[part], costs[part], most)

    def total(parts: Sequence[Part]) -> float:
        explained: set[Low] = set()
        gained = 0.0
        for part in parts:
            gained += gain(part, explained)
            explained |= set(covered[part])
        return gained

    def from_beginning(beginning: Part | None) -> list[Part]:
        chosen = [beginning] if beginning else []
        explained = set(covered[beginning]) if beginning else set()
        while True:
            left = {part: gain(part, explained) for part in covered if part not in chosen}
            left = {part: gained for part, gained in left.items() if gained > 0}
            if not left:
                break
            degrees = _degrees(covered, explained)
            best = max(
                left, key=lambda part: (_convicts(part, covered, explained, degrees), left[part])
            )
            chosen.append(best)
            explained |= set(covered[best])
        for part in list(chosen):
            rest = [other for other in chosen if other != part]
            if total(rest) > total(chosen):
                chosen = rest
        return chosen

    beginnings = sorted(covered, key=lambda part: gain(part, ()), reverse=True)[:_BEGINNINGS]
    found = {
        frozenset(chosen): total(chosen) for chosen in map(from_beginning, [None, *beginnings])
    }
    best = max(found.values())
    as_good = [parts for parts, gained in found.items() if gained > best - _AS_GOOD]
    return [
        Explanation(part, tuple(covered[part]), all(part in parts for parts in as_good))
        for part in covered
        if any(part in parts for parts in as_good)
    ]
