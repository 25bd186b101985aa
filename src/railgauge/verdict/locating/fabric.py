"""Leaves and uplinks: where low results gather while the nodes at them pass elsewhere."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Literal

from railgauge.node.rdma import natural
from railgauge.verdict.locating import scoring
from railgauge.verdict.locating.evidence import End, Evidence, Low, Observation, Tally

#: Weight from which on a low result counts as one of an uplink, in nats.
_STRONG = 4.0

#: A leaf is at fault as a whole where so much of what uses it is low.
_WHOLE = 0.7

#: So many different nodes at least must be low at a leaf.
_NODES = 3

#: Low results of an uplink count so many times for each node.
_TIMES_A_NODE = 3

#: Of so many flows between two leaves in a round the better ones say what was usual then, and at
#: least so much of what a flow of an uplink has lost, it has lost beside them.
_FLOWS, _OWN = 4, 0.5

#: An uplink's own counter stands out at so many times the median of the leaf's others.
_TIMES = 10


#: A condition, a round, and two leaves.
_Way = tuple[Hashable, int | None, frozenset[str | None]]


@dataclasses.dataclass(frozen=True)
class Gathering:
    """Low results that have a leaf, or its ways out, in common."""

    kind: Literal["leaf", "uplink"]
    name: str
    lows: tuple[Low, ...]
    score: float
    confirmed: bool
    #: what it is to be measured with
    confirm: str


def gatherings(evidence: Evidence) -> list[Gathering]:
    """The leaves and uplinks that explain low results better than their nodes do.

    Where most of what uses a leaf is low, it is at fault as a whole; where most of what leaves it
    is, and what stays within is good, its ways out. An uplink of several behind ECMP hits some
    flows of nodes whose others pass: where more of a leaf's are low than of the others', by the
    log-likelihood ratio of two Poisson rates.
    """
    found: list[Gathering] = []
    if len(evidence.across) < 2:
        return found
    nodes: dict[str, set[str]] = {}
    for end, leaf in evidence.leaves.items():
        nodes.setdefault(leaf, set()).add(end.node)
    left = [low for low in evidence.lows if not low.event and evidence.crosses(low) is not None]
    while left:
        of_leaves = [
            gathering
            for leaf in sorted(evidence.across, key=natural)
            if (gathering := _of_leaf(evidence, leaf, left, len(nodes[leaf])))
        ]
        if not of_leaves:
            break
        best = max(of_leaves, key=lambda gathering: gathering.score)
        found.append(best)
        explained = set(best.lows)
        left = [low for low in left if low not in explained]
    return found


def _of_leaf(evidence: Evidence, leaf: str, lows: Sequence[Low], at_leaf: int) -> Gathering | None:
    here = [low for low in lows if leaf in _leaves(evidence, low)]
    across = [low for low in here if evidence.crosses(low)]
    nodes = {end.node for low in here for end in (low.a, low.b) if evidence.leaves[end] == leaf}
    if len(nodes) < min(_NODES, at_leaf) or len(nodes) < 2 or not across:
        return None
    all_across, within = evidence.across[leaf], evidence.within.get(leaf, Tally())
    if len(across) >= _WHOLE * all_across.all:
        if 2 * within.low >= within.all:
            return _whole(evidence, leaf, here, stays_good=False)
        return _whole(evidence, leaf, across, stays_good=True)
    strong = [low for low in lows if low.always >= _STRONG and evidence.crosses(low)]
    return _some(evidence, leaf, _not_of_a_moment(evidence, strong))


def _whole(
    evidence: Evidence, leaf: str, here: Sequence[Low], stays_good: bool
) -> Gathering | None:
    """All of a leaf, or of its ways out."""
    across = [low for low in here if evidence.crosses(low)]
    nodes = {_end_at(evidence, leaf, low).node for low in across}
    others = {other for low in across for other in _leaves(evidence, low) if other != leaf}
    if not stays_good and len(_mostly_low(evidence, leaf, here)) < _NODES:
        # One or two nodes that are bad, or what they are at: nobody can tell.
        return None
    if stays_good and len(nodes) < 2:
        return None
    score = _by_round(here)
    if len(others) == 1:
        name = "-".join(sorted((leaf, *others), key=natural))
        # Of two leaves nobody can tell which it is.
        return Gathering("uplink", name, tuple(here), score, False, "a third leaf")
    elsewhere = [tally for name, tally in evidence.across.items() if name not in (leaf, *others)]
    if any(tally.low >= _WHOLE * tally.all for tally in elsewhere):
        return None
    twice = len({low.round for low in here}) > 1
    confirmed = twice and score >= scoring.bar(len(evidence.across))
    name = _uplink(evidence, leaf) if stays_good else leaf
    kind: Literal["leaf", "uplink"] = "uplink" if stays_good else "leaf"
    return Gathering(kind, name, tuple(here), score, confirmed, "other leaves")


def _mostly_low(evidence: Evidence, leaf: str, here: Sequence[Low]) -> list[str]:
    """The leaf's nodes of which more results are low than good."""
    counts: dict[str, int] = {}
    for low in here:
        for end in (low.a, low.b):
            if evidence.leaves[end] == leaf:
                counts[end.node] = counts.get(end.node, 0) + 1
    return [
        node
        for node, count in counts.items()
        if count > sum(evidence.stands[end].good for end in evidence.ends[node])
    ]


