"""One of several uplinks, or a spine: by flows, and by the switches' counters."""

from __future__ import annotations

import dataclasses
import math
import statistics
import sys
from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from typing import Literal, NamedTuple

import scipy

from railgauge.model.uplinks import leaf_of, spine_of
from railgauge.verdict.locating import scoring
from railgauge.verdict.locating.evidence import Evidence
from railgauge.verdict.locating.results import End, Low, Observation

#: The least number of different nodes that must be low at a leaf.
LEAST_NODES = 3

#: The most low results of a node that count for an uplink.
_MOST_PER_NODE = 3

#: From so many flows between two leaves in a round on, the better ones show what was usual then. A
#: flow of a bad uplink must have lost at least this share of its loss beside them.
_FLOWS, _OWN = 4, 0.5

#: An uplink's own counter stands out above so many times the median of the leaf's others.
_OUTSTANDING = 10

#: One of so many results is low by itself, as far as others of a campaign do not say.
_BY_THEMSELVES = 100

#: Looks for a gathering, one after each round: a probability of one look is less than that of any,
#: unlike the score of a node (`scoring`).
_LOOKS = 10

#: Of so many leaves at least, and more than half of all, a spine's uplinks must stand out.
_LEAST_LEAVES = 3

#: An uplink is starved that carried less than this share of what each of the others did, where
#: flows that take an uplink at random leave one so little with at most this probability.
_STARVED, _BY_CHANCE = 1 / 3, 1e-3

#: A condition, a round, and two leaves.
_Between = tuple[Hashable, int | None, frozenset[str | None]]


class Way(NamedTuple):
    """What an end does as server, or what it does as client: it may be slow in one of them only."""

    end: End
    serves: bool


@dataclasses.dataclass(frozen=True)
class Gathering:
    """Low results that have a leaf, or its uplinks, in common."""

    kind: Literal["leaf", "uplink"]
    name: str
    lows: tuple[Low, ...]
    score: float
    confirmed: bool
    #: what it must be measured with to be confirmed
    confirm: str
    #: the ways of ends that may be at fault in its place
    instead: tuple[Way, ...] = ()
    #: the ends that use it, where its name does not say it
    ends: tuple[End, ...] = ()


def one_of_several_uplinks(evidence: Evidence, leaf: str, lows: Sequence[Low]) -> Gathering | None:
    """One of several uplinks: some flows of a leaf are low, and both their ends have good ones."""
    mixed = of_good_ends(evidence, lows)
    at_this_leaf = [low for low in mixed if leaf in evidence.leaves_of(low)]
    others = {other for low in at_this_leaf for other in evidence.leaves_of(low) if other != leaf}
    # Each pair once, each node a few times: a node that is low with many, or again, is at fault
    # itself.
    pairs = {frozenset(low.nodes): low for low in at_this_leaf}.values()
    nodes_here = Counter(evidence.end_at(leaf, low).node for low in pairs)
    nodes_there = Counter(n for low in pairs for n in low.nodes if n not in nodes_here)
    if len(nodes_here) < LEAST_NODES or len(others) < 2:
        return None
    all_here = evidence.across[leaf].all
    elsewhere = sum(tally.all for tally in evidence.across.values()) / 2 - all_here
    count = min(map(_each_a_few_times, (nodes_here, nodes_there)))
    score = _more_than(count, all_here, len(mixed) - len(at_this_leaf), elsewhere)
    leaves = len(evidence.across)
    if score < scoring.bar(leaves, scoring.FALSE_MENTION):
        return None
    twice = len({low.round for low in at_this_leaf}) > 1
    rate = (len(mixed) - len(at_this_leaf) + 1) / (elsewhere + _BY_THEMSELVES)
    instead, ratio = _slow_ways(evidence, leaf, at_this_leaf, rate)
    own = ratio >= scoring.bar(leaves)
    return Gathering(
        "uplink",
        uplink_by_counters(evidence, leaf),
        tuple(_lows_of_healthy_ends(evidence, at_this_leaf, count / all_here)),
        score,
        twice and own and score >= scoring.bar(leaves),
        "other leaves, more flows",
        () if own else tuple(instead),
    )


