"""Checks that run perftest between two nodes, over one rail of each."""

from __future__ import annotations

import dataclasses
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
from railgauge.checks.framework.cases import Case, Mismatch, PairCase, RailCase
from railgauge.checks.framework.dependencies import (
    LINKS_ALONE,
    NODE,
    Known,
    Preconditions,
    cases_of,
    known_places,
    nodes_in,
)
from railgauge.checks.framework.observation import Facts
from railgauge.checks.framework.programs import Programs
from railgauge.checks.jobs.client_server import PairRun, PairTool
from railgauge.checks.jobs.pairs import PairCases, neighbours, ring
from railgauge.checks.preflight.node_state import NAME, NodeStateCases
from railgauge.model import limits
from railgauge.model.limits import Limit
from railgauge.model.measurement import Measurement
from railgauge.model.references import Condition, Reference
from railgauge.node.orders.places import LinkOrder, RailOrder
from railgauge.systems import Partition, Perftest, Rdma
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


def preflights(probed: bool = True) -> tuple[Known, Known]:
    """The preflights of nodes, and of rails where these are `probed`."""
    return known_places(NAME, NodeStateCases, NODE), known_rails() if probed else {}


@dataclasses.dataclass(frozen=True)
class RailPreconditions(Preconditions):
    """Rails of the nodes, and the RailProbes of the rails where `probed`."""

    probed: bool = True
    stopped_by = LINKS_ALONE

    def finder(self, partition: Partition) -> Callable[[Case], list[tuple[str, str]]]:
        of_nodes, probes = preflights(self.probed)

        def needs(place: Case) -> list[tuple[str, str]]:
            assert isinstance(place, RailCase)
            rails = {place.server_rail, place.client_rail}
            return nodes_in(of_nodes, place) + _rails_in(probes, place.ends, rails)

        return needs

    def cases(self) -> Collection[str]:
        """A few places tell them, where there is one case of each."""
        return cases_of(preflights(self.probed))


_, *_VERSION = perftest.version_argv()

#: The programs of perftest, and what tells the state of a rail.
OTHERS = [[program, *_VERSION] for program in perftest.PACKAGES[perftest.TOOL]]
HELPERS = (("ethtool", "--version"), ("rdma", "-V"))
PROGRAMS = Programs(perftest, *OTHERS, helpers=HELPERS)


def tuning_of(partition: Partition) -> Perftest:
    return fabric_of(partition).perftest


def ask(partition: Partition, operation: str, test: str, **options: Any) -> perftest.Options:
    """perftest's options, with those that the system's data adds to all."""
    fabric = fabric_of(partition)
    return perftest.Options(
        operation,  # type: ignore[arg-type] # Options refuses any other word
        test,  # type: ignore[arg-type]
        traffic_class=fabric.traffic_class,
        pkey_index=fabric.pkey_index,
        qp_timeout=fabric.perftest.qp_timeout,
        **options,
    )


def perftest_run(
    place: PairCase,
    partition: Partition,
    options: perftest.Options,
    required: Sequence[str],
    **changes: Any,
) -> PairRun:
    """perftest between two nodes, over the rails of the place unless `changes` say otherwise.

    The required numbers must have a reference; peaks, rates and means are recorded with them.
    """
    fabric = fabric_of(partition)
    gid_index = "{gid_index}" if has_gids(fabric) else None
    run_s = float(options.duration_s or 3)
    run = PairRun(
        place=place,
        partition=partition,
        tool=PairTool(
            module=perftest,
            options=options,
            server=perftest.server_argv(options, gid_index=gid_index),
            client=perftest.client_argv(options, gid_index=gid_index),
            version=perftest.version_argv(),
        ),
        required=required,
        gated=required,
        expected_run_s=run_s,
        run_limit_s=int(run_s) + 60,
        unmeasured=perftest.NO_CLOCK.pattern,
        path={
            "emulation": "none",
            "link_layer": fabric.link_layer,
            "active_mtu_bytes": fabric.active_mtu_bytes,
        },
        states={"active_mtu_bytes": fabric.active_mtu_bytes},
        limit_of=functools.partial(limit, fabric),
        payload_share=functools.partial(_payload_share, fabric, options.operation),
    )
    if isinstance(place, RailCase):
        rails = link_order(fabric, options, place.server_rail, place.client_rail)
        run = dataclasses.replace(run, link=rails)
    return dataclasses.replace(run, **changes)


def with_floor(run: PairRun) -> PairRun:
    """The run, with the floor of a rail of a known rate for its required numbers."""

    def describe(measurement: Measurement) -> Reference | None:
        reachable = run.limit(measurement, {})
        if reachable is None or measurement.variable not in (run.required or ()):
            return None
        return minimum_bounds.of_rail(measurement, reachable, rt.runtime().system.name)

    return dataclasses.replace(run, describe=describe)


def latency_metrics(iterations: int) -> tuple[str, str, str]:
    """The typical latency and two percentiles; of few iterations the higher one is the maximum."""
    few = perftest.is_maximum(iterations, 0.999)
    return "latency", "latency_p99", "latency_max" if few else "latency_p999"


def has_gids(fabric: Rdma) -> bool:
    """Whether a GID is to be looked up on each node; InfiniBand needs none."""
    return fabric.link_layer == "Ethernet"


def link_order(
    fabric: Rdma, options: perftest.Options, server_rail: int, client_rail: int
) -> LinkOrder:
    """The order with which both sides find these rails."""
    rails = RailOrder(
        devices=fabric.devices,
        names=tuple(fabric.names),
        count=fabric.rails,
        gid_type=fabric.gid_type if has_gids(fabric) else None,
        connection_manager=options.rdma_cm,
        rails={"server": server_rail, "client": client_rail},
    )
    return LinkOrder(rdma=rails)


def payload(fabric: Rdma, gbits: float, size_bytes: int | None, operation: str) -> Limit:
    """What a link of this rate carries of messages of this size."""
    compute = limits.roce if fabric.link_layer == "Ethernet" else limits.infiniband
    return compute(gbits, fabric.active_mtu_bytes, size_bytes, operation)


def _payload_share(
    fabric: Rdma, operation: str, moved: Moved, node_facts: Mapping[str, Any]
) -> float:
    return payload(fabric, 1, moved.size_bytes, operation).value


def limit(fabric: Rdma, measurement: Measurement, facts: Facts) -> Limit | None:
    """The limit of one rail, of both directions where they are measured at once."""
    if measurement.unit != "Gb/s" or fabric.line_gbits is None:
        return None
    operation, _, both = measurement.operation.partition(" ")[0].partition("_")
    one_way = payload(fabric, fabric.line_gbits, measurement.size_bytes, operation)
    return one_way.both_ways() if both else one_way
