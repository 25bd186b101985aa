"""A perftest run that a user made by hand."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from railgauge.model.sizes import parse_size
from railgauge.tools.common.by_hand import ByHand, identifier, integer, of_sides, yes_or_no
from railgauge.tools.common.changes import Change
from railgauge.tools.common.marks import Mark, Marks
from railgauge.tools.perftest.ends import ends
from railgauge.tools.perftest.judge import read
from railgauge.tools.perftest.options import TOOL, Options
from railgauge.tools.perftest.result import Bandwidth, Output
from railgauge.tools.perftest.text import parse


def _stated(text: str) -> Mapping[str, Any]:
    output = parse(text)
    names = ("operation", "test", "bidirectional", "queue_pairs", "rdma_cm", "connection_type")
    return {name: getattr(output, name) for name in names} | {"counted": _counted(output)}


def _counted(output: Output) -> int | None:
    """The iterations of a run that was given a number of them, which a run over a time (-D) never
    shows one by one.
    """
    singly = all(
        (row.peak_gbits_s if isinstance(row, Bandwidth) else row.max_us) is not None
        for row in output.rows
    )
    numbers = {row.iterations // output.queue_pairs for row in output.rows}
    return numbers.pop() if singly and len(numbers) == 1 else None


def _options(*, counted: int | None = None, **conditions: Any) -> Options:
    """The options that are expected; `counted` iterations where no length is."""
    if counted is not None and not conditions.keys() & {"iterations", "duration_s"}:
        conditions["iterations"] = counted
    return Options(**conditions)


_WAITING = "Waiting for client to connect"
_NAMES = (" BW Test", " Latency Test")
_DEPTH = "TX depth"


def _joins(section: str, line: str) -> bool:
    """A server waits, and then says what it runs. Below one that no client came to the output of a
    client may stand: both sides print the depth where bytes go both ways, or else the client alone.
    """
    waits = _WAITING in section and not any(name in section for name in _NAMES)
    if _DEPTH in line:
        return _WAITING not in section or "Bidirectional" in section
    return waits and any(name in line for name in _NAMES)


def _claims(section: str) -> tuple[str, ...]:
    """ib_read_bw prints a rule before all else, and says only later what it is."""
    begins = _READS.match(section)
    return (("", _DASHES) if begins["waits"] else (_DASHES,)) if begins else ()


_DASHES, _STARS = "-{87,}", r"\*{30,}"
_READS = re.compile(
    rf"(?P<waits>{_STARS}\s+\* {_WAITING}.*\s+{_STARS}\s+)?{_DASHES}\s+RDMA_Read BW Test"
)
#: The rule above a name is its own: below the rows of the run before it, it would end them.
_RULE = (rf"{_DASHES}|{_STARS}",)
#: What a client prints above its depth.
_HEAD = (*(r"[-\w* ]+:.*",) * 12, r"[ \w]+ Test", _DASHES)
_MARKS = Marks(
    (
        Mark(_WAITING, rf"\* {_WAITING}", _RULE),
        *(Mark(name, rf"(?:RDMA_|Send|Atomic|raw_)[ \w]*{name}", _RULE) for name in _NAMES),
        Mark(_DEPTH, rf"{_DEPTH}\s*:", _HEAD),
        Mark('"test_info"', r'"test_info"\s*:\s*\{', (r"\{",)),
        Mark("#bytes", r"#bytes\s+#iterations\s", weak=True),
        Mark("Couldn't connect to ", "(?:STDERR: )?Couldn't connect to "),
    ),
    joins=_joins,
    claims=_claims,
)

BY_HAND = ByHand(
    ("what the client printed, or its --out_json", "what the server printed"),
    "A bare file cannot prove that the run finished, so its completeness is `unknown`. It is "
    "`proved` by both files, both exit codes, and what was expected: size_bytes or sweep, with "
    "duration_s, or with iterations where the output does not show them one by one.",
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
        "data_validation": yes_or_no,
    },
    _options,
    of_sides(TOOL, read),
    example=("size_bytes=64KiB", "iterations=5000"),
    stated=_stated,
    exit_codes=2,
    marks=_MARKS,
    ends=ends,
    changes=(
        Change(
            (6, 29), "binds itself to the NUMA node of the NIC", "bound_to_numa", release="26.04"
        ),
    ),
)
