"""The preflight of a node's rails and bond, and which checks wait for it."""

from __future__ import annotations

import json
from collections.abc import Iterable

from railgauge.checks.framework import minimum_bounds
from railgauge.checks.framework.cases import Case, NodeCase
from railgauge.checks.framework.observation import Observation
from railgauge.checks.jobs.single_node import NodeCases, NodeCheck, of_nodes
from railgauge.checks.preflight import link_state
from railgauge.model.failure import Failure
from railgauge.model.measurement import Measurement
from railgauge.model.references import Reference
from railgauge.systems import Partition
from railgauge.tools import ParseError, Reading

#: The concrete check in reframe/, by whose name others depend on it.
NAME = "Path"


class PathCases(NodeCases):
    """The nodes that have rails or a bond, whatever the features are."""

    def on(self, partition: Partition) -> Iterable[NodeCase]:
        return [] if self.lacks_description(partition) else super().on(partition)

    def lacks_description(self, partition: Partition) -> str:
        if partition.extras.rdma or partition.extras.bond:
            return ""
        return "looks at extras.rdma and extras.bond, and there is neither"


def of_paths(place: Case) -> list[tuple[str, str]]:
    """The preflights of the paths of a place's nodes, as far as they have one.

    What a single pair measures does not wait for NodeState: whether a wrong setting costs anything,
    the numbers tell. NCCL, which takes many nodes for minutes, does.
    """
    return of_nodes(NAME, PathCases, place)


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

    def command(self) -> list[str]:
        return link_state.argv(json.dumps(self.options.orders()))

    def read(self) -> Observation:
        line = self.exit_line("rank0")
        calls = [line.call] if line else []
        try:
            document = link_state.parse(self.text("rank0.out"))
        except ParseError as error:
            return Observation(Reading.invalid(str(error)), calls)
        node = self.here.node
        return Observation(
            link_state.read(document, calls, self.options),
            calls,
            {node: document},
            [
                Failure("path", f"{node}: {difference}", (node,), difference.fix)
                for difference in link_state.differences(document, self.options)
            ],
        )

    def own_reference(self, measurement: Measurement) -> Reference:
        """The expected number of rails and bonded links, no more and no less."""
        bond = self.partition_data.extras.bond
        count = len(self.options.rails) + len(bond.links if bond else ())
        file = f"configs/systems/{self.current_system.name}/reframe.yaml"
        return minimum_bounds.of_count(measurement, count, file)
