"""Which pairs a sweep measures once more, to tell a bad node from a bad partner or a bad way.

A bad pair says nothing of which of its two nodes is bad. So each node of one that was good with
nobody meets nodes that were good with others, until it was bad with three of these, and is at
fault, or good with one, and is cleared. Where both nodes are cleared, the pair itself is measured
again; if it is bad once more, each of them meets others in its part of it, as server or as client:
a link may be slow one way only. All of them are measured in the same round.

Where nodes of one leaf are bad now and then with those of others, one of its uplinks may be: which
flows take it, chance decides, and only more of them tell. So whoever is free meets another leaf.

Last, a node at fault is measured while all else is quiet: good each time then, it is slow for the
load alone, and its hardware is sound.
"""

from __future__ import annotations

import collections
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import NamedTuple

from railgauge.node.carried import LEAST_PAIRS

#: A node may be at fault if it is bad with this many partners that are good with others.
PARTNERS = 2

#: It meets others until it was bad with this many. The rounds of a list show each node two
#: partners, and among hundreds of nodes one has, now and then, two runs that failed by themselves:
#: whoever is bad with both of its partners meets one more.
CONVICTING = 3

#: The chance that a fault which comes and goes was away each time that all else was quiet, below
#: which it is load.
BY_CHANCE = 0.01

#: An uplink of a leaf is suspect where so many of its nodes were bad with other leaves, and so much
#: of all that was bad between leaves is its own.
NODES, OF_ALL = 3, 0.6

#: So many pairs at most keep the others busy while some are measured again.
MOST_BESIDE = 128


class Met(NamedTuple):
    """Two nodes that were measured with each other, as at the place `like` of the list; `good` is
    None where that is not known: nothing was measured, and it speaks against nobody. `alone`:
    nothing else was measured in its round.
    """

    like: int
    server: str
    client: str
    good: bool | None
    alone: bool = False

    @property
    def ends(self) -> tuple[str, str]:
        return self.server, self.client

    def other(self, node: str) -> str:
        return self.client if node == self.server else self.server


class Again(NamedTuple):
    """A pair to measure: as which place of the list, and who serves."""

    like: int
    server: str
    client: str

    @property
    def ends(self) -> tuple[str, str]:
        return self.server, self.client


def choose(
    conditions: Sequence[Sequence[Met]], there: Sequence[str], leaves: Mapping[str, str]
) -> list[Again]:
    """The pairs of the next round, all under one condition but those within a leaf: what is open
    tells more than an uplink that is suspect.
    """
    home = next((pairs for met in conditions if (pairs := _at_home(met, there, leaves))), [])
    taken = {node for pair in home for node in pair.ends}
    left = [node for node in there if node not in taken]
    choices = [(next_round(met, left, leaves), met) for met in conditions]
    again, of_again = max(choices, key=lambda pair: len(pair[0]), default=([], []))
    flows = [more_flows(met, left, leaves, again) for met in ([of_again] if again else conditions)]
    return [*home, *again, *max(flows, key=len, default=[])]


def beside(
    chosen: Sequence[Again],
    of_round: Sequence[Met],
    label: Callable[[int], str],
    there: Sequence[str],
    leaves: Mapping[str, str],
) -> list[Again]:
    """The pairs that keep all else as busy as in a listed round (`of_round`) while some are
    measured again: who is slow for the load would be good in a round of few. Nothing is judged by
    them, and what a pair has beside its ends, as rails, is the `label` of its place.

    They are those that were good there; then every two of the nodes that are left over, if possible
    on one leaf if these pairs are. Pairs of the same leaves come first. `there` are the nodes that
    may be measured, and were good with somebody.
    """
    busy = {end for one in chosen for end in _rails(*one.ends, label(one.like))}
    near = {leaves.get(node) for one in chosen for node in one.ends}
    present = set(there)
    good = [one for one in of_round if one.good and present.issuperset(one.ends)]
    good.sort(key=lambda one: near.isdisjoint(map(leaves.get, one.ends)))
    pairs: list[Again] = []
    for like, ends in itertools.chain(
        ((one.like, one.ends) for one in good), _left_over(of_round, busy, label, there, leaves)
    ):
        if len(pairs) == MOST_BESIDE:
            break
        rails = _rails(*ends, label(like))
        if busy.isdisjoint(rails):
            pairs.append(Again(like, *ends))
            busy |= rails
    return pairs


def _rails(server: str, client: str, label: str) -> set[tuple[str, str]]:
    """What a pair uses at each of its nodes: `0-1` is rail 0 of the server and 1 of the client."""
    at_server, dash, at_client = label.partition("-")
    return {(server, at_server), (client, at_client if dash else at_server)}


