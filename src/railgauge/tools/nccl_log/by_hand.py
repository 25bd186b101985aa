"""NCCL's debug log alone, without the output of a tool that used it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from railgauge.tools import Reading
from railgauge.tools.common.by_hand import ByHand, identifier, integer
from railgauge.tools.nccl_log.job import Expected, Job

TOOL = "nccl-log"

_LINE = re.compile(r"NCCL (?:INFO|WARN|ATTN) ")
#: So many characters without a line of NCCL's are looked at before a stream is left to others.
_LOOKED_AT = 2**20


def _is_log(text: str) -> bool:
    return _LINE.search(text) is not None


def _read(texts: Sequence[str], codes: Sequence[int], expected: Expected | None) -> Reading:
    job = Job()
    *lines, torn = texts[0].split("\n")
    for line in lines:
        job.take(line)
    job.take_torn(torn)
    if not job.lines:
        return Reading.invalid("no whole line of NCCL, expected a log of NCCL_DEBUG=INFO")
    if codes and codes[0]:
        return Reading.invalid(f"exit code {codes[0]}; {job.reading(expected).reason}")
    return job.reading(expected)


def _read_pieces(pieces: Iterable[str], foreign: Sequence[str]) -> Reading | None:
    """A log that is read as it comes. None where it is none, or has a word of another tool's."""
    job = Job()
    rest, passed = "", 0
    for piece in pieces:
        if "\x1b" in piece or "\r" in piece:
            return None
        *lines, last = piece.split("\n")
        if lines:
            lines[0], rest = rest + lines[0], last
        else:
            rest += last
        for line in lines:
            if "NCCL " not in line:
                if any(word in line for word in foreign):
                    return None
                passed += len(line)
            job.take(line)
        if not job.lines and passed + len(rest) > _LOOKED_AT:
            return None
    job.take_torn(rest)
    return job.reading() if job.lines else None


BY_HAND = ByHand(
    ("what a job wrote with NCCL_DEBUG=INFO",),
    "It is `proved` where every rank is in it and destroyed its communicators. A warning of NCCL "
    "that is no advice refuses it.",
    {"ranks": integer, "network": identifier},
    Expected,
    _read,
    example=("ranks=16", "network=IB"),
    is_output=_is_log,
    read_pieces=_read_pieces,
)
