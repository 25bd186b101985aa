"""The cases of checks: what is measured where, and how the cases of a session are made.

`str()` of a case is its part of ReFrame's names, which `-n` selects: parts joined by colons, the
partition first. Nothing else reads these names.

A check names the `Cases` that its first parameter takes its values from. They generate the cases of
a session. Without a session they tell `railgauge system check` why a partition has none, and which
conditions of a stored number no case can have. A check that measures many places in one job takes
the `sweeps` of its cases as parameter: each case is then a place of a `SweepCase`.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar, overload

from railgauge import hostlist, systems
from railgauge.campaign import variables
from railgauge.model.references import Condition
from railgauge.systems import HostState, Partition, Tcp
from railgauge.systems.nccl import Transport
from railgauge.tools.file_transfer import DISCARDED

#: The way of a transfer between neighbours as it is.
LAN = "lan"


@dataclasses.dataclass(frozen=True)
class Case:
    """One case of a check on a partition of the session's system."""

    partition: str

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that the job must run on, in the check's own order."""
        raise NotImplementedError

    @property
    def kind(self) -> str:
        """The thing measured, where a check measures several of the same nodes."""
        return ""

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of its name after the partition."""
        raise NotImplementedError

    @property
    def condition(self) -> tuple[object, ...]:
        """What it measures, without where; places of one round have the same condition."""
        return ()

    @functools.cached_property
    def place(self) -> str:
        """Its name within its partition."""
        return ":".join(self.parts)

    def __str__(self) -> str:
        return ":".join((self.partition, *self.parts))

    def __deepcopy__(self, memo: object) -> Case:
        """Itself, as nothing changes a case; ReFrame copies a check for each of its cases."""
        return self

    def __rfm_json_encode__(self) -> str:
        """Its name, for ReFrame's report and history; without this they have `null`."""
        return str(self)


class Places(Sequence["Case"]):
    """A tuple of places that ReFrame does not look into: it would ask every value within a check
    whether it can be copied.
    """

    __slots__ = ("_places",)

    def __init__(self, places: Iterable[Case]) -> None:
        self._places = tuple(places)

    @overload
    def __getitem__(self, index: int) -> Case: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Case, ...]: ...
    def __getitem__(self, index: int | slice) -> Case | tuple[Case, ...]:
        return self._places[index]

    def __iter__(self) -> Iterator[Case]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


@dataclasses.dataclass(frozen=True)
class SweepCase(Case):
    """Many places in one job: those of a partition, or of a `group` of its nodes."""

    places: Sequence[Case]
    group: str = ""
    #: the number of places without any restriction
    possible: int = 0

    @functools.cached_property
    def nodes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(node for place in self.places for node in place.nodes))

    @property
    def parts(self) -> tuple[str, ...]:
        return (self.group,) if self.group else ()


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
    def condition(self) -> tuple[object, ...]:
        return self.operation, self.transport

    @property
    def parts(self) -> tuple[str, ...]:
        return self.operation, self.transport, hostlist.fold(self.members)


@dataclasses.dataclass(frozen=True)
class ApplicationCase(Case):
    """A program of the system's description, by its name, on some nodes."""

    application: str
    members: tuple[str, ...]

    @property
    def nodes(self) -> tuple[str, ...]:
        return self.members

    @property
    def kind(self) -> str:
        return self.application

    @property
    def condition(self) -> tuple[object, ...]:
        return (self.application,)

    @property
    def parts(self) -> tuple[str, ...]:
        return self.application, hostlist.fold(self.members)


@dataclasses.dataclass(frozen=True)
class PairCase(Case):
    """A server on one node and a client on another: data goes from client to server.

    What a kind of pair has beside its ends is its condition, in the order of the fields.
    `again` numbers the added round in which the pair is measured again; 0 for a planned pair.
    """

    server: str
    client: str
    again: int = dataclasses.field(default=0, kw_only=True)

    @functools.cached_property
    def place(self) -> str:
        name = ":".join(self.parts)
        return f"{name}@{self.again}" if self.again else name

    @property
    def nodes(self) -> tuple[str, ...]:
        return self.server, self.client

    @property
    def ends(self) -> tuple[str, str, str]:
        """Partition, server and client, from which another case of the same pair is made."""
        return self.partition, self.server, self.client

    @property
    def condition(self) -> tuple[object, ...]:
        return self._beside_ends(0)

    def _beside_ends(self, first: int) -> tuple[object, ...]:
        """What it has beside its ends, from the field of that number on."""
        names = _names_beside_ends(type(self), first)  # type: ignore[arg-type] # it has a hash
        return tuple([getattr(self, name) for name in names]) if names else ()

    @property
    def labels(self) -> tuple[str, ...]:
        """Its condition, as the names of places have it."""
        return tuple(map(str, self.condition))

    @property
    def parts(self) -> tuple[str, ...]:
        return self.server, self.client, *self.labels


@functools.cache
def _names_beside_ends(kind: type[PairCase], first: int) -> tuple[str, ...]:
    """The fields that a kind of pair has beside those of every pair, from that number on."""
    of_all = {field.name for field in dataclasses.fields(PairCase)}
    return tuple(f.name for f in dataclasses.fields(kind) if f.name not in of_all)[first:]


