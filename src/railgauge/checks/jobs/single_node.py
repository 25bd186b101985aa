"""A small program on every node, as a sweep."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from railgauge.checks.framework.cases import Case, Cases, NodeCase, chosen_nodes
from railgauge.checks.framework.dependencies import NODE, known_places, nodes_in
from railgauge.checks.framework.observation import Observation
from railgauge.checks.jobs.sweep import SweepCheck
from railgauge.node.orders.places import SingleNodeOrder
from railgauge.node.runners.single_node import ROLE
from railgauge.systems import Extras, Partition


class NodeCases(Cases[NodeCase]):
    """The nodes of the session."""

    always = True

    def on(self, partition: Partition) -> Iterable[NodeCase]:
        return [NodeCase(partition.name, node) for node in chosen_nodes(partition.nodes)]

    def node_counts(self, partition: Partition) -> Sequence[int]:
        return (1,)


class NodeCheck(SweepCheck):
    """A small program on every node, judged by what the system's description says of it.

    A check gives its `cases`, `tool` and `command()`; its `options` go to the tool's `read()`.
    """

    here: NodeCase
    runner = "single_node"
    #: longest time that the program may take
    run_limit_s = 60
    #: the name of the JSON file that the program leaves in {scratch}; None for none
    result: str | None = None

    @classmethod
    def unstated(cls, extras: Extras) -> Sequence[str]:
        return ()

    def roles(self) -> Mapping[str, str]:
        return {"node": self.here.node}

    def command(self) -> Sequence[str]:
        """The argv of the program; nodes fill in {scratch}, a folder of their own."""
        raise NotImplementedError

    def order(self) -> SingleNodeOrder:
        version = tuple(self.tool.version_argv())
        return SingleNodeOrder(self.run_limit_s, tuple(self.command()), version, self.result)

    def read(self) -> Observation:
        line = self.exit_line(ROLE)
        calls = [line.call] if line else []
        reading = self.tool.read(self.output(ROLE), calls=calls, options=self.options)
        return Observation(reading, calls, {self.here.node: line.facts} if line else {})

    def expected_run_s(self) -> float:
        return 1

    def longest_run_s(self) -> float:
        return self.run_limit_s + 20


def of_nodes(check: str, cases: type[NodeCases], place: Case) -> list[tuple[str, str]]:
    """The places of a preflight of nodes that are those of another check's place."""
    return nodes_in(known_places(check, cases, NODE), place)
