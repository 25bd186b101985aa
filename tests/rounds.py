"""The rounds that benchmarks and tests of `railgauge.verdict.locating` measure: each has the places
that best separate what is left. (A sweep plans its own: `railgauge.node.retest`.)

Every end meets at most one other. An end that was low and is not decided meets a clean partner
that it has not met, all of them in one round: a suspect that is bad with two clean partners is
convicted, a healthy one is cleared by a pass. A pair whose ends are both good elsewhere is
measured itself. All other ends meet one of another leaf, in the second round one of their own
leaf. So the load stays the same for all, each uplink behind ECMP gets other flows, and faults that
come and go are seen again.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from railgauge.verdict.locating.evidence import Evidence
from railgauge.verdict.locating.judge import ENOUGH_GOOD, locate
from railgauge.verdict.locating.results import End
from railgauge.verdict.locating.suspects import Located


def settled(located: Located) -> bool:
    """Whether every suspect is confirmed and nobody else was ever low: more rounds would show only
    faults that come and go, and were not there yet.
    """
    return not located.watched and all(suspect.confirmed for suspect in located.suspects)


def next_round(
    evidence: Evidence,
    ends: Sequence[End],
    number: int,
    located: Located | None = None,
    fill: bool = True,
) -> list[tuple[End, End]]:
    """The places of round `number` (from 0), of `ends`, which may be more than were measured yet.

    `located` is what the evidence so far says, where the caller has it already. Without `fill` only
    those are measured that are not decided, with their partners.
    """
    located = located or (locate(evidence) if evidence.lows else None)
    places: list[tuple[End, End]] = []
    taken: set[End] = set()
    if located is not None:
        bad = {end for suspect in located.suspects for end in suspect.ends} | set(located.watched)
        by_rail: dict[str | None, list[End]] = {}
        for end in ends:
            by_rail.setdefault(end.rail, []).append(end)
        planes: dict[str | None, _Partners] = {}
        for a, b in _undecided(evidence, located, ends):
            if a in taken or (b is not None and b in taken):
                continue
            if b is None:
                plane = planes.get(a.rail)
                if plane is None:
                    plane = _Partners(evidence, by_rail.get(a.rail, []), bad, number)
                    planes[a.rail] = plane
                b = plane.take(a, taken)
            if b is not None:
                places.append((a, b))
                taken |= {a, b}
    if fill:
        places += _base(evidence, ends, taken, number)
    return places


def _undecided(
    evidence: Evidence, located: Located, ends: Sequence[End]
) -> Iterable[tuple[End, End | None]]:
    """Ends that need a clean partner, and pairs to be measured themselves, the likeliest first."""
    known = set(ends)
    times = Counter(frozenset((low.a, low.b)) for low in evidence.lows)
    for suspect in located.suspects:
        if suspect.kind in ("leaf", "uplink"):
            continue
        of_suspect = [end for end in suspect.ends if end in known]
        if suspect.confirmed:
            continue
        if any((measure.a, measure.b) == suspect.nodes for measure in suspect.confirm):
            yield from _pairs(evidence, of_suspect, times)
            continue
        for end in of_suspect:
            yield end, None
    for a, b in located.doubtful:
        if a in known and b in known:
            yield from _pairs(evidence, (a, b), times)
    for end in located.watched:
        if end in known:
            yield end, None


def _pairs(
    evidence: Evidence, ends: Sequence[End], times: Mapping[frozenset[End], int]
) -> Iterable[tuple[End, End | None]]:
    """The ends of a pair with each other, rail by rail, once they are good elsewhere as often as
    they were low here; else with others: a part with a small loss is good now and then.
    """
    rails: dict[str | None, list[End]] = {}
    for end in ends:
        rails.setdefault(end.rail, []).append(end)
    for pair in [list(ends)] if len(ends) == 2 else list(rails.values()):
        low = times.get(frozenset(pair), 0)
        if len(pair) == 2 and all(_goods(evidence, end) >= min(low, ENOUGH_GOOD) for end in pair):
            yield pair[0], pair[1]
        else:
            yield from ((end, None) for end in pair)


def _goods(evidence: Evidence, end: End) -> int:
    stand = evidence.stands.get(end)
    return stand.good if stand else 0


def _is_good(evidence: Evidence, end: End, without: Collection[str]) -> bool:
    stand = evidence.stands.get(end)
    return stand is not None and any(node not in without for node in stand.good_with)


class _Partners:
    """The clean ends of a rail plane, in an order that turns with the rounds."""

    def __init__(
        self, evidence: Evidence, ends: Sequence[End], bad: Collection[End], number: int
    ) -> None:
        clean = [end for end in ends if end not in bad and _is_good(evidence, end, ())]
        self.number = number
        self.turn = number
        #: leaf, "" where it is not known -> its clean ends, turned with the rounds
        self.by_leaf: dict[str, list[End]] = {}
        for end in clean:
            self.by_leaf.setdefault(evidence.leaves.get(end, ""), []).append(end)
        for leaf, of_leaf in self.by_leaf.items():
            turn = number % len(of_leaf)
            self.by_leaf[leaf] = of_leaf[turn:] + of_leaf[:turn]
        self.evidence = evidence
        self.met: dict[End, set[str]] = {}
        for low in evidence.lows:
            for end, other in ((low.a, low.b), (low.b, low.a)):
                self.met.setdefault(end, set()).add(other.node)

    def take(self, end: End, taken: Collection[End]) -> End | None:
        """A clean end of another node that it was not low with: in odd rounds of its own leaf,
        where no uplink lies between, in others of another leaf, as far as there are such.
        """
        met = self.met.get(end, set())
        leaf = self.evidence.leaves.get(end)
        near = self.number % 2 == 1
        for own_leaf in (near, not near):
            # Partners of one leaf would make that leaf look bad.
            for partner in self._of(leaf, own_leaf):
                if partner not in taken and partner.node != end.node and partner.node not in met:
                    return partner
        return None

    def _of(self, leaf: str | None, own: bool) -> Iterable[End]:
        if leaf is None:
            return self.by_leaf.get("", ())
        if own:
            return self.by_leaf.get(leaf, ())
        self.turn += 1
        others = [name for name in self.by_leaf if name != leaf]
        turn = self.turn % max(len(others), 1)
        return itertools.chain.from_iterable(
            self.by_leaf[name] for name in others[turn:] + others[:turn]
        )


def _base(
    evidence: Evidence, ends: Sequence[End], taken: Collection[End], number: int
) -> Iterable[tuple[End, End]]:
    """The ends that are left: in the second round within their leaves, which tells nodes from
    uplinks, in all others from leaf to leaf.
    """
    left = [end for end in ends if end not in taken]
    if number != 1 or not evidence.leaves:
        return _across(evidence, left, number)
    leaves: dict[tuple[str | None, str], list[End]] = {}
    for end in left:
        leaves.setdefault((end.rail, evidence.leaves.get(end, "")), []).append(end)
    within = [
        pair
        for of_leaf in leaves.values()
        for pair in zip(of_leaf[::2], of_leaf[1::2], strict=False)
    ]
    alone = [of_leaf[-1] for of_leaf in leaves.values() if len(of_leaf) % 2]
    return [*within, *_across(evidence, alone, number)]


def _across(evidence: Evidence, ends: Sequence[End], number: int) -> Iterable[tuple[End, End]]:
    """Each end with one of the same rail half a fabric away, in every round another one: the nodes
    in the order of their leaves, cut in two, the second half turned.
    """
    rails: dict[str | None, list[End]] = {}
    for end in ends:
        rails.setdefault(end.rail, []).append(end)
    for of_rail in rails.values():
        leaves = evidence.leaves
        of_rail.sort(key=lambda end: leaves.get(end, ""))
        half = len(of_rail) // 2
        first, second = of_rail[:half], of_rail[half:]
        # A step without a common divisor with most sizes, so that each meets all before one twice.
        turn = number * _step(half, len(set(leaves.values()))) % max(len(second), 1)
        for a, b in zip(first, second[turn:] + second[:turn], strict=False):
            if a.node != b.node:
                yield a, b


def _step(half: int, leaves: int) -> int:
    """Past the nodes of a leaf, so that the next round meets another one."""
    return 2 * half // leaves + 1 if leaves > 1 else 1
