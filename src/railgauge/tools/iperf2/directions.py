"""Which way the streams of an iperf2 run go, and the lines of its output for each way.

With -R the server sends (`[ *1]` rows on the client), with --full-duplex both do over the same
connections (`[  1]` and `[ *1]`, `[FD1]` for both), with -d and -r the server opens connections of
its own. So each way's lines are taken apart, and written as those of a run that goes only that way.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Literal

from railgauge.tools import ParseError
from railgauge.tools.common.lines import quote

#: From client to server, from server to client.
Direction = Literal["forward", "reverse"]

Lines = list[tuple[int, str]]

_STREAM = re.compile(r"\[\s*(?P<star>\*?)(?P<id>[0-9]{1,9})\]\s+(?P<rest>.*)")
CONNECTED = re.compile(
    r"local \S+ port (?P<local>[0-9]{1,5}) connected with \S+ port (?P<peer>[0-9]{1,5})"
    r"(?P<marks>.*)"
)
_SUM = re.compile(r"\[\s*SUM[^\]\s]*\]\s+[0-9]")
_BOTH_OF_ONE = re.compile(r"\[\s*FD[0-9]+\]\s")
_HEADER = re.compile(r"\[\s*(?:ID|SUM-cnt)\]\s+Interval\s")
_BANNER = re.compile(
    r"(?P<role>Client|Server) (?:connecting to|listening on) .*port (?P<port>[0-9]+)"
)
_MARK = re.compile(r" ?\((?:reverse|full-duplex)\)")


@dataclasses.dataclass(frozen=True)
class Directions:
    """The lines of each way, and where it goes both ways the sums of both."""

    lines: dict[Direction, Lines]
    sums: Lines


def apart(output: Sequence[tuple[int, str]]) -> Directions:
    """`output` are the lines of one side, with their numbers.

    ParseError for a row that is not marked as one of the way that its connection goes.
    """
    banners = [banner for _, line in output if (banner := _BANNER.match(line))]
    role = banners[0]["role"] if banners else ""
    listening = {banner["port"] for banner in banners if banner["role"] == "Server"}
    ways = _ways_of_connections(output, role, listening)
    if ways is None:
        return Directions({"forward": list(output)}, [])
    starred = any((row := _STREAM.match(line)) and row["star"] for _, line in output)
    if not starred and all(way == {"forward"} for way in ways.values()):
        return Directions({"forward": list(output)}, [])
    both = {way for own in ways.values() for way in own}
    both |= {_way_of_row(row, ways) for _, line in output if (row := _row(line))}
    lines: dict[Direction, Lines] = {way: [] for way in ("forward", "reverse") if way in both}
    sums: Lines = []
    sends: Direction = "reverse" if role == "Server" else "forward"
    foreign = False
    starred_only: set[str] = set()
    for number, line in output:
        banner = _BANNER.match(line)
        if banner:
            foreign = banner["role"] != role
        if stream := _STREAM.match(line):
            plain = f"[{stream['id']:>3}] {_MARK.sub('', stream['rest'])}"
            if connected := CONNECTED.match(stream["rest"]):
                if role == "Client" and "(reverse)" in connected["marks"]:
                    starred_only.add(stream["id"])
                going = ways[_key(stream)]
            else:
                if not stream["star"] and stream["id"] in starred_only:
                    expected = f"a row [*{stream['id']}]: the client receives on this stream"
                    raise ParseError(number, quote(line), expected)
                going = {_way_of_row(stream, ways)}
            for way in going:
                lines[way].append((number, plain))
        elif len(lines) == 1:
            if not foreign:
                lines[next(iter(lines))].append((number, _MARK.sub("", line)))
        elif _SUM.match(line):
            sums.append((number, line))
        elif _HEADER.match(line):
            for way in lines:
                if ("Write" if way == sends else "Reads") in line and "SUM-cnt" not in line:
                    lines[way].append((number, line))
        elif not foreign and not _BOTH_OF_ONE.match(line):
            for way in lines:
                lines[way].append((number, line))
    return Directions(lines, sums)


def _key(stream: re.Match[str]) -> str:
    return stream["star"] + stream["id"]


def _row(line: str) -> re.Match[str] | None:
    row = _STREAM.match(line)
    return row if row and not CONNECTED.match(row["rest"]) else None


def _ways_of_connections(
    output: Sequence[tuple[int, str]], role: str, listening: set[str]
) -> dict[str, set[Direction]] | None:
    """The ways that each connection carries bytes, by its id.

    None where both ends of a connection are there: that is two outputs in one text.
    """
    ends: set[tuple[str, str]] = set()
    ways: dict[str, set[Direction]] = {}
    for _, line in output:
        stream = _STREAM.match(line)
        connected = CONNECTED.match(stream["rest"]) if stream else None
        if stream is None or connected is None:
            continue
        local, peer, marks = connected["local"], connected["peer"], connected["marks"]
        if (peer, local) in ends:
            return None
        ends.add((local, peer))
        if "(full-duplex)" in marks:
            own: set[Direction] = {"forward", "reverse"}
        elif "(reverse)" in marks or stream["star"]:
            own = {"reverse"}
        elif role == "Client" and local in listening:
            # The server's own connection, to the port where this client waits for it.
            own = {"reverse"}
        else:
            own = {"forward"}
        ways.setdefault(_key(stream), set()).update(own)
    return ways


def _way_of_row(stream: re.Match[str], ways: dict[str, set[Direction]]) -> Direction:
    if stream["star"]:
        return "reverse"
    return "reverse" if ways.get(stream["id"]) == {"reverse"} else "forward"
