"""Leaves and uplinks: where low results gather while the nodes at them pass elsewhere."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Collection, Sequence
from typing import Literal

from railgauge.node.rdma import natural
from railgauge.verdict.locating import scoring
from railgauge.verdict.locating.evidence import Evidence
from railgauge.verdict.locating.results import End, Low, Tally
from railgauge.verdict.locating.uplinks import (
    LEAST_NODES,
    Gathering,
    bad_spine,
    not_momentary,
    of_good_ends,
    one_of_several_uplinks,
    uplink_by_counters,
)

#: The least weight of a low result that counts for an uplink, in nats.
_STRONG = 4.0

#: A leaf is at fault as a whole where this share of the results that use it is low.
_MOST_RESULTS = 0.7

#: A rail is low as a whole at so many nodes at least, and so much of its results.
_PLANE, _OF_PLANE = 6, 0.9

#: A node of a leaf that is bad as a whole is not good so often.
_SPARED = 3


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
    often = {at for at, of_rail in nodes.items() if len(of_rail) >= LEAST_NODES}
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
                used = {leaf} if gathering.name == leaf else _all_leaves(view, gathering.lows)
                name = f"{gathering.name} rail {rail}"
                found[name] = dataclasses.replace(
                    gathering,
                    name=name,
                    confirmed=gathering.confirmed and gathering.score >= bar,
                    ends=tuple(end for one in sorted(used, key=natural) for end in ends[one]),
                )
    return list(found.values())


def _all_leaves(view: Evidence, lows: Sequence[Low]) -> set[str]:
    return {leaf for low in lows for leaf in view.leaves_of(low)}


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
    of_flows = set(not_momentary(evidence, strong))
    if spine := bad_spine(evidence, strong, of_flows):
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
    found = one_of_several_uplinks(evidence, leaf, flows)
    if found is None or not found.confirmed:
        return found
    # What was low with all beside it, for a moment, is no proof; but it needs no other cause.
    moment = [low for low in leaving if low.always >= _STRONG and low not in flows]
    return dataclasses.replace(found, lows=(*found.lows, *of_good_ends(evidence, moment)))


def _lows_at(
    evidence: Evidence, leaf: str, lows: Sequence[Low], at_leaf: int
) -> tuple[list[Low], list[Low]]:
    """The low results that use a leaf, and of them those that leave it; none where they are of too
    few of its `at_leaf` nodes.
    """
    at_this_leaf = [low for low in lows if leaf in evidence.leaves_of(low)]
    nodes = {
        end.node for low in at_this_leaf for end in (low.a, low.b) if evidence.leaves[end] == leaf
    }
    if len(nodes) < min(LEAST_NODES, at_leaf) or len(nodes) < 2:
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
    nodes = {evidence.end_at(leaf, low).node for low in leaving}
    others = {other for low in leaving for other in evidence.leaves_of(low) if other != leaf}
    if not stays_good and len(_mostly_low(evidence, leaf, lows)) < LEAST_NODES:
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
    name = uplink_by_counters(evidence, leaf) if of_uplinks else leaf
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
    bad = {evidence.end_at(leaf, low).node for low in leaving}
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


def _score_by_round(lows: Sequence[Low]) -> float:
    rounds: dict[int, float] = {}
    for low in lows:
        rounds[low.round] = max(rounds.get(low.round, 0.0), low.always)
    return sum(rounds.values())
