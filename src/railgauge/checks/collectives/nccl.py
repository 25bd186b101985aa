"""Checks that run one nccl-tests program over groups of a partition's nodes."""

from __future__ import annotations

import dataclasses
import functools
import shlex
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

from reframe.core.builtins import run_after, run_before

from railgauge import paths
from railgauge.checks.collectives import nccl_hang
from railgauge.checks.collectives.nccl_cases import fabric_of, places_of
from railgauge.checks.collectives.nccl_run import NcclRun
from railgauge.checks.framework import topology
from railgauge.checks.framework.bounds import Source, find_stored, in_order
from railgauge.checks.framework.cases import Case, GroupCase
from railgauge.checks.framework.dependencies import cases_of, nodes_in
from railgauge.checks.framework.observation import Observation
from railgauge.checks.framework.programs import Programs
from railgauge.checks.jobs import container, lost_links
from railgauge.checks.jobs.group_launches import LaunchCheck
from railgauge.checks.jobs.uplink_counters import (
    Counting,
    confirm,
    in_mode,
    least_even_first,
    least_even_note,
)
from railgauge.checks.preflight.node_state import StatePreconditions
from railgauge.checks.rdma.rail import of_rails_among, preflights
from railgauge.model.call import Call
from railgauge.model.failure import Failure
from railgauge.model.measurement import Measurement
from railgauge.model.uplinks import CountersError
from railgauge.node.orders.ranks import RanksOrder, TableOrder, WatchOrder
from railgauge.stack import installed
from railgauge.systems import Partition, rehearsal
from railgauge.systems.nccl import Nccl, Scale
from railgauge.tools import Reading, nccl_log, nccl_tests
from railgauge.tools.common.lines import with_errors

#: What the tool writes beside its table, where its version can.
_RESULT = "nccl-tests.json"

#: NCCL's log of a rank.
_LOG = ".nccl.log"

#: A sweep that GPU memory ends must reach this share of the size that was asked for: a message
#: that is much smaller tells the latency, not the bandwidth.
_LEAST_SHARE = 1 / 16


class NcclPrograms(Programs):
    """nccl-tests of a scale, where the system's description has the folder that they are in."""

    def __init__(self, scale: Scale) -> None:
        super().__init__()
        self._scale = scale

    def on(self, partition: Partition) -> Mapping[str, Sequence[str]]:
        fabric = fabric_of(partition)
        if fabric.binaries.path is None:
            return {}
        return {fabric.binaries.perf(name): [] for name in sorted(fabric.operations[self._scale])}

    def unknown(self, partition: Partition) -> str:
        if fabric_of(partition).binaries.path is not None:
            return ""
        return "nccl-tests come from modules, the stack or an image, which only their job loads"


class GroupPreconditions(StatePreconditions):
    """The states of a group's nodes, and the RailProbes among them if data crosses NICs."""

    def finder(self, partition: Partition) -> Callable[[Case], list[tuple[str, str]]]:
        fabric, (states, rails) = fabric_of(partition), preflights()

        def needs(place: Case) -> list[tuple[str, str]]:
            assert isinstance(place, GroupCase)
            domains = fabric.domains(place.transport, places_of(partition, place.nodes))
            crosses = rails and fabric.crosses_nics(place.transport, domains)
            among = of_rails_among(place.partition, place.nodes) if crosses else []
            return [*nodes_in(states, place), *among]

        return needs

    def cases(self) -> Collection[str]:
        return cases_of(preflights())


