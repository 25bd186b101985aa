"""ncclras: what NCCL's RAS client says of the communicators of a running job.

An answer is a picture of one moment: ranks that launched fewer operations than others, that do not
answer, or that are in another state. It has no last line, so a good one is not proved to be whole.

Formats: NVIDIA/nccl 2.28, src/ras/client_support.cc (see `nccl_log.ras`).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence

from railgauge.hostlist import fold_ranks
from railgauge.tools import Reading
from railgauge.tools.common.by_hand import ByHand, integer
from railgauge.tools.common.lines import quote
from railgauge.tools.common.marks import Mark, Marks
from railgauge.tools.nccl_log import ras

TOOL = "ncclras"

_VERSION = re.compile(r"NCCL version ([0-9]\S*) compiled with CUDA")
#: A group of equal communicators: the numbers, states and errors of its columns.
_GROUP = re.compile(
    r" *([0-9]{1,9}) +([0-9]{1,9}) +([0-9]{1,9}) +([0-9]{1,9}(?:-[0-9]{1,9})?) +([0-9]{1,9}) +"
    r"([0-9]{1,9}) +([A-Z][A-Z,]*) +([A-Z][A-Z,]*) *$"
)
_HEADER = re.compile(r" *# +in group +per comm +per node +per comm +in group *$")
_FAILED = re.compile(r"(?:ERROR: |Connecting to |Failed to connect|.*: Connection refused).*")
_GOOD_STATES = {"RUNNING", "INIT", "FINALIZE"}


@dataclasses.dataclass(frozen=True)
class Expected:
    """What an answer must show: the ranks of its largest communicator."""

    ranks: int | None = None


@dataclasses.dataclass(frozen=True)
class _Group:
    number: int
    communicators: int
    nodes: int
    ranks: int
    states: frozenset[str]
    errors: frozenset[str]


def _groups(lines: Sequence[str]) -> Iterator[_Group]:
    inside = False
    for line in lines:
        if match := _GROUP.match(line) if inside else None:
            number, count, nodes, _, ranks, _, states, errors = match.groups()
            yield _Group(
                *(int(number), int(count), int(nodes), int(ranks)),
                frozenset(states.split(",")),
                frozenset(errors.split(",")) - {"OK"},
            )
        inside = bool(match) or bool(_HEADER.match(line))


def read(text: str, expected: Expected | None = None) -> Reading:
    """Judges one answer; never raises for what the program wrote."""
    # What lacks its newline may be half a number.
    lines = text.split("\n")[:-1]
    version = next((match[1] for match in map(_VERSION.match, lines) if match), None)
    groups = list(_groups(lines))
    stragglers = ras.answer(text).stragglers
    complaints = list(_of_stragglers(stragglers))
    if not groups:
        failed = next((line for line in lines if _FAILED.match(line)), None)
        complaints.append(
            f"no communicator in the answer: {quote(failed)}" if failed else "no communicator"
        )
    for group in groups:
        wrong = sorted((group.states - _GOOD_STATES) | group.errors)
        # What the ranks say by themselves needs no more words.
        if wrong and not stragglers:
            complaints.append(f"communicators of group {group.number}: {', '.join(wrong)}")
    if groups and complaints and not stragglers and (why := ras.trouble(text)):
        complaints.append(quote(why, 300))
    ranks = max((group.ranks for group in groups), default=None)
    if expected and expected.ranks is not None and ranks != expected.ranks:
        complaints.append(f"{ranks or 'no'} ranks in a communicator, expected {expected.ranks}")
    seen = {
        "nccl_version": version,
        "ranks": ranks,
        "nodes": max((group.nodes for group in groups), default=None),
        "communicators": sum(group.communicators for group in groups) or None,
        "stragglers": [dataclasses.asdict(straggler) for straggler in stragglers] or None,
    }
    seen = {name: value for name, value in seen.items() if value is not None}
    if complaints:
        return Reading.invalid("; ".join(complaints), seen=seen)
    note = (
        f"communicators: {seen['communicators']}; the largest has {ranks} ranks; no rank is behind"
    )
    return Reading.valid("", ["an end line, which ncclras has not"], (), seen, notes=(note,))


def _of_stragglers(stragglers: Sequence[ras.Straggler]) -> Iterator[str]:
    """The ranks that do the same together, with their nodes."""
    for what in dict.fromkeys(straggler.what for straggler in stragglers):
        those = [straggler for straggler in stragglers if straggler.what == what]
        nodes = list(dict.fromkeys(straggler.node for straggler in those if straggler.node))
        where = f" on {', '.join(nodes[:4])}{' ...' if len(nodes) > 4 else ''}" if nodes else ""
        said = what if len(those) == 1 else re.sub(r"^has ", "have ", what)
        said = said.replace("does not", "do not") if len(those) > 1 else said
        yield f"{fold_ranks([straggler.rank for straggler in those])}{where} {said}"


def _joins(section: str, line: str) -> bool:
    """The table stands below the version, once."""
    return "in group  per comm" in line and "in group  per comm" not in section


BY_HAND = ByHand(
    ("what ncclras printed (-v also names ranks)",),
    "An answer has no last line, so a good one is never `proved`. Ranks that lag behind or do not "
    "answer refuse it.",
    {"ranks": integer},
    Expected,
    lambda texts, codes, expected: read(texts[0], expected),
    example=("ranks=16",),
    marks=Marks(
        (
            Mark(" compiled with CUDA ", r"NCCL version \S+ compiled with CUDA "),
            Mark("in group  per comm", r"# +in group +per comm ", (r"Group +Comms +Nodes .*",)),
        ),
        joins=_joins,
        shared=True,
    ),
)
