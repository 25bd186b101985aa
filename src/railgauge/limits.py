"""What physics allows, so that "is this number normal?" has an answer.

Rates are in Gb/s (10^9 bits per second), sizes in bytes. The header sizes are those of IEEE 802.3
(14 header, 4 FCS, 20 preamble and gap), IPv4 (20), UDP (8), the InfiniBand specification (LRH 8,
BTH 12, RETH 16, ICRC 4, VCRC 2) and its RoCE v2 annex, and TCP (20, with timestamps 32).
"""

from __future__ import annotations

import dataclasses
import math

#: Around every Ethernet frame's payload.
ETHERNET_BYTES = 14 + 4 + 20
_IPV4_BYTES = 20
_TCP_BYTES = 20
_TCP_TIMESTAMP_BYTES = 12
#: A RoCE v2 packet around its payload: 82 bytes.
ROCE_PACKET_BYTES = ETHERNET_BYTES + _IPV4_BYTES + 8 + 12 + 4
#: An InfiniBand packet around its payload: 26 bytes.
INFINIBAND_PACKET_BYTES = 8 + 12 + 4 + 2
#: Once in a WRITE message: the RDMA extended transport header.
RETH_BYTES = 16

#: A measurement may stand this far above a limit before it is a finding: clocks of tools differ
#: in the last digits, and a shaper's bucket is full when a test starts.
TOLERANCE = 0.01


@dataclasses.dataclass(frozen=True)
class Limit:
    """The most that a measurement can be, in the metric's unit, and what sets it."""

    value: float
    unit: str
    reason: str

    def share(self, value: float) -> float:
        """`value` as a fraction of the limit."""
        return value / self.value

    def both_ways(self) -> Limit:
        """For a sum over both directions of a link."""
        return Limit(2 * self.value, self.unit, f"{self.reason}, both ways")

    def exceeded_by(self, value: float) -> bool:
        return value > self.value * (1 + TOLERANCE)


def _require_positive(**values: float) -> None:
    for name, value in values.items():
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name} is {value}, expected a number above 0")


def _rdma(
    rate_gbits: float, mtu: int, size: int | None, packet_bytes: int, operation: str, name: str
) -> Limit:
    _require_positive(rate=rate_gbits, size=1 if size is None else size)
    if not 256 <= mtu <= 4096:
        raise ValueError(f"mtu is {mtu}, expected an RDMA path MTU of 256 to 4096")
    if operation not in ("write", "send", "read"):
        raise ValueError(f"operation is {operation!r}, expected write, send or read")
    once = RETH_BYTES if operation == "write" else 0
    if size is None:
        share = mtu / (mtu + packet_bytes)
        what = f"large messages at path MTU {mtu}"
    else:
        packets = math.ceil(size / mtu)
        share = size / (size + packet_bytes * packets + once)
        what = f"{size} byte messages in {packets} packet{'s' if packets > 1 else ''} of {mtu}"
    return Limit(rate_gbits * share, "Gb/s", f"{name} at {rate_gbits:g} Gb/s, {what}")


def roce(rate_gbits: float, mtu: int, size: int | None = None, operation: str = "write") -> Limit:
    """Payload rate of RoCE v2 over Ethernet: S/(S + 82k [+ 16 for a WRITE]), k = ceil(S/MTU).

    `mtu` is the RDMA path MTU (256 to 4096), `size` the message; None for large messages.
    25 GbE at 4096 gives 24.42, 24.50 and 24.51 Gb/s at 4 KiB, 64 KiB and 1 MiB, as measured in
    "Building a Multi-Node RDMA Lab on a Single Machine" (remote-lab.net).
    """
    return _rdma(rate_gbits, mtu, size, ROCE_PACKET_BYTES, operation, "RoCE v2")


def infiniband(
    rate_gbits: float, mtu: int, size: int | None = None, operation: str = "write"
) -> Limit:
    """Payload rate of native InfiniBand: as `roce`, with 26 bytes a packet."""
    return _rdma(rate_gbits, mtu, size, INFINIBAND_PACKET_BYTES, operation, "InfiniBand")


def tcp(rate_gbits: float, mtu: int, timestamps: bool = True) -> Limit:
    """Payload rate of TCP over IPv4 and Ethernet: (MTU - 52)/(MTU + 38) with timestamps.

    `mtu` is the interface's, IP header included.
    """
    _require_positive(rate=rate_gbits, mtu=mtu)
    headers = _IPV4_BYTES + _TCP_BYTES + (_TCP_TIMESTAMP_BYTES if timestamps else 0)
    if mtu <= headers:
        raise ValueError(f"mtu is {mtu}, expected more than the {headers} bytes of headers")
    share = (mtu - headers) / (mtu + ETHERNET_BYTES)
    return Limit(rate_gbits * share, "Gb/s", f"TCP over {rate_gbits:g} Gb/s Ethernet, MTU {mtu}")


def tcp_window(window_bytes: int, rtt_s: float) -> Limit:
    """The most that one TCP flow can carry: a window per round trip."""
    _require_positive(window=window_bytes, rtt=rtt_s)
    return Limit(
        window_bytes * 8 / rtt_s / 1e9,
        "Gb/s",
        f"one window of {window_bytes} bytes per {rtt_s * 1e3:g} ms round trip",
    )
