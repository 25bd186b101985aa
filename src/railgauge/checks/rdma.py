"""Checks that run perftest between two nodes, over one rail of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import reframe.core.runtime as rt
from reframe.core.builtins import run_after

from railgauge import limits, systems
from railgauge.checks.pair import PairCheck, neighbours, ring_pairs
from railgauge.checks.path import path_case
from railgauge.limits import Limit
from railgauge.measurement import Measurement
from railgauge.systems import Perftest, Rdma
from railgauge.tools import Call, Reading, perftest

Rails = Literal["first", "same", "all"]


def rdma_links(
    rails: Rails,
    only: Callable[[Rdma], bool] = lambda fabric: True,
) -> list[str]:
    """`partition:server:client:rail-rail` for neighbouring nodes of each partition with RDMA.

    Over the first rail only, over every rail to the same one, or over all: then also from each
    rail to the next one, where the fabric connects them. `only` leaves out fabrics that cannot do
    it.
    """
    links = []
    once = neighbours("rdma")
    for pair in ring_pairs("rdma") if rails == "all" else once:
        partition = pair.partition(":")[0]
        fabric = systems.load(rt.runtime().system.name).partition(partition).extras.rdma
        assert fabric is not None  # a partition with the feature has it
        if only(fabric):
            # Data goes from client to server: of two nodes alone, each must be the client once.
            which: Rails = rails if pair in once else "same"
            links += [f"{pair}:{a}-{b}" for a, b in _rails(fabric, which)]
    return links


def _rails(fabric: Rdma, which: Rails) -> list[tuple[int, int]]:
    numbers = range(1 if which == "first" else fabric.rails)
    pairs = [(rail, rail) for rail in numbers]
    if which == "all" and fabric.across_rails and fabric.rails > 1:
        pairs += [(rail, (rail + 1) % fabric.rails) for rail in numbers]
    return pairs


class RdmaCheck(PairCheck):
    """perftest between two nodes.

    A concrete check gives its own `pair = parameter(rdma_links(...))` and `options`.
    """

    tool = perftest

    # --- for subclasses ----------------------------------------------------------------------

    @property
    def options(self) -> perftest.Options:
        """What perftest is asked for."""
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
            cuda_device=int(self.rails.partition("-")[0]) if gpu else None,
            **options,
        )

    # --- the job -------------------------------------------------------------------------------

    @property
    def fabric(self) -> Rdma:
        found = self.partition_data.extras.rdma
        assert found is not None  # a partition with the feature has it
        return found

    @property
    def tuning(self) -> Perftest:
        return self.fabric.perftest

    @property
    def rails(self) -> str:
        """The server's rail and the client's."""
        return str(self.pair).split(":")[3]

    @run_after("init")
    def need_paths(self) -> None:
        partition = str(self.pair).split(":")[0]
        for node in self.pinned_nodes:
            self.depends_on(path_case(partition, node))

    def expected_path(self) -> dict[str, Any]:
        fabric = self.fabric
        return {
            "emulation": "none",
            "link_layer": fabric.link_layer,
            "active_mtu_bytes": fabric.active_mtu_bytes,
        }

    @run_after("setup")
    def expect_link(self) -> None:
        self.expected = {**self.expected, "active_mtu_bytes": self.fabric.active_mtu_bytes}

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

    def way(self) -> Mapping[str, Any]:
        server, client = (int(rail) for rail in self.rails.split("-"))
        return {
            "rdma": {
                "devices": self.fabric.devices,
                "gid_type": self.fabric.gid_type if self._gid_index else None,
                "connection_manager": self.options.rdma_cm,
                "rails": {"server": server, "client": client},
            }
        }

    def expected_run_s(self) -> float:
        return float(self.options.duration_s or 3)

    def run_limit_s(self) -> int:
        return int(self.expected_run_s()) + 60

    # --- what it left --------------------------------------------------------------------------

    def read(self) -> tuple[Reading, Sequence[Call]]:
        calls = self.calls()
        client, server = self.output("client"), self.output("server")
        reading = perftest.read(client, server=server, calls=calls, options=self.options)
        return reading, calls

    def gates(self, measurement: Measurement) -> bool:
        """What the check names; peaks, rates and means are recorded beside it."""
        return measurement.variable in self.metrics

    def limit(self, measurement: Measurement) -> Limit | None:
        fabric = self.fabric
        if measurement.unit != "Gb/s" or fabric.line_gbits is None:
            return None
        operation, _, both = measurement.operation.partition("_")
        compute = limits.roce if fabric.link_layer == "Ethernet" else limits.infiniband
        one_way = compute(
            fabric.line_gbits, fabric.active_mtu_bytes, measurement.size_bytes, operation
        )
        return one_way.both_ways() if both else one_way
