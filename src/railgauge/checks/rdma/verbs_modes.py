"""Checks of several ways to use the same link: READ, both directions, many queue pairs, ...

All of them are places of one job: to start one takes longer than most of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from railgauge.checks.framework.cases import RailUsageCase
from railgauge.checks.framework.observation import Facts
from railgauge.checks.rdma.rail import RailLinks, Rails, RdmaCheck, fabric_of
from railgauge.model.call import Call
from railgauge.model.measurement import Measurement
from railgauge.systems import Partition
from railgauge.tools import Reading, perftest

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


class UsageCheck(RdmaCheck):
    """perftest over one rail of two nodes, in the usage of the place at hand.

    A concrete check gives its own `cases = RailUsages(...)` and `options`.
    """

    here: RailUsageCase

    @property
    def usage(self) -> str:
        return self.here.usage

    def variable_of(self, metric: str, size_bytes: int) -> str:
        """The name of a number of the usage at hand."""
        operation = operation_of(self.usage)
        return Measurement(metric, 0, perftest.TOOL, operation, "", size_bytes).variable

    def reading(self, calls: Sequence[Call], facts: Facts, prefix: str = "") -> Reading:
        reading = super().reading(calls, facts, prefix)
        return reading if self.usage in _OPERATIONS else reading.with_state(self.usage)
