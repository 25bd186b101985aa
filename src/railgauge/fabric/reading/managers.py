"""Subnet managers: `saquery -s` lists the ports that have one, `sminfo LID` prints its state.

Of `saquery -s` nothing is read behind the ports with a manager, so that this part shows that it is
whole. A text of several `sminfo` has a line of each. Which ones it lacks, the check says.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from railgauge.tools import ParseError

State = Literal["not active", "discovering", "standby", "master"]

#: As sminfo prints them (InfiniBand Architecture Specification 1, 14.4.1).
_STATES: dict[str, State] = {
    "SMINFO_NOTACT": "not active",
    "SMINFO_DISCOVER": "discovering",
    "SMINFO_STANDBY": "standby",
    "SMINFO_MASTER": "master",
}


class Manager(NamedTuple):
    """A subnet manager: LID and GUID of its port, priority from 0 to 15, and state."""

    lid: int
    port_guid: int
    priority: int
    state: State


_SMINFO = re.compile(
    r"sminfo: sm lid ([0-9]+) sm guid 0x([0-9a-f]{1,16}), activity count [0-9]+ "
    r"priority ([0-9]+) state [0-9]+ (SMINFO_[A-Z]+)"
)
_FIRST, _LAST = "IsSM ports", "IsSMdisabled ports"
_FIELD = re.compile(r"\t\t([A-Za-z_]+)\.+(0x[0-9A-Fa-f]+|[0-9]+)")
_RECORD = "PortInfoRecord dump:"
#: The fields of a record. The last one shows that the record is whole.
_FIELDS = ("EndPortLid", "PortNum", "base_lid", "master_sm_base_lid", "capability_mask")


def states(text: str) -> tuple[Manager, ...]:
    """The managers of one or more outputs of sminfo, each once; ParseError where one is cut."""
    lines = text.split("\n")
    if lines.pop():
        raise ParseError(len(lines) + 1, "no end of line", "a whole line of sminfo")
    found: dict[int, Manager] = {}
    for number, line in enumerate(lines, start=1):
        if not line or line.startswith("ibwarn: "):
            continue
        match = _SMINFO.fullmatch(line)
        if match is None or match[4] not in _STATES:
            raise ParseError(number, line[:80], "sminfo: sm lid ... state 3 SMINFO_MASTER")
        guid = int(match[2], 16)
        found[guid] = Manager(int(match[1]), guid, int(match[3]), _STATES[match[4]])
    if not found:
        raise ParseError(0, "no line of sminfo", "sminfo: sm lid ...")
    return tuple(found.values())


def listed(text: str) -> tuple[int, ...]:
    """The LIDs of the ports with a manager, of `saquery -s`; ParseError where it is cut."""
    before, last, _ = text.partition(f"\n{_LAST}\n")
    lines = [line for line in before.split("\n") if line and not line.startswith("ibwarn: ")]
    if not last or not lines or lines[0] != _FIRST:
        raise ParseError(0, f"no lines {_FIRST!r} and {_LAST!r}", "a whole output of saquery -s")
    lids: list[int] = []
    size = 1 + len(_FIELDS)
    for start in range(1, len(lines), size):
        head, *rest = lines[start : start + size]
        fields = {match[1]: match[2] for line in rest if (match := _FIELD.fullmatch(line))}
        if head != _RECORD or tuple(fields) != _FIELDS:
            raise ParseError(start + 1, head[:60], f"{_RECORD} with {', '.join(_FIELDS)}")
        lids.append(int(fields["EndPortLid"], 0))
    return tuple(dict.fromkeys(lids))
