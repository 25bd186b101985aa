"""The preflight of a node's path, and how other checks depend on it."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import reframe.core.runtime as rt

from railgauge import paths
from railgauge.campaign import variables
from railgauge.checks.framework import minimum_bounds
from railgauge.checks.framework.cases import Case, Cases, NodeCase, chosen_nodes
from railgauge.checks.framework.observation import Observation
from railgauge.checks.jobs.sweep import SweepCheck
from railgauge.checks.preflight import link_state
from railgauge.model.failure import Failure
from railgauge.model.measurement import Measurement
from railgauge.model.references import Reference
from railgauge.systems import Extras, Partition
from railgauge.tools import ParseError, Reading

#: The concrete check in reframe/, by whose name others depend on it.
NAME = "Path"


class NodeCases(Cases[NodeCase]):
    """The nodes of the session."""

    always = True

    def on(self, partition: Partition) -> Iterable[NodeCase]:
        return [NodeCase(partition.name, node) for node in chosen_nodes(partition.nodes)]

    def node_counts(self, partition: Partition) -> Sequence[int]:
        return (1,)


class PathCases(NodeCases):
    """The nodes that have rails or a bond, whatever the features are."""

    def on(self, partition: Partition) -> Iterable[NodeCase]:
        return [] if self.lacks_description(partition) else super().on(partition)

    def lacks_description(self, partition: Partition) -> str:
        if partition.extras.rdma or partition.extras.bond:
            return ""
        return "looks at extras.rdma and extras.bond, and there is neither"


#: By what other checks know of a place of a preflight: its case's unique name, and its own.
Known = Mapping[Hashable, tuple[str, str]]


def known_places(
    check: str, cases: Callable[[], Cases[Any]], key: Callable[[Any], Hashable]
) -> Known:
    """The places of a preflight in this session, which the other checks need, by their `key`."""
    system = rt.runtime().system.name
    chosen = (variables.NODES, variables.SCHEDULE, variables.SEED)
    told = tuple(os.environ.get(name) for name in chosen)
    return _known_places(check, cases, key, system, told, paths.SYSTEMS)


@functools.cache
def _known_places(
    check: str,
    cases: Callable[[], Cases[Any]],
    key: Callable[[Any], Hashable],
    system: str,
    variables: tuple[str | None, ...],
    folder: Path,
) -> Known:
    """The same by its key: the system, the session's variables, and the systems' folder."""
    sweeps = cases().sweeps
    return {
        key(place): (numbered(check, number, len(sweeps)), place.place)
        for number, sweep in enumerate(sweeps)
        for place in sweep.places
    }


def numbered(check: str, number: int, count: int) -> str:
    """The unique name of a check's case, as ReFrame's RegressionTestMeta.variant_name numbers the
    values of its only parameter.
    """
    return check if count == 1 else f"{check}_{number:0{len(str(count))}}"


def of_paths(place: Case) -> list[tuple[str, str]]:
    """The preflights of the paths of a place's nodes, as far as they have one.

    What a single pair measures does not wait for NodeState: whether a wrong setting costs anything,
    the numbers tell. NCCL, which takes many nodes for minutes, does.
    """
    return of_nodes(NAME, PathCases, place)


def of_nodes(check: str, cases: type[NodeCases], place: Case) -> list[tuple[str, str]]:
    """The places of a preflight of nodes that are those of another check's place."""
    return nodes_in(known_places(check, cases, NODE), place)


def nodes_in(known: Known, place: Case) -> list[tuple[str, str]]:
    """The places of a place's nodes, by NODE."""
    wanted = [(place.partition, node) for node in place.nodes]
    return [known[key] for key in wanted if key in known]


NODE = attrgetter("partition", "node")


class NodeCheck(SweepCheck):
    """A small program on every node, judged by what the system's description says of it.

    A kind of check gives its `command()`.
    """

    here: NodeCase
    program = "single_node"
    #: longest time that the program may take
    run_limit_s = 60

    @classmethod
    def unstated(cls, extras: Extras) -> Sequence[str]:
        return ()

    def command(self) -> Mapping[str, Any]:
        """The order for `railgauge.node.runners.single_node`: argv, version, result, files."""
        raise NotImplementedError

    def roles(self) -> Mapping[str, str]:
        return {"node": self.here.node}

    def order(self) -> Mapping[str, Any]:
        return {"run_limit_s": self.run_limit_s, **self.command()}

    def expected_run_s(self) -> float:
        return 1

    def longest_run_s(self) -> float:
        return self.run_limit_s + 20


class PathCheck(NodeCheck):
    """Are a node's rails and its bond in the state that they should be in?

    The concrete check gives its own `cases = PathCases()`.
    """

    tool = link_state
    metrics = ["links"]

    @property
    def options(self) -> link_state.Options:
        extras = self.partition_data.extras
        absent = extras.absent_devices(self.here.node)
        return link_state.Options(rdma=extras.rdma, bond=extras.bond, absent=absent)

    def command(self) -> Mapping[str, Any]:
        return {
            "argv": link_state.argv(json.dumps(self.options.orders())),
            "version": link_state.version_argv(),
        }

    def read(self) -> Observation:
        line = self.exit_line("rank0")
        calls = [line.call] if line else []
        try:
            document = link_state.parse(self.text("rank0.out"))
        except ParseError as error:
            return Observation(Reading.refused(str(error)), calls)
        node = self.here.node
        return Observation(
            link_state.read(document, calls, self.options),
            calls,
            {node: document},
            [
                Failure("path", f"{node}: {difference}", (node,), difference.mend)
                for difference in link_state.differences(document, self.options)
            ],
        )

    def own_reference(self, measurement: Measurement) -> Reference:
        """The expected number of rails and bonded links, no more and no less."""
        bond = self.partition_data.extras.bond
        count = len(self.options.rails) + len(bond.links if bond else ())
        file = f"configs/systems/{self.current_system.name}/reframe.yaml"
        return minimum_bounds.of_count(measurement, count, file)
