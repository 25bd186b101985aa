"""What `ncclras -v` says of a job that hangs: the ranks that do not answer, or lag behind.

Formats: NVIDIA/nccl 2.28, src/ras/client_support.cc; verified by its answers while one of two and
of four ranks was stopped (tests/data/gpu/ras). Its JSON is not read: 2.28.9 leaves out a comma
where a rank does not answer.
"""

from __future__ import annotations

import dataclasses
import re

_COMMUNICATOR = re.compile(r"#[0-9]{1,9}-[0-9]{1,9} \([0-9a-f]{1,16}\) [A-Z]+$")
_SILENT = re.compile(r"  Missing communicator data from [0-9]{1,9} ranks?$")
_TOGETHER = re.compile(r"  [0-9]{1,9} ranks have (not launched any|launched up to) operations?")
_RANK = re.compile(
    r"  Rank ([0-9]{1,9})"
    r"(?: has (not launched any operations|launched up to operation [0-9]{1,18}))? -- "
    r"(?:GPU \S+ managed by process ([0-9]{1,9}) on node \S+|\[process information not found\])$"
)

SILENT = "does not answer"


@dataclasses.dataclass(frozen=True)
class Straggler:
    """A rank, by its number in its communicator, and what it does not do as the others."""

    rank: int
    #: its process, where that is known
    pid: int | None
    what: str


def stragglers(text: str) -> tuple[Straggler, ...]:
    """Those of whole lines, in their order; () where the answer names none."""
    found: dict[Straggler, None] = {}
    silent = False
    for line in text.split("\n")[:-1]:
        match = _RANK.match(line)
        if match and (silent or match[2]):
            what = SILENT if silent else f"has {match[2]}"
            found[Straggler(int(match[1]), int(match[3]) if match[3] else None, what)] = None
        elif _SILENT.match(line):
            silent = True
        elif _COMMUNICATOR.match(line) or _TOGETHER.match(line) or not line.strip():
            silent = False
    return tuple(found)
