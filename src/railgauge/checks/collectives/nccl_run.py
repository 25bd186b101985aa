"""The run of nccl-tests over one group of nodes: what it asks for, and what its NICs must carry."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from railgauge.checks.collectives.nccl_cases import places_of
from railgauge.checks.framework.cases import GroupCase
from railgauge.checks.framework.observation import Facts
from railgauge.checks.framework.place_run import PlaceRun
from railgauge.model import limits
from railgauge.model.failure import Failure
from railgauge.model.limits import Limit
from railgauge.model.measurement import Measurement
from railgauge.model.references import Reference
from railgauge.model.reported_traffic import Claim
from railgauge.systems import Budget, rehearsal
from railgauge.systems.nccl import Nccl
from railgauge.tools import Reading, nccl_tests

#: The tool's own timeout comes so much after ours, which asks NCCL for its state first.
_LATER_S = 60


@dataclasses.dataclass(frozen=True, kw_only=True)
class NcclRun(PlaceRun):
    """A collective over all GPUs of a group, a rank a GPU."""

    place: GroupCase
    fabric: Nccl

    @property
    def ranks(self) -> int:
        return len(self.place.nodes) * self.fabric.gpus_per_node

    @property
    def crosses_nics(self) -> bool:
        return self.fabric.crosses_nics(self.place.transport, self.domains)

    @property
    def domains(self) -> int:
        """How many NVLink domains its nodes lie in."""
        places = places_of(self.partition, self.place.nodes)
        return self.fabric.domains(self.place.transport, places)

    def absent(self, node: str) -> tuple[str, ...]:
        """The RDMA devices to go without on a node.

        One HCA is the same on all nodes: rails need not reach each other.
        """
        extras = self.partition.extras
        nodes = self.place.nodes if self.place.transport == "one-hca" else [node]
        return tuple(device for n in nodes for device in extras.absent_devices(n))

    @property
    def devices(self) -> list[tuple[str, ...]]:
        """The RDMA devices that each node uses."""
        transport, nodes = self.place.transport, self.place.nodes
        if not self.partition.extras.absent:
            # As a rule, and a large partition has many nodes.
            return [self.fabric.devices(transport)] * len(nodes)
        return [self.fabric.devices(transport, self.absent(node)) for node in nodes]

    @property
    def options(self) -> nccl_tests.Options:
        """Of this group alone."""
        fabric = self.fabric
        return nccl_tests.Options(
            operation=self.place.operation,
            ranks=self.ranks,
            min_bytes=fabric.min_bytes,
            max_bytes=fabric.largest_bytes(self.place.transport),
            iterations=fabric.iterations,
            warmup=fabric.warmup,
            timeout_s=fabric.timeout_s + _LATER_S,
            version=fabric.binaries.version,
            transport=self.place.transport,
        )

    def largest(self, metric: str) -> Measurement:
        """A measurement that gates, but for its value."""
        return Measurement(
            metric,
            0.0,
            tool=nccl_tests.TOOL,
            operation=self.place.operation,
            transport=self.place.transport,
            size_bytes=self.options.sizes()[-1],
            nodes=self.place.nodes,
            ranks=self.ranks,
        )

    @property
    def budgets(self) -> tuple[Budget, ...]:
        return () if rehearsal.scenario() else tuple(self.partition.extras.counters)

    @property
    def counted(self) -> bool:
        return self.node_share > 0

    @property
    def node_share(self) -> float:
        """What every node's NICs must have carried at least, as a share of the size, whatever the
        algorithm.

        Of gather and scatter that is only one node's, of NVLink domains of several nodes only one
        domain's: there it is 0.
        """
        nodes = len(self.place.nodes)
        if self.domains < nodes:
            return 0.0
        return limits.least_node_share(self.place.operation, nodes, self.ranks)

    def claims(self, reading: Reading, facts: Facts) -> Sequence[Claim]:
        """What every node's NICs must have carried, where that is known."""
        share = self.node_share
        if not share:
            return ()
        timed = [m for m in reading.measurements if m.metric in ("time", "time_in_place")]
        iterations = self.options.iterations
        payload = share * sum((m.size_bytes or 0) * iterations for m in timed)
        seconds = sum(m.value * 1e-6 * iterations for m in timed)
        return [
            Claim(
                f"{self.place.operation}_perf",
                node,
                "either",
                tuple(self._ways(devices, facts.get(node, {}))),
                int(payload),
                seconds,
                related=tuple(facts.get(node, {}).get("related", ())),
            )
            for node, devices in zip(self.place.nodes, self.devices, strict=True)
        ]

    def _ways(
        self, devices: Sequence[str], node_facts: Mapping[str, Any]
    ) -> Iterator[tuple[tuple[str, ...], ...]]:
        """How a node counts each device; over sockets all interfaces together that NCCL may use."""
        moved = node_facts.get("counters", {}).get("bytes", {})
        if not self.crosses_nics:
            allowed = node_facts.get("socket_interfaces", ())
            yield (tuple(name for name in moved if name in allowed),)
            return
        for device in devices:
            ports = tuple(name for name in moved if name.startswith(f"rdma/{device}/"))
            netdevs = tuple(node_facts.get("netdevs", {}).get(device, ()))
            beneath = (netdevs, tuple(f"ethtool/{name}" for name in netdevs)) if netdevs else ()
            yield (ports or (f"rdma/{device}/1",), *beneath)

    def device_failures(self, seen: Mapping[str, Sequence[str]]) -> list[Failure]:
        """Rails that NCCL left out without a word, or used without being asked to."""
        failures = []
        for node in self.place.nodes:
            wanted = set(self.fabric.devices(self.place.transport, self.absent(node)))
            used = set(seen.get(node, ()))
            for device in sorted(wanted - used):
                failures.append(
                    Failure(
                        "rail",
                        f"NCCL did not use {device} on {node}",
                        (node,),
                        f"ibv_devinfo -d {device} on {node}: is its port active?",
                    )
                )
            if used - wanted:
                strangers = ", ".join(sorted(used - wanted))
                message = f"NCCL used {strangers} on {node}, which it was not to"
                failures.append(Failure("rail", message, (node,)))
        return failures

    def limit(self, measurement: Measurement, facts: Facts) -> Limit | None:
        if not measurement.metric.startswith("busbw"):
            return None
        return self.fabric.limit(
            self.place.operation,
            self.place.transport,
            len(self.place.nodes),
            self.domains,
            min(map(len, self.devices)),
            self.partition.extras.link_gbits,
        )

    def adjusted(self, stored: Reference, measurement: Measurement) -> Reference:
        """The stored number; where some rails are absent, scaled to those that are left."""
        whole = len(self.fabric.devices(self.place.transport))
        left = min(map(len, self.devices))
        crosses = self.crosses_nics
        if left == whole or not crosses or not measurement.metric.startswith("busbw"):
            return stored
        note = f"{stored.note}; {left} of {whole} RDMA devices".removeprefix("; ")
        return stored.model_copy(update={"value": stored.value * left / whole, "note": note})
