"""An iperf2 run that a user made by hand."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from railgauge.model.sizes import parse_size
from railgauge.tools import Reading
from railgauge.tools.common.by_hand import ByHand, identifier, integer, of_sides
from railgauge.tools.common.lines import LABELS, numbered, quote
from railgauge.tools.common.marks import Mark, Marks
from railgauge.tools.iperf2.ends import ends
from railgauge.tools.iperf2.judge import read
from railgauge.tools.iperf2.options import TOOL, Options
from railgauge.tools.iperf2.text import parse


def _stated(text: str) -> Mapping[str, str]:
    """The direction: nothing else in an output says what was requested."""
    directions = [way.direction for way in parse(text).ways]
    return {"direction": "both" if len(directions) > 1 else directions[0]}


#: A row that was cut. What follows in the same line, if anything, is of the next program.
_TORN = re.compile(
    r"\[(?:[ *0-9]+|SUM[^\]\s]*)\](?:"
    r"\s+[0-9](?!\S*\s?-\s*[0-9.]+\s+sec\s+(?:[-+.0-9]|nan|inf|L2 |\S+-PDF:))"
    # The column behind Rtry shows that Rtry is whole, so it has to be the row's own.
    r"|\s.*/sec\s.*(?:\s[0-9]+/[0-9]+|\sms)\s+[0-9]+(?=\s)"
    r"(?!\s+(?:pps\b|(?:-|NA|[0-9]+K)[(/]))"
    # Of a sum Rtry is the last number.
    r"|\s.*/sec\s.*\s[0-9]+/[0-9]+\s+[0-9]+(?![0-9\s.]|$)"
    # A row of csv.
    r")|[-+0-9:.]{14,40},.*(?:[^-+\w.:,%]|--)"
)
_judged = of_sides(TOOL, read)


def _read(texts: Sequence[str], codes: Sequence[int], options: Any) -> Reading:
    """The tool's reader, and what it passes over: a cut row that looks like no row, and what is
    left of a run both ways below the first lines of its client.
    """
    reading = _judged(texts, codes, options)
    if not reading.ok:
        return reading
    for side, text in zip(("client", "server"), texts, strict=False):
        alone = "Client connecting to " not in text
        listening = {found[1] for found in _LISTENING.finditer(text)} if alone else set()
        for number, raw in numbered(text):
            line = LABELS.sub("", raw).strip()
            ends = _OWN_ENDS.match(line) if listening else None
            expected = ""
            if _TORN.match(line):
                expected = "a whole row"
            elif ends and ends[1] not in listening and "(reverse)" not in line:
                expected = f"a connection to the server's port {' or '.join(sorted(listening))}"
            if expected:
                reason = f"{side}: line {number}: found {quote(line)}, expected {expected}"
                return Reading.invalid(reason, notes=reading.notes, moved=reading.moved)
    return reading


_LISTENING = re.compile(r"Server listening on .*\bport ([0-9]+)")
_OWN_ENDS = re.compile(r"\[ *[0-9]+\] local \S+ port ([0-9]+) connected with ")
_BANNER = re.compile(r"(Client connecting to|Server listening on) (?:(\S+), )?.*")
_PID = re.compile(r"with pid ([0-9]+)")
_CONNECTED = r"\[ *\*?[0-9]+\] local \S+ port .*"
_PORT = re.compile(r"\bport ([0-9]+)")
_ENDS = re.compile(r" local \S+ port ([0-9]+) connected with (\S+) port ([0-9]+)\b")
_STREAM = re.compile(r"\[ *\*?[0-9]+\] local ")
_ROW = re.compile(r"\] +[0-9.]+\s?- *[0-9.]+ sec ")
_HEADING = "time,src"


def _joins(section: str, line: str) -> bool:
    """Connections, and rows of csv, belong together. A busy machine comes to its banner after its
    first lines; and a run both ways (-d, -r) has one of each side.
    """
    banners = list(_BANNER.finditer(section))
    connected = " connected with " in section
    banner = _BANNER.search(line)
    if banner is not None:
        if len(banners) == 1:
            return _is_other_side(section, banners[0], banner)
        return not banners and _is_of_connections(section, banner)
    if stream := _STREAM.match(line.strip()):
        # A stream connects once: this one is of the next run, which comes to its banner later.
        return (connected or bool(banners)) and stream[0] not in section
    # A row of csv: none has such an interval below a heading.
    others = ("iperf: ", _HEADING)
    return not (connected or banners or any(word in line + section for word in others))


def _is_of_connections(section: str, banner: re.Match[str]) -> bool:
    """Whether a banner below connections is theirs: a server's ports, and a client's server."""
    port = _PORT.search(banner[0])
    ends = _ENDS.findall(section)
    if port is None:
        return False
    if banner[1].startswith("Server"):
        return any(local == port[1] for local, _, _ in ends)
    address = banner[2] if re.fullmatch(r"[0-9.]+|\S*:\S*", banner[2] or "") else None
    return any(peer == port[1] and address in (None, host) for _, host, peer in ends)


def _is_other_side(section: str, one: re.Match[str], other: re.Match[str]) -> bool:
    pids = [found and found[1] for found in (_PID.search(one[0]), _PID.search(other[0]))]
    if one[1] == other[1] or pids[0] != pids[1]:
        return False
    # A client that was cut, and the server of the next run, look the same.
    if not pids[0] and " connected with " not in section:
        return False
    # Without a number of the process, only what stands above all rows is surely its own. A server
    # connects to where its client is.
    if _ROW.search(section) and not (pids[0] and other[2]):
        return False
    return not other[2] or f" connected with {other[2]} " in section


_LEAD = ("-{60}", "(?:STDERR: )?listener bind failed: .*")
_MARKS = Marks(
    (
        Mark("Client connecting to ", r"Client connecting to .*\b(?:TCP|UDP) port [0-9]", _LEAD),
        Mark("Server listening on ", r"Server listening on .*\b(?:TCP|UDP) port [0-9]", _LEAD),
        Mark(" connected with ", _CONNECTED),
        Mark("iperf: ", r"(?:STDERR: )?\S*iperf: (?:unrec|illegal|invalid|option)"),
        Mark(_HEADING, _HEADING),
        Mark(",0.0-", r"[-+0-9:.]{14,40},(?:[^,]*,){5}0\.0-[0-9]"),
    ),
    joins=_joins,
)

BY_HAND = ByHand(
    ("what the client printed", "what the server printed"),
    "A bare file cannot prove that the run finished, so its completeness is `unknown`. It is "
    "`proved` by both files, both exit codes, and what was expected: streams and duration_s.",
    {
        "streams": integer,
        "duration_s": integer,
        "direction": identifier,
        "window_bytes": parse_size,
        "congestion": identifier,
    },
    Options,
    _read,
    example=("streams=4", "duration_s=5"),
    needed=("streams", "duration_s"),
    stated=_stated,
    exit_codes=2,
    marks=_MARKS,
    ends=ends,
)
