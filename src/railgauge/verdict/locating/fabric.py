"""Leaves and uplinks: where low results gather while the nodes at them pass elsewhere."""

from __future__ import annotations

import copy
import dataclasses
import math
import statistics
import sys
from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from typing import Literal, NamedTuple

from scipy import special

from railgauge.model.uplinks import leaf_of, spine_of
from railgauge.node.rdma import natural
from railgauge.verdict.locating import scoring
from railgauge.verdict.locating.evidence import Evidence
from railgauge.verdict.locating.results import End, Low, Observation, Tally

#: The least weight of a low result that counts for an uplink, in nats.
_STRONG = 4.0

#: A leaf is at fault as a whole where this share of the results that use it is low.
_MOST_RESULTS = 0.7

#: The least number of different nodes that must be low at a leaf.
_LEAST_NODES = 3

#: A rail is low as a whole at so many nodes at least, and so much of its results.
_PLANE, _OF_PLANE = 6, 0.9

#: A node of a leaf that is bad as a whole is not good so often.
_SPARED = 3

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


def planes(evidence: Evidence) -> list[Gathering]:
    """The rails that are low at nearly all nodes, which are good with their others: what all ends
    of such a rail share, its leaf where each rail has one of its own, and not each of them.
    """
    lows: dict[str, list[Low]] = {}
    for low in evidence.lows:
        if not low.event and low.a.rail is not None and low.a.rail == low.b.rail:
            lows.setdefault(low.a.rail, []).append(low)
    ends: dict[str, list[End]] = {}
    for end in evidence.stands:
        ends.setdefault(end.rail or "", []).append(end)
    low_rails = {
        rail
        for rail, of_rail in lows.items()
        if len({node for low in of_rail for node in low.nodes}) >= _PLANE
        and len(of_rail) >= _OF_PLANE * (len(of_rail) + _passed(evidence, ends[rail]))
    }
    spared = {
        end.node
        for end, stand in evidence.stands.items()
        if end.rail not in low_rails and stand.good
    }
    return [
        _plane(evidence, rail, ends[rail], lows[rail])
        for rail in sorted(low_rails, key=natural)
        if 2 * sum(end.node in spared for end in ends[rail]) > len(ends[rail])
    ]


def _passed(evidence: Evidence, ends: Sequence[End]) -> float:
    """Results that are not low, of two ends each."""
    return sum(evidence.stands[end].count for end in ends) / 2


def _plane(evidence: Evidence, rail: str, ends: Sequence[End], lows: Sequence[Low]) -> Gathering:
    leaves = {evidence.leaves.get(end, "") for end in ends}
    name = leaves.pop() if len(leaves) == 1 else ""
    if any(leaf == name and end.rail != rail for end, leaf in evidence.leaves.items()):
        name = ""
    score = _score_by_round(lows)
    enough = score >= scoring.bar(len(set(evidence.leaves.values())))
    confirmed = bool(name) and enough and len({low.round for low in lows}) > 1
    confirm = "other rails" if name else "other rails, its leaf known"
    return Gathering("leaf", name or f"rail {rail}", tuple(lows), score, confirmed, confirm)


def of_rails(evidence: Evidence, explained: Collection[Low] = ()) -> list[Gathering]:
    """The leaves at fault, as a whole or with all of their uplinks, for the ends of one rail alone:
    where each rail has leaves of its own, what is known as a leaf is a set of them. One that is bad
    for all of its rails is left to `gatherings`.
    """
    lows = [
        low
        for low in evidence.lows
        if not low.event and low not in explained and evidence.crosses(low) is not None
    ]
    nodes: dict[tuple[str, str], set[str]] = {}
    by_rail: dict[str, list[Low]] = {}
    for low in lows:
        if low.a.rail is not None and low.a.rail == low.b.rail:
            by_rail.setdefault(low.a.rail, []).append(low)
            for end in (low.a, low.b):
                nodes.setdefault((evidence.leaves[end], low.a.rail), set()).add(end.node)
    often = {at for at, of_rail in nodes.items() if len(of_rail) >= _LEAST_NODES}
    rails: dict[str, set[str | None]] = {}
    for end, leaf in evidence.leaves.items() if often else ():
        rails.setdefault(leaf, set()).add(end.rail)
    often = {(leaf, r) for leaf, r in often if len(rails[leaf]) > 1 and not _is_low(evidence, leaf)}
    bar = scoring.bar(sum(map(len, rails.values())))
    found: dict[str, Gathering] = {}
    for rail, view in _by_rail(evidence, {rail for _, rail in often}).items():
        ends: dict[str, list[End]] = {}
        for end, leaf in view.leaves.items():
            ends.setdefault(leaf, []).append(end)
        for leaf in sorted((leaf for leaf, of_rail in often if of_rail == rail), key=natural):
            gathering = _whole_at(view, leaf, by_rail[rail], len(ends[leaf]))
            if gathering is not None:
                used = {leaf} if gathering.name == leaf else _leaves_of(view, gathering.lows)
                name = f"{gathering.name} rail {rail}"
                found[name] = dataclasses.replace(
                    gathering,
                    name=name,
                    confirmed=gathering.confirmed and gathering.score >= bar,
                    ends=tuple(end for one in sorted(used, key=natural) for end in ends[one]),
                )
    return list(found.values())


