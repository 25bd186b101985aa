"""Which pairs a sweep measures once more, to tell a bad node from a bad partner or a bad way.

A bad pair says nothing of which of its two nodes is bad. So each node of one that was good with
nobody meets nodes that were good with others, until it was bad with two of these, and is at fault,
or good with one, and is cleared. Where both nodes are cleared, the pair itself is measured again.
All of them are measured in the same round.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

#: Bad with so many partners that are good with others a node is at fault.
PARTNERS = 2

#: Among at least so many pairs of a round one is judged by the others.
LEAST_PAIRS = 4

#: A pair is slow that is so much below the median of its round, as a share of it.
SLOWER = 0.1


class Met(NamedTuple):
    """Two nodes that were measured with each other, under an order of the list; `good` is None
    where that is not known: nothing was measured, and it speaks against nobody.
    """

    order: int
    server: str
    client: str
    good: bool | None

    @property
    def ends(self) -> tuple[str, str]:
        return self.server, self.client

    def other(self, node: str) -> str:
        return self.client if node == self.server else self.server


class Again(NamedTuple):
    """A pair to measure: with which order of the list, and who serves."""

    order: int
    server: str
    client: str

    @property
    def ends(self) -> tuple[str, str]:
        return self.server, self.client


def are_good(rates: Sequence[float | None], least: float | None) -> list[bool | None]:
    """Which of a round's pairs are good, by what they carried (Gb/s), None where it is not known.

    Below `least` one is bad; and far below its peers, where there are enough.
    """
    known = sorted(rate for rate in rates if rate is not None)
    bound = least or 0.0
    if len(known) >= LEAST_PAIRS:
        middle = len(known) // 2
        median = known[middle] if len(known) % 2 else (known[middle - 1] + known[middle]) / 2
        bound = max(bound, (1 - SLOWER) * median)
    return [None if rate is None else rate >= bound for rate in rates]


def next_round(
    met: Iterable[Met],
    there: Sequence[str],
    alike: Callable[[str, str], object] = lambda one, other: True,
) -> list[Again]:
    """The pairs that tell most of what is still open; none where nothing is, or nobody can tell.

    `there` are the nodes that may be measured. `alike` says of two nodes what their pair must have
    in common with the bad one that it is to explain: whether they are on one leaf.
    """
    results = [one for one in met if one.good is not None]
    bad = [one for one in results if not one.good]
    well = {node for one in results if one.good for node in one.ends}
    # Who was never in a bad pair is the better witness.
    doubted = {node for one in bad for node in one.ends}
    witnesses = sorted((node for node in there if node in well), key=lambda node: node in doubted)
    decided = well | _at_fault(bad, well)
    partners: dict[str, set[str]] = {}
    for one in results:
        for node in one.ends:
            partners.setdefault(node, set()).add(one.other(node))
    present, free = set(there), dict.fromkeys(witnesses)
    found: list[Again] = []
    taken: set[str] = set()

    def measure(order: int, server: str, client: str) -> None:
        found.append(Again(order, server, client))
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
                    measure(one.order, *ends)
                    break
    pairs = collections.Counter(frozenset(one.ends) for one in results)
    for one in bad:
        both = frozenset(one.ends)
        # Both are good with others, and this pair was measured once.
        if both <= well and both <= present and not both & taken and pairs[both] == 1:
            measure(one.order, *one.ends)
    if len(found) == 1 and len(results) > 1:
        # Alone in its round it would be measured under another condition: nobody beside it.
        others = list(free)[:2]
        if len(others) == 2:
            measure(found[0].order, *others)
    return found


def _at_fault(bad: Iterable[Met], well: set[str]) -> set[str]:
    """Nodes that were bad with enough partners that are good with others."""
    partners: dict[str, set[str]] = {}
    for one in bad:
        for node in one.ends:
            if one.other(node) in well:
                partners.setdefault(node, set()).add(one.other(node))
    return {node for node, met in partners.items() if len(met) >= PARTNERS and node not in well}
