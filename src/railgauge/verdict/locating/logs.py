"""Outputs of nccl-tests between two nodes, from anywhere, as evidence."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from railgauge.tools import ParseError, nccl_tests
from railgauge.tools.common.lines import plain
from railgauge.tools.nccl_tests.result import Device
from railgauge.tools.nccl_tests.text import apart, scan
from railgauge.verdict.locating.evidence import Evidence
from railgauge.verdict.locating.results import End, Missing, Observation

#: A device line, also of an output that is broken off below it.
_RANK = re.compile(r"#\s+Rank\s+[0-9]+ .* on .* device .*")


def read(texts: Mapping[str, str]) -> Evidence:
    """The evidence of outputs by file name. The pair of an output is the two hosts of its device
    lines, its value the bus bandwidth of its largest size. A run that the judge refuses failed. An
    output without a pair is missing. Of a file to which runs were appended each counts.
    """
    evidence = Evidence()
    observations: list[Observation] = []
    missing = []
    taken: set[str] = set()
    for name, text in texts.items():
        runs = apart(text)
        for number, run in enumerate(runs, start=1):
            hosts = list(dict.fromkeys(device.host for device in _devices(run)))
            if len(hosts) != 2:
                hosts_text = f"{len(hosts)} hosts" if hosts else "no hosts in device lines"
                of_run = f" of run {number}" if len(runs) > 1 else ""
                missing.append(Missing(name, None, f"{hosts_text}{of_run}, expected two"))
                continue
            # A copy of an output is the same run.
            if run.strip() not in taken:
                taken.add(run.strip())
                observations.append(_observation(End(hosts[0]), End(hosts[1]), run))
    # A run that failed is one of those that the others are.
    usual = Counter(o.condition for o in observations if o.value is not None).most_common(1)
    for place, o in enumerate(observations):
        if o.value is None and usual:
            observations[place] = o._replace(condition=usual[0][0])
    evidence.add(observations, missing)
    return evidence


def _observation(a: End, b: End, text: str) -> Observation:
    reading = nccl_tests.read({0: text})
    busbw = [m for m in reading.measurements if m.metric == "busbw"]
    best = max(busbw, key=lambda m: m.size_bytes or 0, default=None)
    if not reading.ok or best is None:
        return Observation(a, b, None)
    return Observation(a, b, best.value, condition=(best.operation, best.size_bytes, best.ranks))


def _devices(text: str) -> tuple[Device, ...]:
    bare = (plain(line)[0] for line in text.splitlines())
    lines = "\n".join(["# Using devices", *filter(_RANK.fullmatch, bare), ""])
    try:
        return tuple(device for result in scan(lines) for device in result.devices)
    except ParseError:
        return ()