def _left_over(
    of_round: Sequence[Met],
    busy: Set[tuple[str, str]],
    label: Callable[[int], str],
    there: Sequence[str],
    leaves: Mapping[str, str],
) -> Iterable[tuple[int, tuple[str, str]]]:
    """Every two nodes of the pairs of a label, a place of which they are like."""
    by_label: dict[str, list[Met]] = {}
    for one in of_round:
        by_label.setdefault(label(one.like), []).append(one)
    for as_there, (name, of_label) in itertools.product((True, False), by_label.items()):
        first, nodes = of_label[0], {node for one in of_label for node in one.ends}
        free = [n for n in there if n in nodes and not busy >= _rails(n, n, name)]
        at_home = _of_one_leaf(first.ends, leaves)
        for ends in itertools.combinations(free, 2):
            if (_of_one_leaf(ends, leaves) == at_home) == as_there:
                yield first.like, ends


def away(low: int, loaded: int, quiet: int) -> float:
    """The chance that a fault which comes and goes was away in all of so many `quiet` results, by
    the number of the `low` ones of all `loaded`. They would be spread over all alike; that none of
    them is a quiet one has this chance (R. A. Fisher's exact test).
    """
    return math.comb(loaded, low) / math.comb(loaded + quiet, low)


def _quiet_needed(low: int) -> int:
    """How many good quiet results tell load, of a node that was low each time that others were
    busy: 7 after 3 low ones, 5 after 4.
    """
    return next(count for count in itertools.count(1) if away(low, low, count) < BY_CHANCE)


def quiet_pair(
    met: Iterable[Met],
    quiet: Sequence[Met],
    there: Sequence[str],
    leaves: Mapping[str, str],
    left: int,
) -> Again | None:
    """The pair to measure while all else is quiet, once no other can tell more: the pairs of the
    node that was at fault first, in turn, as long as it is good with them, and so often that this
    tells load; and once, after its first, a pair of others, to see what is good then.

    None where nobody is at fault, or has a bad result of a round in which it was `alone` as well;
    or where less than the needed rounds are `left`: a few good results tell nothing. A pair, leaf
    or uplink needs more results than a sweep can add. `quiet` are the results of such pairs.
    """
    results = [one for one in met if one.good is not None]
    bad = [one for one in results if not one.good]
    well = {node for one in results if one.good for node in one.ends}
    doubted = {node for one in bad for node in one.ends}
    guilty, present = _at_fault(bad, well), set(there)
    for node in dict.fromkeys(node for one in bad for node in one.ends if node in guilty):
        own = [one for one in bad if node in one.ends]
        at_home = _of_one_leaf(own[0].ends, leaves)
        pairs = [
            one
            for one in own
            if one.other(node) in well and present.issuperset(one.ends)
            if _of_one_leaf(one.ends, leaves) == at_home
        ]
        others = [
            one
            for one in results
            if one.good and present.issuperset(one.ends)
            if _of_one_leaf(one.ends, leaves) == at_home
        ]
        done = [one for one in quiet if node in one.ends]
        beside = [one for one in quiet if guilty.isdisjoint(one.ends)]
        if not pairs or not others or any(one.alone for one in own):
            continue
        if not all(one.good for one in (*done, *beside)):
            continue
        needed = _quiet_needed(len(own)) - len(done)
        if needed > 0 and needed + (not beside) <= left:
            # Better a pair whose nodes were never bad.
            clean = next((one for one in others if doubted.isdisjoint(one.ends)), others[0])
            one = clean if done and not beside else pairs[len(done) % len(pairs)]
            return Again(one.like, one.server, one.client)
    return None


def _at_home(met: Iterable[Met], there: Sequence[str], leaves: Mapping[str, str]) -> list[Again]:
    """Nodes that were never good and are bad with other leaves, each with another one of its own
    leaf: all of a leaf most of whose pairs are bad, and elsewhere who has met nobody at home. Good
    there, they are innocent of what is bad beyond; bad there, no uplink explains them.
    """
    results = [one for one in met if one.good is not None]
    between = _bad_between(results, leaves)
    suspect = _suspect_leaf(between, leaves)
    well = {node for one in results if one.good for node in one.ends}
    done = {frozenset(one.ends) for one in results}
    # Bad with one that was never good, it may be good with another.
    at_home = [one for one in results if _of_one_leaf(one.ends, leaves)]
    met_home = {n for o in at_home for n in o.ends if o.good or o.other(n) in well}
    partners = collections.Counter(n for ends in {frozenset(b.ends) for b in between} for n in ends)
    # Those that are good elsewhere are the better witnesses.
    here = sorted((node for node in there if node in leaves), key=lambda node: node not in well)
    of_leaf: dict[str, list[str]] = {}
    for node in here:
        of_leaf.setdefault(leaves[node], []).append(node)
    pairs: list[Again] = []
    taken: set[str] = set()
    for node in here:
        leaf = leaves[node]
        if node in well or node in taken or partners[node] < PARTNERS:
            continue
        if leaf != suspect and node in met_home:
            continue
        for other in of_leaf[leaf]:
            fits = other != node and other not in taken
            if fits and frozenset((node, other)) not in done:
                pairs.append(Again(between[0].like, node, other))
                taken |= {node, other}
                break
    if not pairs:
        return []
    # Beside pairs of other leaves, or nobody could tell a bad leaf from a bad round.
    homes = {leaves[node] for node in taken}
    beside = [
        Again(between[0].like, one, other)
        for name in dict.fromkeys(leaves.get(node) for node in there)
        if name is not None and name not in homes
        for one, other in _twos([n for n in there if leaves.get(n) == name and n in well])
    ]
    return [*pairs, *beside[: max(2 * len(pairs), LEAST_PAIRS - len(pairs))]]


