"""TransferBench: copies between AMD's GPUs and their hosts, by the text of its preset p2p.

A matrix has a row for each source and a column for each destination, CPUs (NUMA nodes) before GPUs.
Rates are in 10^9 bytes a second (PeerToPeer.hpp of 1.62, TransferBench.cpp of 1.52). The program on
the source's side copies, or on that of the destination with USE_REMOTE_READ=1. The matrix of both
ways is read to its end, and not judged.
"""

from __future__ import annotations

import dataclasses
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from railgauge.locating import gpu_copies
from railgauge.model.call import Call
from railgauge.model.measurement import Measurement
from railgauge.tools import ParseError, Reading
from railgauge.tools.common.by_hand import ByHand, integer
from railgauge.tools.common.lines import quote
from railgauge.tools.common.marks import Mark, Marks
from railgauge.tools.common.one_output import Conclusion, by_hand, judge, plain_lines
from railgauge.tools.common.options import require_integers

TOOL = "transferbench"

#: The program's name.
_PROGRAM = "TransferBench"


# ---- options -------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Options:
    """The GPUs that it is to find."""

    gpus: int

    def __post_init__(self) -> None:
        require_integers(TOOL, self, gpus=(1, None))

    @property
    def tests(self) -> tuple[str, ...]:
        """The matrices that a node with so many GPUs has, by our names."""
        return ONE_GPU if self.gpus == 1 else (*ONE_GPU, "p2p_gpu_to_gpu_write")


def options_of(gpus: int) -> Options:
    return Options(gpus)


def version_argv() -> list[str]:
    """Its output states the version."""
    return []


def argv(options: Options) -> list[str]:
    """The command, which copies between all CPUs and GPUs, one way and then both."""
    return [_PROGRAM, "p2p"]


#: Parts of the matrix of one way, and which way data goes.
WAYS: Mapping[str, gpu_copies.Way] = {
    "p2p_cpu_to_gpu": "from_host",
    "p2p_gpu_to_cpu": "to_host",
    "p2p_gpu_to_gpu_write": "write",
    "p2p_gpu_to_gpu_read": "read",
}

ONE_GPU = ("p2p_cpu_to_gpu", "p2p_gpu_to_cpu")


# ---- result --------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Output:
    """One run: the rates in GB/s of one way, from the device of a row to that of a column, CPUs
    first. A cell is None where nothing was copied. `reads`: the destination's side copied.
    """

    version: str
    cpus: int
    gpus: int
    executor: str
    reads: bool
    cells: tuple[tuple[float | None, ...], ...]
    #: the matrix of both ways followed, or was not asked for: nothing is missing at the end
    ended: bool


# ---- parse ---------------------------------------------------------------------------------

_FAILURE = re.compile(r"^\[(?:ERROR|FATAL)\]|\b(?:HIP|HSA) Error\b|^Error\b|\bmismatch at\b")
_VERSION = re.compile(r"TransferBench v([0-9][0-9.]*)\b.*")
#: 0: one way, then both; 1: one way.
_MODE = re.compile(r"P2P_MODE *= *([012]) *:.*")
_TITLE = re.compile(
    r"(Uni|Bi)directional copy peak bandwidth GB/s \[(Local|Remote) read / (?:Local|Remote) write\]"
    r" \(GPU-Executor: (\w+)\)"
)
_COLUMNS = re.compile(r"SRC\S* +((?:(?:CPU|GPU) [0-9]{2,3} *)+)")
_DEVICE = re.compile(r"(CPU|GPU) ([0-9]{2,3})")
_ROW = re.compile(r"(CPU|GPU) ([0-9]{2,3}) +-> +((?:(?:[0-9]+\.[0-9]{2}|N/A) *)+)")
#: Rows of each iteration, and the way back of both ways.
_OTHER_ROW = re.compile(r"(?:CPU|GPU) [0-9]{2,3} +(?:min|max|sd|<-|<->) .*")
_AVERAGES = re.compile(r"Averages \(During +(Uni|Bi)Dir\): *((?:(?:[0-9]+\.[0-9]{2}|N/A) *){4})")


