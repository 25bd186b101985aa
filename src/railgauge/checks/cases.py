"""What a check measures where: its cases, and where they come from.

`str()` of a case is how ReFrame's names have it, and what `-n` selects: parts that colons join,
the partition first. Nothing else reads these names.

A check names the `Cases` that its first parameter takes its values from. They generate the cases of
a session, and tell `railgauge system check`, which has no session, why a partition has none and
which conditions of a stored number no case can be under. Where a check measures many places in one
job its parameter takes the `sweeps` of its cases, each of which is then a place of a `SweepCase`.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar, overload

import reframe.core.runtime as rt
from reframe.core.exceptions import ReframeFatalError

from railgauge import hostlist, systems
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

    @property
    def condition(self) -> tuple[object, ...]:
        """What it measures, without where: places of one round have the same."""
        return ()

    @functools.cached_property
    def place(self) -> str:
        """Its name within its partition."""
        return ":".join(self.parts)

    def __str__(self) -> str:
        return ":".join((self.partition, *self.parts))

    def __deepcopy__(self, memo: object) -> Case:
        """ReFrame copies a check for each of its cases; nothing changes this."""
        return self

    def __rfm_json_encode__(self) -> str:
        """In ReFrame's report and history a case is its name; without this, `null`."""
        return str(self)


class Places(Sequence["Case"]):
    """A tuple of places that ReFrame does not look into: of every check that it loads it asks all
    that it finds in it whether it can be copied.
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
    #: how many places there are without a restriction to some
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

    `again` is the round of those in which pairs are measured again, 0 for one that was planned.
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
    def condition(self) -> tuple[object, ...]:
        return (self.rails,)

    @property
    def parts(self) -> tuple[str, ...]:
        return *super().parts, self.rails


@dataclasses.dataclass(frozen=True)
class StateCase(PairCase):
    """With the hosts in a state."""

    state: HostState

    @property
    def condition(self) -> tuple[object, ...]:
        return (self.state,)

    @property
    def parts(self) -> tuple[str, ...]:
        return *super().parts, self.state


@dataclasses.dataclass(frozen=True)
class RailStateCase(RailCase):
    """Over one rail of each, with the hosts in a state."""

    state: HostState

    @property
    def condition(self) -> tuple[object, ...]:
        return *super().condition, self.state

    @property
    def parts(self) -> tuple[str, ...]:
        return *super().parts, self.state


@dataclasses.dataclass(frozen=True)
class SettingCase(PairCase):
    """With a setting of the system's description, by its name."""

    setting: str

    @property
    def condition(self) -> tuple[object, ...]:
        return (self.setting,)

    @property
    def parts(self) -> tuple[str, ...]:
        return *super().parts, self.setting


@dataclasses.dataclass(frozen=True)
class NicCase(PairCase):
    """Over some logical NICs at the same time, each to its peer, with a setting."""

    nics: tuple[str, ...]
    setting: str

    @property
    def condition(self) -> tuple[object, ...]:
        return self.nics, self.setting

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
    def condition(self) -> tuple[object, ...]:
        return self.round_trip_ms, self.window_bytes, self.congestion

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
    def condition(self) -> tuple[object, ...]:
        return self.file_set, self.discarded, self.round_trip_ms

    @property
    def parts(self) -> tuple[str, ...]:
        files = [self.file_set + (DISCARDED if self.discarded else "")] if self.file_set else []
        way = LAN if self.round_trip_ms is None else f"{self.round_trip_ms:g}ms"
        return *super().parts, *files, way


@dataclasses.dataclass(frozen=True)
class Mismatch:
    """Why no case is under a condition; `by_count` where the system is only too small for it."""

    reason: str
    by_count: bool = False


AnyCase = TypeVar("AnyCase", bound=Case)


