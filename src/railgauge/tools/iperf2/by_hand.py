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


_BANNER = re.compile(r"(Client connecting to|Server listening on) .*")
_PID = re.compile(r"with pid ([0-9]+)")
_ROW = re.compile(r"\] +[0-9.]+\s?- *[0-9.]+ sec ")


def _joins(section: str, line: str) -> bool:
    """A run both ways (-d, -r) has a banner of each side, of one process; and a busy machine comes
    to its banner after its first lines.
    """
    banners = list(_BANNER.finditer(section))
    banner = _BANNER.search(line)
    if banner is None or len(banners) > 1:
        return False
    if not banners:
        return "connected with" in section
    one, other = (_PID.search(text[0]) for text in (banners[0], banner))
    if banners[0][1] == banner[1] or (one is None) != (other is None):
        return False
    return one[1] == other[1] if one and other else not _ROW.search(section)


_MARKS = Marks(
    (
        Mark("Client connecting to ", r"Client connecting to .*\b(?:TCP|UDP) port "),
        Mark("Server listening on ", r"Server listening on .*\b(?:TCP|UDP) port "),
        Mark(" connected with ", r"\[ *\*?[0-9]+\] local \S+ port ", weak=True),
        Mark("iperf: ", "(?:STDERR: )?iperf: ", weak=True),
        Mark("time,src", "time,src"),
        Mark(",0.0-", r"[-+0-9:.]{14,40},[^,]*,[0-9]+,", weak=True),
    ),
    lead=("-{60}",),
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
