"""The journals of gate runs and of rolling updates: what broke off goes on from them.

A journal that cannot be read concerns the nodes of its own run; `lost` lists such. Only a person
knows on which nodes a rolling update without a journal is being written: until then all nodes that
may be among them count as in update.
"""

from __future__ import annotations

import dataclasses
import datetime
import getpass
import os
import secrets
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

import pydantic

from railgauge import hostlist
from railgauge.cluster import journals, store
from railgauge.cluster.journals import Journals
from railgauge.slurm.nodes import OUR_RESERVATIONS, OURS, UNTESTED, SlurmNode

#: The beginning of a node's reason from before its update starts until it is known to be done.
UPDATE = "update"
#: Its reason then, until it is tested.
UPDATED = "updated, to be tested"


def new_id() -> str:
    moment = datetime.datetime.now(datetime.timezone.utc)
    return f"{moment:%Y%m%dT%H%M%SZ}_{secrets.token_hex(2)}"


def me() -> str:
    return f"{getpass.getuser()} on {socket.gethostname()}, process {os.getpid()}"


@dataclasses.dataclass
class Run:
    """The journal of a gate run.

    `nodes` are to be tested, `partners` are healthy nodes borrowed for it. `campaigns` are the ids
    of its campaigns, one for each round, `judged` those that have decided something. `decided` has
    for every decided node why it stays out, "" for one that may return.
    """

    id: str
    system: str
    nodes: list[str]
    partners: list[str]
    started: str
    by: str
    campaigns: list[str] = dataclasses.field(default_factory=list)
    judged: list[str] = dataclasses.field(default_factory=list)
    decided: dict[str, str] = dataclasses.field(default_factory=dict)
    #: nodes that were accepted before the run broke off, and are to be looked at before they return
    doubted: list[str] = dataclasses.field(default_factory=list)
    #: accepted nodes with their inventory recorded: a user may have adopted them again since
    recorded: list[str] = dataclasses.field(default_factory=list)
    #: partners that turned out to be at fault themselves
    bad_partners: list[str] = dataclasses.field(default_factory=list)
    #: nodes that lost their reservation in the middle: decided without a test
    lost: list[str] = dataclasses.field(default_factory=list)
    #: options for ReFrame: how often all is measured
    options: list[str] = dataclasses.field(default_factory=list)
    #: whether an operator allowed to test nodes in reservations of others, too
    despite_reservations: bool = False
    #: accepted node -> why Slurm starts no job on it after all
    outside: dict[str, str] = dataclasses.field(default_factory=dict)
    #: whether its nodes come back from repair, after which they should be as their peers
    repaired: bool = False
    #: resumed node -> the reason with which it had been drained
    reasons: dict[str, str] = dataclasses.field(default_factory=dict)
    #: why it measured nothing and left everything as it was; "" where it did not
    undone: str = ""
    step: str = "planned"
    ended: str | None = None

    @property
    def reservation(self) -> str:
        """The reservation of its jobs, on its nodes and partners; it ends soon after the run."""
        return f"{OUR_RESERVATIONS}{self.id}"

    @property
    def untested(self) -> str:
        """The reservation of its nodes alone, without an end."""
        return f"{self.reservation}{UNTESTED}"

    @property
    def open_nodes(self) -> list[str]:
        """The nodes that no round has decided yet."""
        return [node for node in self.nodes if node not in self.decided]

    @property
    def kept_out(self) -> list[str]:
        """The nodes that take no user's jobs afterwards."""
        return [node for node, why in self.decided.items() if why or node in self.outside]

    def save(self) -> None:
        _RUNS.save(self)


@dataclasses.dataclass(frozen=True)
class Update:
    """The process that installs an update. Its id alone would not identify it: the id may be used
    again, or belong to another boot of the machine.
    """

    host: str
    boot_id: str
    pid: int
    #: field 22 of /proc/PID/stat (proc(5))
    start_ticks: int
    started: str
    command: str


#: take: the batch is being drained; update: its update was started; test: it has ended well.
Phase = Literal["take", "update", "test"]


@dataclasses.dataclass
class Roll:
    """The journal of a rolling update.

    `waiting` are the nodes of batches that have not begun, `batch` those of the present one, the
    `number`-th. `update` is the process that installs it, `run` the gate run that tests it.
    """

    id: str
    system: str
    command: str
    size: int
    wait_s: float
    nodes: list[str]
    waiting: list[str]
    started: str
    by: str
    despite_reservations: bool = False
    batch: list[str] = dataclasses.field(default_factory=list)
    number: int = 0
    phase: Phase = "take"
    update: Update | None = None
    run: str | None = None
    #: what operators have declared of nodes in an update
    words: list[str] = dataclasses.field(default_factory=list)
    ended: str | None = None

    def save(self) -> None:
        _ROLLS.save(self)

    @property
    def end_file(self) -> Path:
        """The file in which the batch's update leaves how it ended."""
        return store.folder(self.system) / "rolls" / f"{self.id}.{self.number}.end"

    @property
    def log_file(self) -> Path:
        """The file of what the batch's update prints."""
        return store.folder(self.system) / "rolls" / f"{self.id}.{self.number}.log"