def _twos(nodes: Sequence[str]) -> Iterable[tuple[str, str]]:
    return zip(nodes[::2], nodes[1::2])


def _of_one_leaf(ends: tuple[str, str], leaves: Mapping[str, str]) -> bool:
    """Whether two nodes are of one leaf, or the leaf of neither is known."""
    return leaves.get(ends[0]) == leaves.get(ends[1])


def _bad_between(results: Iterable[Met], leaves: Mapping[str, str]) -> list[Met]:
    """The bad ones of two leaves, but for those of nodes at fault that are bad at home as well: no
    uplink is suspect for these.
    """
    results = list(results)
    bad = [one for one in results if not one.good]
    between = [one for one in bad if not _of_one_leaf(one.ends, leaves)]
    well = {node for one in results if one.good for node in one.ends}
    at_home = {
        node
        for one in bad
        if _of_one_leaf(one.ends, leaves)
        for node in one.ends
        if one.other(node) in well
    }
    explained = at_home & _at_fault(bad, well)
    return [one for one in between if explained.isdisjoint(one.ends)]


def next_round(
    met: Iterable[Met],
    there: Sequence[str],
    leaves: Mapping[str, str] | None = None,
) -> list[Again]:
    """The pairs to measure next, which tell most of what is still open; none where nothing is open
    or no pair can tell.

    `there` are the nodes that may be measured. `leaves` is the leaf of each node, where it is
    known: a pair is on one leaf if the bad one is that it is to explain.
    """
    leaf_of = leaves or {}
    results = [one for one in met if one.good is not None]
    bad = [one for one in results if not one.good]
    well = {node for one in results if one.good for node in one.ends}
    # A node that was never in a bad pair is the better witness.
    doubted = {node for one in bad for node in one.ends}
    witnesses = sorted((node for node in there if node in well), key=lambda node: node in doubted)
    decided = well | _at_fault(bad, well)
    partners: dict[str, set[str]] = {}
    for one in results:
        for node in one.ends:
            partners.setdefault(node, set()).add(one.other(node))
    present, free = set(there), dict.fromkeys(witnesses)
    again: list[Again] = []
    taken: set[str] = set()

    def measure(like: int, server: str, client: str) -> None:
        again.append(Again(like, server, client))
        for node in (server, client):
            taken.add(node)
            free.pop(node, None)

    for one in bad:
        for node in one.ends:
            if node in decided or node in taken or node not in present:
                continue
            at_home = _of_one_leaf(one.ends, leaf_of)
            for witness in free:
                fits = _of_one_leaf((node, witness), leaf_of) == at_home
                if fits and witness not in partners[node]:
                    ends = (node, witness) if node == one.server else (witness, node)
                    measure(one.like, *ends)
                    break
    pairs = collections.Counter(frozenset(one.ends) for one in results)
    ways = _Ways(results)
    for one in bad:
        both = frozenset(one.ends)
        if not both <= well or not both <= present or both & taken or ways.explain(one):
            continue
        # Both are good with others. A fault may be there one way only.
        if pairs[both] == 1:
            measure(one.like, *one.ends)
            continue
        for node in one.ends:
            for witness in ways.witnesses(one, node, free):
                if _of_one_leaf((node, witness), leaf_of) == _of_one_leaf(one.ends, leaf_of):
                    ends = (node, witness) if node == one.server else (witness, node)
                    measure(one.like, *ends)
                    break
    if len(again) == 1 and len(results) > 1:
        # Alone in its round it would be measured under another condition: nobody beside it.
        others = list(free)[:2]
        if len(others) == 2:
            measure(again[0].like, *others)
    return again


