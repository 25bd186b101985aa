"""The orders of a sweep's places: what the two nodes of a pair run, or one node by itself.

Checks make them, `orchestration/sweep_file.py` writes them into `sweep.json` and reads them on the
nodes, and the programs of `node/runners/` follow them.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Generic, Optional, TypeVar

from railgauge.node.orders.codec import Order


@dataclasses.dataclass(frozen=True)
class RailOrder(Order):
    """The RDMA device that each side uses: which of the node's rails, and how rails are found."""

    #: a regular expression that the whole name of a device matches
    devices: str
    #: the device of each rail; () where rails follow from the order of the names
    names: tuple[str, ...]
    #: the number of rails of a node
    count: int
    #: the type of the GID to look up; None where none is needed (InfiniBand)
    gid_type: Optional[str]
    #: whether the two sides meet by rdma_cm
    connection_manager: bool
    #: side -> number of its rail
    rails: Mapping[str, int]


@dataclasses.dataclass(frozen=True)
class LinkOrder(Order):
    """One of several links that a tool uses at the same time: a rail, or a TCP interface."""

    rdma: Optional[RailOrder] = None
    interface: Optional[str] = None


@dataclasses.dataclass(frozen=True)
class WanOrder(Order):
    """A long round trip that the sides emulate while the tool runs."""

    #: command lines; {device}, {one_way_ms}, {round_trip_ms} and {reorder_percent} are filled in
    set: tuple[str, ...]
    clear: tuple[str, ...]
    #: both, server or client
    ends: str
    round_trip_ms: float
    reorder_percent: float


@dataclasses.dataclass(frozen=True)
class HypervisorOrder(Order):
    """The CPUs of the machine below a virtual node that its load runs on."""

    host: str
    #: these CPUs, or all `but` those; neither where the load is started by the other side
    cpus: Optional[str] = None
    but: Optional[str] = None
    by_other: bool = False
    #: the virtual CPUs near the NIC, where the system's description has them
    near: Optional[str] = None


@dataclasses.dataclass(frozen=True)
class CpuLoadOrder(Order):
    """The state of the hosts during the test (runners/cpu_load.py)."""

    #: idle, busy, beside or far
    state: str
    #: CPUs that the tool may use
    cores: int
    #: argv of the stressors, and the seconds after which they end by themselves
    program: tuple[str, ...]
    at_most_s: float
    #: side -> its hypervisor, for virtual nodes
    on: Mapping[str, HypervisorOrder]


@dataclasses.dataclass(frozen=True)
class TransferOrder(Order):
    """A set of files that one side sends (runners/file_transfer.py)."""

    #: what runs in the server's place: ssh, ftp or wdt
    by: str
    #: the side that sends
    sender: str
    files: int
    file_bytes: int
    #: the folder of a node below which each side makes its own
    scratch: str
    #: where the files are in the end; None where the receiver discards them
    arrives: Optional[str]
    #: seconds to make the files, or to verify them
    prepare_limit_s: float
    #: side -> path -> text of a file that the tool reads
    configuration: Mapping[str, Mapping[str, str]]
    #: for a stand-in of a rehearsal: the document that it reads
    replay: Optional[Mapping[str, Any]] = None


@dataclasses.dataclass(frozen=True)
class ClientServerOrder(Order):
    """A tool with a server and a client (runners/client_server.py, runners/file_transfer.py).

    Limits are in seconds. {server}, {port}, {own_address}, {device}, {ib_port} and {gid_index} are
    filled in the argv of server and client.
    """

    start_limit_s: float
    run_limit_s: float
    #: regular expressions of counters that a check has a budget for
    budgets: tuple[str, ...]
    server: tuple[str, ...]
    client: tuple[str, ...]
    #: argv that prints the tool's version; () where its output has it
    version: tuple[str, ...]
    rdma: Optional[RailOrder] = None
    interface: Optional[str] = None
    #: links that the tool uses at the same time, in the place of `rdma` and `interface`
    links: tuple[LinkOrder, ...] = ()
    wan: Optional[WanOrder] = None
    #: the client measures the round trip, and pings again while it is above this, in ms
    round_trip_most_ms: Optional[float] = None
    #: a regular expression: a run that printed it is repeated once (runners/repeat.py)
    unmeasured: Optional[str] = None
    #: an option of the tool, without which in its --help a side starts nothing; "" for none
    option: str = ""
    #: side -> programs that it needs; the first is the tool itself
    programs: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    #: folders to look for them in before PATH
    path: tuple[str, ...] = ()
    contention: Optional[CpuLoadOrder] = None
    transfer: Optional[TransferOrder] = None
    #: a payload rate in Gb/s: below it the other direction is measured too (runners/reverse.py)
    least_gbits: Optional[float] = None
    #: segments sent again above which a pair is bad
    most_resent: Optional[float] = None

    def argv_of(self, role: str) -> tuple[str, ...]:
        return self.server if role == "server" else self.client

    def programs_of(self, role: str) -> tuple[str, ...]:
        return self.programs.get(role, ())


@dataclasses.dataclass(frozen=True)
class SingleNodeOrder(Order):
    """A program on one node (runners/single_node.py). {scratch} is filled in its argv."""

    run_limit_s: float
    argv: tuple[str, ...]
    #: argv that prints the tool's version; () where its output has it
    version: tuple[str, ...]
    #: the name of the JSON file that the program leaves in {scratch}
    result: Optional[str] = None
    #: folders to look for the program in before PATH
    path: tuple[str, ...] = ()

    def argv_of(self, role: str) -> tuple[str, ...]:
        return self.argv

    def programs_of(self, role: str) -> tuple[str, ...]:
        return ()


OrderOfPlace = TypeVar("OrderOfPlace", ClientServerOrder, SingleNodeOrder)


@dataclasses.dataclass(frozen=True)
class PlaceOrder(Generic[OrderOfPlace]):
    """The order of one place with its nodes: all that a side needs."""

    tool: str
    #: node -> its other names
    names: Mapping[str, tuple[str, ...]]
    #: role -> node
    hosts: Mapping[str, str]
    order: OrderOfPlace