def _slow_ways(
    evidence: Evidence, leaf: str, flows: Sequence[Low], rate: float
) -> tuple[list[Way], float]:
    """The ends that may have made these flows of a leaf low, each slow one way, and the logarithm
    of how much likelier one of its uplinks is, which makes as many flows low at each of its nodes.

    Such an end is low with whomever it meets, at its own leaf too, and hardly ever good in that
    part. Results are low by themselves at the `rate`. An end costs what it takes to name it. What
    else leaves the leaf and is low, as that of ends which are never good, speaks for neither.
    """
    others_low = evidence.across[leaf].low - len(flows)
    here = evidence.across[leaf].all - others_low
    share = len(flows) / here
    ratio = len(flows) * math.log(share / rate) + scipy.special.xlog1py(here - len(flows), -share)
    ratio -= (here - len(flows)) * math.log1p(-rate)
    left = set(flows)
    lows: dict[Way, set[Low]] = {}
    for low in evidence.lows:
        leaves = [evidence.leaves.get(end) for end in (low.a, low.b)]
        if not low.event and (low in left or leaves.count(leaf) != 1):
            lows.setdefault(Way(low.a, True), set()).add(low)
            lows.setdefault(Way(low.b, False), set()).add(low)
    costs = {
        True: math.log(2 * sum(evidence.leaves.get(end) == leaf for end in evidence.stands)),
        False: math.log(2 * len(evidence.stands)),
    }

    def gain(way: Way, of_way: Collection[Low]) -> float:
        stand = evidence.stands[way.end]
        good = stand.good_as_server if way.serves else stand.good - stand.good_as_server
        of_good = good * (scoring.LEAST - math.log1p(-rate))
        return of_good - len(of_way) * math.log(rate) - costs[evidence.leaves.get(way.end) == leaf]

    ways = [
        way
        for way, of_way in lows.items()
        if evidence.stands[way.end].good and not left.isdisjoint(of_way)
    ]
    explained: set[Low] = set()
    slow = []
    for way in sorted(ways, key=lambda way: (-gain(way, lows[way]), way.end.order)):
        gained = gain(way, lows[way] - explained)
        if gained > 0:
            slow.append(way)
            explained |= lows[way]
            ratio -= gained
    return slow, float(ratio)


def bad_spine(
    evidence: Evidence, lows: Sequence[Low], of_flows: Collection[Low]
) -> Gathering | None:
    """A spine: its uplinks of most leaves count errors that those of the others do not, and more
    flows between leaves are low than within them, of ends that have good ones.
    """
    name = _spine_with_errors(evidence)
    mixed = of_good_ends(evidence, lows) if name else []
    pairs = {frozenset(low.nodes): low for low in mixed if low in of_flows}.values()
    if len({leaf for low in pairs for leaf in evidence.leaves_of(low)}) < _LEAST_LEAVES:
        return None
    across = sum(tally.all for tally in evidence.across.values()) / 2
    within = sum(tally.all for tally in evidence.within.values())
    inside = [low for low in evidence.lows if not low.event and evidence.crosses(low) is False]
    low_within = len(of_good_ends(evidence, inside))
    count = _each_a_few_times(Counter(node for low in pairs for node in low.nodes)) / 2
    score = _more_than(count, across, low_within, within) if within else 0.0
    spines = len({spine_of(uplink) for uplink in evidence.uplink_events})
    if within and not score:
        return None
    twice = len({low.round for low in mixed}) > 1
    return Gathering(
        "uplink",
        name,
        tuple(_lows_of_healthy_ends(evidence, mixed, count / across)),
        score,
        twice and score >= scoring.bar(spines),
        "other leaves, more flows" if within else "nodes of one leaf with each other",
    )


def _spine_with_errors(evidence: Evidence) -> str:
    """The spine whose uplinks stand out at most leaves by their errors; "" if none."""
    leaves = {leaf_of(name) for name in evidence.uplink_events}
    worst = Counter(spine_of(name) for leaf in leaves if (name := _with_errors(evidence, leaf)))
    ((spine, count),) = worst.most_common(1) or [("", 0)]
    return spine if count >= _LEAST_LEAVES and 2 * count > len(leaves) else ""


def of_good_ends(evidence: Evidence, lows: Sequence[Low]) -> list[Low]:
    return [low for low in lows if all(evidence.stands[end].good for end in (low.a, low.b))]


def _each_a_few_times(nodes: Counter[str]) -> int:
    return sum(min(times, _MOST_PER_NODE) for times in nodes.values())


