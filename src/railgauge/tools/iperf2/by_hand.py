"""An iperf2 run that somebody made by hand."""

from __future__ import annotations

import re
from collections.abc import Mapping

from railgauge.model.sizes import parse_size
from railgauge.tools.common.by_hand import ByHand, identifier, integer, of_sides
from railgauge.tools.common.marks import Mark, Marks
from railgauge.tools.iperf2.judge import read
from railgauge.tools.iperf2.options import TOOL, Options
from railgauge.tools.iperf2.text import parse


def _stated(text: str) -> Mapping[str, str]:
    """The direction: nothing else in an output says what was requested."""
    directions = [way.direction for way in parse(text).ways]
    return {"direction": "both" if len(directions) > 1 else directions[0]}


_BANNER = re.compile(r"(Client connecting to|Server listening on) (?:(\S+), )?.*")
_PID = re.compile(r"with pid ([0-9]+)")
_CONNECTED = r"\[ *\*?[0-9]+\] local \S+ port .*"
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
        return connected and not banners
    if stream := _STREAM.match(line.strip()):
        # A stream connects once: this one is of the next run, which comes to its banner later.
        return (connected or bool(banners)) and stream[0] not in section
    # A row of csv: none has such an interval below a heading.
    others = ("iperf: ", _HEADING)
    return not (connected or banners or any(word in line + section for word in others))


def _is_other_side(section: str, one: re.Match[str], other: re.Match[str]) -> bool:
    pids = [found and found[1] for found in (_PID.search(one[0]), _PID.search(other[0]))]
    if one[1] == other[1] or pids[0] != pids[1]:
        return False
    # Without a number of the process, only what stands above all rows is surely its own. A server
    # connects to where its client is.
    if _ROW.search(section) and not (pids[0] and other[2]):
        return False
    return not other[2] or f" connected with {other[2]} " in section


_LEAD = ("-{60}", "(?:STDERR: )?listener bind failed: .*")
_MARKS = Marks(
    (
        Mark("Client connecting to ", r"Client connecting to .*\b(?:TCP|UDP) port ", _LEAD),
        Mark("Server listening on ", r"Server listening on .*\b(?:TCP|UDP) port ", _LEAD),
        Mark(" connected with ", _CONNECTED),
        Mark("iperf: ", r"(?:STDERR: )?\S*iperf: (?:unrec|illegal|invalid|option)"),
        Mark(_HEADING, _HEADING),
        Mark(",0.0-", r"[-+0-9:.]{14,40},[^,]*,[0-9]+,"),
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
    of_sides(TOOL, read),
    example=("streams=4", "duration_s=5"),
    needed=("streams", "duration_s"),
    stated=_stated,
    exit_codes=2,
    marks=_MARKS,
)
