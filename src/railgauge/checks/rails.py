"""The check of all rails between two nodes at once, both ways."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from railgauge.checks.cases import Case, PairCase
from railgauge.checks.nics import SIDES, merged_facts
from railgauge.checks.observation import ExitLine, Observation, as_one
from railgauge.checks.pair import PairCases, neighbours
from railgauge.checks.path import nodes_in
from railgauge.checks.rdma import RdmaCheck, of_rails
from railgauge.checks.wan import is_series
from railgauge.model.claim import Claim
from railgauge.model.failure import RAILS_APART, Failure
from railgauge.model.limits import Limit
from railgauge.model.measurement import Measurement
from railgauge.systems import Partition, Rdma
from railgauge.tools import Reading, perftest

#: The operation of the sum; that of a rail is followed by its name.
OPERATION = "write_bidirectional"

#: perftest leaves out the first and the last quarter of a time: rails that begin no further apart
#: than this share of it are all at work while any of them is measured.
_APART = 0.25


def name_of(rail: int) -> str:
    return f"rail{rail}"


class AllRails(PairCases[PairCase]):
    """Neighbouring nodes of each partition with several rails, in the series: with all of them."""

    def __init__(self) -> None:
        super().__init__("rdma")

    def on(self, partition: Partition) -> Iterable[PairCase]:
        if self.lacks_description(partition) or not is_series():
            return []
        every = tuple(range(_fabric(partition).rails))
        return [
            pair
            for pair in neighbours(partition)
            if all(partition.extras.rails_of(node) == every for node in pair.ends)
        ]

    def lacks_description(self, partition: Partition) -> str:
        rails = _fabric(partition).rails
        return "" if rails > 1 else f"needs several rails, and extras.rdma.rails is {rails}"

    def leaves_out(self, partition: Partition) -> str:
        return "is required, and is of the series: railgauge accept --series"

    described = "the sum of all rails, or one"

    def values(self, partition: Partition) -> Mapping[str, Sequence[object]]:
        rails = range(_fabric(partition).rails)
        operations = [OPERATION, *(f"{OPERATION} {name_of(rail)}" for rail in rails)]
        return {"operation": operations, "rails": [None, *(f"{rail}-{rail}" for rail in rails)]}


def _fabric(partition: Partition) -> Rdma:
    fabric = partition.extras.rdma
    assert fabric is not None  # a partition with the feature has it
    return fabric


@dataclasses.dataclass(frozen=True)
class _Rail:
    """What went over one rail: its exit lines by side, and the reading of both outputs."""

    number: int
    lines: Mapping[str, ExitLine]
    reading: Reading

    @property
    def name(self) -> str:
        return name_of(self.number)

    def facts(self, side: str) -> Mapping[str, Any]:
        return self.lines[side].facts if side in self.lines else {}


class RailsCheck(RdmaCheck):
    """ib_write_bw over every rail of two nodes at the same time, each to the same one.

    A concrete check gives its own `cases = AllRails()` and `options`, which have a duration.
    """

    here: PairCase  # type: ignore[assignment] # a RailCase in RdmaCheck

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

    def way(self) -> Mapping[str, Any]:
        return {"ways": [self.way_over(rail, rail) for rail in self._rails]}

    def required_metrics(self) -> Sequence[str]:
        size = self.options.size_bytes
        return [*self.metrics, *(f"bandwidth_{name_of(rail)}_{size}B" for rail in self._rails)]

    def placed(self, m: Measurement) -> Measurement:
        return dataclasses.replace(super().placed(m), rails=m.rails)

    # --- what they left ------------------------------------------------------------------------

    def read(self) -> Observation:
        rails = [self._rail(number) for number in self._rails]
        lines = [rail.lines[side] for side in SIDES for rail in rails if side in rail.lines]
        facts = {}
        for side in SIDES:
            stated = {rail.name: rail.lines[side] for rail in rails if side in rail.lines}
            for node in {line.call.host for line in stated.values()}:
                facts[node] = merged_facts({name: line.facts for name, line in stated.items()})
        failures = [f for line in lines for f in self.violations([], {line.call.host: line.facts})]
        readings = {rail.name: rail.reading for rail in rails}
        reading = as_one(readings, "rails", lambda: self._measured(rails), self.requested())
        if reading.ok:
            failures += self._apart([rail.facts("client").get("ended_s") for rail in rails])
        calls = [line.call for line in lines]
        return Observation(reading, calls, facts, failures, self._claims(rails))

    def _rail(self, number: int) -> _Rail:
        lines = {side: line for side in SIDES if (line := self.exit_line(f"{side}{number}"))}
        calls = [dataclasses.replace(line.call, role=side) for side, line in lines.items()]
        client, server = self.output(f"client{number}"), self.output(f"server{number}")
        reading = perftest.read(client, server=server, calls=calls, options=self.options)
        return _Rail(number, lines, reading)

    def _measured(self, rails: Sequence[_Rail]) -> list[Measurement]:
        """The sum of all rails, both ways, and each of them."""
        each = []
        for rail in rails:
            (one,) = (m for m in rail.reading.measurements if m.metric == "bandwidth")
            operation, number = f"{OPERATION} {rail.name}", rail.number
            each.append(dataclasses.replace(one, operation=operation, rails=f"{number}-{number}"))
        like = dataclasses.replace(each[0], operation=OPERATION, rails=None, samples=None)
        return [dataclasses.replace(like, value=sum(m.value for m in each)), *each]

    def _apart(self, ended_s: Sequence[float | None]) -> list[Failure]:
        """Rails of which one was measured while another had not begun, or had ended: each ends so
        long after it began as all others.
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

    def _claims(self, rails: Sequence[_Rail]) -> list[Claim]:
        """Of every rail its own, both ways: all bytes may be there, and have taken another rail."""
        found = []
        for rail in rails:
            for side, node in (("server", self.server_node), ("client", self.client_node)):
                for inward in (True, False):
                    moved = [m for m in rail.reading.moved if (m.to == side) is inward]
                    if moved:
                        found.append(self.claim(moved, side, node, inward, rail.facts(side)))
        return found

    def limit(self, measurement: Measurement) -> Limit | None:
        one = super().limit(measurement)
        if one is None or measurement.operation != OPERATION:
            return one
        count = self.fabric.rails
        return Limit(count * one.value, one.unit, f"{one.reason}, {count} rails")
