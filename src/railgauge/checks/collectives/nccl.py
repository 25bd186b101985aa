"""Checks that run one nccl-tests program over groups of a partition's nodes."""

from __future__ import annotations

import dataclasses
import functools
import shlex
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from reframe.core.builtins import run_after, run_before

from railgauge import paths
from railgauge.checks.collectives import nccl_hang
from railgauge.checks.collectives.nccl_cases import fabric_of, places_of
from railgauge.checks.framework import topology
from railgauge.checks.framework.bounds import Source, find_stored, in_order
from railgauge.checks.framework.cases import Case, GroupCase
from railgauge.checks.framework.dependencies import (
    NODE,
    Known,
    cases_needed,
    known_places,
    nodes_in,
)
from railgauge.checks.framework.observation import Facts, Observation
from railgauge.checks.jobs import container, lost_links
from railgauge.checks.jobs.group_launches import LaunchCheck
from railgauge.checks.jobs.uplink_counters import (
    Counting,
    confirm,
    in_mode,
    least_even_first,
    least_even_note,
)
from railgauge.checks.preflight.node_state import NAME, NodeStateCases
from railgauge.checks.rdma.rail import known_rails, of_rails_among
from railgauge.model import limits
from railgauge.model.call import Call
from railgauge.model.failure import Failure
from railgauge.model.limits import Limit
from railgauge.model.measurement import Measurement
from railgauge.model.references import Reference
from railgauge.model.reported_traffic import Claim
from railgauge.model.uplinks import CountersError
from railgauge.node.orders.ranks import RanksOrder, TableOrder, WatchOrder
from railgauge.stack import installed
from railgauge.systems import Budget, Partition, rehearsal
from railgauge.systems.nccl import Nccl, Scale, Transport
from railgauge.tools import Reading, nccl_log, nccl_tests
from railgauge.tools.common.lines import with_errors

#: What the tool writes beside its table, where its version can.
_RESULT = "nccl-tests.json"

#: NCCL's log of a rank.
_LOG = ".nccl.log"

#: A sweep that GPU memory ends must reach this share of the size that was asked for: a message
#: that is much smaller tells the latency, not the bandwidth.
_LEAST_SHARE = 1 / 16

#: The tool's own timeout comes so much after ours, which asks NCCL for its state first.
_LATER_S = 60


