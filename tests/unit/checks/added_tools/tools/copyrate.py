"""A toy tool of one node: it prints `copies N GB/s`, and `end`."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from railgauge.model.call import Call
from railgauge.model.measurement import Measurement
from railgauge.tools import Reading

TOOL = "copyrate"

_RATE = re.compile(r"^copies ([0-9.]{1,9}) GB/s$", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Options:
    size_mib: int


def version_argv() -> list[str]:
    return ["copyrate", "--version"]


def argv(options: Options) -> list[str]:
    return ["copyrate", f"{options.size_mib}"]


def read(output: str, *, calls: Sequence[Call], options: Options) -> Reading:
    found = _RATE.search(output)
    if found is None or not output.endswith("end\n"):
        return Reading.invalid("no rate, or no end")
    rate = Measurement("copy_bandwidth", float(found[1]), TOOL, "copy", "any")
    return Reading.valid("one rate", [] if calls else ["its exit code"], (rate,), {})