def _leaves_of(view: Evidence, lows: Sequence[Low]) -> set[str]:
    return {leaf for low in lows for leaf in _leaves(view, low)}


def _is_low(evidence: Evidence, leaf: str) -> bool:
    tally = evidence.across.get(leaf, Tally())
    return tally.low >= _MOST_RESULTS * tally.all


def _by_rail(evidence: Evidence, rails: Collection[str]) -> dict[str, Evidence]:
    """The same evidence of each of these rails alone, between ends of it."""
    views = {}
    for rail in sorted(rails, key=natural):
        view = views[rail] = copy.copy(evidence)
        view.leaves = {end: leaf for end, leaf in evidence.leaves.items() if end.rail == rail}
        view.across, view.within = {}, {}
        # The switches' counters are of all rails.
        view.uplink_events, view.uplink_bytes, view.uplink_flows = {}, {}, {}
    low = {low.number for low in evidence.lows if not low.event} if views else set()
    for number, (a, b, *_) in enumerate(evidence.observations if views else ()):
        if a.rail != b.rail or a.rail not in views:
            continue
        view = views[a.rail]
        leaf_a, leaf_b = view.leaves.get(a), view.leaves.get(b)
        if leaf_a is None or leaf_b is None:
            continue
        tallies = view.across if leaf_a != leaf_b else view.within
        for leaf in {leaf_a, leaf_b}:
            tally = tallies.get(leaf)
            if tally is None:
                tally = tallies[leaf] = Tally()
            tally.all += 1
            tally.low += number in low
    return views


def gatherings(evidence: Evidence, explained: Collection[Low] = ()) -> list[Gathering]:
    """The leaves and uplinks that explain low results better than their nodes do.

    A leaf is at fault as a whole where most results that use it are low. Its uplinks are where most
    results that leave it are low, and those within it good. One of several uplinks behind ECMP hits
    some flows of nodes whose other flows pass: it is found where more of a leaf's flows are low
    than of other leaves', by the log-likelihood ratio of two Poisson rates. A spine hits flows of
    all leaves: it is found by the counters of its uplinks alone.
    """
    gatherings: list[Gathering] = []
    if len(evidence.across) < 2:
        return gatherings
    nodes: dict[str, set[str]] = {}
    for end, leaf in evidence.leaves.items():
        nodes.setdefault(leaf, set()).add(end.node)
    unexplained = [
        low
        for low in evidence.lows
        if not low.event and low not in explained and evidence.crosses(low) is not None
    ]
    strong = [low for low in unexplained if low.always >= _STRONG and evidence.crosses(low)]
    of_flows = set(_not_momentary(evidence, strong))
    if spine := _spine(evidence, strong, of_flows):
        gatherings.append(spine)
        unexplained = [low for low in unexplained if low not in spine.lows]
    while unexplained:
        flows = [low for low in unexplained if low in of_flows]
        candidates = [
            gathering
            for leaf in sorted(evidence.across, key=natural)
            if (gathering := _gathering_at(evidence, leaf, unexplained, flows, len(nodes[leaf])))
        ]
        if not candidates:
            break
        best = max(candidates, key=lambda gathering: gathering.score)
        gatherings.append(best)
        explained = set(best.lows)
        unexplained = [low for low in unexplained if low not in explained]
    return gatherings


