"""What `ncclras -v` says of a job that hangs: the ranks that do not answer, or lag behind.

Formats: NVIDIA/nccl 2.28, src/ras/client_support.cc; verified by its answers while one of two and
of four ranks was stopped (tests/data/gpu/ras). Its JSON is not read: 2.28.9 leaves out a comma
where a rank does not answer.
"""

from __future__ import annotations

import dataclasses
import re

_SILENT = re.compile(r"  Missing communicator data from ([0-9]{1,9}) ranks?$")
_RANK = re.compile(
    r"  Rank ([0-9]{1,9})"
    r"(?: has (not launched any operations|launched up to operation [0-9]{1,18}))? -- "
    r"(?:GPU .{1,80}? managed by process ([0-9]{1,9}) on node \S+"
    r"|\[process information not found\])$"
)
_TROUBLE = re.compile(r"^(Errors|Warnings)$", re.MULTILINE)

SILENT = "does not answer"

#: A rank, by its number in its communicator, and the number of its process, where that is known.
RankProcess = tuple[int, int | None]


@dataclasses.dataclass(frozen=True)
class Straggler:
    """A rank, by its number in its communicator, and what it does not do as the others."""

    rank: int
    #: its process, where that is known
    pid: int | None
    what: str

    @property
    def process(self) -> RankProcess:
        return self.rank, self.pid


@dataclasses.dataclass(frozen=True)
class Answer:
    """The ranks that an answer names, in its order; `whole` says that it names every one of which
    it has no data: others may have answered, and know nothing of their communicator.
    """

    stragglers: tuple[Straggler, ...]
    whole: bool


def answer(text: str) -> Answer:
    """What its whole lines say."""
    found: dict[Straggler, None] = {}
    #: how many ranks are still to be named as silent
    left, whole = 0, True
    for line in text.split("\n")[:-1]:
        rank, silent = _RANK.match(line), _SILENT.match(line)
        if rank and rank[2]:
            found[Straggler(int(rank[1]), _number(rank[3]), f"has {rank[2]}")] = None
        elif rank and left:
            found[Straggler(int(rank[1]), _number(rank[3]), SILENT)] = None
            left -= 1
            continue
        whole = whole and not left
        left = int(silent[1]) if silent else 0
    return Answer(tuple(found), whole and not left)


def _number(text: str | None) -> int | None:
    return int(text) if text else None


def trouble(text: str) -> str:
    """What an answer says below what it counts, in one line; all of it where that is nothing."""
    match = _TROUBLE.search(text)
    return " ".join(text[match.start() if match else 0 :].replace("=", "").split())