class NcclCheck(LaunchCheck):
    """One collective over all GPUs of some nodes, a rank a GPU, in many such groups at once.

    A concrete check gives its own `scale`, `cases = NcclCases(SCALE)`, and
    `sweep = parameter(cases.sweeps, loggable=True)`.
    """

    scale: Scale
    tool = nccl_tests
    #: rails between its nodes have probes of their own
    stopped_by = frozenset({"state"})
    table = TableOrder(
        column="busbw",
        metrics=("busbw", "busbw_in_place"),
        wrong="#wrong",
        end="Out of bounds values : 0 OK",
    )
    #: the sizes of a complete result of the place at hand
    _sizes: Sequence[int] = ()

    @classmethod
    def programs_on(cls, partition: Partition) -> Mapping[str, Sequence[str]]:
        fabric = fabric_of(partition)
        if fabric.binaries.path is None:
            return {}
        return {fabric.binaries.perf(name): [] for name in sorted(fabric.operations[cls.scale])}

    @classmethod
    def programs_unknown(cls, partition: Partition) -> str:
        if fabric_of(partition).binaries.path is not None:
            return ""
        return "nccl-tests come from modules, the stack or an image, which only their job loads"

    # --- the case ------------------------------------------------------------------------------

    @property
    def operation(self) -> str:
        return self.here.operation

    @property
    def transport(self) -> Transport:
        return self.here.transport

    @property
    def fabric(self) -> Nccl:
        return fabric_of(self.partition_data)

    @property
    def ranks_per_node(self) -> int:
        return self.fabric.gpus_per_node

    @property
    def domains(self) -> int:
        """How many NVLink domains the nodes at hand lie in."""
        return self.fabric.domains(self.transport, places_of(self.partition_data, self.here.nodes))

    def absent(self, node: str) -> tuple[str, ...]:
        """The RDMA devices to go without on a node.

        One HCA is the same on all nodes: rails need not reach each other.
        """
        extras = self.partition_data.extras
        nodes = self.here.nodes if self.transport == "one-hca" else [node]
        return tuple(device for n in nodes for device in extras.absent_devices(n))

    @property
    def devices(self) -> list[tuple[str, ...]]:
        """The RDMA devices that each node at hand uses."""
        if not self.partition_data.extras.absent:
            # As a rule, and a large partition has many nodes.
            return [self.fabric.devices(self.transport)] * len(self.here.nodes)
        return [self.fabric.devices(self.transport, self.absent(node)) for node in self.here.nodes]

    @property
    def options(self) -> nccl_tests.Options:
        """Of the group at hand alone."""
        fabric = self.fabric
        return nccl_tests.Options(
            operation=self.operation,
            ranks=self.ranks,
            min_bytes=fabric.min_bytes,
            max_bytes=fabric.largest_bytes(self.transport),
            iterations=fabric.iterations,
            warmup=fabric.warmup,
            timeout_s=fabric.timeout_s + _LATER_S,
            version=fabric.binaries.version,
            transport=self.transport,
        )

    def needs(self, place: Case) -> Sequence[tuple[str, str]]:
        if self.rehearsal:
            return ()  # stand-ins need no healthy node, and no other check is there
        return self._before(place)

    def cases_needed(self) -> Iterable[str]:
        if self.rehearsal:
            return ()
        return cases_needed(self.places, self._before, self._preflights)

    @property
    def _preflights(self) -> tuple[Known, Known]:
        """The preconditions of nodes, and of rails."""
        return known_places(NAME, NodeStateCases, NODE), known_rails()

    @functools.cached_property
    def _before(self) -> Callable[[Case], list[tuple[str, str]]]:
        """A place's needs, by what is looked up once: a large partition has many groups."""
        partition = self.partition_data
        fabric, (states, rails) = fabric_of(partition), self._preflights

        def before(place: Case) -> list[tuple[str, str]]:
            assert isinstance(place, GroupCase)
            domains = fabric.domains(place.transport, places_of(partition, place.nodes))
            crosses = rails and fabric.crosses_nics(place.transport, domains)
            among = of_rails_among(place.partition, place.nodes) if crosses else []
            return [*nodes_in(states, place), *among]

        return before

    # --- the job -------------------------------------------------------------------------------

    @run_after("init")
    def use_modules(self) -> None:
        self.modules = list(self.fabric.binaries.modules)

    @run_after("setup")
    def ask_for_gpus(self) -> None:
        self.job.options += [f"--gpus-per-node={self.fabric.gpus_per_node}"]

    def select_places(self) -> None:
        super().select_places()
        fabric = self.fabric
        size = fabric.segment_nodes or 1
        within = {place // size for place in places_of(self.partition_data, self.pinned_nodes)}
        if fabric.segment_option and len(within) == 1:
            # Slurm places no segment that lies in two blocks.
            self.job.options += [f"--segment={len(self.pinned_nodes)}"]

    @run_before("run")
    def load_binaries(self) -> None:
        spec = self.fabric.binaries.spack
        if spec and not installed.provides(self.current_system.name, spec):
            # In two steps: the shell goes on after a command that fails within eval.
            loading = f"spack --env {shlex.quote(str(paths.HOME))} load --sh {spec}"
            self.prerun_cmds += [f'loaded="$({loading})"', 'eval "$loaded"']

    def launcher_options(self) -> list[str]:
        return container.launcher_options(self.fabric.binaries.image, self.stagedir, "{folder}")

    def expected_run_s(self) -> float:
        options = self.options
        limit = self.limit(self._largest("busbw"))
        # A little less than physics allows; sockets may be far from it.
        gbytes_s = 0.8 * limit.value if limit and self.transport != "sockets" else 2.0
        # Every size is checked once, and measured out of place and in place.
        operations = 2 * (options.warmup + options.iterations + 1)
        moved = sum(options.sizes()) * (nccl_tests.busbw_factor(options.operation, options.ranks))
        # Starting ranks and NCCL; the values of a large message take a second to check.
        return 15 + operations * moved / gbytes_s / 1e9 + len(options.sizes()) / 2

    def run_limit_s(self) -> int:
        return self.fabric.timeout_s

    def together(self) -> Mapping[str, str] | None:
        return (
            {nccl_tests.SPLIT: nccl_tests.SPLIT_IN_RANKS}
            if self.fabric.binaries.has_split
            else None
        )

    def kinds_of(self, places: Sequence[Case]) -> Sequence[Hashable]:
        """How many domains and devices: what a group can reach follows from them."""
        partition = self.partition_data
        fabric, has_absent = fabric_of(partition), bool(partition.extras.absent)
        kinds: list[Hashable] = []
        for place in places:
            assert isinstance(place, GroupCase)
            domains = fabric.domains(place.transport, places_of(partition, place.nodes))
            if has_absent:
                with self.at(place):
                    kinds.append((domains, min(map(len, self.devices))))
            else:
                # As a rule, and a large partition has many groups.
                kinds.append((domains, len(fabric.devices(place.transport))))
        return kinds

    def bounds(self) -> Mapping[str, float]:
        """The bounds of the largest message that are of this system."""
        return self._lowest("description", "stored", "minimum")

    def least(self) -> Mapping[str, float]:
        """The least share of the limit of the largest message."""
        return self._lowest("share")

    def _lowest(self, *sources: Source) -> dict[str, float]:
        """The first lower bound of the largest message from these sources, by metric."""
        by_metric: dict[str, float] = {}
        for metric in ("busbw", "busbw_in_place"):
            number = self._largest(metric)
            for bound in in_order(self.bound_inputs, number, known="condition"):
                if bound.source in sources and bound.lowest is not None:
                    by_metric.setdefault(metric, bound.lowest)
        return by_metric

    def ranks_order(self, places: Sequence[GroupCase]) -> RanksOrder:
        fabric, options, transport = self.fabric, self.options, self.transport
        result = f"{{scratch}}/{_RESULT}" if options.has_json else None
        on_nodes = {}
        for place in places:
            with self.at(place):
                for node in place.nodes:
                    if absent := self.absent(node):
                        on_nodes[node] = fabric.environment(transport, absent)
        argv = nccl_tests.argv(options, fabric.binaries.perf(self.operation), result)
        return RanksOrder(
            rank_variable=self.rank_variable,
            tool=self.tool_name,
            argv=tuple(argv),
            version=tuple(nccl_tests.version_argv()),
            run_limit_s=self.run_limit_s(),
            foreign=("NCCL_",),
            environment={
                "NCCL_DEBUG": "INFO",
                # Since 2.23 NET names the ports of a merged device; DESTROY, since 2.30, says that
                # a log is whole.
                "NCCL_DEBUG_SUBSYS": "INIT,ENV,NET,DESTROY",
                "NCCL_DEBUG_FILE": f"rank{{rank}}{_LOG}",
                **fabric.environment(transport),
            },
            environment_on=on_nodes,
            on_hang=(fabric.ras, "-v"),
            logs=(_LOG,),
            watched=self._watched(),
            result=_RESULT if options.has_json else None,
        )

    def _watched(self) -> WatchOrder:
        """Whose counters the first rank of every node reads. Within a node nothing goes over NICs,
        but their links may go down there too: nothing is missed that a budget names.
        """
        if self.rehearsal:
            return WatchOrder(simulated=True)
        environment = self.fabric.environment(self.transport)
        leaves = len(self.here.nodes) > 1
        return WatchOrder(
            devices=tuple(self.fabric.devices(self.transport)),
            interfaces=environment.get("NCCL_SOCKET_IFNAME", ""),
            budgets=tuple(budget.counters for budget in self.budgets) if leaves else (),
        )

    @property
    def budgets(self) -> tuple[Budget, ...]:
        return () if self.rehearsal else tuple(self.partition_data.extras.counters)

    def count_uplinks(self) -> Counting | None:
        """Around an alltoall between leaves that is all of the job: nothing tells apart what
        several operations sent.
        """
        fabric, leaves = self.partition_data.extras.fabric, topology.leaves_of(self.partition_data)
        if fabric is None or leaves is None or len(self._chosen) != 1:
            return None
        (place,) = self._chosen
        with self.at(place):
            apart = self.counted and leaves.within(place.nodes) == "fabric"
            return Counting(fabric.counters) if apart and self.operation == "alltoall" else None

    def files(self) -> Mapping[str, Any]:
        return {"replay.json": self._replay()} if self.rehearsal else {}

    def _replay(self) -> dict[str, Any]:
        """What the replayer is told."""
        return rehearsal.replay(
            systems_folder=paths.SYSTEMS / self.current_system.name,
            fabric=self.fabric,
            scale=self.scale,
            options=self.options,
            busbw_gbytes_s=self._typical(),
        )

    def _largest(self, metric: str) -> Measurement:
        """A measurement that gates, but for its value."""
        return Measurement(
            metric,
            0.0,
            tool=nccl_tests.TOOL,
            operation=self.operation,
            transport=self.transport,
            size_bytes=self.options.sizes()[-1],
            nodes=self.here.nodes,
            ranks=self.ranks,
        )

    def _typical(self) -> float:
        """A busbw for the replayer: the reference's, else most of the limit."""
        like = self._largest("busbw")
        stored, limit = find_stored(self.bound_inputs, like), self.limit(like)
        return stored.value if stored else 0.9 * limit.value if limit else 2.0

    # --- what it left --------------------------------------------------------------------------

    @functools.cached_property
    def _readings(self) -> dict[int, Reading]:
        """Of the tables that were read, by their launches: all of its groups share one."""
        return {}

    def _table(self) -> Reading:
        """The table of the launch at hand, by all that all of its ranks left: where anything is
        wrong with it, it clears none of its groups, whatever the driver took it for.
        """
        launch = self.launch
        known = self._readings.get(launch["launch"])
        if known is not None:
            return known
        groups, sides = len(launch["places"]), self.launch_sides()
        options = dataclasses.replace(self.options, ranks=groups * self.ranks, groups=groups)
        lines = [side.line for _, side in sorted(sides.items())]
        whole = len(lines) == options.ranks
        # Where a rank is missing, that is the failure; the others prove no host.
        hosts = tuple(str(line["facts"].get("hostname")) for line in lines) if whole else ()
        outputs = {rank: with_errors(side.out, side.err) for rank, side in sides.items()}
        # Also of a rank 0 that died.
        outputs[0] = with_errors(launch["out"], sides[0].err if 0 in sides else "")
        reading = nccl_tests.read(
            outputs,
            json_text=launch["files"].get(_RESULT, "") if options.has_json else None,
            calls=[Call(**line["call"]) for line in lines],
            options=dataclasses.replace(options, hosts=hosts),
        )
        # Whose nodes and ranks these are, every group says itself.
        measured = tuple(dataclasses.replace(m, nodes=()) for m in reading.measurements)
        reading = dataclasses.replace(reading, measurements=measured)
        self._readings[launch["launch"]] = reading
        return reading

    def read(self) -> Observation:
        lines, table = self.exit_lines(), self._table()
        calls = [line.call for line in lines]
        sides = self._output.sides(self.here)
        logs = {
            call.rank: log
            for call in calls
            if (log := sides[call.role].files.get(f"{call.role}{_LOG}"))
        }
        used = nccl_log.read(logs, {call.rank: call.host for call in calls})
        self._sizes = self.options.sizes(table.seen.get("reduced_bytes") if table.ok else None)
        reading = dataclasses.replace(
            table,
            seen={**used.seen, **table.seen},
            simulated=table.simulated or used.simulated,
        )
        stated = [str(reading.seen[v]) for v in ("version", "nccl_version") if v in reading.seen]
        version = ", NCCL ".join(stated)
        slowest = {"launch": self.launch["launch"], "slowest_of": len(self.launch["places"])}
        # Of every node by its first rank, which watched its counters.
        facts: dict[str, dict[str, Any]] = {}
        how = {"collective": self._settings(used)} if used.seen else {}
        for line in lines:
            if line.call.host not in facts or "links" in line.facts:
                facts[line.call.host] = {**line.facts, **slowest, **how}
        failures = self.not_launched() or self._job_failures(calls, logs)
        reading = self._with_balance(reading)
        if reading.ok and not failures:
            # What else is in the logs of a job that failed follows from that.
            failures = self._fabric_failures(used)
        failures = [*failures, *lost_links.lost(facts)]
        return Observation(
            reading,
            [
                dataclasses.replace(
                    call,
                    version=version,
                    package=container.package(self.fabric.binaries.image, call),
                )
                for call in calls
            ],
            facts,
            failures,
            self.claims(reading, facts),
        )

    def _settings(self, used: nccl_log.Used) -> Mapping[str, Any]:
        """What moves numbers by a third, and is no part of a measurement's condition: two campaigns
        are compared where both have the same.
        """
        return {
            "nvls": bool(used.seen.get("nvls")),
            "sharp": bool(used.seen.get("collnet")),
            "warmup": self.options.warmup,
        }

    def _with_balance(self, reading: Reading) -> Reading:
        """With how evenly uplinks shared the alltoall, where they were counted around it."""
        fabric, leaves = self.partition_data.extras.fabric, topology.leaves_of(self.partition_data)
        if self._counting is None or fabric is None or leaves is None or not reading.ok:
            return reading
        between = leaves.pairs_apart(self.here.nodes) * self.ranks_per_node**2 / self.ranks
        moved = int(between * self.options.run_bytes(self._sizes))
        try:
            uplinks = self._counting.kept(Path(self.stagedir))
            least_even = least_even_first(uplinks)
            confirm(sum(each.sent_bytes for each in uplinks), moved, self.tool_name)
        except CountersError as error:
            note = f"how evenly uplinks shared it is not known: {error}"
            return dataclasses.replace(reading, notes=(*reading.notes, note))
        jain = Measurement(
            *("jain_index", least_even[0].jain, nccl_tests.TOOL),
            *(in_mode(self.operation, fabric), self.transport),
            ranks=self.ranks,
        )
        return dataclasses.replace(
            reading,
            measurements=(*reading.measurements, jain),
            notes=(*reading.notes, least_even_note(least_even)),
        )

    def requested(self) -> Mapping[str, Any]:
        return self.fabric.expected(self.transport, len(self.here.nodes), self.domains)

    def required_metrics(self) -> Sequence[str]:
        measured = [size for size in dict.fromkeys(self._sizes) if size]
        return [f"{metric}_{size}B" for size in measured for metric in ("busbw", "time")]

    @property
    def counted(self) -> bool:
        return self._node_share > 0

    @property
    def _node_share(self) -> float:
        """What every node's NICs must have carried at least, as a share of the size, whatever the
        algorithm.

        Of gather and scatter that is only one node's, of NVLink domains of several nodes only one
        domain's: there it is 0.
        """
        nodes = len(self.here.nodes)
        if self.domains < nodes:
            return 0.0
        return limits.least_node_share(self.operation, nodes, self.ranks)

    def claims(self, reading: Reading, facts: Facts) -> Sequence[Claim]:
        """What every node's NICs must have carried, where that is known."""
        share = self._node_share
        if not share:
            return ()
        timed = [m for m in reading.measurements if m.metric in ("time", "time_in_place")]
        iterations = self.options.iterations
        payload = share * sum((m.size_bytes or 0) * iterations for m in timed)
        seconds = sum(m.value * 1e-6 * iterations for m in timed)
        return [
            Claim(
                f"{self.operation}_perf",
                node,
                "either",
                tuple(self._ways(devices, facts.get(node, {}))),
                int(payload),
                seconds,
                related=tuple(facts.get(node, {}).get("related", ())),
            )
            for node, devices in zip(self.here.nodes, self.devices, strict=True)
        ]

    def _ways(
        self, devices: Sequence[str], node_facts: Mapping[str, Any]
    ) -> Iterator[tuple[tuple[str, ...], ...]]:
        """How a node counts each device; over sockets all interfaces together that NCCL may use."""
        moved = node_facts.get("counters", {}).get("bytes", {})
        if not self.fabric.crosses_nics(self.transport, self.domains):
            allowed = node_facts.get("socket_interfaces", ())
            yield (tuple(name for name in moved if name in allowed),)
            return
        for device in devices:
            ports = tuple(name for name in moved if name.startswith(f"rdma/{device}/"))
            netdevs = tuple(node_facts.get("netdevs", {}).get(device, ()))
            beneath = (netdevs, tuple(f"ethtool/{name}" for name in netdevs)) if netdevs else ()
            yield (ports or (f"rdma/{device}/1",), *beneath)

    def _job_failures(self, calls: Sequence[Call], logs: Mapping[int, str]) -> list[Failure]:
        """A hang, NCCL's last words, and ranks in other places than requested."""
        failures = [self._hang(calls)] if nccl_hang.note(calls) else []
        failures += nccl_hang.last_words(calls, logs)
        for node in self.here.nodes:
            ranks = sum(call.host == node for call in calls)
            if len(calls) == self.ranks and ranks != self.ranks_per_node:
                message = f"{ranks} ranks ran on {node}, expected {self.ranks_per_node}"
                failures.append(Failure("ranks", message, (node,)))
        return failures

    def _fabric_failures(self, used: nccl_log.Used) -> list[Failure]:
        """A sweep that memory ended early, and whatever NCCL's logs say is wrong."""
        failures = []
        requested = self.options.sizes()[-1]
        if self._sizes[-1] < _LEAST_SHARE * requested:
            failures.append(
                Failure(
                    "memory",
                    f"the memory of the GPUs ended the sweep at {self._sizes[-1]} bytes, "
                    f"expected {requested}, or at least a {1 / _LEAST_SHARE:.0f}th of it",
                    next_step="does something else hold GPU memory there? nvidia-smi",
                )
            )
        # Where a node has no device left, NCCL knows other networks there; nothing crosses them.
        uneven = not all(self.devices) and any(self.devices)
        failures += [
            Failure("nccl-log", f"NCCL's log: {problem}")
            for problem in used.problems
            if not (uneven and "network" in problem)
        ]
        if self.fabric.crosses_nics(self.transport, self.domains):
            failures += self._devices(used.seen.get("hcas", {}))
        return failures

    def _devices(self, seen: Mapping[str, Sequence[str]]) -> list[Failure]:
        """Rails that NCCL left out without a word, or used without being asked to."""
        failures = []
        for node in self.here.nodes:
            wanted = set(self.fabric.devices(self.transport, self.absent(node)))
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

    def _hang(self, calls: Sequence[Call]) -> Failure:
        return nccl_hang.failure(
            self.text("hang.out"),
            calls,
            nccl_hang.nodes_of_ranks(self.launch["out"], self.ranks),
            self.here.nodes,
            topology.leaves_of(self.partition_data),
        )

    def gates(self, measurement: Measurement) -> bool:
        """The largest message that fits into the GPUs; all are recorded."""
        largest = self._sizes[-1]
        return measurement.metric.startswith("busbw") and measurement.size_bytes == largest

    def limit(self, measurement: Measurement) -> Limit | None:
        if not measurement.metric.startswith("busbw"):
            return None
        return self.fabric.limit(
            self.operation,
            self.transport,
            len(self.here.nodes),
            self.domains,
            min(map(len, self.devices)),
            self.partition_data.extras.link_gbits,
        )

    def adjusted(self, stored: Reference, measurement: Measurement) -> Reference:
        """The stored number; where some rails are absent, scaled to those that are left."""
        whole = len(self.fabric.devices(self.transport))
        left = min(map(len, self.devices))
        crosses = self.fabric.crosses_nics(self.transport, self.domains)
        if left == whole or not crosses or not measurement.metric.startswith("busbw"):
            return stored
        note = f"{stored.note}; {left} of {whole} RDMA devices".removeprefix("; ")
        return stored.model_copy(update={"value": stored.value * left / whole, "note": note})
