"""The links of every node's GPUs: copies to and from the host, and between all pairs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

from railgauge import systems
from railgauge.checks.framework.cases import NodeCase
from railgauge.checks.framework.observation import Facts, Observation
from railgauge.checks.framework.programs import Programs
from railgauge.checks.jobs.single_node import NodeCases, NodeRun, judge_output
from railgauge.checks.jobs.sweep_run import SweepPlace
from railgauge.locating import gpu_copies
from railgauge.locating.gpu_copies import SlowPart
from railgauge.model.failure import ENVIRONMENT, GPU_LINKS, Failure
from railgauge.model.limits import Limit
from railgauge.model.measurement import Measurement
from railgauge.systems import Partition
from railgauge.systems.gpu_links import GpuLinks
from railgauge.tools import Reading, nvbandwidth, transferbench

#: The concrete check in reframe/.
NAME = "GpuLinks"

#: Tool -> its module.
_TOOLS: Mapping[str, ModuleType] = {tool.TOOL: tool for tool in (nvbandwidth, transferbench)}

#: What a copy of one pair takes, in s: three samples of 16 copies of 512 MiB each, their warm-up,
#: and the comparison of the data (common.h and memcpy.cpp of 0.8). An estimate, not measured.
COPY_S = 0.3

#: What nvbandwidth takes to begin, in s. An estimate, not measured.
BEGIN_S = 5


class GpuLinksCases(NodeCases):
    """The nodes with GPUs that are described."""

    always = False

    def __init__(self) -> None:
        super().__init__("gpu", "gpu_links")


class GpuLinksPrograms(Programs):
    """nvbandwidth or TransferBench, which are not in the pinned stack."""

    def on(self, partition: Partition) -> Mapping[str, Sequence[str]]:
        tool = tool_of(partition)
        return {tool.argv(tool.options_of(links_of(partition).gpus))[0]: ()}

    def folders(self, partition: Partition) -> Sequence[str]:
        path = links_of(partition).path
        return (path,) if path else ()

    def may_be_missing(self, partition: Partition) -> bool:
        """Where the description does not require the check."""
        return NAME not in partition.extras.required

    def provider(self, program: str, system: str) -> str:
        devices = [
            device
            for partition in systems.load(system).partitions
            if partition.extras.gpu_links
            for device in (partition.model_extra or {}).get("devices", [])
        ]
        arch = next((d.get("arch", "") for d in devices if d.get("type") == "gpu"), "")
        if program not in nvbandwidth.argv(nvbandwidth.Options(())):
            return (
                f"build {program}: spack install transferbench amdgpu_target={arch or 'ARCH'}, of "
                "the ROCm that is there; its folder goes into extras.gpu_links.path"
            )
        return (
            f"build {program}: spack install nvbandwidth@v0.8 +cuda "
            f"cuda_arch={arch.removeprefix('sm_') or 'ARCH'}; its folder goes into "
            "extras.gpu_links.path"
        )


def copies_run(place: NodeCase, partition: Partition) -> NodeRun:
    """The run of the tool, with the tests that a node with so many GPUs can run."""
    links, tool = links_of(partition), tool_of(partition)
    options = tool.options_of(links.gpus)

    def limit(measurement: Measurement, facts: Facts) -> Limit | None:
        way = tool.WAYS.get(test_of(measurement))
        if way is None:
            return None
        return links.host_limit if way in ("from_host", "to_host") else links.gpu_limit

    return NodeRun(
        place=place,
        partition=partition,
        runner="gpu_links",
        tool=tool,
        options=options,
        command=tool.argv(options),
        version=tool.version_argv(),
        path=(links.path,) if links.path else (),
        gpus=links.gpus,
        expected_run_s=BEGIN_S + COPY_S * 2 * (links.gpus + links.gpus * (links.gpus - 1)),
        run_limit_s=links.limit_s,
        required=[f"copy_bandwidth_min_{test}" for test in options.tests],
        # The cells of a matrix judge each other.
        has_peers=True,
        states={"gpus": links.gpus},
        limit_of=limit,
        judge=judge_copies,
    )


def judge_copies(run: NodeRun, left: SweepPlace) -> Observation:
    """Does every link of a node's GPUs carry what it can?"""
    observed, links, node = judge_output(run, left), links_of(run.partition), run.place.node
    facts = dict(observed.facts.get(node, {}))
    reading, parts = observed.reading, tuple(_slow_pcie(run, facts, observed.reading))
    if reading.ok:
        matrices = run.tool.copies(reading.seen, lowest_cells(left, reading))
        judged = gpu_copies.locate_gpus(
            matrices,
            even=links.is_even,
            peer_spread=run.partition.extras.peer_spread,
            links=links.nvlinks,
        )
        parts += judged.parts
        more = [judged.unnamed, _unseen_pcie(links, facts)]
        notes = (*reading.notes, *filter(None, more), *judged.once)
        reading = dataclasses.replace(reading, notes=notes)
        facts["copies"] = {"matrices": [matrix._asdict() for matrix in matrices]}
    if parts:
        facts.setdefault("copies", {})["parts"] = [part._asdict() for part in parts]
    return dataclasses.replace(
        observed,
        reading=reading,
        facts={node: facts} if facts else observed.facts,
        failures=[
            *observed.failures,
            *(_failure(run, part) for part in parts),
            *_far_from_gpus(node, facts),
        ],
    )