@dataclasses.dataclass(frozen=True)
class RailCase(PairCase):
    """A pair over one rail of each node, by their numbers."""

    server_rail: int
    client_rail: int

    @property
    def rails(self) -> str:
        """The server's and the client's rail: `0-1`."""
        return f"{self.server_rail}-{self.client_rail}"

    @property
    def kind(self) -> str:
        return self.rails

    @property
    def condition(self) -> tuple[object, ...]:
        return self.rails, *self.beside_rails

    @property
    def beside_rails(self) -> tuple[object, ...]:
        """Its condition without the two rails."""
        return self._beside_ends(2)


@dataclasses.dataclass(frozen=True)
class StateCase(PairCase):
    """A pair with the hosts in a state."""

    state: HostState


@dataclasses.dataclass(frozen=True)
class RailStateCase(RailCase):
    """A pair over one rail of each node, with the hosts in a state."""

    state: HostState


@dataclasses.dataclass(frozen=True)
class RailUsageCase(RailCase):
    """A pair over one rail of each node, used in one of several ways."""

    usage: str


@dataclasses.dataclass(frozen=True)
class SettingCase(PairCase):
    """A pair with a setting of the system's description, by its name."""

    setting: str


@dataclasses.dataclass(frozen=True)
class NicCase(PairCase):
    """A pair over some logical NICs at the same time, each to its peer, with a setting."""

    nics: tuple[str, ...]
    setting: str

    @property
    def labels(self) -> tuple[str, ...]:
        return "+".join(self.nics), self.setting


@dataclasses.dataclass(frozen=True)
class WanCase(PairCase):
    """A pair over a way of this round trip; without a window the kernel chooses."""

    round_trip_ms: float
    window_bytes: int | None
    congestion: str

    @property
    def labels(self) -> tuple[str, ...]:
        window = str(self.window_bytes or "default")
        return f"{self.round_trip_ms:g}ms", window, self.congestion


@dataclasses.dataclass(frozen=True)
class TransferCase(PairCase):
    """A transfer between a pair: of a set of files, by its name, that the receiver may discard, or
    of a stream (None); over the path as it is (None), or over a way of this round trip.
    """

    file_set: str | None
    discarded: bool
    round_trip_ms: float | None

    @property
    def kind(self) -> str:
        return " ".join(self.labels)

    @property
    def labels(self) -> tuple[str, ...]:
        files = [self.file_set + (DISCARDED if self.discarded else "")] if self.file_set else []
        way = LAN if self.round_trip_ms is None else f"{self.round_trip_ms:g}ms"
        return *files, way


@dataclasses.dataclass(frozen=True)
class Mismatch:
    """Why no case has a condition; `by_count` where the system is only too small for it."""

    reason: str
    by_count: bool = False


@dataclasses.dataclass(frozen=True)
class LeftOut:
    """Why nodes, or whole acceptances, have no result of a check; `field` of the system's data says
    so, where one does: `extras.transfers.series_only`.
    """

    reason: str
    field: str = ""


def left_to_the_series(field: str = "") -> LeftOut:
    """The reason for what only `railgauge accept --series` measures."""
    return LeftOut("railgauge accept --series alone measures that", field)


AnyCase = TypeVar("AnyCase", bound=Case)