def _gathering_at(
    evidence: Evidence, leaf: str, lows: Sequence[Low], flows: Sequence[Low], at_leaf: int
) -> Gathering | None:
    _, leaving = _lows_at(evidence, leaf, lows, at_leaf)
    if not leaving:
        return None
    if len(leaving) >= _MOST_RESULTS * evidence.across[leaf].all:
        return _whole_at(evidence, leaf, lows, at_leaf)
    found = _one_of_several_uplinks(evidence, leaf, flows)
    if found is None or not found.confirmed:
        return found
    # What was low with all beside it, for a moment, is no proof; but it needs no other cause.
    moment = [low for low in leaving if low.always >= _STRONG and low not in flows]
    return dataclasses.replace(found, lows=(*found.lows, *_of_good_ends(evidence, moment)))


def _lows_at(
    evidence: Evidence, leaf: str, lows: Sequence[Low], at_leaf: int
) -> tuple[list[Low], list[Low]]:
    """The low results that use a leaf, and of them those that leave it; none where they are of too
    few of its `at_leaf` nodes.
    """
    at_this_leaf = [low for low in lows if leaf in _leaves(evidence, low)]
    nodes = {
        end.node for low in at_this_leaf for end in (low.a, low.b) if evidence.leaves[end] == leaf
    }
    if len(nodes) < min(_LEAST_NODES, at_leaf) or len(nodes) < 2:
        return [], []
    return at_this_leaf, [low for low in at_this_leaf if evidence.crosses(low)]


def _whole_at(evidence: Evidence, leaf: str, lows: Sequence[Low], at_leaf: int) -> Gathering | None:
    """The leaf as a whole, or all of its uplinks; None where it is neither."""
    at_this_leaf, leaving = _lows_at(evidence, leaf, lows, at_leaf)
    across, within = evidence.across.get(leaf, Tally()), evidence.within.get(leaf, Tally())
    if not leaving or len(leaving) < _MOST_RESULTS * across.all:
        return None
    if 2 * within.low >= within.all:
        return _whole_leaf(evidence, leaf, at_this_leaf, stays_good=False)
    return _whole_leaf(evidence, leaf, leaving, stays_good=True)


def _whole_leaf(
    evidence: Evidence, leaf: str, lows: Sequence[Low], stays_good: bool
) -> Gathering | None:
    """The leaf as a whole, or all of its uplinks (`stays_good`); None where it is neither."""
    leaving = [low for low in lows if evidence.crosses(low)]
    nodes = {_end_at(evidence, leaf, low).node for low in leaving}
    others = {other for low in leaving for other in _leaves(evidence, low) if other != leaf}
    if not stays_good and len(_mostly_low(evidence, leaf, lows)) < _LEAST_NODES:
        # One or two bad nodes look the same as a bad leaf.
        return None
    spared = 0 if stays_good else _most_spared(evidence, leaf, leaving)
    if spared >= _SPARED:
        return None
    if stays_good and len(nodes) < 2:
        return None
    shown = not stays_good or _are_good_within(evidence, nodes)
    score = _score_by_round(lows)
    if len(others) == 1:
        name = "-".join(sorted((leaf, *others), key=natural))
        # Two leaves alone cannot be told apart.
        return Gathering("uplink", name, tuple(lows), score, False, "a third leaf")
    elsewhere = [tally for name, tally in evidence.across.items() if name not in (leaf, *others)]
    if any(tally.low >= _MOST_RESULTS * tally.all for tally in elsewhere):
        return None
    twice = len({low.round for low in lows}) > 1
    confirmed = twice and shown and not spared and score >= scoring.bar(len(evidence.across))
    # Where nothing was measured within the leaf, only counters can tell it from its uplinks.
    of_uplinks = stays_good or not evidence.within.get(leaf, Tally()).all
    name = _uplink(evidence, leaf) if of_uplinks else leaf
    kind: Literal["leaf", "uplink"] = "uplink" if stays_good or name != leaf else "leaf"
    measure = "other leaves" if shown else "its nodes with each other"
    return Gathering(kind, name, tuple(lows), score, confirmed, measure)


def _are_good_within(evidence: Evidence, nodes: Collection[str]) -> bool:
    """Whether most of these nodes that were measured within their leaf were good there. What is not
    low is not good yet: a few values may be of a wide spread.
    """
    inside = evidence.inside.intersection(nodes)
    good = {
        node
        for node in inside
        for end in evidence.ends[node]
        if any(crosses is False for _, crosses in evidence.stands[end].good_ways)
    }
    return 2 * len(good) > len(inside) or not inside


