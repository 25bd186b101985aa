"""A transfer by WDT that a user made by hand. No key of it is printed: `read` redacts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from railgauge.model.sizes import parse_size
from railgauge.node.runners.wdt_url import redacted
from railgauge.tools.common.by_hand import ByHand, identifier, integer, of_sides, yes_or_no
from railgauge.tools.common.marks import Mark, Marks
from railgauge.tools.file_transfer import FileSet
from railgauge.tools.wdt.judge import read
from railgauge.tools.wdt.options import TOOL, Options
from railgauge.tools.wdt.text import parse


def _options(files: int, file_bytes: int, **others: Any) -> Options:
    return Options(FileSet(files, file_bytes), **others)


def _stated(text: str) -> Mapping[str, str]:
    summary = parse(redacted(text)).summary
    return {"encryption": summary.encryption} if summary and summary.encryption else {}


#: The lines that a side begins with, in their order.
_BEGINNINGS = ("Running WDT ", "One time initialization of WDT", "WDT Sender ", "WDT Receiver ")
_LOG = r"(?:[IWEF][0-9]{4,8} [0-9:.]+ +[0-9]+ [^\s:]+:[0-9]+\] )?(?:wdt>\s)?\s*"
_THROTTLER = r"[IWEF][0-9]{4,8} .* (?:Throttler|WdtResourceController)\.cpp:.*"


def _joins(section: str, line: str) -> bool:
    place = next(place for place, word in enumerate(_BEGINNINGS) if word in line)
    later = (*_BEGINNINGS[place:], "Returning with")
    return not any(word in section for word in later)


_MARKS = Marks(
    (
        *(Mark(word, _LOG + word, (_THROTTLER,) * 4) for word in _BEGINNINGS),
        Mark("wdt>", _LOG, weak=True),
        Mark("Transfer status", _LOG + "Transfer status", weak=True),
    ),
    joins=_joins,
)

BY_HAND = ByHand(
    ("what the sender printed", "what the receiver printed"),
    "A bare file cannot prove that the transfer succeeded, so its completeness is `unknown`. It is "
    "`proved` by both files, both exit codes and what was expected (files, file_bytes, streams), "
    "where the receiver threw the files away (skip_writes=yes). Where it wrote them, only their "
    "sums prove that they arrived. A receiver's file alone is read, too.",
    {
        "files": integer,
        "file_bytes": parse_size,
        "streams": integer,
        "encryption": identifier,
        "skip_writes": yes_or_no,
        "version": identifier,
    },
    _options,
    of_sides(TOOL, read),
    example=("files=1", "file_bytes=1GiB", "streams=8"),
    needed=("files", "file_bytes", "streams"),
    stated=_stated,
    exit_codes=2,
    marks=_MARKS,
)
