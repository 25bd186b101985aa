"""Which pairs a sweep measures once more, to tell a bad node from a bad partner or a bad way.

A bad pair says nothing of which of its two nodes is bad. So each node of one that was good with
nobody meets nodes that were good with others, until it was bad with two of these, and is at fault,
or good with one, and is cleared. Where both nodes are cleared, the pair itself is measured again.
All of them are measured in the same round.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

#: A node is at fault if it is bad with this many partners that are good with others.
PARTNERS = 2

#: Pairs that a round needs at least for one of them to be judged by the others.
LEAST_PAIRS = 4


class Met(NamedTuple):
    """Two nodes that were measured with each other, as at the place `like` of the list; `good` is
    None where that is not known: nothing was measured, and it speaks against nobody.
    """

    like: int
    server: str
    client: str
    good: bool | None

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


def rate_gbits(line: Mapping[str, Any]) -> float | None:
    """What the busiest device of a side carried, in its busier direction, by its exit line; None
    where it is not known. Headers and the tool's own start are in it: it is for comparing peers.
    """
    seconds = line["call"]["seconds"]
    counters = line.get("facts", {}).get("counters")
    moved = counters.get("bytes", {}) if isinstance(counters, dict) else {}
    counts = [n for name, ways in moved.items() if name != "lo" for n in ways.values()]
    return max(counts) * 8 / seconds / 1e9 if counts and seconds > 0 else None


def bound(rates: Sequence[float | None], slower: float) -> float:
    """The rate (Gb/s) below which a pair of a round is bad: the share `slower` below the median of
    all pairs; 0 where there are too few.
    """
    known = sorted(rate for rate in rates if rate is not None)
    if len(known) < LEAST_PAIRS or not slower:
        return 0.0
    middle = len(known) // 2
    median = known[middle] if len(known) % 2 else (known[middle - 1] + known[middle]) / 2
    return (1 - slower) * median


def next_round(
    met: Iterable[Met],
    there: Sequence[str],
    alike: Callable[[str, str], object] = lambda one, other: True,
) -> list[Again]:
    """The pairs to measure next, which tell most of what is still open; none where nothing is open
    or no pair can tell.

    `there` are the nodes that may be measured. `alike` says of two nodes what their pair must have
    in common with the bad one that it is to explain: whether they are on one leaf.
    """
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
            kind = alike(*one.ends)
            for witness in free:
                if witness not in partners[node] and alike(node, witness) == kind:
                    ends = (node, witness) if node == one.server else (witness, node)
                    measure(one.like, *ends)
                    break
    pairs = collections.Counter(frozenset(one.ends) for one in results)
    for one in bad:
        both = frozenset(one.ends)
        # Both are good with others, and this pair was measured once.
        if both <= well and both <= present and not both & taken and pairs[both] == 1:
            measure(one.like, *one.ends)
    if len(again) == 1 and len(results) > 1:
        # Alone in its round it would be measured under another condition: nobody beside it.
        others = list(free)[:2]
        if len(others) == 2:
            measure(again[0].like, *others)
    return again


def _at_fault(bad: Iterable[Met], well: set[str]) -> set[str]:
    """Nodes that were bad with enough partners that are good with others."""
    partners: dict[str, set[str]] = {}
    for one in bad:
        for node in one.ends:
            if one.other(node) in well:
                partners.setdefault(node, set()).add(one.other(node))
    return {node for node, met in partners.items() if len(met) >= PARTNERS and node not in well}
