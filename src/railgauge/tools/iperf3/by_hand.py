"""A run of iperf3 that a user made by hand."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from railgauge.tools import ParseError, Reading
from railgauge.tools.common.by_hand import ByHand, identifier, integer, of_sides
from railgauge.tools.common.changes import Change
from railgauge.tools.common.marks import Mark, Marks
from railgauge.tools.iperf3.document import parse_pieces
from railgauge.tools.iperf3.ends import ends
from railgauge.tools.iperf3.judge import read
from railgauge.tools.iperf3.options import TOOL, Options
from railgauge.tools.iperf3.result import Output
from railgauge.tools.iperf3.text import ACCEPTED, CONNECTING


def _read_pieces(pieces: Iterable[str], foreign: Sequence[str]) -> Reading | None:
    try:
        output = parse_pieces(pieces)
    except ParseError as error:
        refused = error
        return read("", parse=lambda _: _raised(refused))
    return None if output is None else read("", parse=lambda _: output)


def _raised(error: ParseError) -> Output:
    raise error


def _joins(section: str, line: str) -> bool:
    """A server says that it listens, and a run that is interrupted says so first where standard
    error is not buffered; then it says with which peer it runs.
    """
    if any(word in section for word in (_CONNECTING, _ACCEPTED, '"connected"')):
        return False
    interrupted = _INTERRUPTED.search(section) is not None
    if _ACCEPTED in line:
        return interrupted or _LISTENING in section
    return interrupted and _CONNECTING in line and _LISTENING not in section


_CONNECTING, _ACCEPTED = "Connecting to host ", "Accepted connection from "
_RULE = "-{50,}"
_LISTENING = "Server listening on "
_INTERRUPTED = re.compile(r"iperf3: (?:interrupt|the (?:client|server) has) ")
_MARKS = Marks(
    (
        # It stands first in the document, and in the event that begins a stream of them.
        Mark(
            '"connected"',
            r'(?:\{.*"start".*)?"connected"\s*:\s*\[',
            (r'"start"\s*:\s*\{', r"\{"),
        ),
        Mark("iperf3: ", r"iperf3: (?:error|interrupt|the (?:client|server) has) ", weak=True),
        Mark(_CONNECTING, rf"{CONNECTING.pattern}\s*$"),
        Mark(_LISTENING, r"Server listening on [0-9]+", (_RULE,), weak=True),
        Mark(
            _ACCEPTED,
            rf"{ACCEPTED.pattern}\s*$",
            (_RULE, r"Server listening on [0-9]+.*", _RULE),
        ),
    ),
    joins=_joins,
    end=re.compile(r'\}\s*|\{"start".*\}\s*|\{\s*"event"\s*:\s*"end".*'),
)

BY_HAND = ByHand(
    ("what the client printed, best with --json", "what the server printed"),
    "A whole document without an error proves that the run came to its end; a text alone does not. "
    "A server's document alone does not prove what was sent. All of it is `proved` by both files, "
    "both exit codes, and what was expected: streams and duration_s.",
    {"streams": integer, "duration_s": integer, "congestion": identifier},
    Options,
    of_sides(TOOL, read),
    example=("streams=4", "duration_s=5"),
    needed=("streams", "duration_s"),
    exit_codes=2,
    marks=_MARKS,
    read_pieces=_read_pieces,
    ends=ends,
    changes=(Change((3, 16), "runs each stream in a thread of its own"),),
)
