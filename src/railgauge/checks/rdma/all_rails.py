"""The check of all rails between two nodes at once, both ways."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence

from railgauge.checks.framework.cases import Case, LeftOut, PairCase, is_series, left_to_the_series
from railgauge.checks.framework.dependencies import nodes_in
from railgauge.checks.framework.observation import Facts, Observation, as_one
from railgauge.checks.framework.place_run import BoundBefore, PlaceOutput
from railgauge.checks.jobs.client_server import PairRun
from railgauge.checks.jobs.pairs import PairCases, neighbours
from railgauge.checks.jobs.parallel_links import Lane, lanes_of, observed
from railgauge.checks.rdma.rail import (
    RailPreconditions,
    fabric_of,
    limit,
    link_order,
    of_rails,
    payload,
    perftest_run,
    preflights,
)
from railgauge.model.failure import RAILS_APART, Failure
from railgauge.model.limits import Limit
from railgauge.model.measurement import Measurement
from railgauge.systems import Partition
from railgauge.tools import perftest

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


class AllRailsPreconditions(RailPreconditions):
    """Paths of the nodes, and the RailProbes of all rails."""

    def finder(self, partition: Partition) -> Callable[[Case], list[tuple[str, str]]]:
        paths, _ = preflights()
        rails = range(fabric_of(partition).rails)

        def needs(place: Case) -> list[tuple[str, str]]:
            assert isinstance(place, PairCase)
            return nodes_in(paths, place) + of_rails(*place.ends, rails)

        return needs


def run_over_all(
    place: PairCase, partition: Partition, options: perftest.Options, required: Sequence[str]
) -> PairRun:
    """perftest over every rail of two nodes at the same time, each to the same one.

    The options have a duration. Of all rails at once there is no second run.
    """
    fabric = fabric_of(partition)
    of_each = [f"bandwidth_{name_of(rail)}_{options.size_bytes}B" for rail in range(fabric.rails)]
    return perftest_run(
        *(place, partition, options, [*required, *of_each]),
        unmeasured=None,
        links=[link_order(fabric, options, rail, rail) for rail in range(fabric.rails)],
        limit_of=functools.partial(_limit, partition),
        judge=_judge,
    )


def _judge(run: PairRun, left: PlaceOutput, bound: BoundBefore) -> Observation:
    count = fabric_of(run.partition).rails
    rails = lanes_of(left, run.tool, map(name_of, range(count)))
    readings = {rail.name: rail.reading for rail in rails}
    reading = as_one(readings, "rails", lambda: _measured(rails), run.states)
    apart: list[Failure] = []
    if reading.ok:
        apart = _apart(run, [rail.facts("client").get("ended_s") for rail in rails])
    return observed(run, rails, reading, apart)


def _measured(rails: Sequence[Lane]) -> list[Measurement]:
    """The measurements: the sum of all rails, both ways, and each rail."""
    each = []
    for number, rail in enumerate(rails):
        (measurement,) = (m for m in rail.reading.measurements if m.metric == "bandwidth")
        operation = f"{OPERATION} {rail.name}"
        each.append(
            dataclasses.replace(measurement, operation=operation, rails=f"{number}-{number}")
        )
    like = dataclasses.replace(each[0], operation=OPERATION, rails=None, samples=None)
    return [dataclasses.replace(like, value=sum(m.value for m in each)), *each]


def _apart(run: PairRun, ended_s: Sequence[float | None]) -> list[Failure]:
    """The failure of rails that were not measured all at once: all take equally long, so that
    their ends show how far apart they began.
    """
    between = f"{run.place.client} and {run.place.server}"
    known = [end for end in ended_s if end is not None]
    if len(known) < len(ended_s):
        message = f"nothing says whether the rails between {between} were measured at once"
        return [Failure(RAILS_APART, message)]
    apart_s, duration_s = max(known) - min(known), run.tool.options.duration_s or 0
    if apart_s <= _APART * duration_s:
        return []
    message = (
        f"the rails between {between} were not all at work at once: their runs of {duration_s} "
        f"s ended {apart_s:.1f} s apart"
    )
    step = "raise extras.rdma.perftest.together_s: rails may begin a quarter of it apart"
    return [Failure(RAILS_APART, message, next_step=step)]


def _limit(partition: Partition, measurement: Measurement, facts: Facts) -> Limit | None:
    fabric, node_gbits = fabric_of(partition), partition.extras.node_gbits
    rail_limit = limit(fabric, measurement, facts)
    if rail_limit is None or measurement.operation != OPERATION:
        return rail_limit
    # Rails may share a cable, or the PCIe lanes behind their NIC.
    count = fabric.rails
    together = Limit(
        count * rail_limit.value, rail_limit.unit, f"{rail_limit.reason}, {count} rails"
    )
    if node_gbits is None:
        return together
    of_node = payload(fabric, node_gbits, measurement.size_bytes, "write").both_ways()
    of_node = dataclasses.replace(of_node, reason=f"{of_node.reason}, a node's NICs together")
    return min(together, of_node, key=lambda limit: limit.value)
