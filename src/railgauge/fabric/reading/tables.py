"""Forwarding tables: `dump_fts` (or `dump_lfts.sh`, `ibroute`), and opensm's `opensm.fdbs` and
`opensm-lfts.dump` (infiniband-diags 44, opensm 3.3.23).

A table is GUID of a switch -> LID -> output port. Each switch's part of the first kinds ends in a
count. In opensm.fdbs all switches list the same LIDs. A text that ends between two switches looks
whole: `railgauge.fabric.routes` asks for a table of every switch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from railgauge.tools import ParseError

Tables = Mapping[int, Mapping[int, int]]

_HEAD = re.compile(r"Unicast lids \[.*\] of switch .*guid 0x([0-9a-f]{16}) \(.*\):")
_ROW = re.compile(r"0x([0-9a-f]{4}) ([0-9]{3}) (?::|#) .*")
_END = re.compile(r"([0-9]+) (valid )?lids dumped ?")
_OTHERS = re.compile(
    r"  Lid  Out   Destination|       Port     Info ?|\*\*\* WARNING \*\*\*.*|ibwarn: .*"
)
_FDB_HEAD = re.compile(r"dump_ucast_routes: Switch 0x([0-9a-f]{16})")
_FDB_ROW = re.compile(r"0x([0-9A-F]{4}) : (?:([0-9]{3})  : [0-9]+ +: .*|UNREACHABLE|.*No .*)")


def dumped(text: str) -> Tables:
    """The tables of ibroute, dump_fts or opensm-lfts.dump."""
    tables: dict[int, dict[int, int]] = {}
    current: dict[int, int] | None = None
    for number, line in _lines(text):
        if found := _HEAD.fullmatch(line):
            if current is not None:
                raise ParseError(number, "another switch", "a line `N valid lids dumped` before it")
            guid = int(found[1], 16)
            if guid in tables:
                raise ParseError(number, f"switch {guid:#018x} a second time", "each switch once")
            current = tables[guid] = {}
        elif current is not None and (found := _ROW.fullmatch(line)):
            current[int(found[1], 16)] = int(found[2])
        elif current is not None and (found := _END.fullmatch(line)):
            if found[2] and int(found[1]) != len(current):
                raise ParseError(number, f"{len(current)} LIDs", f"{found[1]}, as this line says")
            current = None
        elif line and not _OTHERS.fullmatch(line):
            raise ParseError(number, line[:80], "a line of a forwarding table")
    if current is not None or not tables:
        raise ParseError(0, "no line `N valid lids dumped` at its end", "a whole table")
    return tables


def fdbs(text: str) -> Tables:
    """The tables of opensm.fdbs."""
    tables: dict[int, dict[int, int]] = {}
    lids: dict[int, list[int]] = {}
    guid = 0
    for number, line in _lines(text):
        if found := _FDB_HEAD.fullmatch(line):
            guid = int(found[1], 16)
            if guid in tables:
                raise ParseError(number, f"switch {guid:#018x} a second time", "each switch once")
            tables[guid], lids[guid] = {}, []
        elif guid and (found := _FDB_ROW.fullmatch(line)):
            lids[guid].append(int(found[1], 16))
            if found[2]:
                tables[guid][int(found[1], 16)] = int(found[2])
        elif line and line != "LID    : Port : Hops : Optimal":
            raise ParseError(number, line[:80], "a line of opensm.fdbs")
    if not tables:
        raise ParseError(0, "no switch", "an opensm.fdbs")
    most = max(lids.values(), key=len)
    for guid, of in lids.items():
        if of != most or not of:
            raise ParseError(0, f"{len(of)} LIDs of switch {guid:#018x}", f"{len(most)}, as others")
    if len(tables) == 1:
        raise ParseError(0, "one switch only", "those of a subnet: its end cannot be seen")
    return tables


def _lines(text: str) -> list[tuple[int, str]]:
    lines = text.split("\n")
    if lines[-1]:
        raise ParseError(len(lines), "no end of line", "a whole line")
    return list(enumerate(lines, start=1))
