"""A perftest run that somebody made by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from railgauge.model.sizes import parse_size
from railgauge.tools.common.by_hand import ByHand, identifier, integer, of_sides, yes_or_no
from railgauge.tools.common.marks import Mark, Marks
from railgauge.tools.perftest.judge import read
from railgauge.tools.perftest.options import TOOL, Options
from railgauge.tools.perftest.text import parse


def _stated(text: str) -> Mapping[str, Any]:
    output = parse(text)
    names = ("operation", "test", "bidirectional", "queue_pairs", "rdma_cm", "connection_type")
    return {name: getattr(output, name) for name in names}


_WAITING = "Waiting for client to connect"
_NAMES = (" BW Test", " Latency Test")


def _joins(section: str, line: str) -> bool:
    """A server waits, and then says what it runs."""
    waits = _WAITING in section and not any(name in section for name in _NAMES)
    return waits and any(name in line for name in _NAMES)


#: The rule above a name is its own: below the rows of the run before it, it would end them.
_RULE = (r"-{87,}|\*{30,}",)
_MARKS = Marks(
    (
        Mark(_WAITING, rf"\* {_WAITING}", _RULE),
        *(Mark(name, rf"(?:RDMA_|Send|Atomic|raw_)[ \w]*{name}", _RULE) for name in _NAMES),
        Mark("#bytes", r"#bytes\s+#iterations\s", weak=True),
        Mark("Couldn't connect to ", "(?:STDERR: )?Couldn't connect to "),
    ),
    joins=_joins,
)

BY_HAND = ByHand(
    ("what the client printed", "what the server printed"),
    "A bare file cannot prove that the run finished, so its completeness is `unknown`. It is "
    "`proved` by both files, both exit codes, and what was expected: size_bytes or sweep, with "
    "iterations or duration_s.",
    {
        "operation": identifier,
        "test": identifier,
        "size_bytes": parse_size,
        "sweep": yes_or_no,
        "iterations": integer,
        "duration_s": integer,
        "bidirectional": yes_or_no,
        "queue_pairs": integer,
        "rdma_cm": yes_or_no,
        "connection_type": identifier,
    },
    Options,
    of_sides(TOOL, read),
    example=("size_bytes=64KiB", "iterations=5000"),
    stated=_stated,
    exit_codes=2,
    marks=_MARKS,
)
