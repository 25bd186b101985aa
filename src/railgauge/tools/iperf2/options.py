"""The settings of one iperf2 run, and the commands of both sides."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from railgauge.tools.common.options import require_one_of, require_seconds
from railgauge.tools.common.tcp import TcpOptions

TOOL = "iperf2"


@dataclasses.dataclass(frozen=True)
class Options(TcpOptions):
    """The settings of one TCP run; ValueError where it cannot be run."""

    #: both sides report every so often; None: every second, and the sender only
    interval_s: float | None = None
    #: from client to server, from server to client (-R), both at once (--full-duplex)
    direction: Literal["forward", "reverse", "both"] = "forward"

    def __post_init__(self) -> None:
        require_one_of(TOOL, self, direction=("forward", "reverse", "both"))
        self.require_tcp(TOOL)
        require_seconds(TOOL, "interval_s", self.interval_s, 0.1)


def version_argv() -> list[str]:
    return ["iperf", "--version"]


def server_argv(options: Options, port: str = "{port}") -> list[str]:
    """The receiver. With -P it ends by itself, with exit 0, after that many streams.

    Every accepted connection counts as a stream, so nothing may probe the port beforehand.
    """
    argv = ["iperf", "-s", "-p", port, "-P", str(options.streams), "-e", "-f", "k"]
    if options.interval_s is not None:
        argv += ["-i", f"{options.interval_s:g}"]
    if options.window_bytes is not None:
        argv += ["-w", str(options.window_bytes)]
    return argv


def client_argv(options: Options, server: str = "{server}", port: str = "{port}") -> list[str]:
    """The sender. -f k shows bytes to 1 KiB; -i keeps a total apart from a first interval."""
    argv = ["iperf", "-c", server, "-p", port, "-P", str(options.streams)]
    interval = f"{options.interval_s or 1:g}"
    argv += ["-t", str(options.duration_s), "-e", "-i", interval, "-f", "k"]
    argv += {"forward": [], "reverse": ["-R"], "both": ["--full-duplex"]}[options.direction]
    if options.window_bytes is not None:
        argv += ["-w", str(options.window_bytes)]
    if options.congestion is not None:
        argv += ["-Z", options.congestion]
    if options.length_bytes is not None:
        argv += ["-l", str(options.length_bytes)]
    return argv


def commands(options: Options) -> dict[str, list[str]]:
    """What both sides run, and what prints the version."""
    return {
        "server": server_argv(options),
        "client": client_argv(options),
        "version": version_argv(),
    }


def requested(options: Options) -> dict[str, Any]:
    """What the output must state."""
    congestion = {"congestion": options.congestion} if options.congestion else {}
    return {"streams": options.streams, **congestion}
