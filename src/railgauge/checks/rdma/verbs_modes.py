"""Checks of several ways to use the same link: READ, both directions, many queue pairs, ...

All of them are places of one job: to start one takes longer than most of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from railgauge.checks.framework.cases import RailUsageCase
from railgauge.checks.rdma.rail import RailLinks, Rails, fabric_of
from railgauge.model.measurement import Measurement
from railgauge.systems import Partition
from railgauge.tools import perftest

#: What perftest itself calls the operation of a usage. Of any other one it is WRITE, and the usage
#: is told beside it.
_OPERATIONS = {
    "read": "read",
    "write": "write",
    "send": "send",
    "bidirectional": "write_bidirectional",
}


def operation_of(usage: str) -> str:
    """The operation of a usage's numbers: `read`, `write_bidirectional`, `write rdma_cm`."""
    return _OPERATIONS.get(usage, f"write {usage}")


class RailUsages(RailLinks):
    """Rails as of RailLinks, each in every usage given; `rdma_cm` where extras.rdma has it."""

    described = "that of a usage"

    def __init__(self, rails: Rails, *usages: str) -> None:
        super().__init__(rails)
        self.usages = usages

    def on(self, partition: Partition) -> Iterable[RailUsageCase]:
        links = list(super().on(partition))
        for usage in self._here(partition):
            for link in links:
                yield RailUsageCase(*link.ends, link.server_rail, link.client_rail, usage)

    def _here(self, partition: Partition) -> list[str]:
        return [u for u in self.usages if u != "rdma_cm" or fabric_of(partition).rdma_cm]

    def values(self, partition: Partition) -> Mapping[str, Sequence[object]]:
        return {"operation": [operation_of(usage) for usage in self._here(partition)]}


def variable_of(metric: str, usage: str, size_bytes: int) -> str:
    """The name of a number of a usage."""
    operation = operation_of(usage)
    return Measurement(metric, 0, perftest.TOOL, operation, "", size_bytes).variable


def state_of(usage: str) -> str:
    """What the operation of perftest's numbers lacks of a usage; "" where it says all."""
    return "" if usage in _OPERATIONS else usage