class _Ways:
    """With whom each node was good and bad as server, and as client."""

    def __init__(self, results: Iterable[Met]) -> None:
        self._good: dict[tuple[str, bool], set[str]] = {}
        self._bad: dict[tuple[str, bool], set[str]] = {}
        for one in results:
            for node in one.ends:
                met = self._good if one.good else self._bad
                met.setdefault((node, node == one.server), set()).add(one.other(node))

    def explain(self, one: Met) -> bool:
        """Whether one of its nodes is at fault in the way in which it took part."""
        return any(self._at_fault(node, node == one.server) for node in one.ends)

    def _at_fault(self, node: str, serves: bool) -> bool:
        partners = self._bad.get((node, serves), set())
        sound = [other for other in partners if (other, not serves) in self._good]
        return (node, serves) not in self._good and len(sound) >= PARTNERS

    def witnesses(self, one: Met, node: str, free: Iterable[str]) -> list[str]:
        """Those of `free` who were good in the other part, and whom that node of a bad pair has not
        met in its own; none where it was good in this with anybody.
        """
        way = node, node == one.server
        if way in self._good:
            return []
        met = {node, *self._bad.get(way, ())}
        return [other for other in free if other not in met and (other, not way[1]) in self._good]


def more_flows(
    met: Iterable[Met], there: Sequence[str], leaves: Mapping[str, str], again: Sequence[Again] = ()
) -> list[Again]:
    """Pairs of different leaves beside those of `again` where an uplink is suspect; none where it
    is not, or where less than three leaves could not tell whose it is.

    Where nothing else is open, nodes that are good with others must speak for it.
    """
    results = [one for one in met if one.good is not None]
    between = _bad_between(results, leaves)
    well = {node for one in results if one.good for node in one.ends}
    proper = [one for one in between if again or well >= set(one.ends)]
    leaf = _suspect_leaf(between, leaves)
    if not leaf or not _suspect_leaf(proper, leaves) or len({leaves.get(n) for n in there}) < 3:
        return []
    taken = {node for one in again for node in one.ends}
    free = [node for node in there if node in well and node not in taken and node in leaves]
    balance = collections.Counter(one.server for one in results)
    balance.subtract(one.client for one in results)
    most = 2 * sum(leaves.get(node) == leaf for node in there)
    more = []
    pairs = itertools.islice(_across(free, leaf, leaves, results), most)
    for number, (one, other) in enumerate(pairs):
        # Both ways over the uplinks of the leaf.
        serves = balance[one] < 0 or (balance[one] == 0 and number % 2 == 0)
        more.append(Again(between[0].like, *((one, other) if serves else (other, one))))
    return more


def _suspect_leaf(between: Sequence[Met], leaf_of: Mapping[str, str]) -> str:
    """The leaf that most of these bad pairs have in common, of several of its nodes; "" if none."""
    nodes: dict[str, set[str]] = {}
    pairs: collections.Counter[str] = collections.Counter()
    for one in between:
        for node in one.ends:
            if leaf := leaf_of.get(node, ""):
                nodes.setdefault(leaf, set()).add(node)
                pairs[leaf] += 1
    (leaf, count), *_ = pairs.most_common(1) or [("", 0)]
    if not leaf or len(nodes[leaf]) < NODES or count < OF_ALL * len(between):
        return ""
    return leaf


def _across(
    free: Sequence[str], leaf: str, leaf_of: Mapping[str, str], results: Sequence[Met]
) -> Iterable[tuple[str, str]]:
    """Pairs of nodes of different leaves that have met the least, they and their leaves: first
    those of `leaf`, then others, for it to be compared with.
    """
    nodes = collections.Counter(frozenset(one.ends) for one in results)
    leaves = collections.Counter(frozenset(map(leaf_of.get, one.ends)) for one in results)
    left = sorted(free, key=lambda node: leaf_of[node] != leaf)
    while left:
        node = left.pop(0)
        others = [other for other in left if leaf_of[other] != leaf_of[node]]
        if others:
            here = leaf_of[node]
            other = min(
                others,
                key=lambda o: (nodes[frozenset((node, o))], leaves[frozenset((here, leaf_of[o]))]),
            )
            left.remove(other)
            leaves[frozenset((here, leaf_of[other]))] += 1
            yield node, other


def _at_fault(bad: Iterable[Met], well: set[str]) -> set[str]:
    """Nodes that were bad with enough partners that are good with others to need no more."""
    partners: dict[str, set[str]] = {}
    for one in bad:
        for node in one.ends:
            if one.other(node) in well:
                partners.setdefault(node, set()).add(one.other(node))
    return {node for node, met in partners.items() if len(met) >= CONVICTING and node not in well}
