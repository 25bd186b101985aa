"""mpi_allreduce: how long an MPI program takes; ours, for nodes without a compiler or OSU."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence

from railgauge.model.call import Call
from railgauge.model.measurement import Measurement
from railgauge.tools import Completeness, ParseError, Reading
from railgauge.tools.common.lines import only_line

TOOL = "mpi_allreduce"

_LINE = re.compile(
    r"allreduce of (?P<size>[0-9]{1,12}) bytes, (?P<iterations>[0-9]{1,9}) times: "
    r"(?P<seconds>[0-9]{1,9}\.[0-9]{6}) s, rank (?P<rank>[0-9]{1,7}) of (?P<world>[0-9]{1,7}) "
    r"on (?P<host>\S+)"
)


@dataclasses.dataclass(frozen=True)
class Options:
    """Sums of arrays of `size_bytes` over `ranks`, one after the other."""

    ranks: int
    size_bytes: int = 65536
    iterations: int = 200


def argv(options: Options) -> list[str]:
    program = ["python3", "-m", "railgauge.node.runners.mpi_allreduce"]
    return [*program, str(options.size_bytes), str(options.iterations)]


def version_argv() -> list[str]:
    return ["python3", "-m", "railgauge.node.runners.mpi_allreduce", "--version"]


@dataclasses.dataclass(frozen=True)
class Timed:
    """What one rank says of itself."""

    size_bytes: int
    iterations: int
    seconds: float
    rank: int
    world_size: int
    host: str


def parse(text: str) -> Timed:
    """The one line of one rank; ParseError where it is missing, torn or there twice."""
    match = only_line(_LINE, text, "'allreduce of B bytes, N times: S s, rank R of N on HOST'")
    return Timed(
        int(match["size"]),
        int(match["iterations"]),
        float(match["seconds"]),
        int(match["rank"]),
        int(match["world"]),
        match["host"],
    )


def read(outputs: Mapping[int, str], calls: Sequence[Call], options: Options) -> Reading:
    """Judge the outputs of all ranks (by the launcher's number): the slowest one's time."""
    for call in calls:
        if call.failure:
            return Reading.invalid(call.failure)
    ranks: list[Timed] = []
    for rank, text in sorted(outputs.items()):
        try:
            ranks.append(parse(text))
        except ParseError as error:
            return Reading.invalid(f"rank {rank}: {error}")
    numbers = sorted(timed.rank for timed in ranks)
    if numbers != list(range(options.ranks)):
        reason = f"MPI numbered its ranks {numbers}, expected 0 to {options.ranks - 1}"
        return Reading.invalid(f"{reason}: started one by one?")
    for timed in ranks:
        requested = (options.size_bytes, options.iterations, options.ranks)
        if (timed.size_bytes, timed.iterations, timed.world_size) != requested:
            return Reading.invalid(
                f"rank {timed.rank}: {timed.iterations} times {timed.size_bytes} bytes in a world "
                f"of {timed.world_size}, expected {options.iterations} times {options.size_bytes} "
                f"in one of {options.ranks}"
            )
    slowest = max(timed.seconds for timed in ranks)
    # Calls are timed outside the program, and hold its start and end as well.
    short = [call for call in calls if call.seconds < slowest]
    if short:
        took = f"the call of rank {short[0].rank} took {short[0].seconds:.3f} s"
        return Reading.invalid(f"{took}, and the program says {slowest:.3f} s")
    proved = sorted(call.rank for call in calls) == sorted(outputs)
    measurement = Measurement(
        "mpi_time",
        slowest,
        TOOL,
        "allreduce",
        "any",
        size_bytes=options.size_bytes,
        ranks=options.ranks,
        samples=options.iterations,
    )
    return Reading(
        True,
        f"{options.iterations} sums over {options.ranks} ranks"
        + ("" if proved else "; not proved without the exit code of every rank"),
        Completeness.PROVED if proved else Completeness.UNKNOWN,
        (measurement,),
        {"ranks": options.ranks, "iterations": options.iterations},
    )
