"""What the log of one rank says."""

from __future__ import annotations

import dataclasses
from typing import Literal, NamedTuple

Side = Literal["send", "receive", ""]


@dataclasses.dataclass(frozen=True)
class Connection:
    """One direction between two ranks, as the log of one of them has it.

    P2P and shared memory are logged by the sender only, networks by both ends: `side` says which.
    `device` is NCCL's number of the NIC at that end; `proxy_rank` is the rank that sends through
    its own NIC on behalf of this one (PXN).
    """

    channel: int
    from_rank: int
    to_rank: int
    #: as NCCL prints it: "P2P/CUMEM/read", "SHM/direct/direct", "NET/IB/3(5)/GDRDMA/Shared"
    path: str
    #: "P2P", "SHM", "NET/IB", "NET/IB/GDRDMA", "NET/Socket", "NET/<plugin>"[/GDRDMA]; NVIDIA's
    #: plugin for InfiniBand and RoCE is "NET/IB" as well, see `is_ib`
    kind: str
    device: int | None = None
    #: several connections may share a channel (0 collectives, 1 send and receive)
    index: int = 0
    side: Side = ""
    proxy_rank: int | None = None

    @property
    def network(self) -> str | None:
        """The network's own name ("IBext_v8"), None for P2P and shared memory."""
        return self.path.split("/")[1] if self.path.startswith("NET/") else None


@dataclasses.dataclass(frozen=True)
class CollNet:
    """A rank's connection to a network that reduces by itself (SHARP). It has no other end.

    Only the ranks that stand for their node have one.
    """

    channel: int
    rank: int
    side: Side
    #: "SHARP", or a plugin's name
    network: str
    device: int
    gdr: bool
    index: int = 0
    kind: str = "COLLNET"


@dataclasses.dataclass(frozen=True)
class Device:
    """The HCAs behind a device number of a network: several where NCCL has merged them."""

    network: str
    number: int
    hcas: tuple[str, ...]


class Seat(NamedTuple):
    """A rank within a communicator."""

    rank: int
    ranks: int


@dataclasses.dataclass(frozen=True)
class Log:
    """What the log of one rank says. Lists are in the log's order, without repetition."""

    #: more than one where ranks or communicators of different sizes share the log
    seats: tuple[Seat, ...] = ()
    #: "2.28.9+cuda13.0"; before 2.28 only rank 0 prints it
    version: str | None = None
    #: from "Using network X": "IB", "Socket", or a plugin's name
    networks: tuple[str, ...] = ()
    devices: tuple[Device, ...] = ()
    connections: tuple[Connection, ...] = ()
    collnets: tuple[CollNet, ...] = ()
    #: lines about a connection that are not understood
    unread: tuple[str, ...] = ()
    #: NVLink SHARP is set up
    nvls: bool = False
    #: the GPUs' memory is shared over NVLink by fabric handles, as between nodes
    mnnvl: bool = False
    #: ranks in this one's NVLink domain; stated only where `mnnvl`
    clique_ranks: int | None = None
    #: NVLink domains, or nodes where `mnnvl` is off
    nodes: int | None = None
    #: "Connected all rings", "Connected all trees": logged when these connections are all made
    connected: tuple[str, ...] = ()
    #: every communicator that was begun is complete
    initialised: bool = False
    #: every communicator that was complete is destroyed: the log is whole
    destroyed: bool = False
    aborted: bool = False
    #: lines with WARN (or ATTN), advice too, without their place in NCCL's sources
    warnings: tuple[str, ...] = ()
    simulated: bool = False

    @property
    def rank(self) -> int | None:
        return self.seats[0].rank if len(self.seats) == 1 else None

    @property
    def ranks(self) -> int | None:
        return self.seats[0].ranks if len(self.seats) == 1 else None

    def names(self, network: str, number: int) -> tuple[str, ...]:
        """The HCAs behind a device number; empty where the log does not name them."""
        for device in self.devices:
            if (device.network, device.number) == (network, number):
                return device.hcas
        return ()
