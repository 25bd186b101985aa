"""What was measured between two ends, and how much each result speaks for a fault."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

from railgauge.node.rdma import natural
from railgauge.verdict.locating import scoring
from railgauge.verdict.locating.peers import LEAST_PEERS, Peers, peers, without

#: So many results are judged anew with every round; of more only the new ones, among so many of the
#: latest of their class.
_JUDGED_ANEW = 20_000

#: The least weight of a result below its reference's bound and its peers, if it has any.
_BELOW = 6.9

#: All of a leaf is low where so much of what uses it is, and what others do is clean where at most
#: the rest of that is below the reference.
_OF_LEAF = 0.75

#: In so many rounds at least the ways of a leaf are low beside others that are clean.
_BESIDE = 2

#: Of what is judged together: condition, whether it crosses leaves, same rail, quiet.
_Class = tuple[Hashable, bool | None, bool, bool]


class End(NamedTuple):
    """One side of a place: a node, or a rail of it (device or number)."""

    node: str
    rail: str | None = None

    @property
    def name(self) -> str:
        return self.node if self.rail is None else f"{self.node}:{self.rail}"

    @property
    def order(self) -> tuple[object, ...]:
        return natural(self.node), natural(self.rail or "")


class Observation(NamedTuple):
    """One result: the more the better. `value` is None where the run failed.

    Only those of one `condition` are compared. `bound` is the least that a reference admits.
    `events_a` and `events_b` are what the ends' counters of errors did (link_downed, carrier
    changes, symbol errors, retransmissions, discards). `quiet`: nothing else ran.
    """

    a: End
    b: End
    value: float | None
    round: int | None = None
    condition: Hashable = ""
    bound: float | None = None
    events_a: int = 0
    events_b: int = 0
    quiet: bool = False


class Missing(NamedTuple):
    """What was to be measured, and was not: it accuses nobody."""

    place: str
    round: int | None
    why: str


class Low(NamedTuple):
    """A result that speaks for a fault of something that it used, or an event of `a` alone."""

    number: int
    a: End
    b: End
    always: float
    often: float
    #: of a healthy result to be as low, by the model; 0 of a run that failed
    chance: float
    round: int
    quiet: bool
    event: bool = False

    @property
    def nodes(self) -> tuple[str, str]:
        return (self.a.node, self.b.node)


class Stand:
    """What the good results of an end say: how many, their weights, and with whom."""

    __slots__ = ("always", "at_times", "count", "good", "good_with", "quiet_good")

    def __init__(self) -> None:
        self.count = 0
        self.good = 0
        self.quiet_good = 0
        self.always = 0.0
        self.at_times = 0.0
        #: nodes that it was good with -> the result; at most three: to know another one than X
        self.good_with: dict[str, int] = {}


class Tally:
    """Results over a leaf's ways out, or within it: all, and the low ones."""

    __slots__ = ("all", "low")

    def __init__(self) -> None:
        self.all = 0
        self.low = 0


