"""Checks that run perftest between two nodes, over one rail of each."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal

import reframe.core.runtime as rt

from railgauge import paths
from railgauge.campaign import variables
from railgauge.checks.framework import minimum_bounds, schedule
from railgauge.checks.framework.cases import Case, Mismatch, RailCase
from railgauge.checks.framework.dependencies import (
    NODE,
    Known,
    cases_needed,
    known_places,
    nodes_in,
)
from railgauge.checks.jobs.client_server import PairCases, PairCheck, neighbours, ring
from railgauge.checks.preflight.node_state import NAME, NodeStateCases
from railgauge.model import limits
from railgauge.model.limits import Limit
from railgauge.model.measurement import Measurement
from railgauge.model.references import Condition, Reference
from railgauge.node.orders.places import LinkOrder, RailOrder
from railgauge.systems import Extras, Partition, Perftest, Rdma
from railgauge.tools import Moved, perftest

Rails = Literal["first", "same", "each", "all"]

#: The concrete check in reframe/, by whose name others depend on it.
PROBE = "RailProbe"


class RailLinks(PairCases[RailCase]):
    """The rails of neighbouring nodes of each partition with RDMA.

    Over the first rail only, over every rail to the same one, over each likewise and of two nodes
    alone both ways, or over all: then also from each rail to the next one, where the fabric
    connects them, and in the schedule `shift` from each to all others instead. `only` is the field
    of extras.rdma that must be true, such as "perftest.cuda".
    """

    def __init__(self, rails: Rails, only: str = "") -> None:
        super().__init__("rdma")
        self.rails = rails
        self.only = only

    def on(self, partition: Partition) -> Iterable[RailCase]:
        fabric = fabric_of(partition)
        if self.lacks_description(partition):
            return
        shift = self.rails == "all" and schedule.of(partition).schedule == "shift"
        probed = self.rails == "all" and fabric.perftest.same_rails_by_probe
        once = neighbours(partition)
        of_once = {pair.nodes for pair in once}
        for pair in ring(partition) if self.rails in ("each", "all") else once:
            # Data goes from client to server, and each must be client once: of one that has one
            # partner alone the same rails both ways.
            which: Rails = self.rails if pair.nodes in of_once else "same"
            there = [partition.extras.rails_of(node) for node in pair.nodes]
            ends = pair.ends
            for rails in _shifted(fabric) if shift else _rails(fabric, which):
                is_there = rails[0] in there[0] and rails[1] in there[1]
                if is_there and not (probed and rails[0] == rails[1]):
                    yield RailCase(*ends, *rails)

    def lacks_description(self, partition: Partition) -> str:
        if self.only and not attrgetter(self.only)(fabric_of(partition)):
            return f"runs where extras.rdma.{self.only} is true"
        return ""

    def mismatch(self, condition: Condition, partition: Partition, gates: bool) -> Mismatch | None:
        if mismatch := super().mismatch(condition, partition, gates):
            return mismatch
        rails = [str(number) for number in range(fabric_of(partition).rails)]
        ends = condition.rails.split("-") if condition.rails is not None else [rails[0]] * 2
        if len(ends) == 2 and set(ends) <= set(rails):
            return None
        known = ", ".join(rails)
        return Mismatch(f"rails is {condition.rails!r}, expected two of {known} such as '0-0'")


def fabric_of(partition: Partition) -> Rdma:
    fabric = partition.extras.rdma
    assert fabric is not None  # a partition with the feature has it
    return fabric


def _rails(fabric: Rdma, which: Rails) -> list[tuple[int, int]]:
    numbers = range(1 if which == "first" else fabric.rails)
    pairs = [(rail, rail) for rail in numbers]
    if which == "all" and fabric.across_rails and fabric.rails > 1:
        pairs += [(rail, (rail + 1) % fabric.rails) for rail in numbers]
    return pairs


def _shifted(fabric: Rdma) -> list[tuple[int, int]]:
    """All pairs of rails, in the order of rounds in which each has one partner."""
    count = fabric.rails
    return [(rail, (rail + by) % count) for by in range(1, count) for rail in range(count)]


class RailProbes(RailLinks):
    """The links that RailProbe measures: each rail, where the system gives the time for it."""

    always = True

    def __init__(self) -> None:
        super().__init__("each")

    def lacks_description(self, partition: Partition) -> str:
        if fabric_of(partition).perftest.probe_s is None:
            return "runs where extras.rdma.perftest.probe_s is a time"
        return ""


def of_rails(
    partition: str, server: str, client: str, rails: Collection[int]
) -> list[tuple[str, str]]:
    """The RailProbes from one node to another over these rails, as far as there are any."""
    return _rails_in(known_rails(), (partition, server, client), rails)


def known_rails() -> Known:
    """The RailProbes of this session, by partition, server, client and the rail of both."""
    return known_places(PROBE, RailProbes, _RAIL)


def _rails_in(
    known: Known, ends: tuple[str, str, str], rails: Collection[int]
) -> list[tuple[str, str]]:
    wanted = [(*ends, rail) for rail in sorted(rails)]
    return [known[key] for key in wanted if key in known]


#: The key of a RailProbe, whose ends have the same rail number.
_RAIL = attrgetter("partition", "server", "client", "server_rail")


def of_rails_among(partition: str, nodes: Collection[str]) -> list[tuple[str, str]]:
    """All RailProbes between two of the nodes, either way: of many nodes few pairs have one."""
    known, there = _by_server(), frozenset(nodes)
    return [
        need
        for server in nodes
        for client, need in known.get((partition, server), ())
        if client in there
    ]


def _by_server() -> Mapping[tuple[str, str], Sequence[tuple[str, tuple[str, str]]]]:
    system = rt.runtime().system.name
    return _probes(system, os.environ.get(variables.NODES), paths.SYSTEMS)


@functools.cache
def _probes(
    system: str, nodes: str | None, folder: Path
) -> Mapping[tuple[str, str], Sequence[tuple[str, tuple[str, str]]]]:
    """Of one system, the nodes of one session, and the folder that the systems are in."""
    probes: dict[tuple[str, str], list[tuple[str, tuple[str, str]]]] = {}
    for key, need in known_rails().items():
        assert isinstance(key, tuple)
        partition, server, client, _ = key
        probes.setdefault((partition, server), []).append((client, need))
    return probes


class RdmaCheck(PairCheck):
    """perftest between two nodes.

    A concrete check gives its own `cases = RailLinks(...)` and `options`.
    """

    here: RailCase
    tool = perftest
    helpers = (("ethtool", "--version"), ("rdma", "-V"))
    unmeasured: str | None = perftest.NO_CLOCK.pattern
    #: its numbers tell what another firmware or tuning than expected costs
    stopped_by = frozenset({"path"})
    #: whether the rails must have passed their RailProbe
    needs_rails = True

    @classmethod
    def programs_on(cls, partition: Partition) -> Mapping[str, Sequence[str]]:
        _, *options = perftest.version_argv()
        all_of_them = {program: [program, *options] for program in perftest.PACKAGES[perftest.TOOL]}
        return {**super().programs_on(partition), **all_of_them}

    # --- for subclasses ----------------------------------------------------------------------

    @property
    def options(self) -> perftest.Options:
        """The options of perftest."""
        raise NotImplementedError

    def ask(self, operation: str, test: str, gpu: bool = False, **options: Any) -> perftest.Options:
        """perftest's options, with those that the system's data adds to all.

        With `gpu` the buffers are in the memory of the GPU that has the rail's number.
        """
        return perftest.Options(
            operation,  # type: ignore[arg-type] # Options refuses any other word
            test,  # type: ignore[arg-type]
            traffic_class=self.fabric.traffic_class,
            pkey_index=self.fabric.pkey_index,
            qp_timeout=self.tuning.qp_timeout,
            cuda_device=self.here.server_rail if gpu else None,
            **options,
        )

    # --- the job -------------------------------------------------------------------------------

    @property
    def fabric(self) -> Rdma:
        return fabric_of(self.partition_data)

    @property
    def tuning(self) -> Perftest:
        return self.fabric.perftest

    def needs(self, place: Case) -> Sequence[tuple[str, str]]:
        return self._before(place)

    def cases_needed(self) -> Iterable[str]:
        return cases_needed(self.places, self._before, self._preflights)

    @property
    def _preflights(self) -> tuple[Known, Known]:
        """The preflights of nodes, and of rails."""
        probes = known_rails() if self.needs_rails else {}
        return known_places(NAME, NodeStateCases, NODE), probes

    @functools.cached_property
    def _before(self) -> Callable[[Case], list[tuple[str, str]]]:
        """A place's needs, by what is looked up once: a large partition has a hundred thousand
        places that ask.
        """
        of_nodes, probes = self._preflights

        def before(place: Case) -> list[tuple[str, str]]:
            assert isinstance(place, RailCase)
            rails = {place.server_rail, place.client_rail}
            return nodes_in(of_nodes, place) + _rails_in(probes, place.ends, rails)

        return before

    def expected_path(self) -> dict[str, Any]:
        fabric = self.fabric
        return {
            "emulation": "none",
            "link_layer": fabric.link_layer,
            "active_mtu_bytes": fabric.active_mtu_bytes,
        }

    def requested(self) -> Mapping[str, Any]:
        return {**super().requested(), "active_mtu_bytes": self.fabric.active_mtu_bytes}

    @property
    def _gid_index(self) -> str | None:
        """To be looked up on each node; InfiniBand needs none."""
        return "{gid_index}" if self.fabric.link_layer == "Ethernet" else None

    def commands(self) -> Mapping[str, list[str]]:
        return {
            "server": perftest.server_argv(self.options, gid_index=self._gid_index),
            "client": perftest.client_argv(self.options, gid_index=self._gid_index),
            "version": perftest.version_argv(),
        }

    def link(self) -> LinkOrder:
        return self.rails_link(self.here.server_rail, self.here.client_rail)

    def rails_link(self, server_rail: int, client_rail: int) -> LinkOrder:
        """The order with which both sides find these rails."""
        rails = RailOrder(
            devices=self.fabric.devices,
            names=tuple(self.fabric.names),
            count=self.fabric.rails,
            gid_type=self.fabric.gid_type if self._gid_index else None,
            connection_manager=self.options.rdma_cm,
            rails={"server": server_rail, "client": client_rail},
        )
        return LinkOrder(rdma=rails)

    def expected_run_s(self) -> float:
        return float(self.options.duration_s or 3)

    def run_limit_s(self) -> int:
        return int(self.expected_run_s()) + 60

    # --- what it left --------------------------------------------------------------------------

    def gates(self, measurement: Measurement) -> bool:
        """What the check names; peaks, rates and means are recorded beside it."""
        return measurement.variable in self.required_metrics()

    def payload_share(self, moved: Moved, node_facts: Mapping[str, Any]) -> float | None:
        return self._payload(1, moved.size_bytes, self.options.operation).value

    def _payload(self, gbits: float, size_bytes: int | None, operation: str) -> Limit:
        fabric = self.fabric
        compute = limits.roce if fabric.link_layer == "Ethernet" else limits.infiniband
        return compute(gbits, fabric.active_mtu_bytes, size_bytes, operation)

    def limit(self, measurement: Measurement) -> Limit | None:
        if measurement.unit != "Gb/s" or self.fabric.line_gbits is None:
            return None
        operation, _, both = measurement.operation.partition(" ")[0].partition("_")
        one_way = self._payload(self.fabric.line_gbits, measurement.size_bytes, operation)
        return one_way.both_ways() if both else one_way


class RailProbeCheck(RdmaCheck):
    """Some seconds of ib_write_bw over one rail: a link may look healthy and carry a tenth.

    It is judged by what the link can carry where its rate is known, else by a stored floor.
    """

    needs_rails = False

    @classmethod
    def unstated(cls, extras: Extras) -> Sequence[str] | None:
        if extras.rdma is None:
            return None
        return ["rdma.line_gbits"] if extras.rdma.line_gbits is None else []

    @property
    def options(self) -> perftest.Options:
        return self.ask("write", "bw", size_bytes=64 * 1024, duration_s=self.tuning.probe_s)

    def own_reference(self, measurement: Measurement) -> Reference | None:
        limit = self.limit(measurement)
        if limit is None or measurement.variable not in self.required_metrics():
            return None
        return minimum_bounds.of_rail(measurement, limit, self.current_system.name)
