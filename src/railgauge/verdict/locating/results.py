"""A result between two ends, and what is kept of those that are low or not."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from railgauge.node.rdma import natural


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
    """A result: the more the better. `value` is None where the run failed.

    Only results of one `condition` are compared. `bound` is the least that a reference admits.
    `events_a` and `events_b` are the increases of the ends' error counters (link_downed, symbol and
    frame errors, discards, a NIC's retransmissions). A carrier that changed, and what TCP sent
    again beyond its bound, make a result fail: such has no value. `quiet`: nothing else ran.
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


def in_order(o: Observation) -> tuple[object, ...]:
    """The key by which results are sorted: results with equal keys are the same."""
    ends = (o.a.node, o.a.rail or "", o.b.node, o.b.rail or "")
    value = (o.value is not None, o.value or 0.0, o.bound or 0.0, o.events_a, o.events_b, o.quiet)
    return (-1 if o.round is None else o.round, *ends, str(o.condition), *value)


class Missing(NamedTuple):
    """A result that was to be measured, and is missing: it accuses no end. `ends` are the two that
    it is of, where that is known.
    """

    place: str
    round: int | None
    why: str
    ends: tuple[End, ...] = ()


class Low(NamedTuple):
    """A result that speaks for a fault of something that it used, or an event of end `a` alone."""

    number: int
    a: End
    b: End
    always: float
    often: float
    #: the probability that a healthy result is as low, by the model; 0 for a run that failed
    chance: float
    round: int
    quiet: bool
    event: bool = False

    @property
    def nodes(self) -> tuple[str, str]:
        return (self.a.node, self.b.node)


class Stand:
    """The results of an end that are not low: how many, their weights, and with whom. Those while
    all else was quiet are apart.
    """

    __slots__ = (
        *("always", "at_times", "count", "good", "good_as_server", "good_ways", "good_with"),
        *("quiet", "quiet_good"),
    )

    def __init__(self) -> None:
        self.count = 0
        self.good = 0
        self.good_as_server = 0
        self.quiet = 0
        self.quiet_good = 0
        self.always = 0.0
        self.at_times = 0.0
        #: whether it was the server, and whether that was across leaves (None: not known), as it
        #: was good
        self.good_ways: set[tuple[bool, bool | None]] = set()
        #: node that it was good with -> the result; at most three, to know one besides any two
        self.good_with: dict[str, int] = {}


class Tally:
    """The number of a leaf's results, over its uplinks or within it, and of the low ones."""

    __slots__ = ("all", "low")

    def __init__(self) -> None:
        self.all = 0
        self.low = 0


def pair_of(a: str, b: str) -> tuple[str, str]:
    """Two nodes in natural order."""
    first, second = sorted((a, b), key=natural)
    return first, second
