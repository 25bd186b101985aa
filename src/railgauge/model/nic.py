"""The link that a person says was measured, and the limit of a measurement on it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from railgauge.model import limits
from railgauge.model.limits import Limit
from railgauge.model.measurement import Measurement

Fabric = Literal["roce", "ib", "tcp"]

_WORD = re.compile(r"([1-9][0-9]{0,3})g-(roce|ib|tcp)")
#: Of an output that does not state its MTU the loosest limit: that of the longest usual packets.
_RDMA_MTU, _TCP_MTU = 4096, 9000
_BOTH_WAYS = "_bidirectional"
_TRANSPORTS: Mapping[Fabric, Sequence[str]] = {
    "roce": ("roce", "rdma"),
    "ib": ("infiniband", "rdma"),
    "tcp": (),
}


@dataclasses.dataclass(frozen=True)
class Nic:
    """One network interface: its raw rate in Gb/s, and what it speaks. `count` are those of a node,
    None where it is not known.
    """

    gbits: int
    fabric: Fabric
    count: int | None = None

    @classmethod
    def of(cls, word: str, count: int | None = None) -> Nic:
        """Of `400g-roce`; ValueError for anything else."""
        matched = _WORD.fullmatch(word)
        if not matched:
            raise ValueError(f"{word!r}, expected RATEg-roce, RATEg-ib or RATEg-tcp: 400g-roce")
        fabric: Fabric = "roce" if matched[2] == "roce" else "ib" if matched[2] == "ib" else "tcp"
        return cls(int(matched[1]), fabric, count)

    def limit(self, measurement: Measurement, seen: Mapping[str, Any]) -> Limit | None:
        """What the link allows; None where nothing says so. `seen` is what the output states."""
        m = measurement
        try:
            if m.metric.removesuffix("_in_place") == "busbw":
                return self._of_collective(m, seen)
            if m.metric != "bandwidth":
                return None
            operation = m.operation.partition(" ")[0]
            one_operation = operation.removesuffix(_BOTH_WAYS)
            if m.transport in _TRANSPORTS[self.fabric]:
                compute = limits.roce if self.fabric == "roce" else limits.infiniband
                mtu = seen.get("active_mtu_bytes") or _RDMA_MTU
                one_way = compute(self.gbits, mtu, m.size_bytes, one_operation)
                return one_way if one_operation == operation else one_way.both_ways()
            if m.transport.partition("-")[0] == "tcp" and self.fabric != "ib":
                return limits.tcp(self.gbits, _tcp_mtu(seen))
        except ValueError:
            # Such a condition has no limit that is known.
            pass
        return None

    def _of_collective(self, m: Measurement, seen: Mapping[str, Any]) -> Limit | None:
        nodes = len(set(seen.get("hosts") or ()))
        if self.count is None or nodes < 2 or not m.ranks:
            return None
        operation = m.operation.partition(" ")[0]
        return limits.collective_over_nics(operation, nodes, m.ranks, self.count * self.gbits / 8)


def _tcp_mtu(seen: Mapping[str, Any]) -> int:
    """By the largest segment that the output states, which counts no timestamps."""
    stated = seen.get("mss_bytes")
    known = [stated] if isinstance(stated, int) else list(stated or ())
    return max(known) + limits.TCP_HEADERS_BYTES if known else _TCP_MTU
