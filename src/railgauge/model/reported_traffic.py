"""What a tool claims that the devices of a node carried."""

from __future__ import annotations

import dataclasses
from typing import Literal

#: Names of counters that are added up: those of one device, or of the links of one.
Counted = tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Claim:
    """What a tool says that devices of one node carried in one direction.

    Each of `devices` is counted in one of several ways, and the largest counts: NICs keep
    RDMA out of their interface's counters, or of their port's. `either` is a node that must
    receive or send as much, whichever it is. `wire_bytes` is the most that counters show of it,
    without what is sent again; None where others use the devices too, or it claims only a part.
    Where the tool was given its devices, `related` are the interfaces that show their traffic from
    another layer, and no other device should carry much meanwhile; None where that is not judged.
    """

    tool: str
    node: str
    direction: Literal["rx", "tx", "either"]
    devices: tuple[tuple[Counted, ...], ...]
    payload_bytes: int
    seconds: float
    wire_bytes: float | None = None
    related: tuple[str, ...] | None = None