def _some(evidence: Evidence, leaf: str, lows: Sequence[Low]) -> Gathering | None:
    """Some flows of a leaf are low, and both their ends have others that are good."""
    mixed = [low for low in lows if all(evidence.stands[end].good for end in (low.a, low.b))]
    here = [low for low in mixed if leaf in _leaves(evidence, low)]
    others = {other for low in here for other in _leaves(evidence, low) if other != leaf}
    # Each pair once, each node but few times: what is low with many, or again, is at fault itself.
    pairs = {frozenset(low.nodes): low for low in here}.values()
    nodes_here = Counter(_end_at(evidence, leaf, low).node for low in pairs)
    nodes_there = Counter(n for low in pairs for n in low.nodes if n not in nodes_here)
    if len(nodes_here) < _NODES or len(others) < 2:
        return None
    all_here = evidence.across[leaf].all
    elsewhere = sum(tally.all for tally in evidence.across.values()) / 2 - all_here
    expected = all_here * (len(mixed) - len(here) + 1) / max(elsewhere, 1)
    count = min(
        sum(min(times, _TIMES_A_NODE) for times in nodes.values())
        for nodes in (nodes_here, nodes_there)
    )
    if count <= 2 * expected:
        return None
    score = count * math.log(count / expected) - (count - expected)
    if score < scoring.bar(len(evidence.across)):
        return None
    return Gathering(
        "uplink",
        _uplink(evidence, leaf),
        tuple(_by_chance(evidence, leaf, lows, count / all_here)),
        score,
        len({low.round for low in here}) > 1,
        "other leaves, more flows",
    )


def _not_of_a_moment(evidence: Evidence, lows: Sequence[Low]) -> list[Low]:
    """Those that are low beside others between the same leaves in the same round, too: a bad uplink
    of several hits some of these, and what slows leaves for a moment all.
    """
    results = evidence.observations
    values: dict[_Way, list[float]] = {_way(evidence, results[low.number]): [] for low in lows}
    for o in results if lows else ():
        if o.value and (way := _way(evidence, o)) in values:
            values[way].append(o.value)
    found = []
    for low in lows:
        value, expected = results[low.number].value, evidence.expected[low.number]
        others = values[_way(evidence, results[low.number])]
        # Where no round is known, neither is a moment.
        known = results[low.number].round is not None
        if known and value and expected and len(others) >= _FLOWS:
            usual = statistics.quantiles(others, n=4, method="inclusive")[-1]
            if usual - value < _OWN * (expected - value):
                continue
        found.append(low)
    return found


def _way(evidence: Evidence, o: Observation) -> _Way:
    return o.condition, o.round, frozenset((evidence.leaves.get(o.a), evidence.leaves.get(o.b)))


def _by_chance(evidence: Evidence, leaf: str, lows: Sequence[Low], rate: float) -> list[Low]:
    """The low results that a leaf of such a rate has at ends that are healthy: of an end that is
    low far more often, none.
    """
    by_end: dict[End, list[Low]] = {}
    for low in lows:
        if leaf in _leaves(evidence, low):
            for end in (low.a, low.b):
                by_end.setdefault(end, []).append(low)
    bar = scoring.bar(len(evidence.stands))
    own = {
        low
        for end, of_end in by_end.items()
        if -math.log(rate) * len(of_end) + evidence.stands[end].always > bar
        for low in of_end
    }
    return [low for of_end in by_end.values() for low in of_end if low not in own]


def _uplink(evidence: Evidence, leaf: str) -> str:
    """The one of the leaf's uplinks whose counters stand out, or the leaf."""
    known = {
        name: events
        for name, events in evidence.uplink_events.items()
        if name.partition(":")[0] == leaf
    }
    if not known:
        return leaf
    worst = max(known, key=lambda name: known[name])
    rest = [events for name, events in known.items() if name != worst]
    usual = statistics.median(rest) if rest else 0
    return worst if known[worst] > _TIMES * max(usual, 1) else leaf


def _leaves(evidence: Evidence, low: Low) -> tuple[str, str]:
    return evidence.leaves[low.a], evidence.leaves[low.b]


def _end_at(evidence: Evidence, leaf: str, low: Low) -> End:
    return low.a if evidence.leaves[low.a] == leaf else low.b


def _by_round(lows: Sequence[Low]) -> float:
    rounds: dict[int, float] = {}
    for low in lows:
        rounds[low.round] = max(rounds.get(low.round, 0.0), low.always)
    return sum(rounds.values())
