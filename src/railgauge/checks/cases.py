"""What a check measures where: the values of its first parameter.

`str()` of a case is how ReFrame's names have it, and what `-n` selects: parts that colons join,
the partition first. Nothing else reads these names.
"""

from __future__ import annotations

import dataclasses

from railgauge import hostlist
from railgauge.nccl import Transport
from railgauge.tools.file_transfer import DISCARDED

#: The way of a transfer between neighbours as it is.
LAN = "lan"


@dataclasses.dataclass(frozen=True)
class Case:
    """One case of a check on a partition of the session's system."""

    partition: str

    @property
    def nodes(self) -> tuple[str, ...]:
        """Those that the job must run on, in the check's own order."""
        raise NotImplementedError

    @property
    def kind(self) -> str:
        """What it says something of, where a check measures several things of the same nodes."""
        return ""

    @property
    def parts(self) -> tuple[str, ...]:
        """What stands behind the partition in its name."""
        raise NotImplementedError

    def __str__(self) -> str:
        return ":".join((self.partition, *self.parts))

    def __rfm_json_encode__(self) -> str:
        """In ReFrame's report and history a case is its name; without this, `null`."""
        return str(self)


@dataclasses.dataclass(frozen=True)
class PartitionCase(Case):
    """All nodes of a partition that the session is about."""

    members: tuple[str, ...]

    @property
    def nodes(self) -> tuple[str, ...]:
        return self.members

    @property
    def parts(self) -> tuple[str, ...]:
        return ()


@dataclasses.dataclass(frozen=True)
class NodeCase(Case):
    node: str

    @property
    def nodes(self) -> tuple[str, ...]:
        return (self.node,)

    @property
    def parts(self) -> tuple[str, ...]:
        return (self.node,)


@dataclasses.dataclass(frozen=True)
class GroupCase(Case):
    """A collective over nodes, with the transport that it is to take."""

    operation: str
    transport: Transport
    members: tuple[str, ...]

    @property
    def nodes(self) -> tuple[str, ...]:
        return self.members

    @property
    def kind(self) -> str:
        return f"{self.operation} {self.transport}"

    @property
    def parts(self) -> tuple[str, ...]:
        return self.operation, self.transport, hostlist.fold(self.members)


@dataclasses.dataclass(frozen=True)
class PairCase(Case):
    """A server on one node and a client on another: data goes from client to server."""

    server: str
    client: str

    @property
    def nodes(self) -> tuple[str, ...]:
        return self.server, self.client

    @property
    def ends(self) -> tuple[str, str, str]:
        """By which a case of the same pair is made: its partition, server and client."""
        return self.partition, self.server, self.client

    @property
    def parts(self) -> tuple[str, ...]:
        return self.server, self.client


@dataclasses.dataclass(frozen=True)
class RailCase(PairCase):
    """Over one rail of each, by their numbers."""

    server_rail: int
    client_rail: int

    @property
    def rails(self) -> str:
        """The server's and the client's: `0-1`."""
        return f"{self.server_rail}-{self.client_rail}"

    @property
    def kind(self) -> str:
        return self.rails

    @property
    def parts(self) -> tuple[str, ...]:
        return *super().parts, self.rails


@dataclasses.dataclass(frozen=True)
class SettingCase(PairCase):
    """With a setting of the system's description, by its name."""

    setting: str

    @property
    def parts(self) -> tuple[str, ...]:
        return *super().parts, self.setting


@dataclasses.dataclass(frozen=True)
class NicCase(PairCase):
    """Over some logical NICs at the same time, each to its peer, with a setting."""

    nics: tuple[str, ...]
    setting: str

    @property
    def parts(self) -> tuple[str, ...]:
        return *super().parts, "+".join(self.nics), self.setting


@dataclasses.dataclass(frozen=True)
class WanCase(PairCase):
    """Over a way of this round trip; without a window the kernel's own choice."""

    round_trip_ms: float
    window_bytes: int | None
    congestion: str

    @property
    def parts(self) -> tuple[str, ...]:
        window = str(self.window_bytes or "default")
        return *super().parts, f"{self.round_trip_ms:g}ms", window, self.congestion


@dataclasses.dataclass(frozen=True)
class TransferCase(PairCase):
    """A set of files, by its name, that the receiver may throw away; none for a mere stream.

    Over the path as it is, or over a way of this round trip.
    """

    file_set: str | None
    discarded: bool
    round_trip_ms: float | None

    @property
    def kind(self) -> str:
        return " ".join(self.parts[2:])

    @property
    def parts(self) -> tuple[str, ...]:
        files = [self.file_set + (DISCARDED if self.discarded else "")] if self.file_set else []
        way = LAN if self.round_trip_ms is None else f"{self.round_trip_ms:g}ms"
        return *super().parts, *files, way
