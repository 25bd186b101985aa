"""The run of nccl-tests over one group of nodes: what it asks for, and what its NICs must carry."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import reframe.core.runtime as rt

from railgauge import paths
from railgauge.checks.collectives.nccl_cases import places_of
from railgauge.checks.framework import topology
from railgauge.checks.framework.bounds import Inputs, Source, find_stored, in_order
from railgauge.checks.framework.cases import GroupCase
from railgauge.checks.framework.observation import Facts
from railgauge.checks.jobs import container
from railgauge.checks.jobs.group_launches import GroupRun
from railgauge.checks.jobs.sweep_run import JobNeeds
from railgauge.checks.jobs.uplink_counters import Counting
from railgauge.model import limits
from railgauge.model.failure import Failure
from railgauge.model.limits import Limit
from railgauge.model.measurement import Measurement
from railgauge.model.references import Reference
from railgauge.model.reported_traffic import Claim
from railgauge.node.orders.ranks import RanksOrder, WatchOrder
from railgauge.stack import installed
from railgauge.systems import Budget, rehearsal
from railgauge.systems.nccl import Nccl, Scale
from railgauge.tools import Reading, nccl_tests

#: What the tool writes next to its table, where its version can.
RESULT = "nccl-tests.json"

#: NCCL's log of a rank.
LOG = ".nccl.log"


@dataclasses.dataclass(frozen=True, kw_only=True)
class NcclRun(GroupRun):
    """A collective over all GPUs of a group, a rank a GPU."""

    fabric: Nccl
    scale: Scale
    options: nccl_tests.Options

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

    # --- the job -----------------------------------------------------------------------------

    def job_needs(self, nodes: Sequence[str]) -> JobNeeds:
        fabric, options, commands = self.fabric, [], []
        size = fabric.segment_nodes or 1
        within = {place // size for place in places_of(self.partition, nodes)}
        if fabric.segment_option and len(within) == 1:
            # Slurm places no segment that lies in two blocks.
            options = [f"--segment={len(nodes)}"]
        spec = fabric.binaries.spack
        if spec and not installed.provides(rt.runtime().system.name, spec):
            # In two steps: the shell goes on after a command that fails within eval.
            loading = f"spack --env {shlex.quote(str(paths.HOME))} load --sh {spec}"
            commands = [f'loaded="$({loading})"', 'eval "$loaded"']
        return JobNeeds(fabric.gpus_per_node, fabric.binaries.modules, options, commands)

    def launcher_options(self, folder: str) -> list[str]:
        return container.launcher_options(self.fabric.binaries.image, folder, "{folder}")

    def bounds(self, inputs: Inputs) -> Mapping[str, float]:
        """The bounds of the largest message that are of this system."""
        return self._lowest(inputs, "description", "stored", "minimum")

    def least(self, inputs: Inputs) -> Mapping[str, float]:
        """The least share of the limit of the largest message."""
        return self._lowest(inputs, "share")

    def _lowest(self, inputs: Inputs, *sources: Source) -> dict[str, float]:
        """The first lower bound of the largest message from these sources, by metric."""
        by_metric: dict[str, float] = {}
        for metric in ("busbw", "busbw_in_place"):
            for bound in in_order(inputs, self.largest(metric), known="condition"):
                if bound.source in sources and bound.lowest is not None:
                    by_metric.setdefault(metric, bound.lowest)
        return by_metric

    def files(self, inputs: Inputs) -> Mapping[str, Any]:
        """The orders of the replayer, with the reference's busbw, or most of the limit."""
        if rehearsal.scenario() is None:
            return {}
        like = self.largest("busbw")
        stored, limit = find_stored(inputs, like), self.limit(like, {})
        replay = rehearsal.replay(
            systems_folder=paths.system_folder(rt.runtime().system.name),
            fabric=self.fabric,
            scale=self.scale,
            options=self.options,
            busbw_gbytes_s=stored.value if stored else 0.9 * limit.value if limit else 2.0,
        )
        return {"replay.json": replay}

    def ranks_order(self, tool: str, rank_variable: str, groups: Sequence[GroupCase]) -> RanksOrder:
        fabric, options, transport = self.fabric, self.options, self.place.transport
        on_nodes = {}
        if self.partition.extras.absent:
            for run in (dataclasses.replace(self, place=group) for group in groups):
                for node in run.place.nodes:
                    if absent := run.absent(node):
                        on_nodes[node] = fabric.environment(transport, absent)
        return RanksOrder(
            rank_variable=rank_variable,
            tool=tool,
            argv=tuple(self.command),
            version=tuple(nccl_tests.version_argv()),
            run_limit_s=self.run_limit_s,
            foreign=("NCCL_",),
            environment={
                "NCCL_DEBUG": "INFO",
                # Since 2.23 NET names the ports of a merged device; DESTROY, since 2.30, says that
                # a log is whole.
                "NCCL_DEBUG_SUBSYS": "INIT,ENV,NET,DESTROY",
                "NCCL_DEBUG_FILE": f"rank{{rank}}{LOG}",
                **fabric.environment(transport),
            },
            environment_on=on_nodes,
            on_hang=(fabric.ras, "-v"),
            logs=(LOG,),
            watched=self._watched(),
            result=RESULT if options.has_json else None,
        )

    def _watched(self) -> WatchOrder:
        """The devices with counters that the first rank of every node reads. Within a node nothing
        goes over NICs, but their links may go down there too: no budget is left out.
        """
        if rehearsal.scenario() is not None:
            return WatchOrder(simulated=True)
        environment = self.fabric.environment(self.place.transport)
        leaves = len(self.place.nodes) > 1
        return WatchOrder(
            devices=tuple(self.fabric.devices(self.place.transport)),
            interfaces=environment.get("NCCL_SOCKET_IFNAME", ""),
            budgets=tuple(budget.counters for budget in self.budgets) if leaves else (),
        )

    def counting(self, alone: bool) -> Counting | None:
        """Around an alltoall between leaves that is all of the job: nothing tells apart what
        several operations sent.
        """
        fabric, leaves = self.partition.extras.fabric, topology.leaves_of(self.partition)
        if fabric is None or leaves is None or not alone or self.place.operation != "alltoall":
            return None
        apart = self.counted and leaves.within(self.place.nodes) == "fabric"
        return Counting(fabric.counters) if apart else None
