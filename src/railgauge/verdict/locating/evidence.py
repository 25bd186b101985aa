"""The results between two ends, and how much each of them speaks for a fault."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence

from railgauge.node.rdma import natural
from railgauge.verdict.locating import scoring
from railgauge.verdict.locating.peers import LEAST_PEERS, Peers, least_quiet, peers, without
from railgauge.verdict.locating.results import (
    End,
    Low,
    Missing,
    Observation,
    Stand,
    Tally,
    in_order,
    pair_of,
)

#: Up to so many results are judged anew with every round. Of more, only the new ones are judged,
#: among so many of the latest of their class.
_JUDGED_ANEW = 20_000

#: The least weight of a result below its reference's bound and its peers, if it has any.
_BELOW_BOUND = 6.9

#: A leaf is low where this share of the results that use it is. The other leaves are clean where at
#: least this share of theirs is not below the reference.
_LEAF_SHARE = 0.75

#: The least number of rounds in which the ways of a leaf are low beside others that are clean.
_LEAST_ROUNDS = 2

#: A round of so many results, of a quarter of all ends, in which nearly all runs failed has a cause
#: that they share.
_FAILED_ALIKE, _OF_ROUND = 0.9, 4

#: Results that are judged together: condition, whether they cross leaves, same rail, quiet.
_Class = tuple[Hashable, bool | None, bool, bool]


class Evidence:
    """All results so far. `add` takes those of a round, or of a whole campaign.

    `leaves` has the leaf of each end, where it is known. `least_spread` is the least spread of
    equal places, a share. A result that has lost no more than `tolerated`, a share, and is not
    below its reference's bound, is good. `directed`: end `a` of a result was the server.
    """

    def __init__(
        self,
        leaves: Mapping[End, str] | None = None,
        least_spread: float = 0.01,
        tolerated: float = 0.0,
        directed: bool = False,
    ) -> None:
        self.directed = directed
        self.leaves = dict(leaves or {})
        self.least_spread = least_spread
        self.tolerated = -math.log1p(-tolerated)
        self.observations: list[Observation] = []
        #: for each result the value of its peers, None where it has none, and its weight
        self.expected: list[float | None] = []
        self.weights: list[float] = []
        self.missing: list[Missing] = []
        self.stands: dict[End, Stand] = {}
        #: node -> its measured ends
        self.ends: dict[str, list[End]] = {}
        self.lows: list[Low] = []
        #: ends all of whose results while all else was quiet a sweep has added, and may have ended
        #: before they were enough
        self.added: set[End] = set()
        #: end -> how many of its results had events in its counters
        self.events: dict[End, int] = {}
        #: nodes with a result within their leaf, beside others
        self.inside: set[str] = set()
        #: leaf -> its results with other leaves, and within
        self.across: dict[str, Tally] = {}
        self.within: dict[str, Tally] = {}
        #: why results of a condition or round accuse no end
        self.alike: list[str] = []
        #: events of an uplink's own counters, `leaf2:spine1`
        self.uplink_events: dict[str, int] = {}
        #: the bytes that an uplink's leaf sent over it, and received
        self.uplink_bytes: dict[str, tuple[int, int]] = {}
        #: leaf -> the number of flows that it sent over its uplinks, and received
        self.uplink_flows: dict[str, tuple[int, int]] = {}
        self._peers: dict[_Class, Peers] = {}
        #: the latest values of each class
        self._values: dict[_Class, list[float]] = {}
        #: the classes with any good result
        self._good: set[_Class] = set()
        #: ends with a result that its peers or its reference judged and that is not low, and of
        #: them those with a good one
        self._judged: set[End] = set()
        self._cleared: set[End] = set()
        #: the ends that are in all results of a class
        self._alone: dict[_Class, set[End]] = {}
        self._rounds: set[int] = set()
        #: of the new ones those in which nearly all failed
        self._lost: set[int] = set()
        self._times: dict[tuple[End, End], int] = {}
        self._met: dict[tuple[str, str, int], int] = {}

    def add(self, observations: Iterable[Observation], missing: Iterable[Missing] = ()) -> None:
        """Add results, and judge them among their peers."""
        first = len(self.observations)
        # Sums and ties must not depend on the order in which results come.
        self.observations += sorted(observations, key=in_order)
        self.missing += missing
        if len(self.observations) <= _JUDGED_ANEW:
            first = 0
            self.expected, self.weights, self.lows, self.alike = [], [], [], []
            self.stands, self.ends, self.across, self.within = {}, {}, {}, {}
            self.events, self.inside = {}, set()
            self._times, self._met, self._values = {}, {}, {}
            self._good, self._judged, self._cleared, self._alone = set(), set(), set(), {}
        self._judge(first)

    @property
    def rounds(self) -> int:
        """The number of rounds: of numbered ones, or else of the results of the busiest end."""
        if self._rounds:
            return len(self._rounds)
        counts: dict[End, int] = {}
        for o in self.observations:
            for end in (o.a, o.b):
                counts[end] = counts.get(end, 0) + 1
        return max(counts.values(), default=0)

    @property
    def nodes(self) -> list[str]:
        """All measured nodes, in natural order."""
        return sorted(self.ends, key=natural)

    @property
    def cleared(self) -> list[str]:
        """The nodes of which every end has a result that is good beside its peers or reference."""
        good = {node for node in self.nodes if self._cleared.issuperset(self.ends[node])}
        return sorted(good - self._lacking, key=natural)

    @property
    def unjudged(self) -> list[str]:
        """The nodes with an end of which nothing tells whether a result is good: no reference and
        too few peers, all was bad alike, or all of its results are missing.
        """
        judged = self._judged.union(end for low in self.lows for end in (low.a, low.b))
        measured = {node for node in self.nodes if not judged.issuperset(self.ends[node])}
        return sorted(measured | self._lacking, key=natural)

    @property
    def _lacking(self) -> set[str]:
        """The nodes with an end of which all results are missing."""
        return {
            end.node
            for missing in self.missing
            for end in missing.ends
            if end not in self.ends.get(end.node, ())
        }

    def crosses(self, o: Observation | Low) -> bool | None:
        """Whether a result went from one leaf to another; None where that is not known."""
        leaf_a, leaf_b = self.leaves.get(o.a), self.leaves.get(o.b)
        return None if leaf_a is None or leaf_b is None else leaf_a != leaf_b

    def leaves_of(self, low: Low) -> tuple[str, str]:
        """The leaves of a result whose ends are at known ones."""
        return self.leaves[low.a], self.leaves[low.b]

    def end_at(self, leaf: str, low: Low) -> End:
        """The end of a result that is at a leaf."""
        return low.a if self.leaves[low.a] == leaf else low.b

    # ---- judging ----

    def _judge(self, first: int) -> None:
        new = self.observations[first:]
        self.expected += [None] * len(new)
        self.weights += [0.0] * len(new)
        classes: dict[_Class, list[int]] = {}
        between: Counter[tuple[str | None, str | None]] = Counter()
        leaf_of, stands = self.leaves.get, self.stands
        for number, o in enumerate(new, first):
            a, b = o.a, o.b
            leaf_a, leaf_b = leaf_of(a), leaf_of(b)
            between[leaf_a, leaf_b] += 1
            crosses = None if leaf_a is None or leaf_b is None else leaf_a != leaf_b
            if crosses is False and not o.quiet:
                self.inside.update((a.node, b.node))
            kind = (o.condition, crosses, a.rail == b.rail, o.quiet)
            numbers = classes.get(kind)
            if numbers is None:
                numbers = classes[kind] = []
            numbers.append(number)
            for end in (a, b):
                if end not in stands:
                    stands[end] = Stand()
                    self.ends.setdefault(end.node, []).append(end)
            if o.round is not None:
                self._rounds.add(o.round)
        for (leaf_a, leaf_b), count in between.items():
            if leaf_a is not None and leaf_b is not None:
                for leaf in (leaf_a, leaf_b) if leaf_a != leaf_b else (leaf_a,):
                    tallies = self.across if leaf_a != leaf_b else self.within
                    tallies.setdefault(leaf, Tally()).all += count
        self._lost = self._lost_rounds(new)
        # Where quiet results are few, the loaded ones say what is good, and of few the many.
        for kind, numbers in sorted(classes.items(), key=lambda it: (it[0][-1], -len(it[1]))):
            self._judge_class(kind, numbers)
        self._add_events(first, new)

    def _judge_class(self, kind: _Class, numbers: Sequence[int]) -> None:
        observations = self.observations
        values = self._values_of(numbers)
        # Peers tell nothing of an end that all of them are of.
        alone = self._alone[kind] = self._in_all(numbers, self._alone.get(kind))
        values = self._values[kind] = (self._values.get(kind, []) + values)[-_JUDGED_ANEW:]
        clean, others = self._beside_bad_leaf(kind, numbers)
        if clean:
            values, below, reference_holds = self._values_of(clean), 0, True
        else:
            # The loaded ones have told whether the reference is right; a few quiet ones may all be
            # of a bad end.
            few = kind[-1] and len(values) < LEAST_PEERS and (*kind[:3], False) in self._peers
            reference_holds = few or self._reference_holds(numbers)
            below = self._count_below(numbers) if reference_holds else 0
            below = 0 if few and below == len(values) else below
        known = peers(values, self.least_spread, below)
        if known is not None:
            if bad := self._mostly_low(numbers, known):
                known = without(known, values, bad)
            self._peers[kind] = known
            self._say_far_above(numbers, known)
        loaded_peers = self._peers.get((*kind[:3], False)) if kind[-1] else None
        least_good: Mapping[tuple[End, End], float] = {}
        if loaded_peers is not None:
            by_ends = [(observations[n][:2], observations[n].value or 0.0) for n in numbers]
            tolerated = max(scoring.LEAST_LOSS, scoring.GOOD * self.least_spread)
            least_good = least_quiet(by_ends, loaded_peers.centre, tolerated)
        if known is None and loaded_peers is None:
            self._say_too_few(numbers)
        # The loss of a bad leaf is no loss of its rounds.
        shifts = self._shifts(others if clean else numbers, known)
        weights = known.weights if known else None
        often_low = scoring.often_low(known.grid, known.degrees) if known else 0.0
        lows, lost = [], 0
        for number in numbers:
            o = observations[number]
            value, chance = o.value, 0.0
            if not value and o.round in self._lost:
                lost += 1
                continue
            if value is None or value <= 0:
                always, low, good = scoring.MOST, True, False
                if known:
                    self.expected[number] = known.centre
            elif known and weights:
                self.expected[number] = known.centre
                whole = math.log(known.centre / value)
                loss = whole - shifts.get(o.round, 0.0)
                z = loss / known.spread
                place = scoring.Weights.place(z)
                always, at_times = weights.always[place], weights.at_times[place]
                low = z >= scoring.LOW and loss >= max(scoring.LEAST_LOSS, self.tolerated)
                chance = scoring.tail(z, known.degrees) if low else 1.0
                if reference_holds and o.bound is not None and value < o.bound and z > scoring.GOOD:
                    always, low, chance = max(always, _BELOW_BOUND), True, 0.0
                # What a whole round has lost accuses no end, and clears none.
                least = max(scoring.GOOD * known.spread, scoring.LEAST_LOSS, self.tolerated)
                good = whole < least and not low and value >= least_good.get(o[:2], 0.0)
                if loss < self.tolerated and not low:
                    always, at_times = min(always, 0.0), min(at_times, 0.0)
            elif loaded_peers:
                self.expected[number] = loaded_peers.centre
                good = value >= least_good[o[:2]]
                low = reference_holds and self._is_below(number)
                always, at_times = _BELOW_BOUND if low else 0.0, 0.0
            elif not self._is_below(number) and self._is_low_elsewhere(kind, value):
                # Too few to say that, and not good.
                self.within[self.leaves[o.a]].all -= 1
                always, at_times, low, good = 0.0, 0.0, False, False
            else:
                # Without peers a run that came to its end is good, beside those that failed.
                low = bool(reference_holds and o.bound is not None and value < o.bound)
                good = not low
                always = _BELOW_BOUND if low else scoring.LEAST
                at_times = scoring.came_and_went(always)
                self.expected[number] = o.bound if low else None
            self.weights[number] = always
            if low:
                lows.append(number)
                often = always if chance == 0 else often_low
                self._take_low(number, o, always, often, chance)
            else:
                self._take_pass(number, o, always, at_times, good, kind[1])
                by_reference = reference_holds and o.bound is not None
                if known or loaded_peers or by_reference:
                    ends: Iterable[End] = (o.a, o.b)
                    if alone and not by_reference:
                        ends = {o.a, o.b} - alone
                    self._judged.update(ends)
                    self._cleared.update(ends if good else ())
        if len(lows) + lost < len(numbers):
            self._good.add(kind)
        elif lows and kind not in self._good:
            self._drop_common_lows(lows)

    def _say_too_few(self, numbers: Sequence[int]) -> None:
        unknown = [n for n in numbers if (o := self.observations[n]).value and o.bound is None]
        if unknown:
            self.alike.append(
                f"{len(unknown)} values of a condition, without a reference: "
                f"{LEAST_PEERS} would tell which are low"
            )

    def _say_far_above(self, numbers: Sequence[int], known: Peers) -> None:
        """Of results without a reference those that are far better than their peers: where most
        nodes are slow, these are the healthy ones.
        """
        results, most = [self.observations[n] for n in numbers], known.most
        far = [o.value for o in results if o.bound is None and o.value and o.value > most]
        if far:
            self.alike.append(
                f"{len(far)} of {len(results)} values of a condition are far above the "
                f"{known.centre:.4g} of their peers (up to {max(far):.4g}): if these are the "
                "healthy ones, the others are slow, which only a reference tells"
            )

    def _is_low_elsewhere(self, kind: _Class, value: float) -> bool:
        """Whether a value would be low between two leaves: within one it is no less."""
        known = self._peers.get((kind[0], True, *kind[2:])) if kind[1] is False else None
        if known is None:
            return False
        return math.log(known.centre / value) >= max(scoring.LEAST_LOSS, scoring.LOW * known.spread)

    def _mostly_low(self, numbers: Sequence[int], class_peers: Peers) -> list[float]:
        """The values of ends that are low at least twice, and in most of their results."""
        least = class_peers.centre * math.exp(-scoring.LOW * class_peers.spread)
        lows: Counter[End] = Counter()
        for number in numbers:
            a, b, value = self.observations[number][:3]
            if value is None or value < least:
                lows[a] += 1
                lows[b] += 1
        often = {end for end, count in lows.items() if count > 1}
        if not often:
            return []
        results: Counter[End] = Counter()
        for number in numbers:
            for end in self.observations[number][:2]:
                if end in often:
                    results[end] += 1
        bad = {end for end in often if 2 * lows[end] > results[end]}
        return [
            value
            for number in numbers
            if (value := self.observations[number].value)
            and not bad.isdisjoint(self.observations[number][:2])
        ]

    def _reference_holds(self, numbers: Sequence[int]) -> bool:
        """Whether the reference is right: not where most values are below it, as then it is wrong,
        or all values share a cause. Among few values one node may spoil all but one.
        """
        bound = [o for n in numbers if (o := self.observations[n]).bound is not None and o.value]
        below = self._count_below(numbers)
        if below < len(bound) < LEAST_PEERS:
            return True
        if bound and 2 * below > len(bound):
            self.alike.append(
                f"{below} of {len(bound)} values are below their reference: it, or something that "
                "all share, is wrong"
            )
            return False
        return True

    def _values_of(self, numbers: Sequence[int]) -> list[float]:
        observations = self.observations
        return [v for n in numbers if (v := observations[n].value) is not None and v > 0]

    def _beside_bad_leaf(
        self, kind: _Class, numbers: Sequence[int]
    ) -> tuple[Sequence[int], Sequence[int]]:
        """The results between other leaves, the clean ones and all, where most values are below
        their reference because of one leaf; empty where that is not so. All results of that leaf
        are low beside the clean ones, round by round: then the reference is right, and no moment
        was slow as a whole.
        """
        known_bound = numbers if kind[1] else ()
        bound = [n for n in known_bound if (o := self.observations[n]).value and o.bound]
        below = set(filter(self._is_below, bound))
        if 2 * len(below) <= len(bound):
            return (), ()
        uses = Counter(self.leaves[end] for n in below for end in self.observations[n][:2])
        leaf = max(uses, key=lambda name: (uses[name], name))
        of_leaf = [n for n in bound if leaf in map(self.leaves.get, self.observations[n][:2])]
        others = sorted(set(bound).difference(of_leaf))
        clean = [n for n in others if n not in below]
        clean_peers = peers(self._values_of(clean), self.least_spread)
        if clean_peers is None or len(clean) < _LEAF_SHARE * len(others):
            return (), ()
        least = clean_peers.centre * math.exp(-scoring.LOW * clean_peers.spread)
        low = [n for n in below.intersection(of_leaf) if (self.observations[n].value or 0) < least]
        rounds = {self.observations[n].round for n in low} - {None}
        beside = rounds & {self.observations[n].round for n in clean}
        if len(low) < _LEAF_SHARE * len(of_leaf) or len(beside) < _LEAST_ROUNDS:
            return (), ()
        return clean, others

    def _is_below(self, number: int) -> bool:
        _, _, value, _, _, bound, *_ = self.observations[number]
        return bool(value and bound is not None and value < bound)

    def _count_below(self, numbers: Sequence[int]) -> int:
        """The number of values below their reference's bound."""
        return sum(map(self._is_below, numbers))

    def _shifts(self, numbers: Sequence[int], known: Peers | None) -> dict[int | None, float]:
        """Round -> the loss that at least three quarters of its results share, where at least half
        of all ends take part.
        """
        if known is None:
            return {}
        losses: dict[int, list[float]] = {}
        for number in numbers:
            o = self.observations[number]
            if o.round is not None and o.value is not None and o.value > 0:
                losses.setdefault(o.round, []).append(math.log(known.centre / o.value))
        least = max(scoring.LEAST_LOSS, scoring.GOOD * known.spread)
        shifts: dict[int | None, float] = {}
        for number, round_losses in losses.items():
            shared = sorted(round_losses)[len(round_losses) // 4]
            if (
                len(round_losses) >= _OF_ROUND
                and 4 * len(round_losses) >= len(self.stands)
                and shared > least
            ):
                shifts[number] = shared
                self.alike.append(f"round {number}: nearly all is slow alike")
        return shifts

    def _lost_rounds(self, new: Sequence[Observation]) -> set[int]:
        """The rounds in which nearly all runs failed, beside others in which not."""
        runs = Counter(o.round for o in new if o.round is not None)
        failed = Counter(o.round for o in new if o.round is not None and not o.value)
        alike = {
            number
            for number, count in failed.items()
            if runs[number] >= len(self.stands) / 4 and count >= _FAILED_ALIKE * runs[number]
        }
        # The rails of a pair that are measured at once are one pair.
        pairs: dict[int, set[tuple[str, str]]] = {}
        for o in new if alike else ():
            if o.round is not None and o.round in alike:
                pairs.setdefault(o.round, set()).add(pair_of(o.a.node, o.b.node))
        lost = {number for number in alike if len(pairs[number]) >= _OF_ROUND}
        if lost == runs.keys() and not self._good:
            return set()
        self.alike += [f"round {number}: nearly all failed alike" for number in sorted(lost)]
        return lost

    def _take_low(
        self, number: int, o: Observation, always: float, often: float, chance: float
    ) -> None:
        self.lows.append(
            Low(
                number,
                o.a,
                o.b,
                always,
                often,
                chance,
                self._round(o),
                o.quiet,
            )
        )
        leaf_a, leaf_b = self.leaves.get(o.a), self.leaves.get(o.b)
        if leaf_a is not None and leaf_b is not None:
            for leaf in (leaf_a, leaf_b) if leaf_a != leaf_b else (leaf_a,):
                (self.within if leaf_a == leaf_b else self.across)[leaf].low += 1

    def _in_all(self, numbers: Sequence[int], among: set[End] | None) -> set[End]:
        """The ends, `among` these where there are some, that are in all of these results."""
        ends: set[End] = set(self.observations[numbers[0]][:2] if among is None else among)
        for number in numbers:
            ends.intersection_update(self.observations[number][:2])
            if not ends:
                break
        return ends

    def _take_pass(
        self,
        number: int,
        o: Observation,
        always: float,
        at_times: float,
        good: bool,
        crosses: bool | None,
    ) -> None:
        if o.quiet:
            # It says nothing against "slow when others are busy".
            for end in (o.a, o.b):
                self.stands[end].quiet += 1
                self.stands[end].quiet_good += good
            return
        if good:
            self.stands[o.a].good_as_server += 1
            self.stands[o.a].good_ways.add((True, crosses))
            self.stands[o.b].good_ways.add((False, crosses))
        for end, partner in ((o.a, o.b.node), (o.b, o.a.node)):
            stand = self.stands[end]
            stand.count += 1
            stand.always += always
            stand.at_times += at_times
            if good:
                stand.good += 1
                if len(stand.good_with) < 3 and partner not in stand.good_with:
                    stand.good_with[partner] = number

    def _drop_common_lows(self, lows: Sequence[int]) -> None:
        """Drop the low results of a condition without a good one: they do not tell one end from
        another, unless one node is in all of them.
        """
        nodes = [{end.node for end in self.observations[n][:2]} for n in lows]
        if set.intersection(*nodes):
            return
        gone = set(lows)
        self.lows = [low for low in self.lows if low.number not in gone]
        self.alike.append(f"all {len(lows)} results of a condition are bad alike")

    def _add_events(self, first: int, new: Sequence[Observation]) -> None:
        """Add events: counters that moved at a few ends accuse these, at many ends none."""
        moved = [
            (number, end, partner, o)
            for number, o in enumerate(new, first)
            for end, partner, events in ((o.a, o.b, o.events_a), (o.b, o.a, o.events_b))
            if events
        ]
        if not moved:
            return
        for _, end, _, _ in moved:
            self.events[end] = self.events.get(end, 0) + 1
        total = sum(self.events.values())
        for number, end, partner, o in moved:
            # How often the counters of the other ends move.
            usual_share = (total - self.events[end] + 1) / (2 * len(self.observations))
            always = min(scoring.MOST, math.log(0.5 / max(usual_share, scoring.TRANSIENT)))
            if always < scoring.LOW:
                continue
            self.lows.append(
                Low(number, end, partner, always, always, 0.0, self._round(o), o.quiet, event=True)
            )

    def _round(self, o: Observation) -> int:
        """The round of a result. Without rounds it is a number below 0 for each time that two nodes
        met, the same for all their rails.
        """
        if o.round is not None:
            return o.round
        times = self._times[o.a, o.b] = self._times.get((o.a, o.b), -1) + 1
        met = (o.a.node, o.b.node, times)
        return -1 - self._met.setdefault(met, len(self._met))
