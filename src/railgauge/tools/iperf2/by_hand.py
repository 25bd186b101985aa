"""An iperf2 run that somebody made by hand."""

from __future__ import annotations

from collections.abc import Mapping

from railgauge.model.sizes import parse_size
from railgauge.tools.common.by_hand import ByHand, identifier, integer, of_sides
from railgauge.tools.iperf2.judge import read
from railgauge.tools.iperf2.options import TOOL, Options
from railgauge.tools.iperf2.text import parse


def _stated(text: str) -> Mapping[str, str]:
    """The direction: nothing else in an output says what was requested."""
    directions = [way.direction for way in parse(text).ways]
    return {"direction": "both" if len(directions) > 1 else directions[0]}


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
)
