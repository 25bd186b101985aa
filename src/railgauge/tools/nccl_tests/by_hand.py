"""A run of nccl-tests that a user made by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from railgauge import hostlist
from railgauge.model.call import Call
from railgauge.model.sizes import parse_size
from railgauge.tools import ParseError, Reading
from railgauge.tools.common.by_hand import ByHand, identifier, integer
from railgauge.tools.common.changes import Change
from railgauge.tools.common.marks import Mark, Marks
from railgauge.tools.nccl_tests.alone import why_alone
from railgauge.tools.nccl_tests.document import parse_json
from railgauge.tools.nccl_tests.ends import ends
from railgauge.tools.nccl_tests.judge import read
from railgauge.tools.nccl_tests.options import TOOL, Options
from railgauge.tools.nccl_tests.result import Result
from railgauge.tools.nccl_tests.text import BEGINNINGS, parse


def _ranks(result: Result) -> int:
    """The processes, each with the GPUs of its threads."""
    gpus = (result.threads or 1) * (result.gpus_per_thread or 1)
    return max(len(result.devices) // gpus, 1)


def _stated(text: str) -> Mapping[str, Any]:
    """For what is not stated, a value that the judge then finds to be different, or missing."""
    result = parse_json(text) if text.lstrip().startswith("{") else parse(text)[0]
    stated = {
        "operation": result.operation or "all_reduce",
        "ranks": _ranks(result),
        "gpus_per_rank": result.gpus_per_thread,
        "min_bytes": result.min_bytes or 8,
        "max_bytes": result.max_bytes or 8,
        "factor": result.step_factor,
        "warmup": result.warmup,
        "iterations": result.iterations,
        "datatype": result.rows[0].datatype if result.rows else None,
        "version": result.version or None,
    }
    return {name: value for name, value in stated.items() if value is not None}


def _read(texts: Sequence[str], codes: Sequence[int], options: Options | None) -> Reading:
    calls: list[Call] = []
    if codes:
        try:
            ranks = options.ranks if options else _ranks(parse(texts[0])[0])
        except ParseError:
            ranks = 1
        # A launcher's is that of the rank that failed.
        calls = [
            Call(TOOL, f"rank{rank}", rank, "this run", codes[0], math.inf) for rank in range(ranks)
        ]
    json_text = texts[1] if len(texts) > 1 else None
    return read({0: texts[0]}, json_text=json_text, calls=calls, options=options)


def _joins(section: str, line: str) -> bool:
    """The lines that a test begins with stand in a fixed order."""
    stage = next((place for place, word in enumerate(BEGINNINGS) if word in line), 0)
    return not any(word in section for word in BEGINNINGS[stage:])


_MARKS = Marks(
    (
        *(Mark(word, rf"#?\s*{word}s?\b") for word in BEGINNINGS),
        # What -J writes, in one line.
        Mark('"start_time"', r'\{\s*"version"\s*:\s*[0-9]+\s*,\s*"start_time"'),
        Mark("algbw", r"#?\s*(?:size|bytes)\s+(?:count|N)\s", weak=True),
        Mark("Out of bounds values", r"#?\s*Out of bounds values", weak=True),
    ),
    joins=_joins,
    shared=True,
    why_one=why_alone,
)

BY_HAND = ByHand(
    ("what one run printed, or what -J wrote", "what -J wrote in the same run"),
    "Versions that end with `# Collective test concluded` prove by it that the run finished; of "
    "others a bare file's completeness is `unknown`, and `proved` by the launcher's exit code.",
    {
        "operation": identifier,
        "ranks": integer,
        "gpus_per_rank": integer,
        "min_bytes": parse_size,
        "max_bytes": parse_size,
        "factor": integer,
        "warmup": integer,
        "iterations": integer,
        "datatype": identifier,
        "version": identifier,
        "hosts": hostlist.expand,
    },
    Options,
    _read,
    example=("operation=all_reduce", "ranks=8"),
    stated=_stated,
    marks=_MARKS,
    ends=ends,
    changes=(Change((2, 19), "warms up once, and not five times", "warmup", first_sizes=True),),
)
