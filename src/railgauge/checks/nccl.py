"""Checks that run one nccl-tests program over some nodes of a partition."""

from __future__ import annotations

import dataclasses
import itertools
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from reframe.core.builtins import run_after, run_before

from railgauge import paths
from railgauge.checks.base import Facts, Observation
from railgauge.checks.cases import Case, GroupCase
from railgauge.checks.nccl_cases import fabric_of, places_of
from railgauge.checks.node_state import of_states
from railgauge.checks.ranks import RanksCheck
from railgauge.checks.rdma import of_all_rails
from railgauge.model import limits, references
from railgauge.model.call import Call
from railgauge.model.claim import Claim
from railgauge.model.failure import Failure
from railgauge.model.limits import Limit
from railgauge.model.measurement import Measurement
from railgauge.stack import installed
from railgauge.systems import Partition, rehearsal
from railgauge.systems.nccl import Nccl, Scale, Transport
from railgauge.tools import Reading, nccl_log, nccl_tests

#: What the tool writes beside its table, where its version can.
_RESULT = "nccl-tests.json"

#: A sweep that GPU memory ends must reach this share of the size that was asked for: a message
#: that is much smaller tells the latency, not the bandwidth.
_LEAST_SHARE = 1 / 16

#: What a job gets beyond `timeout_s`: for the state of one that hangs, and for Slurm's own work.
_MARGIN_S = 120


