"""A toy tool of two nodes: a stream from client to server. Both sides print what they moved."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from railgauge.model.call import Call
from railgauge.model.measurement import Measurement
from railgauge.tools import Moved, Reading

TOOL = "wirerate"

_MOVED = re.compile(r"^moved ([0-9]{1,15}) bytes in ([0-9.]{1,9}) s$", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Options:
    duration_s: int


def version_argv() -> list[str]:
    return ["wirerate", "--version"]


def server_argv() -> list[str]:
    return ["wirerate", "--listen", "{port}"]


def client_argv(options: Options) -> list[str]:
    return ["wirerate", "{server}", "{port}", f"{options.duration_s}"]


def read(client: str, *, server: str, calls: Sequence[Call], options: Options) -> Reading:
    sent, received = _MOVED.search(client), _MOVED.search(server)
    if sent is None or received is None:
        return Reading.invalid("a side printed no `moved` line")
    if sent[1] != received[1]:
        return Reading.invalid(f"sent {sent[1]} bytes, received {received[1]}")
    payload, seconds = int(received[1]), float(received[2])
    rate = Measurement("bandwidth", payload * 8e-9 / seconds, TOOL, "stream", "tcp")
    missing = [] if len(calls) == 2 else ["the exit codes of both sides"]
    return Reading.valid("one stream", missing, (rate,), {}, moved=(Moved(payload, seconds),))
