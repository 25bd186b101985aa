"""The links of every node's GPUs: copies to and from the host, and between all pairs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
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
from railgauge.tools import Reading, nvbandwidth

#: The concrete check in reframe/.
NAME = "GpuLinks"

#: What a copy of one pair takes, in s: three samples of 16 copies of 512 MiB each, their warm-up,
#: and the comparison of the data (common.h and memcpy.cpp of 0.8). An estimate, not measured.
_COPY_S = 0.3

#: What nvbandwidth takes to begin, in s. An estimate, not measured.
_BEGIN_S = 5


class GpuLinksCases(NodeCases):
    """The nodes with NVIDIA GPUs that are described."""

    always = False

    def __init__(self) -> None:
        super().__init__("gpu", "gpu_links")


class GpuLinksPrograms(Programs):
    """nvbandwidth, which is not in the pinned stack."""

    def on(self, partition: Partition) -> Mapping[str, Sequence[str]]:
        return {nvbandwidth.TOOL: ()}

    def folders(self, partition: Partition) -> Sequence[str]:
        path = _links(partition).path
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
        return (
            f"build {program}: spack install nvbandwidth@v0.8 +cuda "
            f"cuda_arch={arch.removeprefix('sm_') or 'ARCH'}; its folder goes into "
            "extras.gpu_links.path"
        )


def copies_run(place: NodeCase, partition: Partition) -> NodeRun:
    """The run of nvbandwidth, with the tests that a node with so many GPUs can run."""
    links, tests = _links(partition), nvbandwidth.ONE_NODE
    if links.gpus == 1:
        tests = tuple(t for t in tests if nvbandwidth.WAYS[t] in ("from_host", "to_host"))
    options = nvbandwidth.Options(tests)

    def limit(measurement: Measurement, facts: Facts) -> Limit | None:
        way = nvbandwidth.WAYS.get(_test(measurement))
        if way is None:
            return None
        return links.host_limit if way in ("from_host", "to_host") else links.gpu_limit

    return NodeRun(
        place=place,
        partition=partition,
        runner="gpu_links",
        tool=nvbandwidth,
        options=options,
        command=nvbandwidth.argv(options),
        version=nvbandwidth.version_argv(),
        path=(links.path,) if links.path else (),
        gpus=links.gpus,
        expected_run_s=_BEGIN_S + _COPY_S * 2 * (links.gpus + links.gpus * (links.gpus - 1)),
        run_limit_s=links.limit_s,
        required=[f"copy_bandwidth_min_{test}" for test in tests],
        # The cells of a matrix judge each other.
        has_peers=True,
        states={"gpus": links.gpus},
        limit_of=limit,
        judge=judge_copies,
    )


def judge_copies(run: NodeRun, left: SweepPlace) -> Observation:
    """Does every link of a node's GPUs carry what it can?"""
    observed, links, node = judge_output(run, left), _links(run.partition), run.place.node
    facts = dict(observed.facts.get(node, {}))
    reading, parts = observed.reading, tuple(_slow_pcie(links, facts, observed.reading))
    if reading.ok:
        matrices = nvbandwidth.copies(reading.seen, _bounds(left, reading))
        judged = gpu_copies.locate_gpus(
            matrices,
            even=links.nvlink_gbytes_s is not None,
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
            *(_failure(node, part) for part in parts),
            *_far_from_gpus(node, facts),
        ],
    )


def _bounds(left: SweepPlace, reading: Reading) -> Mapping[str, float]:
    """Test -> the least value of a cell that its reference admits."""
    found = {}
    for measurement in reading.measurements:
        if measurement.metric == "copy_bandwidth_min":
            bound = left.bound_of(measurement)
            if bound is not None and bound.lowest is not None:
                found[_test(measurement)] = bound.lowest
    return found


def _slow_pcie(links: GpuLinks, facts: Mapping[str, Any], reading: Reading) -> Iterator[SlowPart]:
    """GPUs with a PCIe link that stayed slow or narrow while they were copied to."""
    expected = (("pcie_gts", links.pcie_gts), ("pcie_lanes", links.pcie_lanes))
    numbers = nvbandwidth.gpu_numbers(reading.seen)
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


def _failure(node: str, part: SlowPart) -> Failure:
    if part.name.endswith("-host"):
        step = "lspci -vv of the GPU (LnkSta, DevSta); reseat it, or its riser; then measure it"
    else:
        gpus = ",".join(map(str, part.gpus))
        step = f"nvidia-smi nvlink -s -i {gpus}; nvidia-smi nvlink -e -i {gpus}; then measure"
    return Failure(GPU_LINKS, f"{node}: {part.why}", (node,), f"{step} again")


def _links(partition: Partition) -> GpuLinks:
    described = partition.extras.gpu_links
    assert described is not None  # a partition with the feature describes it
    return described


def _test(measurement: Measurement) -> str:
    return measurement.operation.partition(" ")[2]


def _far_from_gpus(node: str, facts: Mapping[str, Any]) -> Iterator[Failure]:
    """A job without a CPU near a GPU: nvbandwidth binds itself to those, and NVML refuses."""
    far = [gpu["pci"] for gpu in facts.get("gpus", ()) if gpu.get("near_cpus_allowed") == 0]
    if far:
        message = f"{node}: the job may use no CPU near the GPUs {', '.join(far)}"
        step = "whole nodes: exclusive_access, no CPU binding, and no cpuset of a service"
        yield Failure(ENVIRONMENT, message, (), step)
