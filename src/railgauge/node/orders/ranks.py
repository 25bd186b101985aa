"""The orders of programs that run on every rank of a job, one job at a time or many launches."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Optional

from railgauge.node.orders.codec import Order
from railgauge.node.orders.places import ClientServerOrder, PlaceOrder


@dataclasses.dataclass(frozen=True)
class WatchOrder(Order):
    """The counters that the first rank of each node reads: RDMA devices, or interfaces."""

    #: a stand-in moves nothing, and the rank reads no counter
    simulated: bool = False
    devices: tuple[str, ...] = ()
    #: as NCCL_SOCKET_IFNAME has it; used where there are no devices
    interfaces: str = ""
    #: regular expressions of counters that a check has a budget for
    budgets: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class RanksOrder(Order):
    """The program that every rank runs (runners/mpi_ranks.py). {rank} and {scratch}, a folder of
    its own, are filled in its argv and environment.
    """

    #: the launcher's variable with the number of a rank
    rank_variable: str
    tool: str
    argv: tuple[str, ...]
    #: argv that prints the tool's version; () where its output has it
    version: tuple[str, ...]
    run_limit_s: float
    #: further programs that it needs
    programs: tuple[str, ...] = ()
    #: beginnings of variables that the program does not inherit
    foreign: tuple[str, ...] = ()
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    #: node -> variables that differ there
    environment_on: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)
    #: argv that asks a hung job for its state
    on_hang: tuple[str, ...] = ()
    #: endings of the files that a rank leaves next to its outputs
    logs: tuple[str, ...] = ()
    watched: Optional[WatchOrder] = None
    #: the name of the JSON file that rank 0 leaves in {scratch}
    result: Optional[str] = None


@dataclasses.dataclass(frozen=True)
class ProgramOrder(Order):
    """An MPI program of its own, next to a transfer."""

    tool: str
    argv: tuple[str, ...]
    version: tuple[str, ...]
    run_limit_s: float


@dataclasses.dataclass(frozen=True)
class MpiUnderLoadOrder(Order):
    """A transfer between two nodes, and the MPI program to time (runners/mpi_under_load.py)."""

    rank_variable: str
    tool: str
    #: node -> its other names
    names: Mapping[str, tuple[str, ...]]
    #: role -> node
    hosts: Mapping[str, str]
    order: ClientServerOrder
    mpi: ProgramOrder

    @property
    def place(self) -> PlaceOrder[ClientServerOrder]:
        """The transfer's part."""
        return PlaceOrder(self.tool, self.names, self.hosts, self.order)


# --- many launches of a program that all ranks of a group run together (group_launches.py) --------


@dataclasses.dataclass(frozen=True)
class Launcher(Order):
    """How a launch is started: srun or mpirun, with its options; {folder} is filled in."""

    kind: str
    argv: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Group(Order):
    """A place of a list of launches: a group of nodes."""

    name: str
    nodes: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class LaunchRound(Order):
    """Groups of one size that share no node, by their numbers, and the number of their order."""

    places: tuple[int, ...]
    order: int


@dataclasses.dataclass(frozen=True)
class TableOrder(Order):
    """How to read the table that rank 0 of a launch prints: a line `# NAMES OF COLUMNS`, and rows
    that begin with a number, the largest size last.
    """

    #: the name of the column with the number that a launch is judged by
    column: str
    #: the metric of each column of that name, from the left
    metrics: tuple[str, ...]
    #: the name of the columns that count wrong values
    wrong: str
    #: a text that follows a complete table without wrong values
    end: str


@dataclasses.dataclass(frozen=True)
class LaunchOrder(Order):
    """How the groups of a round are launched, and which numbers are good."""

    ranks: RanksOrder
    #: None where exit codes alone judge a launch
    table: Optional[TableOrder]
    #: name -> JSON document that is written into the folder of a launch
    files: Mapping[str, Any]
    #: variables by which one launch has several groups, {ranks} of each; None where it cannot
    together: Optional[Mapping[str, str]]
    #: metric -> least good value; where none is known, `spread` and `least` bound it
    bounds: Mapping[str, float]
    least: Mapping[str, float]
    #: the share by which comparable groups differ
    spread: float
    #: of a good launch
    expected_s: float
    #: of the ranks of halves, and of all launches once one has hung
    short_limit_s: float


@dataclasses.dataclass(frozen=True)
class LaunchList(Order):
    """All launches of a job (`sweep.json`)."""

    tool: str
    nodes: tuple[str, ...]
    ranks_per_node: int
    #: seconds from the begin on; no launch begins that could not end before it
    deadline_s: float
    launcher: Launcher
    #: argv of every rank, before the name of its orders
    program: tuple[str, ...]
    rounds: tuple[LaunchRound, ...]
    places: tuple[Group, ...]
    orders: tuple[LaunchOrder, ...]
