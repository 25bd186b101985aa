"""Which low results may have shared a link between leaves with others.

Healthy flows that meet on one link share its rate, so all of them are low. Where a fabric routes
statically they meet again whenever they are measured together, and look like a fault. A low result
that shared no link with another low one shows a fault of its path.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from railgauge.locating.results import End, Result
from railgauge.locating.routes import Routes

#: A link, or all uplinks of a leaf: the leaf, the spine or "", and whether data goes up.
Link = tuple[str, str, bool]


def links(
    ends: tuple[End, End], leaf_of: Mapping[End, str], routes: Routes | None, directed: bool
) -> tuple[Link, ...]:
    """The links of the fabric that data between two ends takes, in the ways that it goes: those
    that the routes name, else all uplinks of both leaves. None within a leaf.
    """
    found: list[Link] = []
    for sender, receiver in (ends,) if directed else (ends, ends[::-1]):
        up, down = leaf_of.get(sender), leaf_of.get(receiver)
        if up is not None and down is not None and up != down:
            way = up, sender, receiver
            spine = routes.spine(*way) if routes else ""
            arriving = routes.arriving_from(*way) if routes else ""
            found += [(up, spine, True), (down, arriving, False)]
    return tuple(found)


def shared(
    results: Sequence[Result],
    lows: Collection[int],
    links_of: Callable[[tuple[End, End]], tuple[Link, ...]],
) -> set[int]:
    """The numbers of the low results that may have shared a link with another low one of their
    round: flows that share a link are low together. A result without a round ran by itself.
    """
    taken = {
        number: links_of(results[number].ends)
        for number in lows
        if results[number].round is not None
    }
    uses = Counter((results[number].round, link) for number, of in taken.items() for link in of)
    return {
        number
        for number, of in taken.items()
        if any(uses[results[number].round, link] > 1 for link in of)
    }