def parse(text: str) -> Output:
    """The matrix of one way. ParseError where it is not there or not whole, where its averages are
    not those of its cells, and at an error.
    """
    version, executor, reads, section = "", "", False, ""
    devices: list[tuple[str, int]] = []
    rows: list[tuple[float | None, ...]] = []
    mode, closed = "", set[str]()
    for number, line in plain_lines(text, _FAILURE):
        if found := _VERSION.fullmatch(line):
            if version:
                raise ParseError(number, "a second version", "one run")
            version = found[1]
        elif found := _MODE.fullmatch(line):
            mode = found[1]
        elif found := _TITLE.fullmatch(line):
            if section or found[1] in closed:
                raise ParseError(number, quote(line), "the averages of the matrix above, once")
            section = found[1]
            if section == "Uni":
                reads, executor = found[2] == "Remote", found[3]
        elif section and (found := _AVERAGES.fullmatch(line)):
            if found[1] != section:
                raise ParseError(number, quote(line), f"the averages of {section}Dir")
            if section == "Uni":
                _check_averages(number, devices, rows, found[2].split())
            closed.add(section)
            section = ""
        elif section == "Uni" and not devices and (found := _COLUMNS.fullmatch(line)):
            devices = [(kind, int(n)) for kind, n in _DEVICE.findall(found[1])]
            cpus = sum(kind == "CPU" for kind, _ in devices)
            numbered = [("CPU", n) for n in range(cpus)]
            numbered += [("GPU", n) for n in range(len(devices) - cpus)]
            if devices != numbered:
                raise ParseError(number, quote(line), "CPUs from 00 on, then GPUs from 00 on")
        elif section == "Uni" and devices and (found := _ROW.fullmatch(line)):
            values = found[3].split()
            expected = devices[len(rows)] if len(rows) < len(devices) else None
            if (found[1], int(found[2])) != expected or len(values) != len(devices):
                raise ParseError(number, quote(line), f"{len(devices)} rows of as many numbers")
            rows.append(tuple(None if value == "N/A" else float(value) for value in values))
        elif section == "Uni" and _DEVICE.match(line) and not _OTHER_ROW.fullmatch(line):
            raise ParseError(number, quote(line), "a row of numbers with two decimals")
    if section or "Uni" not in closed:
        raise ParseError(0, "no averages at the end of a matrix", "'Averages (During UniDir):'")
    if mode == "0" and "Bi" not in closed:
        raise ParseError(0, "no matrix of both ways", "it, as P2P_MODE is 0")
    cpus = sum(kind == "CPU" for kind, _ in devices)
    ended = mode == "1" or "Bi" in closed
    return Output(version, cpus, len(devices) - cpus, executor, reads, tuple(rows), ended)


def _check_averages(
    number: int,
    devices: Sequence[tuple[str, int]],
    rows: Sequence[Sequence[float | None]],
    shown: Sequence[str],
) -> None:
    """ParseError where the matrix is not whole, or the averages are of other cells: from CPUs to
    CPUs, from CPUs to GPUs, from GPUs to CPUs, from GPUs to GPUs.
    """
    if not devices or len(rows) != len(devices):
        raise ParseError(number, f"{len(rows)} rows", f"{len(devices) or 'the'} rows of a matrix")
    wanted = [
        ("CPU", "CPU"),
        ("CPU", "GPU"),
        ("GPU", "CPU"),
        ("GPU", "GPU"),
    ]
    for (source, destination), text in zip(wanted, shown, strict=True):
        cells = [
            value
            for r, row in enumerate(rows)
            for c, value in enumerate(row)
            if r != c and devices[r][0] == source and devices[c][0] == destination
            if value is not None
        ]
        if (text == "N/A") != (not cells) or (
            cells and abs(statistics.fmean(cells) - float(text)) > 0.0151
        ):
            mean = f"{statistics.fmean(cells):.2f}" if cells else "none"
            raise ParseError(
                number, f"a mean of {mean} from {source} to {destination}", f"the {text} printed"
            )


# ---- read ----------------------------------------------------------------------------------


def copies(seen: Mapping[str, Any], bounds: Mapping[str, float]) -> list[gpu_copies.Matrix]:
    """The matrices in what `read` saw, in GB/s. `bounds`: test -> the least value that a reference
    admits for a cell.
    """
    return [
        gpu_copies.Matrix(
            one["test"], WAYS[one["test"]], tuple(map(tuple, one["cells"])), bounds.get(one["test"])
        )
        for one in seen.get("matrices", ())
        if one["test"] in WAYS
    ]


