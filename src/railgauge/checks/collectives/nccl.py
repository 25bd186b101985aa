"""Checks that run one nccl-tests program over groups of a partition's nodes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any

from railgauge.checks.collectives import nccl_hang
from railgauge.checks.collectives.nccl_cases import fabric_of, places_of
from railgauge.checks.collectives.nccl_run import LOG, RESULT, NcclRun
from railgauge.checks.framework import topology
from railgauge.checks.framework.cases import Case, GroupCase
from railgauge.checks.framework.dependencies import cases_of, nodes_in
from railgauge.checks.framework.observation import Observation
from railgauge.checks.framework.programs import Programs
from railgauge.checks.jobs import container, lost_links
from railgauge.checks.jobs.group_launches import (
    GroupLaunches,
    GroupRun,
    exit_lines,
    launch_sides,
    not_launched,
)
from railgauge.checks.jobs.sweep_run import JobOutput, SweepPlace
from railgauge.checks.jobs.uplink_counters import (
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
from railgauge.node.orders.ranks import TableOrder
from railgauge.systems import Partition, rehearsal
from railgauge.systems.nccl import Scale
from railgauge.tools import Reading, nccl_log, nccl_tests
from railgauge.tools.common.lines import with_errors

#: The tool's own timeout comes so much after ours, which asks NCCL for its state first.
_LATER_S = 60

#: The columns of a table that tell good launches from bad ones.
_TABLE = TableOrder(
    column="busbw",
    metrics=("busbw", "busbw_in_place"),
    wrong="#wrong",
    end="Out of bounds values : 0 OK",
)

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
        if rehearsal.scenario() is not None:
            # Stand-ins need no healthy node, and no other check is there.
            return lambda place: []
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


def kinds_of(places: Sequence[Case], partition: Partition) -> Sequence[Hashable]:
    """How many domains and devices each group has: what it can reach follows from them."""
    fabric = fabric_of(partition)
    kinds: list[Hashable] = []
    for place in places:
        assert isinstance(place, GroupCase)
        domains = fabric.domains(place.transport, places_of(partition, place.nodes))
        if partition.extras.absent:
            run = nccl_run(place, partition, "all")
            kinds.append((domains, min(map(len, run.devices))))
        else:
            # As a rule, and a large partition has many groups.
            kinds.append((domains, len(fabric.devices(place.transport))))
    return kinds


#: How a job of NCCL's checks measures its groups.
LAUNCHES = GroupLaunches(kinds_of)


def nccl_run(place: GroupCase, partition: Partition, scale: Scale) -> NcclRun:
    """The run of nccl-tests over all GPUs of a group, a rank a GPU."""
    fabric = fabric_of(partition)
    options = nccl_tests.Options(
        operation=place.operation,
        ranks=len(place.nodes) * fabric.gpus_per_node,
        min_bytes=fabric.min_bytes,
        max_bytes=fabric.largest_bytes(place.transport),
        iterations=fabric.iterations,
        warmup=fabric.warmup,
        timeout_s=fabric.timeout_s + _LATER_S,
        version=fabric.binaries.version,
        transport=place.transport,
    )
    result = f"{{scratch}}/{RESULT}" if options.has_json else None
    in_ranks = {nccl_tests.SPLIT: nccl_tests.SPLIT_IN_RANKS}
    run = NcclRun(
        place=place,
        partition=partition,
        fabric=fabric,
        scale=scale,
        tool=nccl_tests,
        options=options,
        command=nccl_tests.argv(options, fabric.binaries.perf(place.operation), result),
        table=_TABLE,
        ranks_per_node=fabric.gpus_per_node,
        expected_run_s=0,
        run_limit_s=fabric.timeout_s,
        together=in_ranks if fabric.binaries.has_split else None,
        judge=judge_group,
    )
    states = fabric.expected(place.transport, len(place.nodes), run.domains)
    return dataclasses.replace(run, states=states, expected_run_s=_expected_s(run))


def _expected_s(run: NcclRun) -> float:
    options, limit = run.options, run.limit(run.largest("busbw"), {})
    # A little less than physics allows; sockets may be far from it.
    gbytes_s = 0.8 * limit.value if limit and run.place.transport != "sockets" else 2.0
    # Every size is checked once, and measured out of place and in place.
    operations = 2 * (options.warmup + options.iterations + 1)
    moved = sum(options.sizes()) * (nccl_tests.busbw_factor(options.operation, options.ranks))
    # Starting ranks and NCCL; the values of a large message take a second to check.
    return 15 + operations * moved / gbytes_s / 1e9 + len(options.sizes()) / 2


def _table(run: NcclRun, left: SweepPlace) -> Reading:
    """The table of the group's launch, by all that all of its ranks left: where anything is wrong
    with it, it clears none of its groups, whatever the driver took it for.
    """
    output = left.job_output.output
    launch = output.launch(run.place)
    #: number of a launch -> its table, which all of its groups share
    tables: dict[int, Reading] = left.whole.shared
    if launch["launch"] in tables:
        return tables[launch["launch"]]
    groups, sides = len(launch["places"]), launch_sides(run, output)
    options = dataclasses.replace(run.options, ranks=groups * run.ranks, groups=groups)
    lines = [side.line for _, side in sorted(sides.items())]
    whole = len(lines) == options.ranks
    # Where a rank is missing, that is the failure; the others prove no host.
    hosts = tuple(str(line["facts"].get("hostname")) for line in lines) if whole else ()
    outputs = {rank: with_errors(side.out, side.err) for rank, side in sides.items()}
    # Also of a rank 0 that died.
    outputs[0] = with_errors(launch["out"], sides[0].err if 0 in sides else "")
    reading = nccl_tests.read(
        outputs,
        json_text=launch["files"].get(RESULT, "") if options.has_json else None,
        calls=[Call(**line["call"]) for line in lines],
        options=dataclasses.replace(options, hosts=hosts),
    )
    # Every group names its own nodes and ranks.
    measured = tuple(dataclasses.replace(m, nodes=()) for m in reading.measurements)
    tables[launch["launch"]] = dataclasses.replace(reading, measurements=measured)
    return tables[launch["launch"]]


def judge_group(run: GroupRun, left: SweepPlace) -> Observation:
    """The observation of a group, by its launch's table and NCCL's logs of its own ranks."""
    assert isinstance(run, NcclRun)
    lines, table = exit_lines(run, left), _table(run, left)
    calls = [line.call for line in lines]
    output = left.job_output.output
    sides, launch = output.sides(run.place), output.launch(run.place)
    logs = {
        call.rank: log for call in calls if (log := sides[call.role].files.get(f"{call.role}{LOG}"))
    }
    used = nccl_log.read(logs, {call.rank: call.host for call in calls})
    sizes = run.options.sizes(table.seen.get("reduced_bytes") if table.ok else None)
    reading = dataclasses.replace(
        table,
        seen={**used.seen, **table.seen},
        simulated=table.simulated or used.simulated,
    )
    stated = [str(reading.seen[v]) for v in ("version", "nccl_version") if v in reading.seen]
    version = ", NCCL ".join(stated)
    slowest = {"launch": launch["launch"], "slowest_of": len(launch["places"])}
    # Of every node by its first rank, which watched its counters.
    facts: dict[str, dict[str, Any]] = {}
    how = {"collective": _settings(run, used)} if used.seen else {}
    for line in lines:
        if line.call.host not in facts or "links" in line.facts:
            facts[line.call.host] = {**line.facts, **slowest, **how}
    failures = not_launched(run, left) or _job_failures(run, left, calls, logs)
    reading = _with_balance(run, left.job_output, reading, sizes)
    if reading.ok and not failures:
        # What else is in the logs of a job that failed follows from that.
        failures = _fabric_failures(run, used, sizes)
    failures = [*failures, *lost_links.lost(facts)]
    image = run.fabric.binaries.image
    measured = [size for size in dict.fromkeys(sizes) if size]
    return Observation(
        reading,
        [
            dataclasses.replace(call, version=version, package=container.package(image, call))
            for call in calls
        ],
        facts,
        failures,
        run.claims(reading, facts),
        required=[f"{metric}_{size}B" for size in measured for metric in ("busbw", "time")],
        # The largest message that fits into the GPUs; all are recorded.
        gated=[
            m.variable
            for m in reading.measurements
            if m.metric.startswith("busbw") and m.size_bytes == sizes[-1]
        ],
    )


def _settings(run: NcclRun, used: nccl_log.Used) -> Mapping[str, Any]:
    """What moves numbers by a third, and is no part of a measurement's condition: two campaigns are
    compared where both have the same.
    """
    return {
        "nvls": bool(used.seen.get("nvls")),
        "sharp": bool(used.seen.get("collnet")),
        "warmup": run.options.warmup,
    }


def _with_balance(run: NcclRun, left: JobOutput, reading: Reading, sizes: Sequence[int]) -> Reading:
    """With how evenly uplinks shared the alltoall, where they were counted around it."""
    fabric, leaves = run.partition.extras.fabric, topology.leaves_of(run.partition)
    if left.counting is None or fabric is None or leaves is None or not reading.ok:
        return reading
    between = leaves.pairs_apart(run.place.nodes) * run.ranks_per_node**2 / run.ranks
    moved = int(between * run.options.run_bytes(sizes))
    try:
        uplinks = left.counting.kept(left.folder)
        least_even = least_even_first(uplinks)
        confirm(sum(each.sent_bytes for each in uplinks), moved, nccl_tests.TOOL)
    except CountersError as error:
        note = f"how evenly uplinks shared it is not known: {error}"
        return dataclasses.replace(reading, notes=(*reading.notes, note))
    jain = Measurement(
        *("jain_index", least_even[0].jain, nccl_tests.TOOL),
        *(in_mode(run.place.operation, fabric), run.place.transport),
        ranks=run.ranks,
    )
    return dataclasses.replace(
        reading,
        measurements=(*reading.measurements, jain),
        notes=(*reading.notes, least_even_note(least_even)),
    )


def _job_failures(
    run: NcclRun, left: SweepPlace, calls: Sequence[Call], logs: Mapping[int, str]
) -> list[Failure]:
    """A hang, NCCL's last words, and ranks in other places than requested."""
    failures, nodes = nccl_hang.last_words(calls, logs), run.place.nodes
    if nccl_hang.note(calls):
        launch = left.job_output.output.launch(run.place)
        of_ranks = nccl_hang.nodes_of_ranks(launch["out"], run.ranks)
        leaves = topology.leaves_of(run.partition)
        said = left.text("hang.out")
        failures.insert(0, nccl_hang.failure(said, calls, of_ranks, nodes, leaves))
    for node in nodes:
        ranks = sum(call.host == node for call in calls)
        if len(calls) == run.ranks and ranks != run.ranks_per_node:
            message = f"{ranks} ranks ran on {node}, expected {run.ranks_per_node}"
            failures.append(Failure("ranks", message, (node,)))
    return failures


def _fabric_failures(run: NcclRun, used: nccl_log.Used, sizes: Sequence[int]) -> list[Failure]:
    """A sweep that memory ended early, and whatever NCCL's logs say is wrong."""
    failures = []
    requested = run.options.sizes()[-1]
    if sizes[-1] < _LEAST_SHARE * requested:
        failures.append(
            Failure(
                "memory",
                f"the memory of the GPUs ended the sweep at {sizes[-1]} bytes, "
                f"expected {requested}, or at least a {1 / _LEAST_SHARE:.0f}th of it",
                next_step="does something else hold GPU memory there? nvidia-smi",
            )
        )
    # Where a node has no device left, NCCL knows other networks there; nothing crosses them.
    uneven = not all(run.devices) and any(run.devices)
    failures += [
        Failure("nccl-log", f"NCCL's log: {problem}")
        for problem in used.problems
        if not (uneven and "network" in problem)
    ]
    if run.crosses_nics:
        failures += run.device_failures(used.seen.get("hcas", {}))
    return failures
