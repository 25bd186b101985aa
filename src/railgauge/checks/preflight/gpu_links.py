"""The links of every node's GPUs: copies to and from the host, and between all pairs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from reframe.core.builtins import run_after

from railgauge import systems
from railgauge.checks.framework import bounds
from railgauge.checks.framework.observation import Observation
from railgauge.checks.framework.programs import Programs
from railgauge.checks.jobs.single_node import NodeCases, NodeCheck
from railgauge.checks.preflight.node_state import StatePreconditions
from railgauge.locating import gpu_copies
from railgauge.locating.gpu_copies import Judged, SlowPart
from railgauge.model.failure import ENVIRONMENT, GPU_LINKS, Failure
from railgauge.model.limits import Limit
from railgauge.model.measurement import Measurement
from railgauge.node.orders.places import SingleNodeOrder
from railgauge.systems import Partition
from railgauge.systems.gpu_links import GpuLinks
from railgauge.tools import Reading, nvbandwidth, transferbench

#: The concrete check in reframe/.
NAME = "GpuLinks"

#: Tool -> its module.
_TOOLS: Mapping[str, Any] = {module.TOOL: module for module in (nvbandwidth, transferbench)}

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
        links = links_of(partition)
        tool = _TOOLS[links.tool]
        return {tool.argv(tool.options_of(links.gpus))[0]: ()}

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


class GpuLinksCheck(NodeCheck):
    """Does every link of a node's GPUs carry what it can?

    The concrete check gives its own `cases = GpuLinksCases()`.
    """

    runner = "gpu_links"
    gating = ("copy_bandwidth_min",)
    programs = GpuLinksPrograms()
    preconditions = StatePreconditions()

    @property
    def links(self) -> GpuLinks:
        return links_of(self.partition_data)

    @property
    def tool(self) -> Any:
        return _TOOLS[self.links.tool]

    @property
    def options(self) -> nvbandwidth.Options | transferbench.Options:
        options: nvbandwidth.Options | transferbench.Options = self.tool.options_of(self.links.gpus)
        return options

    @run_after("setup")
    def ask_for_gpus(self) -> None:
        self.job.options += [f"--gpus-per-node={self.links.gpus}"]

    def order(self) -> SingleNodeOrder:
        return SingleNodeOrder(
            self.links.limit_s,
            tuple(self.tool.argv(self.options)),
            tuple(self.tool.version_argv()),
            path=tuple(self.programs.folders(self.partition_data)),
        )

    def requested(self) -> Mapping[str, Any]:
        return {**super().requested(), "gpus": self.links.gpus}

    def required_metrics(self) -> Sequence[str]:
        return [f"copy_bandwidth_min_{test}" for test in self.options.tests]

    def limit(self, measurement: Measurement) -> Limit | None:
        way = self.tool.WAYS.get(test_of(measurement))
        if way is None:
            return None
        of_host = way in ("from_host", "to_host")
        return self.links.host_limit if of_host else self.links.gpu_limit

    def gates(self, measurement: Measurement) -> bool:
        """The slowest cell, where a limit or a stored number says what it must be, and while a
        baseline is recorded. Of other links the cells of a matrix judge each other.
        """
        return super().gates(measurement) and (
            self.gate == "baseline"
            or self.limit(measurement) is not None
            or bounds.find_stored(self.bound_inputs, measurement) is not None
        )

    def read(self) -> Observation:
        observed = super().read()
        node = self.here.node
        facts = dict(observed.facts.get(node, {}))
        reading, parts = observed.reading, tuple(self._slow_pcie(facts, observed.reading))
        if reading.ok:
            lowest = lowest_cells(self.bound_inputs, map(self.placed, reading.measurements))
            matrices = self.tool.copies(reading.seen, lowest)
            judged = self._judged(matrices)
            parts += judged.parts
            more = [judged.unnamed, self._unseen_pcie(facts)]
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
                *(self._failure(part) for part in parts),
                *_far_from_gpus(node, facts),
            ],
        )

    def _judged(self, matrices: Sequence[gpu_copies.Matrix]) -> Judged:
        return gpu_copies.locate_gpus(
            matrices,
            even=self.links.is_even,
            peer_spread=self.partition_data.extras.peer_spread,
            links=self.links.nvlinks,
        )

    def _slow_pcie(self, facts: Mapping[str, Any], reading: Reading) -> Iterator[SlowPart]:
        """GPUs with a PCIe link that stayed slow or narrow while they were copied to."""
        expected = (("pcie_gts", self.links.pcie_gts), ("pcie_lanes", self.links.pcie_lanes))
        numbers = self.tool.gpu_numbers(reading.seen)
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

    def _unseen_pcie(self, facts: Mapping[str, Any]) -> str:
        """A note of PCIe links that were not seen under load; "" where all were."""
        if self.links.pcie_gts is None:
            return ""
        seen = sum({"pcie_gts", "pcie_lanes"} <= gpu.keys() for gpu in facts.get("gpus", ()))
        if seen >= self.links.gpus:
            return ""
        return f"speed and width of PCIe under load were seen of {seen} of {self.links.gpus} GPUs"

    def _failure(self, part: SlowPart) -> Failure:
        node = self.here.node
        if part.name.endswith("-host"):
            step = "lspci -vv of the GPU (LnkSta, DevSta); reseat it, or its riser; then measure it"
        elif self.links.tool == transferbench.TOOL:
            step = "amd-smi xgmi; amd-smi metric; dmesg of the amdgpu driver; then measure it"
        else:
            gpus = ",".join(map(str, part.gpus))
            step = f"nvidia-smi nvlink -s -i {gpus}; nvidia-smi nvlink -e -i {gpus}; then measure"
        return Failure(GPU_LINKS, f"{node}: {part.why}", (node,), f"{step} again")

    def expected_run_s(self) -> float:
        gpus = self.links.gpus
        return BEGIN_S + COPY_S * 2 * (gpus + gpus * (gpus - 1))

    def longest_run_s(self) -> float:
        return self.links.limit_s + 20


def lowest_cells(inputs: bounds.Inputs, measurements: Iterable[Measurement]) -> Mapping[str, float]:
    """Test -> the least value of a cell that its reference admits."""
    found = {}
    for measurement in measurements:
        if measurement.metric == "copy_bandwidth_min":
            bound = bounds.find_bound(inputs, measurement)
            if bound is not None and bound.lowest is not None:
                found[test_of(measurement)] = bound.lowest
    return found


def links_of(partition: Partition) -> GpuLinks:
    described = partition.extras.gpu_links
    assert described is not None  # a partition with the feature describes it
    return described


def test_of(measurement: Measurement) -> str:
    return measurement.operation.partition(" ")[2]


def _far_from_gpus(node: str, facts: Mapping[str, Any]) -> Iterator[Failure]:
    """A job without a CPU near a GPU: nvbandwidth binds itself to those, and NVML refuses."""
    far = [gpu["pci"] for gpu in facts.get("gpus", ()) if gpu.get("near_cpus_allowed") == 0]
    if far:
        message = f"{node}: the job may use no CPU near the GPUs {', '.join(far)}"
        step = "whole nodes: exclusive_access, no CPU binding, and no cpuset of a service"
        yield Failure(ENVIRONMENT, message, (), step)
