"""Outputs of nccl-tests between two nodes each, that somebody else made, as evidence."""

from __future__ import annotations

import re
from collections.abc import Mapping

from railgauge.tools import ParseError, nccl_tests
from railgauge.tools.nccl_tests.result import Device
from railgauge.tools.nccl_tests.text import scan
from railgauge.verdict.locating.evidence import End, Evidence, Missing, Observation

#: A device line, also of an output that is broken off below it.
_RANK = re.compile(r"^.*#\s+Rank\s+[0-9]+ .* on .* device .*$", re.MULTILINE)


def read(texts: Mapping[str, str]) -> Evidence:
    """The evidence of outputs by file name. The pair of one are the two hosts of its device lines.

    Its value is the bus bandwidth of its largest size; where the judge refuses the run, it failed.
    An output of which no pair is known is missing.
    """
    evidence = Evidence()
    observations = []
    missing = []
    for name, text in texts.items():
        hosts = list(dict.fromkeys(device.host for device in _devices(text)))
        if len(hosts) != 2:
            told = f"{len(hosts)} hosts" if hosts else "no hosts in device lines"
            missing.append(Missing(name, None, f"{told}, expected two"))
            continue
        observations.append(_observation(End(hosts[0]), End(hosts[1]), text))
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
    lines = "\n".join(["# Using devices", *_RANK.findall(text), ""])
    try:
        return tuple(device for result in scan(lines) for device in result.devices)
    except ParseError:
        return ()