def lowest_cells(left: SweepPlace, reading: Reading) -> Mapping[str, float]:
    """Test -> the least value of a cell that its reference admits."""
    found = {}
    for measurement in reading.measurements:
        if measurement.metric == "copy_bandwidth_min":
            bound = left.bound_of(measurement)
            if bound is not None and bound.lowest is not None:
                found[test_of(measurement)] = bound.lowest
    return found


def _slow_pcie(run: NodeRun, facts: Mapping[str, Any], reading: Reading) -> Iterator[SlowPart]:
    """GPUs with a PCIe link that stayed slow or narrow while they were copied to."""
    links = links_of(run.partition)
    expected = (("pcie_gts", links.pcie_gts), ("pcie_lanes", links.pcie_lanes))
    numbers = run.tool.gpu_numbers(reading.seen)
    for place, gpu in enumerate(facts.get("gpus", ())):
        number = numbers.get(gpu["pci"].rpartition(".")[0], place)
        low = [
            f"{name} is {gpu[name]:g}, expected {least:g}"
            for name, least in expected
            if least is not None and gpu.get(name, least) < least
        ]
        if low:
            why = f"the PCIe link of GPU {number} ({gpu['pci']}) under load: {', '.join(low)}"
            yield SlowPart("gpu-link", f"gpu{number}-host", (number,), why)


def _unseen_pcie(links: GpuLinks, facts: Mapping[str, Any]) -> str:
    """A note of PCIe links that were not seen under load; "" where all were."""
    if links.pcie_gts is None:
        return ""
    seen = sum({"pcie_gts", "pcie_lanes"} <= gpu.keys() for gpu in facts.get("gpus", ()))
    if seen >= links.gpus:
        return ""
    return f"speed and width of PCIe under load were seen of {seen} of {links.gpus} GPUs"


def _failure(run: NodeRun, part: SlowPart) -> Failure:
    node = run.place.node
    if part.name.endswith("-host"):
        step = "lspci -vv of the GPU (LnkSta, DevSta); reseat it, or its riser; then measure it"
    elif run.tool is transferbench:
        step = "amd-smi xgmi; amd-smi metric; dmesg of the amdgpu driver; then measure it"
    else:
        gpus = ",".join(map(str, part.gpus))
        step = f"nvidia-smi nvlink -s -i {gpus}; nvidia-smi nvlink -e -i {gpus}; then measure"
    return Failure(GPU_LINKS, f"{node}: {part.why}", (node,), f"{step} again")


def links_of(partition: Partition) -> GpuLinks:
    described = partition.extras.gpu_links
    assert described is not None  # a partition with the feature describes it
    return described


def tool_of(partition: Partition) -> ModuleType:
    """The tool that measures the GPUs of a partition."""
    return _TOOLS[links_of(partition).tool]


def test_of(measurement: Measurement) -> str:
    return measurement.operation.partition(" ")[2]


def _far_from_gpus(node: str, facts: Mapping[str, Any]) -> Iterator[Failure]:
    """A job without a CPU near a GPU: nvbandwidth binds itself to those, and NVML refuses."""
    far = [gpu["pci"] for gpu in facts.get("gpus", ()) if gpu.get("near_cpus_allowed") == 0]
    if far:
        message = f"{node}: the job may use no CPU near the GPUs {', '.join(far)}"
        step = "whole nodes: exclusive_access, no CPU binding, and no cpuset of a service"
        yield Failure(ENVIRONMENT, message, (), step)
