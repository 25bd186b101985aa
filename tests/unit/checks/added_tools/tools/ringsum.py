"""A toy tool of a group of nodes: rank 0 prints a table by size, and `sums are right`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from railgauge.model.call import Call
from railgauge.model.measurement import Measurement
from railgauge.tools import Reading

TOOL = "ringsum"

#: The columns of its table, and what stands behind it.
COLUMN, WRONG, END = "rate", "wrong", "sums are right"


@dataclasses.dataclass(frozen=True)
class Options:
    ranks: int
    size_bytes: int


def version_argv() -> list[str]:
    return ["ringsum", "--version"]


def argv(options: Options) -> list[str]:
    return ["ringsum", f"{options.size_bytes}"]


def read(outputs: Mapping[int, str], *, calls: Sequence[Call], options: Options) -> Reading:
    lines = outputs.get(0, "").splitlines()
    rows = [line.split() for line in lines if line[:1].isdigit()]
    if not rows or lines[-1] != END:
        return Reading.invalid("no table, or no end of it")
    size, rate = int(rows[-1][0]), float(rows[-1][1])
    busbw = Measurement("busbw", rate, TOOL, "sum", "any", size, ranks=options.ranks)
    missing = [] if len(calls) == options.ranks else ["the exit codes of all ranks"]
    return Reading.valid("one table", missing, (busbw,), {})
