"""What `ncclras -v` says of a job that hangs: the ranks that do not answer, or lag behind.

Formats: NVIDIA/nccl 2.28, src/ras/client_support.cc; verified by its answers while one of two and
of four ranks was stopped (tests/data/gpu/ras). Its JSON is not read: 2.28.9 leaves out a comma
where a rank does not answer.
"""

from __future__ import annotations

import dataclasses
import re

_SILENT = re.compile(r"  Missing communicator data from ([0-9]{1,9}) ranks?$")
_DIFFERENT = re.compile(r"  Communicator ranks have different ")
_LAUNCHED = r"not launched any operations|launched up to operation [0-9]{1,18}"
#: Ranks that launched as much as each other; some of them, but not of the most, are named below it.
_GROUP = re.compile(rf"  [0-9]{{1,9}} ranks have ({_LAUNCHED})$")
_RANK = re.compile(
    r"  Rank ([0-9]{1,9})"
    rf"(?: has ({_LAUNCHED}))? -- "
    r"(?:GPU .{1,80}? managed by process ([0-9]{1,9}) on node (\S+)"
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
    #: the address of its node, where that is known
    node: str = dataclasses.field(default="", compare=False)

    @property
    def process(self) -> RankProcess:
        return self.rank, self.pid


@dataclasses.dataclass(frozen=True)
class Answer:
    """The ranks that an answer names, in its order; `whole`: it names every one without data,
    but others may have answered, and know nothing of their communicator.
    """

    stragglers: tuple[Straggler, ...]
    whole: bool


def answer(text: str) -> Answer:
    """What its whole lines say. Of ranks that launched other counts those with fewer than others
    are named, alone or as a group.
    """
    found: dict[Straggler, None] = {}
    #: how many ranks are still to be named as silent
    left, whole = 0, True
    counted: _Counted | None = None
    for line in text.split("\n")[:-1]:
        rank, silent, group = _RANK.match(line), _SILENT.match(line), _GROUP.match(line)
        if _DIFFERENT.match(line):
            found.update(counted.late() if counted else {})
            counted = _Counted()
        if counted and not rank:
            counted.begin(group[1] if group else "")
        if rank and left and not rank[2]:
            found[Straggler(int(rank[1]), _number(rank[3]), SILENT, rank[4] or "")] = None
            left -= 1
            continue
        if rank and counted:
            counted.name(rank)
        elif rank and rank[2]:
            late = Straggler(int(rank[1]), _number(rank[3]), f"has {rank[2]}", rank[4] or "")
            found[late] = None
        whole = whole and not left
        left = int(silent[1]) if silent else 0
    found.update(counted.late() if counted else {})
    return Answer(tuple(found), whole and not left)


class _Counted:
    """The ranks of one list of counts."""

    def __init__(self) -> None:
        #: what the ranks that are named below it have launched
        self.group = ""
        self.counts: set[int] = set()
        self.ranks: list[Straggler] = []

    def begin(self, group: str) -> None:
        self.group = group
        if group:
            self.counts.add(_launched(group))

    def name(self, rank: re.Match[str]) -> None:
        if what := rank[2] or self.group:
            self.counts.add(_launched(what))
            pid, node = _number(rank[3]), rank[4] or ""
            self.ranks.append(Straggler(int(rank[1]), pid, f"has {what}", node))

    def late(self) -> dict[Straggler, None]:
        most = max(self.counts, default=0)
        return {rank: None for rank in self.ranks if _launched(rank.what) < most}


def _launched(what: str) -> int:
    number = what.rpartition(" ")[2]
    return int(number) if number.isdecimal() else 0


def _number(text: str | None) -> int | None:
    return int(text) if text else None


def trouble(text: str) -> str:
    """What an answer says below what it counts, in one line; all of it where that is nothing."""
    match = _TROUBLE.search(text)
    return " ".join(text[match.start() if match else 0 :].replace("=", "").split())