def places(seen: Mapping[str, Any], file_host: str) -> dict[int, tuple[str, int]]:
    """Row or column of a matrix -> node and number of its GPU, as HIP counts: the output names no
    node.
    """
    return {gpu: (file_host, gpu) for gpu in range(seen.get("gpus", 0))}


def gpu_numbers(seen: Mapping[str, Any]) -> dict[str, int]:
    """None: the output has no PCI addresses."""
    return {}


def read(text: str, *, calls: Sequence[Call] = (), options: Options | None = None) -> Reading:
    """Judge one run. Its end is proved by the matrix of both ways, or by the setting that leaves
    it out; all of it with exit code 0 and the number of GPUs that were expected.
    """
    return judge(text, parse, _conclude, calls, options)


def _conclude(output: Output, options: Options | None) -> Conclusion:
    matrices = dict(_matrices(output))
    seen: dict[str, Any] = {
        "tests": list(matrices),
        "gpus": output.gpus,
        "cpus": output.cpus,
        "executor": output.executor,
        "matrices": [
            {"test": test, "part": "", "cells": cells} for test, cells in matrices.items()
        ],
    }
    if output.version:
        seen["version"] = output.version
    complaints = [
        f"{test}: nothing was copied from or to GPU {gpu}"
        for test, cells in matrices.items()
        for gpu in range(output.gpus)
        if all(row[gpu] is None for row in cells)
    ]
    if not output.gpus:
        complaints.append("no GPU, expected one or more")
    if options is not None and output.gpus != options.gpus:
        complaints.append(f"{output.gpus} GPUs, expected {options.gpus}")
    elif options is not None and output.gpus and tuple(matrices) != options.tests:
        found, expected = ", ".join(matrices), ", ".join(options.tests)
        complaints.append(f"the matrices are {found}, expected {expected}")
    return Conclusion(
        f"copies between {output.cpus} CPUs and {output.gpus} GPUs to their end",
        tuple(m for test, cells in matrices.items() for m in _measurements(test, cells)),
        seen,
        tuple(complaints),
        ended=output.ended,
    )


def _matrices(output: Output) -> Iterator[tuple[str, list[list[float | None]]]]:
    """The matrices by their names in WAYS. With the host a GPU counts by the CPU that is nearest to
    it: the fastest.
    """
    cpus, devices = range(output.cpus), range(output.cpus, output.cpus + output.gpus)
    cells = output.cells
    if output.cpus:
        yield "p2p_cpu_to_gpu", [[_most(cells[cpu][gpu] for cpu in cpus) for gpu in devices]]
        yield "p2p_gpu_to_cpu", [[_most(cells[gpu][cpu] for cpu in cpus) for gpu in devices]]
    if output.gpus < 2:
        return
    between = [[None if a == b else cells[a][b] for b in devices] for a in devices]
    if output.reads:
        # A row is the GPU that copies.
        yield "p2p_gpu_to_gpu_read", [list(column) for column in zip(*between, strict=True)]
    else:
        yield "p2p_gpu_to_gpu_write", between


def _most(values: Iterator[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _measurements(test: str, cells: Sequence[Sequence[float | None]]) -> Iterator[Measurement]:
    values = [value for row in cells for value in row if value is not None]
    if values:
        for metric, value in (
            ("copy_bandwidth", statistics.fmean(values)),
            ("copy_bandwidth_min", min(values)),
        ):
            yield Measurement(metric, value, TOOL, f"copy {test}", "any")


# ---- by hand -------------------------------------------------------------------------------


def _joins(section: str, line: str) -> bool:
    """The matrix stands below the version of its run, both ways below one way."""
    return "Averages (During  BiDir)" not in section and (
        "directional copy peak bandwidth" not in section or line.lstrip().startswith("Bidirect")
    )


_MARKS = Marks(
    (
        Mark("TransferBench v", r"TransferBench v[0-9]"),
        Mark("directional copy peak bandwidth", r"(?:Uni|Bi)directional copy peak bandwidth GB/s "),
    ),
    joins=_joins,
)

BY_HAND = ByHand(
    ("what `TransferBench p2p` printed",),
    "The matrix of both ways at its end proves that the run came to its end. All of it is `proved` "
    "by the exit code and the number of GPUs that was expected.",
    {"gpus": integer},
    Options,
    by_hand(TOOL, read),
    example=("gpus=8",),
    marks=_MARKS,
)
