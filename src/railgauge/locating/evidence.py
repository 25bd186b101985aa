"""The results of a campaign: which of them are low compared with their peers, and by how much."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence

from railgauge.common.names import natural
from railgauge.locating import peers as healthy
from railgauge.locating import sharing
from railgauge.locating.peers import GOOD, LEAST_LOSS, LEAST_PEERS, LOW, Peers
from railgauge.locating.results import End, Missing, Result
from railgauge.locating.routes import Routes

#: A low result has the level of its loss: 1 from 3 % on, 2 from 6 % on, ..., 5 from 50 % on, and 6
#: where the run failed. How often healthy pairs are low is counted level by level.
LEVELS = (0.03, 0.06, 0.12, 0.25, 0.5)
FAILED = len(LEVELS) + 1

#: A leaf is low where this share of the results that use it is. The other leaves are clean where at
#: least this share of theirs is not below the reference, in so many rounds in which both are there.
_LEAF_SHARE, _LEAST_ROUNDS = 0.75, 2

#: A round of so many results, of a quarter of all ends, in which nearly all runs failed has a cause
#: that they share.
_FAILED_ALIKE, _OF_ROUND = 0.9, 4

#: Up to so many results are put in order: of more, sums may differ in their last digits.
_ORDERED = 20_000

#: Results that are judged together: condition, group, same rail, quiet.
_Class = tuple[Hashable, str, bool, bool]


class Evidence:
    """All results so far; `add` takes those of a round, or of a whole campaign.

    `leaves` has the leaf of each end, where it is known; `routes` says which spine data takes.
    `least_spread` is the least spread of equal places, a share. A result that has lost no more than
    `tolerated`, a share, and is not below its reference's bound, is good. `directed`: data went
    from the sender to the receiver; else both ways, and nothing is said of a direction.
    """

    def __init__(
        self,
        leaves: Mapping[End, str] | None = None,
        least_spread: float = 0.01,
        tolerated: float = 0.0,
        directed: bool = False,
        routes: Routes | None = None,
    ) -> None:
        self.leaves = self.leaf_of = dict(leaves or {})
        self.directed = directed
        self.routes = routes
        self.results: list[Result] = []
        self.missing: list[Missing] = []
        #: ends with quiet results of the sweep's own, which may have ended before they were enough
        self.added: set[End] = set()
        #: uplink, `leaf2:spine1` -> what its own counters say: errors; bytes sent and received
        self.uplink_events: dict[str, int] = {}
        self.uplink_bytes: dict[str, tuple[int, int]] = {}
        #: leaf -> the number of flows that it sent over its uplinks, and received
        self.uplink_flows: dict[str, tuple[int, int]] = {}
        self._spread, self._tolerated = least_spread, -math.log1p(-tolerated)
        self._judged = -1

    def add(self, results: Iterable[Result], missing: Iterable[Missing] = ()) -> None:
        self.results += results
        self.missing += missing

    def judge(self) -> None:
        """Find the low results; nothing happens where that is done already."""
        if self._judged == len(self.results):
            return
        self._judged = len(self.results)
        count = len(self.results)
        #: of each result: its level, 0 where it is not low; whether it is good; its peers' value
        self.levels = [0] * count
        self.good = bytearray(count)
        self.expected: list[float | None] = [None] * count
        #: results where nothing shows whether they are good
        self.unclear: set[int] = set()
        #: why results of a condition or round are evidence against nobody
        self.no_evidence: list[str] = []
        #: node -> its measured ends
        self.ends: dict[str, list[End]] = {}
        #: ends with a result that its peers or its reference judged, and those with a good one
        self.judged_ends: set[End] = set()
        self.good_ends: set[End] = set()
        self._peers: dict[_Class, Peers] = {}
        #: the numbers of the results: nothing may depend on the order in which these come
        self.order: Sequence[int] = range(count)
        if count <= _ORDERED:
            self.order = sorted(self.order, key=lambda number: _order(self.results[number]))
        classes: dict[_Class, list[int]] = {}
        seen = {end for result in self.results for end in result[:2]}
        #: the leaf of each end; none where some are not known: what is compared would differ
        self.leaf_of = self.leaves if self.leaves.keys() >= seen else {}
        self.groups = [self.group(result[:2]) for result in self.results]
        for number in self.order:
            result = self.results[number]
            same_rail = result.sender.rail == result.receiver.rail
            kind = (result.condition, self.groups[number], same_rail, result.quiet)
            classes.setdefault(kind, []).append(number)
        for end in sorted(seen, key=lambda end: (end.node, end.rail or "")):
            self.ends.setdefault(end.node, []).append(end)
        self._all_ends = len(seen)
        self.any_quiet = any(kind[-1] for kind in classes)
        lost = self._lost_rounds()
        # Where quiet results are few, the loaded ones say what is good, and of few the many.
        for kind, numbers in sorted(classes.items(), key=lambda it: (it[0][-1], -len(it[1]))):
            self._judge_class(
                kind,
                [n for n in numbers if self.results[n].value or self.results[n].round not in lost],
            )
        #: the numbers of the low results, quiet ones too
        self.lows = [number for number in self.order if self.levels[number]]
        #: the numbers of the low results that may have shared a link with others
        self.shared = sharing.shared(self.results, self.lows, self.links)

    @property
    def rounds(self) -> int:
        """The number of rounds: of numbered ones, or else of the results of the busiest end."""
        numbered = {result.round for result in self.results} - {None}
        if numbered:
            return len(numbered)
        counts = Counter(end for result in self.results for end in result.ends)
        return max(counts.values(), default=0)

    @property
    def nodes(self) -> list[str]:
        """All measured nodes, in natural order."""
        return sorted(self.ends, key=natural)

    @property
    def cleared(self) -> list[str]:
        """The nodes with a good result of every end, compared with its peers or reference."""
        good = {node for node in self.ends if self.good_ends.issuperset(self.ends[node])}
        return sorted(good - self._lacking, key=natural)

    @property
    def unjudged(self) -> list[str]:
        """The nodes with an end that nothing judges: no reference and too few peers, all was bad
        alike, or all of its results are missing.
        """
        low = {end for number in self.lows for end in self.results[number].ends}
        judged = self.judged_ends | low
        unjudged = {node for node in self.ends if not judged.issuperset(self.ends[node])}
        return sorted(unjudged | self._lacking, key=natural)

    @property
    def _lacking(self) -> set[str]:
        """The nodes with an end that lacks all of its results."""
        return {
            end.node
            for missing in self.missing
            for end in missing.ends
            if end not in self.ends.get(end.node, ())
        }

    def group(self, ends: tuple[End, End]) -> str:
        """Whether data went `within` a leaf or `between` two; "" where that is not known."""
        a, b = self.leaf_of.get(ends[0]), self.leaf_of.get(ends[1])
        if a is None or b is None:
            return ""
        return "within" if a == b else "between"

    def links(self, ends: tuple[End, End]) -> tuple[sharing.Link, ...]:
        """The links between leaves that data of these ends takes (sharing.links)."""
        return sharing.links(ends, self.leaf_of, self.routes, self.directed)

    # ---- a class of results ----

    def _judge_class(self, kind: _Class, numbers: Sequence[int]) -> None:
        """Find the low and the good results of a class, by its peers and references."""
        results, levels, good = self.results, self.levels, self.good
        loaded_peers = self._peers.get((*kind[:3], False)) if kind[-1] else None
        known, reference_holds, shifts = self._peers_of(kind, numbers, loaded_peers)
        compared = known or loaded_peers
        least_good: Mapping[tuple[End, End], float] = {}
        if loaded_peers is not None:
            of_ends = [(results[n].ends, results[n].value or 0.0) for n in numbers]
            tolerated = max(LEAST_LOSS, GOOD * self._spread)
            least_good = healthy.least_quiet(of_ends, loaded_peers.centre, tolerated)
        low_below = known.below(LOW, self._tolerated) if known else 0.0
        good_above = known.below(GOOD, self._tolerated) if known else 0.0
        # Within a leaf, the values between leaves; between leaves, those within one.
        within = kind[1] == "within"
        other_group = {"within": "between", "between": "within"}.get(kind[1], "-")
        elsewhere = self._peers.get((kind[0], other_group, *kind[2:]))
        if known and elsewhere and within and len(numbers) < healthy.MANY:
            # Data within a leaf takes fewer links. Few values have a wide spread.
            low_below = max(low_below, elsewhere.below(LOW, self._tolerated))
            good_above = max(good_above, elsewhere.below(GOOD, self._tolerated))
        in_all = self._ends_of_all(numbers)
        for number in numbers:
            result = results[number]
            value, bound = result.value, result.bound if reference_holds else None
            self.expected[number] = centre = compared.centre if compared else None
            if not value:
                levels[number] = FAILED
                continue
            is_below = bound is not None and value < bound
            if known:
                lifted = value * math.exp(shifts[result.round]) if result.round in shifts else value
                if lifted < low_below or (is_below and lifted < known.beyond_noise):
                    levels[number] = _level(lifted, known.centre)
                # What a whole round has lost speaks against no end, and for none.
                elif value > good_above and value >= least_good.get(result.ends, 0.0):
                    good[number] = not is_below
            elif is_below:
                self.expected[number] = centre or bound
                levels[number] = _level(value, centre or bound or value)
            elif compared:
                good[number] = value >= least_good[result.ends]
            elif elsewhere and within and value < elsewhere.below(LOW):
                self.expected[number] = elsewhere.centre
                levels[number] = _level(value, elsewhere.centre)
            elif elsewhere and value < elsewhere.below(GOOD):
                # It may be so between leaves, or by chance.
                self.unclear.add(number)
            else:
                # Without peers a run that came to its end is good, compared with those that failed.
                good[number] = 1
            by_reference = bound is not None
            if levels[number] or not (compared or by_reference) or number in self.unclear:
                continue
            # Peers say nothing of an end that all of them are of.
            ends = set(result.ends) - (set() if by_reference else in_all)
            self.judged_ends |= ends
            if good[number]:
                self.good_ends |= ends
        if numbers and all(levels[number] for number in numbers):
            self._drop_common_lows(numbers)

    def _peers_of(
        self, kind: _Class, numbers: Sequence[int], loaded_peers: Peers | None
    ) -> tuple[Peers | None, bool, Mapping[int | None, float]]:
        """The peers of a class, where it has enough; whether its reference is right; and what whole
        rounds have lost.
        """
        clean, others = self._apart_from_bad_leaf(kind, numbers)
        values = self._values(clean or numbers)
        below, reference_holds = 0, True
        if not clean:
            # The loaded results have shown whether the reference is right; a few quiet ones may all
            # be of a bad end.
            few = len(values) < LEAST_PEERS and loaded_peers is not None
            reference_holds = few or self._reference_holds(numbers)
            below = sum(map(self._is_below, numbers)) if reference_holds else 0
            below = 0 if few and below == len(values) else below
        known = healthy.peers(values, self._spread, below)
        if known is not None:
            self._peers[kind] = known
            self._say_far_above(numbers, known)
        elif loaded_peers is None:
            self._say_too_few(numbers)
        # The loss of a bad leaf is no loss of its rounds.
        return known, reference_holds, self._shifts(others if clean else numbers, known)

    def _ends_of_all(self, numbers: Sequence[int]) -> set[End]:
        """The ends that take part in all of these results."""
        common = set(self.results[numbers[0]].ends) if numbers else set()
        for number in numbers:
            if not common:
                break
            common.intersection_update(self.results[number].ends)
        return common

    def _drop_common_lows(self, numbers: Sequence[int]) -> None:
        """Take back the low results of a condition without another one: they do not tell one end
        from another, unless one node is in all of them.
        """
        if set.intersection(*({*self.results[n].nodes} for n in numbers)):
            return
        for number in numbers:
            self.levels[number] = 0
        self.unclear.update(numbers)
        self.no_evidence.append(f"all {len(numbers)} results of a condition are bad")

    def _say_too_few(self, numbers: Sequence[int]) -> None:
        unknown = [n for n in numbers if (r := self.results[n]).value and r.bound is None]
        if unknown:
            self.no_evidence.append(
                f"{len(unknown)} values of a condition, without a reference: "
                f"{LEAST_PEERS} would show which are low"
            )

    def _say_far_above(self, numbers: Sequence[int], known: Peers) -> None:
        """Report results without a reference that are far better than their peers: where most nodes
        are slow, these are the healthy ones.
        """
        results, most = [self.results[n] for n in numbers], known.most
        far = [r.value for r in results if r.value and r.value > most and r.bound is None]
        if far:
            self.no_evidence.append(
                f"{len(far)} of {len(results)} values of a condition are far above the "
                f"{known.centre:.4g} of their peers (up to {max(far):.4g}): if these are the "
                "healthy ones, the others are slow, which only a reference can show"
            )

    def _reference_holds(self, numbers: Sequence[int]) -> bool:
        """Whether the reference is right. Where most values are below it, it is wrong, or all
        values share a cause. Of few values one bad node may spoil all but one.
        """
        bound = [n for n in numbers if self.results[n].bound is not None and self.results[n].value]
        below = sum(map(self._is_below, bound))
        if below < len(bound) < LEAST_PEERS or 2 * below <= len(bound):
            return True
        self.no_evidence.append(
            f"{below} of {len(bound)} values are below their reference: it, or something that "
            "all share, is wrong"
        )
        return False

    def _apart_from_bad_leaf(
        self, kind: _Class, numbers: Sequence[int]
    ) -> tuple[Sequence[int], Sequence[int]]:
        """The results between other leaves, the clean ones and all, where most values are below
        their reference because of one leaf; empty where that is not so. All results of that leaf
        are low compared with the clean ones, round by round: then the reference is right, and no
        moment was slow as a whole.
        """
        numbers = numbers if kind[1] == "between" else ()
        bound = [n for n in numbers if self.results[n].value and self.results[n].bound]
        below = set(filter(self._is_below, bound))
        if 2 * len(below) <= len(bound):
            return (), ()
        uses = Counter(self.leaf_of[end] for n in below for end in self.results[n].ends)
        leaf = max(uses, key=lambda name: (uses[name], name))
        of_leaf = [n for n in bound if leaf in map(self.leaf_of.get, self.results[n].ends)]
        others = sorted(set(bound).difference(of_leaf))
        clean = [n for n in others if n not in below]
        known = healthy.peers(self._values(clean), self._spread)
        if known is None or len(clean) < _LEAF_SHARE * len(others):
            return (), ()
        least = known.below(LOW)
        low = [n for n in below.intersection(of_leaf) if (self.results[n].value or 0) < least]
        rounds = {self.results[n].round for n in low} - {None}
        both = rounds & {self.results[n].round for n in clean}
        if len(low) < _LEAF_SHARE * len(of_leaf) or len(both) < _LEAST_ROUNDS:
            return (), ()
        return clean, others

    def _is_below(self, number: int) -> bool:
        result = self.results[number]
        return bool(result.value and result.bound is not None and result.value < result.bound)

    def _values(self, numbers: Iterable[int]) -> list[float]:
        return [value for n in numbers if (value := self.results[n].value)]

    # ---- rounds ----

    def _shifts(self, numbers: Sequence[int], known: Peers | None) -> dict[int | None, float]:
        """Round -> the loss that at least three quarters of its results share, where at least half
        of all ends take part (as a logarithm).
        """
        if known is None:
            return {}
        losses: dict[int, list[float]] = {}
        for number in numbers:
            result = self.results[number]
            if result.round is not None and result.value:
                losses.setdefault(result.round, []).append(result.value)
        least = known.below(GOOD)
        shifts: dict[int | None, float] = {}
        for number, values in losses.items():
            if len(values) < _OF_ROUND or 4 * len(values) < self._all_ends:
                continue
            shared = sorted(values, reverse=True)[len(values) // 4]
            if shared < least:
                shifts[number] = math.log(known.centre / shared)
                self.no_evidence.append(f"round {number}: nearly all are slow")
        return shifts

    def _lost_rounds(self) -> set[int | None]:
        """The rounds in which nearly all runs failed, while in others they did not."""
        runs = Counter(r.round for r in self.results if r.round is not None)
        failed = Counter(r.round for r in self.results if r.round is not None and not r.value)
        # The rails of a pair that are measured at once are one pair.
        pairs = {
            number: len({frozenset(r.nodes) for r in self.results if r.round == number})
            for number, count in failed.items()
            if runs[number] >= self._all_ends / 4 and count >= _FAILED_ALIKE * runs[number]
        }
        lost = {number for number, count in pairs.items() if count >= _OF_ROUND}
        if lost == runs.keys():
            return set()
        self.no_evidence += [f"round {number}: nearly all failed" for number in sorted(lost)]
        return set(lost)


def _level(value: float, healthy_value: float) -> int:
    """The level of the loss of a low result."""
    return max(1, bisect_right(LEVELS, 1 - value / healthy_value))


def _order(r: Result) -> tuple[object, ...]:
    ends = (r.sender.node, r.sender.rail or "", r.receiver.node, r.receiver.rail or "")
    value = (
        r.value is not None,
        r.value or 0.0,
        r.bound or 0.0,
        r.sender_events,
        r.receiver_events,
    )
    return (-1 if r.round is None else r.round, *ends, str(r.condition), *value, r.quiet)