class NcclCheck(RanksCheck):
    """One collective over all GPUs of some nodes, a rank a GPU.

    A concrete check gives its own `scale` and `cases = NcclCases(SCALE)`.
    """

    case: GroupCase
    scale: Scale
    tool = nccl_tests

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
    def target(self) -> GroupCase:
        return self.case

    @property
    def operation(self) -> str:
        return self.case.operation

    @property
    def transport(self) -> Transport:
        return self.case.transport

    @property
    def domains(self) -> int:
        """How many NVLink domains the nodes lie in."""
        return self.fabric.domains(
            self.transport, places_of(self.partition_data, self.pinned_nodes)
        )

    def absent(self, node: str) -> tuple[str, ...]:
        """The RDMA devices to go without on a node.

        One HCA is the same on all nodes: rails need not reach each other.
        """
        extras = self.partition_data.extras
        nodes = self.pinned_nodes if self.transport == "one-hca" else [node]
        return tuple(device for n in nodes for device in extras.absent_devices(n))

    @property
    def devices(self) -> list[tuple[str, ...]]:
        """The RDMA devices that each node uses."""
        return [
            self.fabric.devices(self.transport, self.absent(node)) for node in self.pinned_nodes
        ]

    @property
    def fabric(self) -> Nccl:
        return fabric_of(self.partition_data)

    @property
    def options(self) -> nccl_tests.Options:
        fabric = self.fabric
        return nccl_tests.Options(
            operation=self.operation,
            ranks=self.num_tasks,
            min_bytes=fabric.min_bytes,
            max_bytes=fabric.largest_bytes(self.transport),
            iterations=fabric.iterations,
            warmup=fabric.warmup,
            # The tool's own timeout comes after ours, which asks NCCL for its state first.
            timeout_s=fabric.timeout_s + _MARGIN_S // 2,
            version=fabric.binaries.version,
            transport=self.transport,
        )

    # --- the job -------------------------------------------------------------------------------

    def needs(self, place: Case) -> Sequence[tuple[str, str]]:
        if self.rehearsal:
            return ()  # stand-ins need no healthy node, and no other check is there
        needed = of_states(place)
        if self.fabric.crosses_nics(self.transport, self.domains):
            for server, client in itertools.permutations(place.nodes, 2):
                needed += of_all_rails(place.partition, server, client)
        return needed

    @run_after("init")
    def use_every_gpu(self) -> None:
        fabric = self.fabric
        self.num_tasks_per_node = fabric.gpus_per_node
        self.num_tasks = len(self.pinned_nodes) * fabric.gpus_per_node
        self.time_limit = f"{fabric.timeout_s + _MARGIN_S}s"
        self.modules = list(fabric.binaries.modules)
        self._measures(self.options.sizes())
        self.expected = fabric.expected(self.transport, len(self.pinned_nodes), self.domains)

    def _measures(self, sizes: Sequence[int]) -> None:
        """The sizes of a complete result."""
        self._largest_bytes = sizes[-1]
        measured = [size for size in dict.fromkeys(sizes) if size]
        self.metrics = [f"{metric}_{size}B" for size in measured for metric in ("busbw", "time")]

    @run_after("setup")
    def ask_for_gpus(self) -> None:
        fabric = self.fabric
        self.job.options += [f"--gpus-per-node={fabric.gpus_per_node}"]
        size = fabric.segment_nodes or 1
        within = {place // size for place in places_of(self.partition_data, self.pinned_nodes)}
        if fabric.segment_option and len(within) == 1:
            # Slurm places no segment that lies in two blocks.
            self.job.options += [f"--segment={len(self.pinned_nodes)}"]

    @run_before("run")
    def use_binaries(self) -> None:
        binaries = self.fabric.binaries
        if binaries.spack and not installed.provides(self.current_system.name, binaries.spack):
            # In two steps: the shell goes on after a command that fails within eval.
            loading = f"spack --env {shlex.quote(str(paths.HOME))} load --sh {binaries.spack}"
            self.prerun_cmds += [f'loaded="$({loading})"', 'eval "$loaded"']
        if binaries.image:
            mounts = f"{paths.HOME},{self.stagedir}"
            self.job.launcher.options += [
                f"--container-image={binaries.image}",
                shlex.quote(f"--container-mounts={mounts}"),
                shlex.quote(f"--container-workdir={self.stagedir}"),
            ]
        if self.rehearsal:
            replay = Path(self.stagedir, "replay.json")
            replay.write_text(json.dumps(self._replay()), encoding="utf-8")

    @property
    def expected_seconds(self) -> float:
        options = self.options
        like = self._largest()
        limit = self.limit(like)
        # A little less than physics allows; sockets may be far from it.
        gbytes_s = 0.8 * limit.value if limit and self.transport != "sockets" else 2.0
        # Every size is checked once, and measured out of place and in place.
        operations = 2 * (options.warmup + options.iterations + 1)
        moved = sum(options.sizes()) * (nccl_tests.busbw_factor(options.operation, options.ranks))
        # Starting ranks and NCCL; the values of a large message take a second to check.
        return 15 + operations * moved / gbytes_s / 1e9 + len(options.sizes()) / 2

    def run_limit_s(self) -> int:
        return self.fabric.timeout_s

    def command(self) -> list[str]:
        options = self.options
        result = f"{{scratch}}/{_RESULT}" if options.has_json else None
        return nccl_tests.argv(options, self.fabric.binaries.perf(self.operation), result)

    def orders(self) -> Mapping[str, Any]:
        fabric, transport = self.fabric, self.transport
        return {
            "foreign": ["NCCL_"],
            "environment": {
                "NCCL_DEBUG": "INFO",
                # Since 2.23 NET names the ports of a merged device; DESTROY, since 2.30, says that
                # a log is whole.
                "NCCL_DEBUG_SUBSYS": "INIT,ENV,NET,DESTROY",
                "NCCL_DEBUG_FILE": "rank{rank}.nccl.log",
                **fabric.environment(transport),
            },
            "environment_on": {
                node: fabric.environment(transport, absent)
                for node in self.pinned_nodes
                if (absent := self.absent(node))
            },
            "on_hang": [fabric.ras, "-v"],
            **self._watched(),
            **({"result": _RESULT} if self.options.has_json else {}),
        }

    def _watched(self) -> dict[str, list[str]]:
        """The RDMA devices whose counters are wanted, where anything leaves a node."""
        if len(self.pinned_nodes) < 2 or self.rehearsal:
            return {}
        return {"watched": list(self.fabric.devices(self.transport))}

    def _replay(self) -> dict[str, Any]:
        """What the replayer is told."""
        return rehearsal.replay(
            systems_folder=paths.SYSTEMS / self.current_system.name,
            fabric=self.fabric,
            scale=self.scale,
            options=self.options,
            busbw_gbytes_s=self._typical(),
        )

    def _largest(self) -> Measurement:
        """The measurement that gates, but for its value."""
        return Measurement(
            "busbw",
            0.0,
            tool=nccl_tests.TOOL,
            operation=self.operation,
            transport=self.transport,
            size_bytes=self.options.sizes()[-1],
            nodes=tuple(self.pinned_nodes),
            ranks=self.num_tasks,
        )

    def _typical(self) -> float:
        """A busbw for the replayer: the reference's, else most of the limit."""
        like = self._largest()
        stored = self._references([like]).get(like.variable)
        limit = self.limit(like)
        return stored.value if stored else 0.9 * limit.value if limit else 2.0

    # --- what it left --------------------------------------------------------------------------

    def _logs(self) -> dict[int, str]:
        """NCCL's log of every rank that left one."""
        found = {rank: self.text(f"rank{rank}.nccl.log") for rank in range(self.num_tasks)}
        return {rank: text for rank, text in found.items() if text}

    def read(self) -> Observation:
        lines = sorted(self.exit_lines(), key=lambda line: line.call.rank)
        calls, logs = [line.call for line in lines], self._logs()
        # Where a rank is missing, that is the failure; the others prove no host.
        whole = len(lines) == self.num_tasks
        hosts = tuple(str(line.facts.get("hostname")) for line in lines) if whole else ()
        reading = nccl_tests.read(
            {rank: self.output(f"rank{rank}") for rank in range(self.num_tasks)},
            json_text=self.text(_RESULT) if self.options.has_json else None,
            calls=calls,
            options=dataclasses.replace(self.options, hosts=hosts),
        )
        used = nccl_log.read(logs, {call.rank: call.host for call in calls})
        if reading.ok:
            self._measures(self.options.sizes(reading.seen.get("reduced_bytes")))
        reading = dataclasses.replace(
            reading,
            seen={**used.seen, **reading.seen},
            simulated=reading.simulated or used.simulated,
        )
        stated = [str(reading.seen[v]) for v in ("version", "nccl_version") if v in reading.seen]
        version = ", NCCL ".join(stated)
        # Of every node by its first rank, which watched its counters.
        facts = {line.call.host: line.facts for line in lines if "counters" in line.facts}
        failures = self._job_failures(calls, logs)
        if reading.ok and not failures:
            # What else is in the logs of a job that failed follows from that.
            failures = self._fabric_failures(used)
        return Observation(
            reading,
            [
                dataclasses.replace(call, version=version, package=self._package(call))
                for call in calls
            ],
            facts,
            failures,
            self.claims(reading, facts),
        )

    def claims(self, reading: Reading, facts: Facts) -> Sequence[Claim]:
        """What every node's NICs must have carried at least, whatever the algorithm.

        Of gather and scatter that is only one node's, of NVLink domains of several nodes only one
        domain's: there nothing is claimed.
        """
        nodes = len(self.pinned_nodes)
        share = limits.least_node_share(self.operation, nodes, self.num_tasks)
        if self.domains < nodes or not share:
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
            )
            for node, devices in zip(self.pinned_nodes, self.devices, strict=True)
        ]

    def _ways(
        self, devices: Sequence[str], said: Mapping[str, Any]
    ) -> Iterator[tuple[tuple[str, ...], ...]]:
        """How a node counts each device; over sockets all of its interfaces together."""
        moved = said.get("counters", {}).get("bytes", {})
        if not self.fabric.crosses_nics(self.transport, self.domains):
            yield (tuple(name for name in moved if "/" not in name and name != "lo"),)
            return
        for device in devices:
            ports = tuple(name for name in moved if name.startswith(f"rdma/{device}/"))
            netdevs = tuple(said.get("netdevs", {}).get(device, ()))
            beneath = (netdevs, tuple(f"ethtool/{name}" for name in netdevs)) if netdevs else ()
            yield (ports or (f"rdma/{device}/1",), *beneath)

    def _package(self, call: Call) -> str:
        """The image, where the program came with one; this checkout is mounted into it."""
        image = self.fabric.binaries.image
        inside = call.path and not Path(call.path).is_relative_to(paths.HOME)
        return f"image {image}" if image and inside else call.package

    def _job_failures(self, calls: Sequence[Call], logs: Mapping[int, str]) -> list[Failure]:
        """A hang, NCCL's last words, and ranks in other places than requested."""
        found = self._nccl_last_words(calls, logs)
        for node in self.pinned_nodes:
            ranks = sum(call.host == node for call in calls)
            if len(calls) == self.num_tasks and ranks != self.num_tasks_per_node:
                message = f"{ranks} ranks ran on {node}, expected {self.num_tasks_per_node}"
                found.append(Failure("ranks", message, (node,)))
        return found

    def _fabric_failures(self, used: nccl_log.Used) -> list[Failure]:
        """A sweep that memory ended early, and whatever NCCL's logs say is wrong."""
        found = []
        asked = self.options.sizes()[-1]
        if self._largest_bytes < _LEAST_SHARE * asked:
            found.append(
                Failure(
                    "memory",
                    f"the memory of the GPUs ended the sweep at {self._largest_bytes} bytes, "
                    f"expected {asked}, or at least a {1 / _LEAST_SHARE:.0f}th of it",
                    next_step="does something else hold GPU memory there? nvidia-smi",
                )
            )
        # Where a node has no device left, NCCL knows other networks there; nothing crosses them.
        uneven = not all(self.devices) and any(self.devices)
        found += [
            Failure("nccl-log", f"NCCL's log: {problem}")
            for problem in used.problems
            if not (uneven and "network" in problem)
        ]
        if self.fabric.crosses_nics(self.transport, self.domains):
            found += self._devices(used.seen.get("hcas", {}))
        return found

    def _devices(self, seen: Mapping[str, Sequence[str]]) -> list[Failure]:
        """Rails that NCCL left out without a word, or used without being asked to."""
        found = []
        for node in self.pinned_nodes:
            wanted = set(self.fabric.devices(self.transport, self.absent(node)))
            used = set(seen.get(node, ()))
            for device in sorted(wanted - used):
                found.append(
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
                found.append(Failure("rail", message, (node,)))
        return found

    def _nccl_last_words(self, calls: Sequence[Call], logs: Mapping[int, str]) -> list[Failure]:
        """What NCCL said before the tool failed, or had to be ended because it hung."""
        found = []
        hung = [call for call in calls if "still running" in call.note]
        if hung:
            state = " ".join(self.text("hang.out").split())[:400] or "no answer"
            found.append(
                Failure("hang", f"ended after {self.run_limit_s()} s; ncclras says: {state}")
            )
        failed = {call.rank for call in calls if call.failure}
        # Of a hang all: the one that lags behind is what one looks for.
        told = {rank: log for rank, log in logs.items() if hung or rank in failed}
        if words := nccl_log.last_words_of_all(told):
            said = "; ".join(words.splitlines())
            found.append(Failure("last-words", f"NCCL's last words: {said} (*.nccl.log)"))
        return found

    def gates(self, measurement: Measurement) -> bool:
        """The largest message that fits into the GPUs; all are recorded."""
        largest = self._largest_bytes
        return measurement.metric.startswith("busbw") and measurement.size_bytes == largest

    def limit(self, measurement: Measurement) -> Limit | None:
        if not measurement.metric.startswith("busbw"):
            return None
        return self.fabric.limit(
            self.operation,
            self.transport,
            len(self.pinned_nodes),
            self.domains,
            min(map(len, self.devices)),
            self.partition_data.extras.link_gbits,
        )

    def own_reference(self, measurement: Measurement) -> references.Reference | None:
        """The stored number of all rails, for those that are left where some are absent."""
        whole = len(self.fabric.devices(self.transport))
        left = min(map(len, self.devices))
        crosses = self.fabric.crosses_nics(self.transport, self.domains)
        if left == whole or not crosses or not measurement.metric.startswith("busbw"):
            return None
        partition = self.partition_data.name
        found = self.stored.find(type(self).__name__, partition, measurement)
        if found is None:
            return None
        note = f"{found.note}; {left} of {whole} RDMA devices".removeprefix("; ")
        return found.model_copy(update={"value": found.value * left / whole, "note": note})
