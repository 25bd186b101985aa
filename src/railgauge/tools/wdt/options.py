"""The settings of one transfer by WDT, and the commands of both sides."""

from __future__ import annotations

import dataclasses
import re
from typing import Literal

from railgauge.tools import names
from railgauge.tools.common.options import require_integers, require_one_of
from railgauge.tools.file_transfer import DISCARDED, FileSet

TOOL = names.WDT

Encryption = Literal["aes128gcm", "aes128ctr", "none"]


@dataclasses.dataclass(frozen=True)
class Options:
    """The settings of one transfer; ValueError where it cannot be run."""

    file_set: FileSet
    #: TCP connections, each to a port of its own
    streams: int = 8
    encryption: Encryption = "aes128gcm"
    #: the receiver throws away what comes: the network without the receiver's disk
    skip_writes: bool = False
    #: ports from this one on; None: any that are free
    start_port: int | None = None
    #: what both sides must state, such as 1.32; None: any, but one
    version: str | None = None

    def __post_init__(self) -> None:
        require_integers(TOOL, self, streams=(1, None))
        require_integers(TOOL, self, start_port=(1024, 65536 - self.streams))
        require_one_of(TOOL, self, encryption=("aes128gcm", "aes128ctr", "none"))
        if self.version is not None and not re.fullmatch(r"[0-9]+(?:\.[0-9]+)*", self.version):
            raise ValueError(f"wdt version is {self.version!r}, expected one such as 1.32")

    @property
    def operation(self) -> str:
        """The operation of a measurement: what was sent, and whether it was kept."""
        return self.file_set.name + (DISCARDED if self.skip_writes else "")

    @property
    def transport(self) -> str:
        return "tcp" if self.encryption == "none" else f"tcp-{self.encryption}"


def version_argv() -> list[str]:
    return ["wdt", "-version"]


def receiver_argv(options: Options, folder: str) -> list[str]:
    """The receiver. It prints its URL when it listens on every port, and ends after one transfer.

    Where a port is busy it must end, with code 19: by itself it would go on with fewer.
    """
    argv = ["wdt", "-directory", folder, "-num_ports", str(options.streams)]
    argv += ["-encryption_type", options.encryption, "-treat_fewer_port_as_error"]
    if options.start_port is not None:
        argv += ["-start_port", str(options.start_port)]
    if options.skip_writes:
        argv += ["-skip_writes"]
    return argv


def sender_argv(options: Options, folder: str) -> list[str]:
    """The sender. "-" makes it read the URL from stdin, so that no argument holds the key; its
    host name stands for the one in the URL, and decides over which interface the data goes.
    """
    return ["wdt", "-directory", folder, "-hostname", "{server}", "-"]
