"""The check of all rails between two nodes at once, both ways."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence

from railgauge.checks.framework.cases import Case, LeftOut, PairCase, is_series, left_to_the_series
from railgauge.checks.framework.dependencies import nodes_in
from railgauge.checks.framework.observation import Observation, as_one
from railgauge.checks.jobs.client_server import PairCases, neighbours
from railgauge.checks.jobs.parallel_links import Lane, exit_lines, facts_of, lanes_of
from railgauge.checks.rdma.rail import RdmaCheck, fabric_of, of_rails
from railgauge.model.failure import RAILS_APART, Failure
from railgauge.model.limits import Limit
from railgauge.model.measurement import Measurement
from railgauge.model.reported_traffic import Claim
from railgauge.node.orders.places import LinkOrder
from railgauge.systems import Partition

#: The operation of the sum; that of a rail is followed by its name.
OPERATION = "write_bidirectional"

#: perftest leaves out the first and the last quarter of a time: rails that begin no further apart
#: than this share of it are all at work while any of them is measured.
_APART = 0.25


def name_of(rail: int) -> str:
    return f"rail{rail}"


class AllRails(PairCases[PairCase]):
    """The pairs of neighbours of each partition with several rails, in the series."""

    def __init__(self) -> None:
        super().__init__("rdma")

    def on(self, partition: Partition) -> Iterable[PairCase]:
        if self.lacks_description(partition) or not is_series():
            return []
        every = tuple(range(fabric_of(partition).rails))
        return [
            pair
            for pair in neighbours(partition)
            if all(partition.extras.rails_of(node) == every for node in pair.ends)
        ]

    def lacks_description(self, partition: Partition) -> str:
        rails = fabric_of(partition).rails
        return "" if rails > 1 else f"needs several rails, and extras.rdma.rails is {rails}"

    def leaves_out(self, partition: Partition) -> Sequence[LeftOut]:
        return (left_to_the_series(),)

    described = "the sum of all rails, or one"

    def values(self, partition: Partition) -> Mapping[str, Sequence[object]]:
        rails = range(fabric_of(partition).rails)
        operations = [OPERATION, *(f"{OPERATION} {name_of(rail)}" for rail in rails)]
        return {"operation": operations, "rails": [None, *(f"{rail}-{rail}" for rail in rails)]}


class RailsCheck(RdmaCheck):
    """ib_write_bw over every rail of two nodes at the same time, each to the same one.

    A concrete check gives its own `cases = AllRails()` and `options`, which have a duration.
    """

    here: PairCase  # type: ignore[assignment] # a RailCase in RdmaCheck
    # Of all rails at once there is no second run.
    unmeasured = None

    @property
    def _rails(self) -> range:
        return range(self.fabric.rails)

    @functools.cached_property
    def _before(self) -> Callable[[Case], list[tuple[str, str]]]:
        paths, _ = self._preflights

        def before(place: Case) -> list[tuple[str, str]]:
            assert isinstance(place, PairCase)
            return nodes_in(paths, place) + of_rails(*place.ends, self._rails)

        return before

    def link(self) -> LinkOrder:
        return LinkOrder()

    def links(self) -> Sequence[LinkOrder]:
        return [self.rails_link(rail, rail) for rail in self._rails]

    def required_metrics(self) -> Sequence[str]:
        size = self.options.size_bytes
        return [*self.metrics, *(f"bandwidth_{name_of(rail)}_{size}B" for rail in self._rails)]

    def placed(self, m: Measurement) -> Measurement:
        return dataclasses.replace(super().placed(m), rails=m.rails)

    # --- what they left ------------------------------------------------------------------------

    def read(self) -> Observation:
        rails = lanes_of(self, map(name_of, self._rails))
        lines = exit_lines(rails)
        failures = [f for line in lines for f in self.violations([], {line.call.host: line.facts})]
        readings = {rail.name: rail.reading for rail in rails}
        reading = as_one(readings, "rails", lambda: self._measured(rails), self.requested())
        if reading.ok:
            failures += self._apart([rail.facts("client").get("ended_s") for rail in rails])
        calls = [line.call for line in lines]
        return Observation(reading, calls, facts_of(rails), failures, self._claims(rails))

    def _measured(self, rails: Sequence[Lane]) -> list[Measurement]:
        """The measurements: the sum of all rails, both ways, and each rail."""
        each = []
        for number, rail in zip(self._rails, rails, strict=True):
            (measurement,) = (m for m in rail.reading.measurements if m.metric == "bandwidth")
            operation = f"{OPERATION} {rail.name}"
            each.append(
                dataclasses.replace(measurement, operation=operation, rails=f"{number}-{number}")
            )
        like = dataclasses.replace(each[0], operation=OPERATION, rails=None, samples=None)
        return [dataclasses.replace(like, value=sum(m.value for m in each)), *each]

    def _apart(self, ended_s: Sequence[float | None]) -> list[Failure]:
        """The failure of rails that were not measured all at once: all take equally long, so that
        their ends show how far apart they began.
        """
        between = f"{self.client_node} and {self.server_node}"
        known = [end for end in ended_s if end is not None]
        if len(known) < len(ended_s):
            message = f"nothing says whether the rails between {between} were measured at once"
            return [Failure(RAILS_APART, message)]
        apart_s, duration_s = max(known) - min(known), self.options.duration_s or 0
        if apart_s <= _APART * duration_s:
            return []
        message = (
            f"the rails between {between} were not all at work at once: their runs of {duration_s} "
            f"s ended {apart_s:.1f} s apart"
        )
        step = "raise extras.rdma.perftest.together_s: rails may begin a quarter of it apart"
        return [Failure(RAILS_APART, message, next_step=step)]

    def _claims(self, rails: Sequence[Lane]) -> list[Claim]:
        """The claims of every rail, both ways: its bytes may have taken another rail."""
        claims = []
        for rail in rails:
            for side, node in (("server", self.server_node), ("client", self.client_node)):
                for inward in (True, False):
                    moved = [m for m in rail.reading.moved if (m.to == side) is inward]
                    if moved:
                        claims.append(self.claim(moved, side, node, inward, rail.facts(side)))
        return claims

    def limit(self, measurement: Measurement) -> Limit | None:
        rail_limit = super().limit(measurement)
        if rail_limit is None or measurement.operation != OPERATION:
            return rail_limit
        # Rails may share a cable, or the PCIe lanes behind their NIC.
        count, node_gbits = self.fabric.rails, self.partition_data.extras.node_gbits
        together = Limit(
            count * rail_limit.value, rail_limit.unit, f"{rail_limit.reason}, {count} rails"
        )
        if node_gbits is None:
            return together
        of_node = self._payload(node_gbits, measurement.size_bytes, "write").both_ways()
        of_node = dataclasses.replace(of_node, reason=f"{of_node.reason}, a node's NICs together")
        return min(together, of_node, key=lambda limit: limit.value)
