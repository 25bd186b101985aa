"""mpi_world: whether the launcher starts one MPI world, or every rank on its own.

Open MPI 5 under srun without a usable PMIx starts singletons: each prints a plausible result of a
world of one, and all exit with 0.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence

from railgauge.model.call import Call
from railgauge.model.measurement import Measurement
from railgauge.tools import Completeness, ParseError, Reading
from railgauge.tools.common.lines import only_line

TOOL = "mpi_world"

_LINE = re.compile(r"world of (?P<size>[0-9]{1,7}): rank (?P<rank>[0-9]{1,7}) on (?P<host>\S+)")


@dataclasses.dataclass(frozen=True)
class Options:
    """`ranks` that should find each other."""

    ranks: int


def argv() -> list[str]:
    return ["python3", "-m", "railgauge.node.runners.mpi_world"]


def version_argv() -> list[str]:
    return [*argv(), "--version"]


@dataclasses.dataclass(frozen=True)
class Member:
    """What one rank says of itself and of its world."""

    world_size: int
    rank: int
    host: str


def parse(text: str) -> Member:
    """The one line of one rank; ParseError where it is missing, torn or there twice."""
    match = only_line(_LINE, text, "'world of N: rank R on HOST'")
    return Member(int(match["size"]), int(match["rank"]), match["host"])


def read(outputs: Mapping[int, str], calls: Sequence[Call], options: Options) -> Reading:
    """Judge the outputs of all ranks (by Slurm's number); `seen` says what MPI believes."""
    members = []
    for rank, text in sorted(outputs.items()):
        try:
            members.append(parse(text))
        except ParseError as error:
            return Reading.invalid(f"rank {rank}: {error}")
    if not members:
        return Reading.invalid("no rank has printed anything")
    sizes = sorted({member.world_size for member in members})
    seen = {"ranks": sizes[0] if len(sizes) == 1 else sizes, "hosts": len({c.host for c in calls})}
    numbers = sorted(member.rank for member in members)
    if numbers != list(range(options.ranks)):
        reason = f"MPI numbered its ranks {numbers}, expected 0 to {options.ranks - 1}"
        world = sizes[0] if len(sizes) == 1 else sizes
        return Reading.invalid(f"{reason}: worlds of {world}, started one by one?", seen=seen)
    slowest = max((call.seconds for call in calls), default=0.0)
    measurement = Measurement("startup", slowest, tool=TOOL, operation="init", transport="any")
    return Reading(
        True, f"{len(members)} ranks in one world", Completeness.PROVED, (measurement,), seen
    )