class Cases(Generic[AnyCase]):
    """What a check measures on a partition.

    Iterated: the cases of the session's system, on the partitions that have all `features`. Reasons
    are without the check's name: "runs where features has rdma".
    """

    #: whether something of the partition's network is measured, which its features describe
    measures_features = True
    #: whether a partition with more nodes has cases of more nodes
    grows = False
    #: whether they are measured whatever places a session is restricted to: others need them
    always = False
    #: whether a large partition is measured in the groups that `nodes_per_job` makes
    in_groups = True

    def __init__(self, *features: str) -> None:
        self.features = features

    def on(self, partition: Partition) -> Iterable[AnyCase]:
        """The cases on a partition that has the features, as this session is to have them."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[AnyCase]:
        for partition in self._partitions():
            yield from self.on(partition)

    @property
    def sweeps(self) -> Sequence[SweepCase]:
        """The cases of the session's system as places of sweeps: one a partition, or one a group
        of as many nodes as its data allows for a job.
        """
        found = []
        for partition in self._partitions():
            of_jobs = groups(partition) if self.in_groups else [()]
            for nodes in of_jobs:
                name = hostlist.fold(nodes) if len(of_jobs) > 1 else ""
                places = tuple(self.of_group(partition, nodes) if name else self.on(partition))
                chosen = places if self.always else _chosen_places(places)
                if chosen:
                    found.append(SweepCase(partition.name, Places(chosen), name, len(places)))
        return found

    def of_group(self, partition: Partition, nodes: tuple[str, ...]) -> Iterable[AnyCase]:
        """The cases among some of the session's nodes, which have a job of their own."""
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
        """What its extras do not say, or not as it must be; "" where they do."""
        return ""

    def lacks_nodes(self, partition: Partition) -> str:
        """What it needs that a larger partition would have; "" where this one has it."""
        return ""

    def is_described(self, partition: Partition) -> bool:
        """Whether there are cases, as far as features and extras say."""
        return not (self._lacks_features(partition) or self.lacks_description(partition))

    def would_grow(self, partition: Partition) -> bool:
        """Whether a partition that has no case would have one with more nodes."""
        return not self._lacks_features(partition) and bool(self.lacks_nodes(partition))

    def leaves_out(self, partition: Partition) -> str:
        """Which nodes, or acceptances, have no result of it; "" where each has one."""
        return ""

    def node_counts(self, partition: Partition) -> Sequence[int]:
        """How many nodes a case may have."""
        raise NotImplementedError

    def values(self, partition: Partition) -> Mapping[str, Sequence[object]]:
        """What parts of the condition may be here; a part that is not named may be anything."""
        return {}

    #: where `values` come from: "one that extras.wan has"
    described = ""

    def mismatch(self, condition: Condition, partition: Partition, gates: bool) -> Mismatch | None:
        """Why none of the cases that a partition has is under the condition; None where one is.

        `gates` is false of numbers that are only looked at.
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


#: Restricts a session to some nodes, as a host list: `railgauge accept --nodes`.
NODES_VARIABLE = "RAILGAUGE_NODES"


def chosen_nodes(nodes: tuple[str, ...]) -> tuple[str, ...]:
    """Those of a partition's nodes that this session is about."""
    wanted = os.environ.get(NODES_VARIABLE)
    return tuple(n for n in nodes if n in _expanded(wanted)) if wanted else nodes


#: Restricts a session to some places, by a regular expression: `railgauge accept --places`.
PLACES_VARIABLE = "RAILGAUGE_PLACES"


def _chosen_places(places: tuple[AnyCase, ...]) -> tuple[AnyCase, ...]:
    wanted = os.environ.get(PLACES_VARIABLE)
    return tuple(p for p in places if re.search(wanted, p.place)) if wanted else places


@functools.cache
def _expanded(wanted: str) -> frozenset[str]:
    return frozenset(hostlist.expand(wanted))


def groups(partition: Partition) -> list[tuple[str, ...]]:
    """The session's nodes of a partition, as many together as a job of a sweep may have."""
    nodes = chosen_nodes(partition.nodes)
    most = partition.extras.sweep.nodes_per_job
    if most is None or len(nodes) <= most:
        return [nodes]
    # As equal as may be: a group of one node has no pairs.
    count = -(-len(nodes) // most)
    ends = [round(len(nodes) * number / count) for number in range(count + 1)]
    return [nodes[first:last] for first, last in itertools.pairwise(ends)]


def _session_partitions() -> Sequence[Partition]:
    try:
        system = rt.runtime().system.name
    except ReframeFatalError:
        # No session: a check's declaration is read, and nothing is to be run.
        return ()
    return systems.load(system).partitions


def from_to(counts: Sequence[int]) -> str:
    """`3 to 8`, `2`, or `none`."""
    if not counts:
        return "none"
    return f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def mismatch_of_settings(
    condition: Condition, field: str, settings: Mapping[str, Tcp]
) -> Mismatch | None:
    """Why none of the settings of extras.`field` is what the condition states."""
    stated = {part: v for part, v in condition.stated.items() if part in Tcp.model_fields}
    if any(all(getattr(s, part) == v for part, v in stated.items()) for s in settings.values()):
        return None
    wrong = ", ".join(f"{part} {value}" for part, value in stated.items())
    known = "; ".join(
        f"{name}: " + ", ".join(f"{part} {value}" for part, value in setting)
        for name, setting in settings.items()
    )
    return Mismatch(f"{wrong}, expected one that extras.{field}.settings has: {known}")
