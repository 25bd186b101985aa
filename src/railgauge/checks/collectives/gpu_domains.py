"""NVLink between nodes: copies between the GPUs of neighbours in an NVLink domain."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from railgauge.checks.collectives.nccl_cases import fabric_of, places_of, ring
from railgauge.checks.framework.cases import Cases, GroupCase, chosen_nodes
from railgauge.checks.framework.observation import ExitLine, Facts, Observation
from railgauge.checks.framework.programs import Programs
from railgauge.checks.jobs.group_launches import GroupRun, exit_lines, not_launched
from railgauge.checks.jobs.sweep_run import JobNeeds, SweepPlace
from railgauge.checks.preflight.gpu_links import BEGIN_S, COPY_S, links_of, lowest_cells, test_of
from railgauge.locating import gpu_copies
from railgauge.locating.gpu_copies import Matrix, SlowPart
from railgauge.model.failure import GPU_LINKS, Failure
from railgauge.model.limits import Limit
from railgauge.model.measurement import Measurement
from railgauge.node.orders.ranks import RanksOrder
from railgauge.systems import Partition
from railgauge.tools import nvbandwidth

#: The concrete check in reframe/.
NAME = "GpuDomain"

#: Row or column of a matrix -> node and number of its GPU there.
Places = Mapping[int, tuple[str, int]]


class GpuDomainCases(Cases[GroupCase]):
    """Neighbours in a ring within each NVLink domain, so that a bad node shows in two pairs.

    A copy between two GPUs uses all NVLinks of both, whichever two they are: the GPUs go to the
    same switches. So pairs of neighbours load every link of a domain. All pairs of 72 GPUs would
    take 5112 copies a test, over the same links.
    """

    by_description = True

    def __init__(self) -> None:
        super().__init__("gpu", "gpu_links", "nccl", "mnnvl")

    def on(self, partition: Partition) -> Iterable[GroupCase]:
        return self.of_group(partition, chosen_nodes(partition.nodes))

    def of_group(self, partition: Partition, nodes: tuple[str, ...]) -> Iterable[GroupCase]:
        if self.lacks_description(partition):
            return
        size = _domain_nodes(partition)
        domains: dict[int, list[str]] = {}
        for node, place in zip(nodes, places_of(partition, nodes), strict=True):
            domains.setdefault(place // size, []).append(node)
        for members in domains.values():
            for pair in ring(tuple(members)):
                yield GroupCase(partition.name, "copy", "mnnvl", pair)

    def lacks_description(self, partition: Partition) -> str:
        if links_of(partition).multinode_path is None:
            return "runs where extras.gpu_links.multinode_path has the folder of nvbandwidth"
        if _domain_nodes(partition) < 2:
            return "runs where extras.nccl.nvlink.domain_nodes is 2 or more"
        return ""

    def lacks_nodes(self, partition: Partition) -> str:
        return "" if len(partition.nodes) > 1 else "measures between two nodes, and there is one"

    def node_counts(self, partition: Partition) -> Sequence[int]:
        return (2,)


def _domain_nodes(partition: Partition) -> int:
    nvlink = fabric_of(partition).nvlink
    return nvlink.domain_nodes if nvlink else 1


class GpuDomainPrograms(Programs):
    """nvbandwidth with its tests of several nodes, which is not in the pinned stack."""

    def on(self, partition: Partition) -> Mapping[str, Sequence[str]]:
        return {f"{links_of(partition).multinode_path}/{nvbandwidth.TOOL}": ()}

    def may_be_missing(self, partition: Partition) -> bool:
        """Where the description does not require the check."""
        return NAME not in partition.extras.required

    def provider(self, program: str, system: str) -> str:
        return (
            f"build {program}: cmake -DMULTINODE=1 . && make, in the source of nvbandwidth 0.8, "
            "with MPI; Spack's recipe has no such variant"
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class DomainRun(GroupRun):
    """nvbandwidth over all GPUs of a group, a rank a GPU."""

    def job_needs(self, nodes: Sequence[str]) -> JobNeeds:
        return JobNeeds(gpus_per_node=self.ranks_per_node)

    def ranks_order(self, tool: str, rank_variable: str, groups: Sequence[GroupCase]) -> RanksOrder:
        # Numbers are then those of nvidia-smi. Its output states the version.
        by_address = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
        order = super().ranks_order(tool, rank_variable, groups)
        return dataclasses.replace(order, environment=by_address)


def domain_run(place: GroupCase, partition: Partition) -> DomainRun:
    """The run of nvbandwidth's tests of several nodes over a pair of neighbours."""
    links, tests = links_of(partition), nvbandwidth.MULTINODE
    folder, ranks = links.multinode_path, len(place.nodes) * links.gpus
    assert folder is not None  # or there would be no case
    options = nvbandwidth.Options(tests)

    def limit(measurement: Measurement, facts: Facts) -> Limit | None:
        return links.gpu_limit if test_of(measurement) in nvbandwidth.WAYS else None

    return DomainRun(
        place=place,
        partition=partition,
        tool=nvbandwidth,
        options=options,
        command=nvbandwidth.multinode_argv(options, folder),
        ranks_per_node=links.gpus,
        expected_run_s=BEGIN_S + COPY_S * len(tests) * ranks * (ranks - 1),
        run_limit_s=links.limit_s,
        required=[f"copy_bandwidth_min_{test}" for test in tests],
        states={"gpus": ranks},
        limit_of=limit,
        judge=judge_domain,
    )


