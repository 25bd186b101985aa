"""One test of nccl-tests: header, rows and footer, as its text or its JSON states them."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from railgauge.tools.nccl_tests.options import PRINTS_END, version_numbers

#: Half a unit of the last digit in JSON, where numbers are written with %lf.
JSON_HALF = 5e-7


@dataclasses.dataclass(frozen=True)
class Intervals:
    """The iterations of one size one by one (-I), the slowest process of each."""

    min_us: float
    max_us: float
    p99_us: float
    #: standard deviation over mean
    cv_percent: float


class Column(NamedTuple):
    """One side of a row: out of place, or in place. No dataclass, since there are so many."""

    #: of one operation
    time_us: float
    algbw_gbytes_s: float
    busbw_gbytes_s: float
    #: values that are not what they should be; None where they were not checked (N/A)
    wrong: int | None
    #: before 2.13, the largest deviation; `wrong` is then 1 where it exceeds the tool's tolerance
    error: float | None = None
    intervals: Intervals | None = None
    #: half a unit of the last digit of time, algbw and busbw, as they were printed
    halves: tuple[float, float, float] = (JSON_HALF, JSON_HALF, JSON_HALF)


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One size of a sweep. `line` is its number in the text, in JSON its place, from 1.

    `text` is what was printed, "" in JSON.
    """

    #: of the larger one of a rank's two buffers
    size_bytes: int
    #: elements that NCCL was called with
    count: int
    datatype: str
    #: "" where the operation does not reduce, or the version does not say
    redop: str
    #: -1 where the operation has none; None where the version does not say
    root: int | None
    out_of_place: Column
    in_place: Column | None
    line: int
    text: str = dataclasses.field(default="", repr=False, compare=False)

    @property
    def columns(self) -> tuple[Column, ...]:
        out, inside = self.out_of_place, self.in_place
        return (out,) if inside is None else (out, inside)


@dataclasses.dataclass(frozen=True)
class Device:
    """The GPU of one of NCCL's ranks."""

    rank: int
    host: str
    device: int
    #: domain:bus:device; the bus alone in older versions (0x1b)
    bus_id: str
    name: str
    pid: int | None
    #: the communicator, where NCCL_TESTS_SPLIT makes several
    group: int = 0


@dataclasses.dataclass(frozen=True)
class Result:
    """One test: what its header states, its rows, and its footer. None where it does not say."""

    #: "" where the text does not say
    operation: str = ""
    program: str = ""
    version: str = ""
    nccl_version: str = ""
    devices: tuple[Device, ...] = ()
    threads: int | None = None
    gpus_per_thread: int | None = None
    min_bytes: int | None = None
    max_bytes: int | None = None
    #: where less than `max_bytes` fits into the GPUs' memory, what does: the sweep ends there
    reduced_bytes: int | None = None
    #: sizes are multiplied by it, or `step_bytes` are added
    step_factor: int | None = None
    step_bytes: int | None = None
    warmup: int | None = None
    iterations: int | None = None
    #: operations per iteration (-m)
    aggregated: int | None = None
    #: checks of each result (-c); 0 where none is checked
    validation: int | None = None
    #: other conditions than those that Railgauge asks for
    conditions: tuple[str, ...] = ()
    #: `time_us` is that of the CPU until it has started the operation (-C)
    cpu_time: bool = False
    rows: tuple[Row, ...] = ()
    #: sides of rows with wrong values, counted on each process
    out_of_bounds: int | None = None
    out_of_bounds_ok: bool = False
    #: over all rows and both sides
    average_busbw_gbytes_s: float | None = None
    #: False below the bandwidth that NCCL_TESTS_MIN_BW asks for
    average_ok: bool = True
    #: the tool's own last line (2.16.7 and later), in JSON the time of the end
    concluded: bool = False
    #: NCCL's last errors (2.17.3 and later, JSON only: in a text they are a failure)
    errors: tuple[str, ...] = ()
    #: advice that NCCL gave as WARN
    warnings: int = 0
    simulated: bool = False

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(row.size_bytes for row in self.rows)

    @property
    def ends_with_line(self) -> bool:
        """Whether the version that printed this also prints an end line."""
        return bool(self.program) or (
            bool(self.version) and version_numbers(self.version) >= PRINTS_END
        )