class Evidence:
    """All results so far. `add` takes those of a round, or all of a campaign at once.

    `leaves` has the leaf of each end, where it is known. `least_spread` is what equal places differ
    by in any case, a share. A result that has lost no more than `tolerated`, a share, and is not
    below its reference's bound, is good.
    """

    def __init__(
        self,
        leaves: Mapping[End, str] | None = None,
        least_spread: float = 0.01,
        tolerated: float = 0.0,
    ) -> None:
        self.leaves = dict(leaves or {})
        self.least_spread = least_spread
        self.tolerated = -math.log1p(-tolerated)
        self.observations: list[Observation] = []
        #: of each result what its peers have, None where it has none, and its weight
        self.expected: list[float | None] = []
        self.weights: list[float] = []
        self.missing: list[Missing] = []
        self.stands: dict[End, Stand] = {}
        #: node -> its measured ends
        self.ends: dict[str, list[End]] = {}
        self.lows: list[Low] = []
        #: end -> how many of its results had events of its counters
        self.events: dict[End, int] = {}
        #: leaf -> its results with other leaves, and within
        self.across: dict[str, Tally] = {}
        self.within: dict[str, Tally] = {}
        #: why results of a condition or round accuse nobody
        self.alike: list[str] = []
        #: events of an uplink's own counters, `leaf2:spine1`
        self.uplink_events: dict[str, int] = {}
        self._peers: dict[_Class, Peers] = {}
        #: the latest of each class
        self._values: dict[_Class, list[float]] = {}
        #: those of which any result was good
        self._good: set[_Class] = set()
        self._rounds: set[int] = set()
        self._times: dict[tuple[End, End], int] = {}
        self._met: dict[tuple[str, str, int], int] = {}

    def add(self, observations: Iterable[Observation], missing: Iterable[Missing] = ()) -> None:
        """Take in more results, and judge them among their peers."""
        first = len(self.observations)
        self.observations += observations
        self.missing += missing
        if len(self.observations) <= _JUDGED_ANEW:
            first = 0
            self.expected, self.weights, self.lows, self.alike = [], [], [], []
            self.stands, self.ends, self.across, self.within = {}, {}, {}, {}
            self.events = {}
            self._times, self._met, self._values = {}, {}, {}
            self._good = set()
        self._judge(first)

    @property
    def rounds(self) -> int:
        """How many rounds: as they are numbered, or as many as the busiest end has results."""
        if self._rounds:
            return len(self._rounds)
        counts: dict[End, int] = {}
        for o in self.observations:
            for end in (o.a, o.b):
                counts[end] = counts.get(end, 0) + 1
        return max(counts.values(), default=0)

    @property
    def nodes(self) -> list[str]:
        """All that were measured, in natural order."""
        return sorted(self.ends, key=natural)

    def crosses(self, o: Observation | Low) -> bool | None:
        """Whether it went from one leaf to another; None where that is not known."""
        one, other = self.leaves.get(o.a), self.leaves.get(o.b)
        return None if one is None or other is None else one != other

    # ---- judging ----

    def _judge(self, first: int) -> None:
        new = self.observations[first:]
        self.expected += [None] * len(new)
        self.weights += [0.0] * len(new)
        classes: dict[_Class, list[int]] = {}
        between: Counter[tuple[str | None, str | None]] = Counter()
        leaves, stands = self.leaves.get, self.stands
        for number, o in enumerate(new, first):
            a, b = o.a, o.b
            one, other = leaves(a), leaves(b)
            between[one, other] += 1
            crosses = None if one is None or other is None else one != other
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
        for (one, other), count in between.items():
            if one is not None and other is not None:
                for leaf in (one, other) if one != other else (one,):
                    tallies = self.across if one != other else self.within
                    tallies.setdefault(leaf, Tally()).all += count
        # Where quiet results are few, the loaded ones say what is good.
        for kind, numbers in sorted(classes.items(), key=lambda item: item[0][-1]):
            self._judge_class(kind, numbers)
        self._add_events(first, new)

    def _judge_class(self, kind: _Class, numbers: Sequence[int]) -> None:
        observations = self.observations
        values = self._values_of(numbers)
        values = self._values[kind] = (self._values.get(kind, []) + values)[-_JUDGED_ANEW:]
        clean, others = self._beside_a_leaf(kind, numbers)
        if clean:
            values, below, reference_holds = self._values_of(clean), 0, True
        else:
            reference_holds = self._reference_holds(numbers)
            below = self._below(numbers) if reference_holds else 0
        known = peers(values, self.least_spread, below)
        if known is not None:
            if bad := self._mostly_low(numbers, known):
                known = without(known, values, bad)
            self._peers[kind] = known
        quiet = observations[numbers[0]].quiet
        beside = None
        if known is None and quiet:
            beside = self._peers.get((*kind[:3], False))
        # What is of a leaf is not of its rounds.
        shifts = self._shifts(others if clean else numbers, known)
        weights = known.weights if known else None
        often_low = scoring.often_low(known.grid, known.degrees) if known else 0.0
        lows = []
        for number in numbers:
            o = observations[number]
            value, chance = o.value, 0.0
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
                    always, low, chance = max(always, _BELOW), True, 0.0
                # What a whole round has lost accuses nobody, and clears nobody.
                least = max(scoring.GOOD * known.spread, scoring.LEAST_LOSS, self.tolerated)
                good = whole < least and not low
                if loss < self.tolerated and not low:
                    always, at_times = min(always, 0.0), min(at_times, 0.0)
            elif beside:
                self.expected[number] = beside.centre
                good = math.log(beside.centre / value) < scoring.LEAST_LOSS
                always, at_times, low = 0.0, 0.0, False
            else:
                # Without peers a run that came to its end is good, beside those that failed.
                low = bool(reference_holds and o.bound is not None and value < o.bound)
                good = not low
                always = _BELOW if low else scoring.LEAST
                at_times = scoring.came_and_went(always)
                self.expected[number] = o.bound if low else None
            self.weights[number] = always
            if low:
                lows.append(number)
                often = always if chance == 0 else often_low
                self._take_low(number, o, always, often, chance)
            else:
                self._take_pass(number, o, always, at_times, good)
        if len(lows) < len(numbers):
            self._good.add(kind)
        elif kind not in self._good:
            self._forgive_what_all_share(lows)

    def _mostly_low(self, numbers: Sequence[int], known: Peers) -> list[float]:
        """The values of ends that are low twice at least, and more often than not."""
        least = known.centre * math.exp(-scoring.LOW * known.spread)
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
        """Not where most values are below it: the reference is wrong, or all share a cause. Of a
        few, one node may spoil all but one.
        """
        bound = [o for n in numbers if (o := self.observations[n]).bound is not None and o.value]
        below = self._below(numbers)
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

    def _beside_a_leaf(
        self, kind: _Class, numbers: Sequence[int]
    ) -> tuple[Sequence[int], Sequence[int]]:
        """The results between other leaves, the clean ones and all, where most values are below
        their reference for what one leaf sends and receives: all of that is low beside them, round
        by round, so that neither the reference is wrong nor the moment. Empty where that is not so.
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
        known = peers(self._values_of(clean), self.least_spread)
        if known is None or len(clean) < _OF_LEAF * len(others):
            return (), ()
        least = known.centre * math.exp(-scoring.LOW * known.spread)
        low = [n for n in below.intersection(of_leaf) if (self.observations[n].value or 0) < least]
        rounds = {self.observations[n].round for n in low} - {None}
        beside = rounds & {self.observations[n].round for n in clean}
        if len(low) < _OF_LEAF * len(of_leaf) or len(beside) < _BESIDE:
            return (), ()
        return clean, others

    def _is_below(self, number: int) -> bool:
        _, _, value, _, _, bound, *_ = self.observations[number]
        return bool(value and bound is not None and value < bound)

    def _below(self, numbers: Sequence[int]) -> int:
        """How many values are below their reference's bound."""
        return sum(map(self._is_below, numbers))

    def _shifts(self, numbers: Sequence[int], known: Peers | None) -> dict[int | None, float]:
        """Round -> the loss that at least three quarters of its results have, where at least half
        of all ends take part: a cause that they share.
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
        for number, of_round in losses.items():
            shared = sorted(of_round)[len(of_round) // 4]
            if len(of_round) >= 4 and 4 * len(of_round) >= len(self.stands) and shared > least:
                shifts[number] = shared
                self.alike.append(f"round {number}: nearly all is slow alike")
        return shifts

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
        one, other = self.leaves.get(o.a), self.leaves.get(o.b)
        if one is not None and other is not None:
            for leaf in (one, other) if one != other else (one,):
                (self.within if one == other else self.across)[leaf].low += 1

    def _take_pass(
        self, number: int, o: Observation, always: float, at_times: float, good: bool
    ) -> None:
        if o.quiet:
            # It says nothing against "slow when others are busy".
            if good:
                self.stands[o.a].quiet_good += 1
                self.stands[o.b].quiet_good += 1
            return
        for end, partner in ((o.a, o.b.node), (o.b, o.a.node)):
            stand = self.stands[end]
            stand.count += 1
            stand.always += always
            stand.at_times += at_times
            if good:
                stand.good += 1
                if len(stand.good_with) < 3 and partner not in stand.good_with:
                    stand.good_with[partner] = number

    def _forgive_what_all_share(self, lows: Sequence[int]) -> None:
        """Where no result of a condition is good, nobody is told from the others, unless one end
        is in all of them.
        """
        nodes = [{end.node for end in self.observations[n][:2]} for n in lows]
        if set.intersection(*nodes):
            return
        gone = set(lows)
        self.lows = [low for low in self.lows if low.number not in gone]
        self.alike.append(f"all {len(lows)} results of a condition are bad alike")

    def _add_events(self, first: int, new: Sequence[Observation]) -> None:
        """Counters that moved at few ends speak against these; where many moved, against nobody."""
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
            # How often the counters of the others move.
            usual = (total - self.events[end] + 1) / (2 * len(self.observations))
            always = min(scoring.MOST, math.log(0.5 / max(usual, scoring.TRANSIENT)))
            if always < scoring.LOW:
                continue
            self.lows.append(
                Low(number, end, partner, always, always, 0.0, self._round(o), o.quiet, event=True)
            )

    def _round(self, o: Observation) -> int:
        """The round of a result; without rounds a number below 0 for each time that two nodes met,
        all rails together.
        """
        if o.round is not None:
            return o.round
        times = self._times[o.a, o.b] = self._times.get((o.a, o.b), -1) + 1
        met = (o.a.node, o.b.node, times)
        return -1 - self._met.setdefault(met, len(self._met))


def pair_of(a: str, b: str) -> tuple[str, str]:
    """Two nodes in natural order."""
    one, other = sorted((a, b), key=natural)
    return one, other
