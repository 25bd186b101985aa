"""How iperf3 is called."""

from __future__ import annotations

import dataclasses

from railgauge.tools import names
from railgauge.tools.common.tcp import TcpOptions

TOOL = names.IPERF3


@dataclasses.dataclass(frozen=True)
class Options(TcpOptions):
    """The settings of one TCP run from client to server, with its window on both sides; ValueError
    where it cannot be run.
    """

    def __post_init__(self) -> None:
        self.require_tcp(TOOL, most_streams=128)


def version_argv() -> list[str]:
    return ["iperf3", "--version"]


def server_argv(options: Options, port: str = "{port}") -> list[str]:
    """The receiver, for one run. The client sends it everything else."""
    return ["iperf3", "-s", "-1", "-p", port, "--json"]


def client_argv(options: Options, server: str = "{server}", port: str = "{port}") -> list[str]:
    """The sender."""
    argv = ["iperf3", "-c", server, "-p", port, "-P", str(options.streams)]
    argv += ["-t", str(options.duration_s), "--json"]
    if options.window_bytes is not None:
        argv += ["-w", str(options.window_bytes)]
    if options.congestion is not None:
        argv += ["-C", options.congestion]
    if options.length_bytes is not None:
        argv += ["-l", str(options.length_bytes)]
    return argv
