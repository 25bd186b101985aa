"""What a tool claims that the devices of a node carried."""

from __future__ import annotations

import dataclasses
from typing import Literal

#: Names of counters that are added up: those of one device, or of the links of one.
Counted = tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Claim:
    """What a tool says that devices of one node carried in one direction.

    Each of `devices` is counted in one of several ways, of which the largest counts: NICs keep
    RDMA out of their interface's counters, or of their port's. `either` is a node that must
    receive or send as much, whichever it is. `wire_bytes` is the most that counters show of it,
    without what is sent again; None where others use the devices too, or it claims only a part.
    """

    tool: str
    node: str
    direction: Literal["rx", "tx", "either"]
    devices: tuple[tuple[Counted, ...], ...]
    payload_bytes: int
    seconds: float
    wire_bytes: float | None = None