class Cases(Generic[AnyCase]):
    """The cases of a check.

    Iteration gives the cases of the session's system, on the partitions that have all `features`.
    Reasons are without the check's name: "runs where features has rdma".
    """

    #: whether the partition's network is measured, which its features describe
    measures_features = True
    #: whether cases of a larger partition have more nodes
    grows = False
    #: whether they are measured in spite of a restriction to other places, which need them
    always = False
    #: whether the system's description alone says what their numbers must be
    by_description = False
    #: whether a large partition is measured in groups of `nodes_per_job` nodes
    in_groups = True

    def __init__(self, *features: str) -> None:
        self.features = features

    def on(self, partition: Partition) -> Iterable[AnyCase]:
        """The cases of this session on a partition that has the features."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[AnyCase]:
        for partition in self._partitions():
            yield from self.on(partition)

    @property
    def sweeps(self) -> Sequence[SweepCase]:
        """The cases of the session's system as places of sweeps: a sweep for each partition, or for
        each group of as many nodes as its data allows for a job.
        """
        sweeps = []
        for partition in self._partitions():
            of_jobs = groups(partition) if self.in_groups else [()]
            for nodes in of_jobs:
                name = hostlist.fold(nodes) if len(of_jobs) > 1 else ""
                places = tuple(self.of_group(partition, nodes) if name else self.on(partition))
                chosen = places if self.always else _chosen_places(places)
                if chosen:
                    sweeps.append(SweepCase(partition.name, Places(chosen), name, len(places)))
        return sweeps

    def of_group(self, partition: Partition, nodes: tuple[str, ...]) -> Iterable[AnyCase]:
        """The cases among the nodes of a group, which has a job of its own."""
        return self.on(partition.of_nodes(nodes))

    def _partitions(self) -> Iterator[Partition]:
        wanted = set(self.features)
        return (p for p in _session_partitions() if wanted <= set(p.features))

    # --- without a session -------------------------------------------------------------------

    def lacks(self, partition: Partition) -> str:
        """Why there is no case on a partition, with all its nodes; "" where there is one."""
        return (
            self._lacks_features(partition)
            or self.lacks_description(partition)
            or self.lacks_nodes(partition)
        )

    def _lacks_features(self, partition: Partition) -> str:
        missing = [f for f in self.features if f not in partition.features]
        return f"runs where features has {', '.join(missing)}" if missing else ""

    def lacks_description(self, partition: Partition) -> str:
        """What its extras lack, or have wrong; "" where they are right."""
        return ""

    def lacks_nodes(self, partition: Partition) -> str:
        """What a larger partition would have and this one lacks; "" for nothing."""
        return ""

    def is_described(self, partition: Partition) -> bool:
        """Whether features and extras allow for cases."""
        return not (self._lacks_features(partition) or self.lacks_description(partition))

    def would_grow(self, partition: Partition) -> bool:
        """Whether a partition without a case would have one if it had more nodes."""
        return not self._lacks_features(partition) and bool(self.lacks_nodes(partition))

    def leaves_out(self, partition: Partition) -> Sequence[LeftOut]:
        """The nodes, or acceptances, without a result of the check; empty where each has one."""
        return ()

    def node_counts(self, partition: Partition) -> Sequence[int]:
        """The numbers of nodes that a case may have."""
        raise NotImplementedError

    def values(self, partition: Partition) -> Mapping[str, Sequence[object]]:
        """Part of the condition -> its possible values here; other parts may have any value."""
        return {}

    #: where `values` come from: "one that extras.wan has"
    described = ""

    def mismatch(self, condition: Condition, partition: Partition, gates: bool) -> Mismatch | None:
        """Why no case of a partition has the condition; None where one has.

        `gates` is false for numbers that are only looked at.
        """
        counts = self.node_counts(partition)
        if isinstance(condition.nodes, int) and condition.nodes not in counts:
            reason = f"nodes is {condition.nodes}, expected {from_to(counts)}"
            return Mismatch(reason, by_count=self.grows)
        for part, values in self.values(partition).items():
            if part in condition.stated and condition.stated[part] not in values:
                known = ", ".join("none" if v is None else str(v) for v in dict.fromkeys(values))
                value = condition.stated[part]
                return Mismatch(f"{part} is {value}, expected {self.described}: {known}")
        return None


def is_series() -> bool:
    """Whether this session measures the extended sets of conditions too."""
    return bool(os.environ.get(variables.SERIES))


def chosen_nodes(nodes: tuple[str, ...]) -> tuple[str, ...]:
    """The nodes of a partition that this session is about."""
    wanted = os.environ.get(variables.NODES)
    return tuple(n for n in nodes if n in _expanded(wanted)) if wanted else nodes


def _chosen_places(places: tuple[AnyCase, ...]) -> tuple[AnyCase, ...]:
    wanted = os.environ.get(variables.PLACES)
    return tuple(p for p in places if re.search(wanted, p.place)) if wanted else places


@functools.cache
def _expanded(wanted: str) -> frozenset[str]:
    return frozenset(hostlist.expand(wanted))


def groups(partition: Partition) -> list[tuple[str, ...]]:
    """The session's nodes of a partition, in groups of as many as a job of a sweep may have."""
    nodes = chosen_nodes(partition.nodes)
    most = partition.extras.sweep.nodes_per_job
    if most is None or len(nodes) <= most:
        return [nodes]
    # As equal as possible: a group of one node has no pairs.
    count = -(-len(nodes) // most)
    ends = [round(len(nodes) * number / count) for number in range(count + 1)]
    return [nodes[first:last] for first, last in itertools.pairwise(ends)]


def _session_partitions() -> Sequence[Partition]:
    # ReFrame takes its time to load, and who lists what a session would measure is none.
    import reframe.core.runtime as rt
    from reframe.core.exceptions import ReframeFatalError

    try:
        system = rt.runtime().system.name
    except ReframeFatalError:
        # Without a session only the check's declaration is read, and nothing runs.
        return ()
    return systems.load(system).partitions


def from_to(counts: Sequence[int]) -> str:
    """A range of counts in words: `3 to 8`, `2`, or `none`."""
    if not counts:
        return "none"
    return f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def mismatch_of_settings(
    condition: Condition, field: str, settings: Mapping[str, Tcp]
) -> Mismatch | None:
    """Why no setting of extras.`field` is the one that the condition states; None where one is."""
    stated = {part: v for part, v in condition.stated.items() if part in Tcp.model_fields}
    if any(all(getattr(s, part) == v for part, v in stated.items()) for s in settings.values()):
        return None
    wrong = ", ".join(f"{part} {value}" for part, value in stated.items())
    known = "; ".join(
        f"{name}: " + ", ".join(f"{part} {value}" for part, value in setting)
        for name, setting in settings.items()
    )
    return Mismatch(f"{wrong}, expected one that extras.{field}.settings has: {known}")
