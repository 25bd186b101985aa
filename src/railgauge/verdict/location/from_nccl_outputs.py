"""Outputs of nccl-tests between two nodes, from anywhere, as evidence."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from railgauge.locating import End, Evidence, Missing, Result
from railgauge.tools import ParseError, nccl_tests
from railgauge.tools.common.lines import plain
from railgauge.tools.nccl_tests.alone import why_alone
from railgauge.tools.nccl_tests.result import Device
from railgauge.tools.nccl_tests.text import each, scan

#: A device line, also of an output that is broken off below it.
_RANK = re.compile(r"#\s+Rank\s+[0-9]+ .* on .* device .*")


class Run(NamedTuple):
    """An output of nccl-tests, one of those in a file; and the hosts of its device lines."""

    file: str
    place: str
    text: str
    hosts: tuple[str, ...]


def runs_in(texts: Mapping[str, str]) -> list[Run]:
    """All runs of the outputs by file name."""
    return [
        Run(
            name,
            name if len(runs) == 1 else f"{name}, run {number}",
            run,
            tuple(dict.fromkeys(device.host for device in _devices(run))),
        )
        for name, text in texts.items()
        for runs in [[text] if why_alone(text) else each(text)]
        for number, run in enumerate(runs, start=1)
    ]


def silent(runs: Sequence[Run], unread: Collection[str]) -> list[str]:
    """The files without a result of those that should have one, which end as others do that have:
    in which a run breaks off before its second host, or which could not be read.
    """
    endings = {Path(run.file).suffix for run in runs if len(run.hosts) == 2} - {""}
    lacking = [*(run.file for run in runs if _breaks_off(run)), *unread]
    return [name for name in dict.fromkeys(lacking) if Path(name).suffix in endings]


def _breaks_off(run: Run) -> bool:
    if len(run.hosts) > 1:
        return False
    try:
        return not any(result.rows for result in scan(run.text))
    except ParseError:
        return True


def read(runs: Iterable[Run]) -> Evidence:
    """The evidence of outputs. The pair of an output is the two hosts of its device
    lines, its value the bus bandwidth of its largest size. A run that the judge refuses failed. An
    output without a pair is missing, and so is one whose ranks did not run one test together. Of a
    file to which runs were appended each counts.
    """
    evidence = Evidence()
    results: list[Result] = []
    missing = []
    taken: set[str] = set()
    for run in runs:
        if len(run.hosts) != 2:
            hosts = f"{len(run.hosts)} hosts" if run.hosts else "no hosts in device lines"
            missing.append(Missing(run.place, None, f"{hosts}, expected two"))
        elif why := _why_no_pair(run.text):
            missing.append(Missing(run.place, None, why))
        # A copy of an output is the same run.
        elif run.text.strip() not in taken:
            taken.add(run.text.strip())
            a, b = run.hosts
            results.append(_result(End(a), End(b), run.text))
    # A run that failed is one of those that the others are.
    usual = Counter(o.condition for o in results if o.value is not None).most_common(1)
    for place, o in enumerate(results):
        if o.value is None and usual:
            results[place] = o._replace(condition=usual[0][0])
    evidence.add(results, missing)
    return evidence


def _why_no_pair(text: str) -> str:
    """Why an output of two hosts says nothing of what is between them: it was started in another
    way.
    """
    if len({device.group for device in _devices(text)}) > 1:
        return "several groups of ranks (NCCL_TESTS_SPLIT), expected one"
    return why_alone(text)


def _result(a: End, b: End, text: str) -> Result:
    reading = nccl_tests.read({0: text})
    busbw = [m for m in reading.measurements if m.metric == "busbw"]
    best = max(busbw, key=lambda m: m.size_bytes or 0, default=None)
    if not reading.ok or best is None:
        return Result(a, b, None)
    return Result(a, b, best.value, condition=(best.operation, best.size_bytes, best.ranks))


def _devices(text: str) -> tuple[Device, ...]:
    bare = (plain(line)[0] for line in text.splitlines())
    lines = "\n".join(["# Using devices", *filter(_RANK.fullmatch, bare), ""])
    try:
        return tuple(device for result in scan(lines) for device in result.devices)
    except ParseError:
        return ()