def judge_domain(run: GroupRun, left: SweepPlace) -> Observation:
    """Does NVLink carry between nodes what it carries within one?"""
    lines = exit_lines(run, left)
    calls = [line.call for line in lines]
    hosts = tuple(str(line.facts.get("hostname")) for line in lines)
    options = dataclasses.replace(run.options, hosts=hosts)
    reading = nvbandwidth.read(left.output("rank0"), calls=calls, options=options)
    facts: dict[str, dict[str, Any]] = {line.call.host: dict(line.facts) for line in lines}
    failures = not_launched(run, left)
    # Where a rank is missing, that is the failure.
    if reading.ok and len(lines) == run.ranks:
        matrices = nvbandwidth.copies(reading.seen, lowest_cells(left, reading))
        places = _on_nodes(nvbandwidth.places(reading.seen, ""), lines)
        judged = gpu_copies.locate_gpus(matrices, even=True, links=links_of(run.partition).nvlinks)
        notes = (*reading.notes, *filter(None, [judged.unnamed]), *judged.once)
        reading = dataclasses.replace(reading, notes=notes)
        failures += [_failure(part, places, facts) for part in judged.parts]
        if not judged.parts:
            failures += _slow_between(matrices, places)
        facts[run.place.nodes[0]]["copies_between"] = {
            "names": [f"{node}:gpu{gpu}" for _, (node, gpu) in sorted(places.items())],
            "matrices": [matrix._asdict() for matrix in matrices],
            "parts": [part._asdict() for part in judged.parts],
        }
    return Observation(reading, calls, facts, failures)


def _failure(part: SlowPart, places: Places, facts: Mapping[str, dict[str, Any]]) -> Failure:
    """The failure of a slow part, which is put into the facts of its first node."""
    ends = [places[gpu] for gpu in part.gpus]
    nodes = tuple(dict.fromkeys(node for node, _ in ends))
    # By the numbers of the node, as the other checks name it.
    first = nodes[0]
    name = "-".join(f"gpu{g}" if node == first else f"{node}:gpu{g}" for node, g in ends)
    rows = [f"GPU {row} is GPU {places[row][1]} of {places[row][0]}" for row in part.gpus]
    why = f"{part.why} ({', '.join(rows)})"
    shown = {**part._asdict(), "name": name, "why": why, "nodes": nodes}
    facts[first].setdefault("copies", {}).setdefault("parts", []).append(shown)
    step = f"nvidia-smi nvlink -s and nvidia-smi nvlink -e on {', '.join(nodes)}; measure again"
    return Failure(GPU_LINKS, f"{first}:{name}: {why}", nodes, step)


def _on_nodes(places: Places, lines: Sequence[ExitLine]) -> dict[int, tuple[str, int]]:
    """Places with the nodes as Slurm calls them: each process says how its host calls itself."""
    names = {str(line.facts.get("hostname")): line.call.host for line in lines}
    return {row: (names.get(host, host), gpu) for row, (host, gpu) in places.items()}


def _slow_between(matrices: Sequence[Matrix], places: Places) -> Iterator[Failure]:
    """Copies that are slow between the nodes and not within them: all GPUs of a domain reach the
    same switches, so that both must be equal.
    """
    for matrix in matrices:
        within: list[float] = []
        between: list[float] = []
        for row, cells in enumerate(matrix.cells):
            for column, value in enumerate(cells):
                if value is not None:
                    of_one = places[row][0] == places[column][0]
                    (within if of_one else between).append(value)
        if not within or not between:
            continue
        inside, across = statistics.median(within), statistics.median(between)
        if across < (1 - gpu_copies.SLOW_SPREADS * gpu_copies.EVEN_SPREAD) * inside:
            nodes = tuple(dict.fromkeys(node for node, _ in places.values()))
            yield Failure(
                GPU_LINKS,
                f"{' and '.join(nodes)}: copies between them have a median of {across:.4g} GB/s in "
                f"{matrix.test}, {across / inside - 1:+.1%} of the {inside:.4g} within a node",
                nodes,
                "the NVLink switches between them, and IMEX: nvidia-imex-ctl -N; measure again",
            )
            return