def _more_than(count: float, here: float, others: float, elsewhere: float) -> float:
    """How much `count` low results of those `here` speak for a fault there, where `others` of those
    `elsewhere` are low: the log-likelihood ratio of two Poisson rates, one more low elsewhere; 0
    where twice as many are expected or more.

    Not more than by the chance of as many, at any of some looks. The low results are all that is
    known of how often one is low by itself, which beforehand is one of a hundred; so their number
    here is distributed negative binomially (A. Gelman et al.: Bayesian Data Analysis, 2013, 2.6).
    """
    expected = here * (others + 1) / max(elsewhere, 1)
    if count <= 2 * expected:
        return 0.0
    share = here / (here + elsewhere + _BY_THEMSELVES)
    chance = max(
        _LOOKS * float(scipy.special.betainc(count, others + 1, share)), sys.float_info.min
    )
    ratio = count * math.log(count / expected) - (count - expected)
    return max(0.0, min(ratio, -math.log(chance)))


def not_momentary(evidence: Evidence, lows: Sequence[Low]) -> list[Low]:
    """The results that are low also beside others between the same leaves in the same round: one
    bad uplink of several hits some of these, but what slows leaves for a moment hits all.
    """
    results = evidence.observations
    values: dict[_Between, list[float]] = {
        _between(evidence, results[low.number]): [] for low in lows
    }
    for result in results if lows else ():
        if result.value and (between := _between(evidence, result)) in values:
            values[between].append(result.value)
    kept = []
    for low in lows:
        value, expected = results[low.number].value, evidence.expected[low.number]
        others = values[_between(evidence, results[low.number])]
        # Where no round is known, neither is a moment.
        has_round = results[low.number].round is not None
        if has_round and value and expected and len(others) >= _FLOWS:
            usual = statistics.quantiles(others, n=4, method="inclusive")[-1]
            if usual - value < _OWN * (expected - value):
                continue
        kept.append(low)
    return kept


def _between(evidence: Evidence, o: Observation) -> _Between:
    return o.condition, o.round, frozenset((evidence.leaves.get(o.a), evidence.leaves.get(o.b)))


def _lows_of_healthy_ends(evidence: Evidence, lows: Sequence[Low], rate: float) -> list[Low]:
    """The low results at ends that are healthy. An end that is low far more often than such a
    `rate` explains is bad itself.
    """
    by_end: dict[End, list[Low]] = {}
    for low in lows:
        for end in (low.a, low.b):
            by_end.setdefault(end, []).append(low)
    bar = scoring.bar(len(evidence.stands))
    bad_end_lows = {
        low
        for end, end_lows in by_end.items()
        if -math.log(rate) * len(end_lows) + evidence.stands[end].always > bar
        for low in end_lows
    }
    return [low for end_lows in by_end.values() for low in end_lows if low not in bad_end_lows]


def uplink_by_counters(evidence: Evidence, leaf: str) -> str:
    """The leaf's uplink whose counters stand out, or the leaf."""
    return _with_errors(evidence, leaf) or _starved(evidence, leaf) or leaf


def _with_errors(evidence: Evidence, leaf: str) -> str:
    events_by_name = {
        name: events for name, events in evidence.uplink_events.items() if leaf_of(name) == leaf
    }
    if not events_by_name:
        return ""
    worst = max(events_by_name, key=lambda name: events_by_name[name])
    other_events = [events for name, events in events_by_name.items() if name != worst]
    usual = statistics.median(other_events) if other_events else 0
    return worst if events_by_name[worst] > _OUTSTANDING * max(usual, 1) else ""


def _starved(evidence: Evidence, leaf: str) -> str:
    """The uplink that carried far less than all others of a leaf at fault, as the flows that take
    it crawl; "" where it is another one in each direction.
    """
    carried = {
        name: both_ways
        for name, both_ways in evidence.uplink_bytes.items()
        if leaf_of(name) == leaf
    }
    if len(carried) < 2:
        return ""
    starved = set()
    for direction, flows in enumerate(evidence.uplink_flows.get(leaf, (0, 0))):
        of_uplink = {name: both_ways[direction] for name, both_ways in carried.items()}
        least, second = sorted(of_uplink, key=of_uplink.__getitem__)[:2]
        share = of_uplink[least] / max(sum(of_uplink.values()), 1)
        if of_uplink[least] < _STARVED * of_uplink[second] and not_by_chance(
            share, flows, len(carried)
        ):
            starved.add(least)
    return starved.pop() if len(starved) == 1 else ""


def not_by_chance(share: float, flows: int, uplinks: int) -> bool:
    """Whether some uplink hardly gets such a share, or less, of flows that each take one at random.

    The binomial distribution of an uplink's flows, times the number of uplinks and of directions;
    it took none where it carried less than half of what a flow did on average.
    """
    taken = math.floor(share * flows + 0.5)
    of_one = scipy.special.bdtr(taken, flows, 1 / uplinks) if flows else 1.0
    return bool(2 * uplinks * of_one < _BY_CHANCE)
