"""A measurement between two ends, as the locator takes it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

from railgauge.common.names import natural


class End(NamedTuple):
    """One side of a measurement: a node, or a rail of it (device or number)."""

    node: str
    rail: str | None = None

    @property
    def name(self) -> str:
        return self.node if self.rail is None else f"{self.node}:{self.rail}"

    @property
    def order(self) -> tuple[Any, ...]:
        return natural(self.node), natural(self.rail or "")


class Result(NamedTuple):
    """What one run measured between two ends; more is better.

    Data goes from `sender` to `receiver`. `value` is None where the run failed. Only results of one
    `condition` are compared. `bound` is the least value that a reference admits. `sender_events`
    and `receiver_events` are what the ends' error counters grew by (link_downed, symbol errors,
    discards, retransmissions). `quiet`: nothing else ran at the time.
    """

    sender: End
    receiver: End
    value: float | None
    round: int | None = None
    condition: Hashable = ""
    bound: float | None = None
    sender_events: int = 0
    receiver_events: int = 0
    quiet: bool = False

    @property
    def ends(self) -> tuple[End, End]:
        return self.sender, self.receiver

    @property
    def nodes(self) -> tuple[str, str]:
        return self.sender.node, self.receiver.node


class Missing(NamedTuple):
    """A result that was planned and is missing: it is evidence for nothing. `ends` are its two ends
    where they are known.
    """

    place: str
    round: int | None
    why: str
    ends: tuple[End, ...] = ()
