"""Slow GPUs and links of GPUs, by outputs of nvbandwidth and TransferBench from anywhere."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from railgauge.locating import Suspect, gpu_copies
from railgauge.locating.gpu_copies import SlowPart
from railgauge.tools import nvbandwidth, transferbench
from railgauge.verdict.location.direct_evidence import by_itself, seen_once
from railgauge.verdict.logs.runs import LogRun

#: Tool -> its module.
TOOLS: Mapping[str, Any] = {module.TOOL: module for module in (nvbandwidth, transferbench)}

#: Copies between GPUs that are faster than this, in GB/s, go over NVLink: PCIe Gen6 x16 carries
#: 118. Where the median of all pairs is above it, every pair has NVLink.
_NVLINK_GBYTES_S = 120.0


@dataclasses.dataclass(frozen=True)
class GpusOfRun:
    """What an output shows of the GPUs of its nodes; `why` says why no part is named, "" else."""

    nodes: tuple[str, ...]
    suspects: tuple[Suspect, ...]
    why: str


def judge(run: LogRun) -> GpusOfRun | None:
    """The GPUs of a run; None where it is no whole one of copies that are judged. The nodes are
    those of the output, or the one that the file is named after.
    """
    if run.tool not in TOOLS or not run.reading.ok:
        return None
    tool = TOOLS[run.tool]
    matrices = tool.copies(run.reading.seen, {})
    if not matrices:
        return None
    places = tool.places(run.reading.seen, PurePath(run.file).name.partition(".")[0])
    judged = gpu_copies.locate_gpus(matrices, even=_has_nvlink_everywhere(matrices))
    suspects = tuple(_suspect(part, places, run) for part in judged.parts)
    nodes = tuple(dict.fromkeys(node for node, _ in places.values()))
    return GpusOfRun(nodes, suspects, judged.unnamed)


def _suspect(part: SlowPart, places: Mapping[int, tuple[str, int]], run: LogRun) -> Suspect:
    """One output is one run: many copies show a GPU, and few a link."""
    ends = [places[gpu] for gpu in part.gpus]
    nodes = tuple(dict.fromkeys(node for node, _ in ends))
    shown = "-".join(f"{node}:gpu{gpu}" for node, gpu in ends)
    if len(nodes) == 1:
        shown = f"{nodes[0]}:{'-'.join(f'gpu{gpu}' for _, gpu in ends)}"
    if part.name.endswith("-host"):
        shown += "-host"
    why = f"{part.why} ({run.where})"
    suspect = (
        by_itself(nodes[0], why, (run.tool,))
        if part.kind == "gpu"
        else seen_once(nodes[0], why, run.tool)
    )
    return dataclasses.replace(suspect, kind=part.kind, name=shown, nodes=nodes)


def _has_nvlink_everywhere(matrices: list[gpu_copies.Matrix]) -> bool:
    values = [
        value
        for matrix in matrices
        if matrix.way in ("read", "write")
        for row in matrix.cells
        for value in row
        if value is not None
    ]
    return bool(values) and statistics.median(values) > _NVLINK_GBYTES_S