def _most_spared(evidence: Evidence, leaf: str, leaving: Sequence[Low]) -> int:
    """How often a node of the leaf is good that was never low with one of another leaf, the most
    of any: it is the leaf's other nodes then.
    """
    bad = {_end_at(evidence, leaf, low).node for low in leaving}
    return max(
        (
            stand.good
            for end, stand in evidence.stands.items()
            if evidence.leaves.get(end) == leaf and end.node not in bad
        ),
        default=0,
    )


def _mostly_low(evidence: Evidence, leaf: str, lows: Sequence[Low]) -> list[str]:
    """The leaf's nodes with more low results than good ones."""
    counts: dict[str, int] = {}
    for low in lows:
        for end in (low.a, low.b):
            if evidence.leaves[end] == leaf:
                counts[end.node] = counts.get(end.node, 0) + 1
    return [
        node
        for node, count in counts.items()
        if count
        > sum(
            evidence.stands[end].good
            for end in evidence.ends[node]
            if evidence.leaves.get(end) == leaf
        )
    ]


def _one_of_several_uplinks(evidence: Evidence, leaf: str, lows: Sequence[Low]) -> Gathering | None:
    """One of several uplinks: some flows of a leaf are low, and both their ends have good ones."""
    mixed = _of_good_ends(evidence, lows)
    at_this_leaf = [low for low in mixed if leaf in _leaves(evidence, low)]
    others = {other for low in at_this_leaf for other in _leaves(evidence, low) if other != leaf}
    # Each pair once, each node a few times: a node that is low with many, or again, is at fault
    # itself.
    pairs = {frozenset(low.nodes): low for low in at_this_leaf}.values()
    nodes_here = Counter(_end_at(evidence, leaf, low).node for low in pairs)
    nodes_there = Counter(n for low in pairs for n in low.nodes if n not in nodes_here)
    if len(nodes_here) < _LEAST_NODES or len(others) < 2:
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
        _uplink(evidence, leaf),
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
    ratio = len(flows) * math.log(share / rate) + special.xlog1py(here - len(flows), -share)
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


def _spine(evidence: Evidence, lows: Sequence[Low], of_flows: Collection[Low]) -> Gathering | None:
    """A spine: its uplinks of most leaves count errors that those of the others do not, and more
    flows between leaves are low than within them, of ends that have good ones.
    """
    name = _spine_with_errors(evidence)
    mixed = _of_good_ends(evidence, lows) if name else []
    pairs = {frozenset(low.nodes): low for low in mixed if low in of_flows}.values()
    if len({leaf for low in pairs for leaf in _leaves(evidence, low)}) < _LEAST_LEAVES:
        return None
    across = sum(tally.all for tally in evidence.across.values()) / 2
    within = sum(tally.all for tally in evidence.within.values())
    inside = [low for low in evidence.lows if not low.event and evidence.crosses(low) is False]
    low_within = len(_of_good_ends(evidence, inside))
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


def _of_good_ends(evidence: Evidence, lows: Sequence[Low]) -> list[Low]:
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
    chance = max(_LOOKS * float(special.betainc(count, others + 1, share)), sys.float_info.min)
    ratio = count * math.log(count / expected) - (count - expected)
    return max(0.0, min(ratio, -math.log(chance)))


def _not_momentary(evidence: Evidence, lows: Sequence[Low]) -> list[Low]:
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


def _uplink(evidence: Evidence, leaf: str) -> str:
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
    of_one = special.bdtr(taken, flows, 1 / uplinks) if flows else 1.0
    return bool(2 * uplinks * of_one < _BY_CHANCE)


def _leaves(evidence: Evidence, low: Low) -> tuple[str, str]:
    return evidence.leaves[low.a], evidence.leaves[low.b]


def _end_at(evidence: Evidence, leaf: str, low: Low) -> End:
    return low.a if evidence.leaves[low.a] == leaf else low.b


def _score_by_round(lows: Sequence[Low]) -> float:
    rounds: dict[int, float] = {}
    for low in lows:
        rounds[low.round] = max(rounds.get(low.round, 0.0), low.always)
    return sum(rounds.values())