class NcclCheck(LaunchCheck):
    """One collective over all GPUs of some nodes, a rank a GPU, in many such groups at once.

    A concrete check gives its own `scale`, `programs`, `cases = NcclCases(SCALE)`, and
    `sweep = parameter(cases.sweeps, loggable=True)`.
    """

    scale: Scale
    tool = nccl_tests
    preconditions = GroupPreconditions()
    table = TableOrder(
        column="busbw",
        metrics=("busbw", "busbw_in_place"),
        wrong="#wrong",
        end="Out of bounds values : 0 OK",
    )
    #: the sizes of a complete result of the place at hand
    _sizes: Sequence[int] = ()

    # --- the case ------------------------------------------------------------------------------

    @property
    def fabric(self) -> Nccl:
        return fabric_of(self.partition_data)

    @property
    def ranks_per_node(self) -> int:
        return self.fabric.gpus_per_node

    def run_at(self, place: GroupCase, partition: Partition) -> NcclRun:
        run = NcclRun(place=place, partition=partition, fabric=self.fabric)
        expected = self.fabric.expected(place.transport, len(place.nodes), run.domains)
        return dataclasses.replace(run, states=expected)

    @property
    def group(self) -> NcclRun:
        """The run of the group at hand."""
        run = self.place_run
        assert isinstance(run, NcclRun)
        return run

    def needs(self, place: Case) -> Sequence[tuple[str, str]]:
        # Stand-ins need no healthy node, and no other check is there.
        return () if self.rehearsal else super().needs(place)

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
        options = self.group.options
        limit = self.limit(self.group.largest("busbw"))
        # A little less than physics allows; sockets may be far from it.
        gbytes_s = 0.8 * limit.value if limit and self.here.transport != "sockets" else 2.0
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
                devices = self.run_at(place, partition).devices
                kinds.append((domains, min(map(len, devices))))
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
            number = self.group.largest(metric)
            for bound in in_order(self.bound_inputs, number, known="condition"):
                if bound.source in sources and bound.lowest is not None:
                    by_metric.setdefault(metric, bound.lowest)
        return by_metric

    def ranks_order(self, places: Sequence[GroupCase]) -> RanksOrder:
        fabric, options, transport = self.fabric, self.group.options, self.here.transport
        result = f"{{scratch}}/{_RESULT}" if options.has_json else None
        on_nodes = {}
        for place in places:
            with self.at(place):
                for node in place.nodes:
                    if absent := self.group.absent(node):
                        on_nodes[node] = fabric.environment(transport, absent)
        argv = nccl_tests.argv(options, fabric.binaries.perf(self.here.operation), result)
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
        environment = self.fabric.environment(self.here.transport)
        leaves = len(self.here.nodes) > 1
        return WatchOrder(
            devices=tuple(self.fabric.devices(self.here.transport)),
            interfaces=environment.get("NCCL_SOCKET_IFNAME", ""),
            budgets=tuple(budget.counters for budget in self.group.budgets) if leaves else (),
        )

    def count_uplinks(self) -> Counting | None:
        """Around an alltoall between leaves that is all of the job: nothing tells apart what
        several operations sent.
        """
        fabric, leaves = self.partition_data.extras.fabric, topology.leaves_of(self.partition_data)
        if fabric is None or leaves is None or len(self._chosen) != 1:
            return None
        (place,) = self._chosen
        with self.at(place):
            apart = self.group.counted and leaves.within(place.nodes) == "fabric"
            return (
                Counting(fabric.counters) if apart and self.here.operation == "alltoall" else None
            )

    def files(self) -> Mapping[str, Any]:
        """The orders of the replayer, with the reference's busbw, or most of the limit."""
        if not self.rehearsal:
            return {}
        like = self.group.largest("busbw")
        stored, limit = find_stored(self.bound_inputs, like), self.limit(like)
        replay = rehearsal.replay(
            systems_folder=paths.system_folder(self.current_system.name),
            fabric=self.fabric,
            scale=self.scale,
            options=self.group.options,
            busbw_gbytes_s=stored.value if stored else 0.9 * limit.value if limit else 2.0,
        )
        return {"replay.json": replay}

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
        options = dataclasses.replace(self.group.options, ranks=groups * self.ranks, groups=groups)
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
        self._sizes = self.group.options.sizes(
            table.seen.get("reduced_bytes") if table.ok else None
        )
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
            self.group.claims(reading, facts),
        )

    def _settings(self, used: nccl_log.Used) -> Mapping[str, Any]:
        """What moves numbers by a third, and is no part of a measurement's condition: two campaigns
        are compared where both have the same.
        """
        return {
            "nvls": bool(used.seen.get("nvls")),
            "sharp": bool(used.seen.get("collnet")),
            "warmup": self.group.options.warmup,
        }

    def _with_balance(self, reading: Reading) -> Reading:
        """With how evenly uplinks shared the alltoall, where they were counted around it."""
        fabric, leaves = self.partition_data.extras.fabric, topology.leaves_of(self.partition_data)
        if self._counting is None or fabric is None or leaves is None or not reading.ok:
            return reading
        between = leaves.pairs_apart(self.here.nodes) * self.ranks_per_node**2 / self.ranks
        moved = int(between * self.group.options.run_bytes(self._sizes))
        try:
            uplinks = self._counting.kept(Path(self.stagedir))
            least_even = least_even_first(uplinks)
            confirm(sum(each.sent_bytes for each in uplinks), moved, self.tool_name)
        except CountersError as error:
            note = f"how evenly uplinks shared it is not known: {error}"
            return dataclasses.replace(reading, notes=(*reading.notes, note))
        jain = Measurement(
            *("jain_index", least_even[0].jain, nccl_tests.TOOL),
            *(in_mode(self.here.operation, fabric), self.here.transport),
            ranks=self.ranks,
        )
        return dataclasses.replace(
            reading,
            measurements=(*reading.measurements, jain),
            notes=(*reading.notes, least_even_note(least_even)),
        )

    def required_metrics(self) -> Sequence[str]:
        measured = [size for size in dict.fromkeys(self._sizes) if size]
        return [f"{metric}_{size}B" for size in measured for metric in ("busbw", "time")]

    def _job_failures(self, calls: Sequence[Call], logs: Mapping[int, str]) -> list[Failure]:
        """A hang, NCCL's last words, and ranks in other places than requested."""
        failures, nodes = nccl_hang.last_words(calls, logs), self.here.nodes
        if nccl_hang.note(calls):
            of_ranks = nccl_hang.nodes_of_ranks(self.launch["out"], self.ranks)
            leaves = topology.leaves_of(self.partition_data)
            said = self.text("hang.out")
            failures.insert(0, nccl_hang.failure(said, calls, of_ranks, nodes, leaves))
        for node in nodes:
            ranks = sum(call.host == node for call in calls)
            if len(calls) == self.ranks and ranks != self.ranks_per_node:
                message = f"{ranks} ranks ran on {node}, expected {self.ranks_per_node}"
                failures.append(Failure("ranks", message, (node,)))
        return failures

    def _fabric_failures(self, used: nccl_log.Used) -> list[Failure]:
        """A sweep that memory ended early, and whatever NCCL's logs say is wrong."""
        failures = []
        requested = self.group.options.sizes()[-1]
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
        uneven = not all(self.group.devices) and any(self.group.devices)
        failures += [
            Failure("nccl-log", f"NCCL's log: {problem}")
            for problem in used.problems
            if not (uneven and "network" in problem)
        ]
        if self.group.crosses_nics:
            failures += self.group.device_failures(used.seen.get("hcas", {}))
        return failures

    def gates(self, measurement: Measurement) -> bool:
        """The largest message that fits into the GPUs; all are recorded."""
        largest = self._sizes[-1]
        return measurement.metric.startswith("busbw") and measurement.size_bytes == largest