_RUNS = Journals("runs", pydantic.TypeAdapter(Run))
_ROLLS = Journals("rolls", pydantic.TypeAdapter(Roll))


class _Extent(pydantic.BaseModel, defer_build=True):
    """What a damaged journal may still say of its rolling update."""

    nodes: tuple[str, ...]
    ended: str | None


@dataclasses.dataclass(frozen=True)
class Lost(journals.Lost):
    """A journal of a gate run or of a rolling update that cannot be read."""

    @property
    def nodes(self) -> tuple[str, ...] | None:
        """The nodes on which its rolling update may be written: none of one that has ended, None
        where it does not say.
        """
        try:
            extent = _Extent.model_validate_json(self.content)
        except pydantic.ValidationError:
            return None
        return extent.nodes if extent.ended is None else ()

    @property
    def next_step(self) -> str:
        if not self.damaged:
            return f"ls -l {self.path}; then the same command again"
        if self.path.parent.name == "runs" or self.nodes == ():
            return "railgauge gate run --act"
        return (
            "once you know on which nodes its update was installed, and that it is done: railgauge "
            "gate update-done --no-more --nodes THEM --act; where on none, without --nodes"
        )

    @property
    def reservations(self) -> tuple[str, str]:
        """Those of the gate run, if it is one's: of its untested nodes, and of its jobs."""
        name = f"{OUR_RESERVATIONS}{self.path.stem}"
        return f"{name}{UNTESTED}", name


def runs(system: str) -> list[Run]:
    """All gate runs of a system that can be read, oldest first."""
    return _RUNS.read(system)[0]


def lost(system: str) -> list[Lost]:
    """The journals that cannot be read."""
    return [Lost(**vars(one)) for one in (*_RUNS.read(system)[1], *_ROLLS.read(system)[1])]


def lost_rolls(system: str) -> list[Lost]:
    """The journals of rolling updates that cannot be read, and do not say that they have ended."""
    every = [Lost(**vars(one)) for one in _ROLLS.read(system)[1]]
    return [one for one in every if one.nodes != ()]


def unended(system: str) -> Run | None:
    """The run that broke off, if one did. There is one at a time."""
    return next((run for run in runs(system) if run.ended is None), None)


def rolling(system: str) -> Roll | None:
    """The rolling update that has not come to its end, if there is one."""
    return next((roll for roll in _ROLLS.read(system)[0] if roll.ended is None), None)


def in_update(system: str, states: Mapping[str, SlurmNode]) -> dict[str, str]:
    """The nodes on which an update may still be written, and what is known of it.

    By the journal or by the node's own reason: one of them is enough. An update may restart its
    node, after which Slurm has it in service again; so a batch counts until its gate run has a
    journal. A journal that cannot be read rules it out of
    no node that may be its own, of `states` all where it names none.
    """
    roll = rolling(system)
    updating = {}
    if roll is not None and (roll.phase != "test" or run_of(system, roll.run) is None):
        updating = dict.fromkeys(roll.batch, f"in rolling update {roll.id}")
    for name, node in states.items():
        words = node.reason.removeprefix(OURS)
        if node.drained_by_us and words.split()[:1] in ([UPDATE], [f"{UPDATE},"]):
            updating.setdefault(name, f"drained for an update: {words}")
    for lost in lost_rolls(system):
        for name in states if lost.nodes is None else lost.nodes:
            updating.setdefault(name, f"not known whether it is in an update: {lost.words}")
    return updating


def once_done(system: str, nodes: Iterable[str]) -> str:
    """What to type of nodes in an update, once a person knows that it is done."""
    for lost in lost_rolls(system):
        return f"railgauge gate status; {lost.next_step}"
    return (
        "railgauge gate status; a process that runs is waited for by railgauge gate run --act; "
        "once you know that it is done: railgauge gate update-done "
        f"--nodes {hostlist.fold(nodes)} --act"
    )


def run_of(system: str, identifier: str | None) -> Run | None:
    """The gate run of that id; None where it has no journal that can be read."""
    return next((run for run in runs(system) if run.id == identifier), None)
