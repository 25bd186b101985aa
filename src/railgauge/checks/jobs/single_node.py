"""A program on one node: its order, and how it is judged."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any

from railgauge.checks.framework.cases import Case, Cases, NodeCase, chosen_nodes
from railgauge.checks.framework.dependencies import NODE, known_places, nodes_in
from railgauge.checks.framework.observation import Facts, Observation
from railgauge.checks.framework.place_run import BoundBefore
from railgauge.checks.jobs.sweep_run import AgentRun, JobNeeds, SweepPlace
from railgauge.model.call import Call
from railgauge.node.orders.places import SingleNodeOrder
from railgauge.node.runners.single_node import ROLE
from railgauge.systems import Partition


class NodeCases(Cases[NodeCase]):
    """The nodes of the session."""

    always = True
    by_description = True

    def on(self, partition: Partition) -> Iterable[NodeCase]:
        return [NodeCase(partition.name, node) for node in chosen_nodes(partition.nodes)]

    def node_counts(self, partition: Partition) -> Sequence[int]:
        return (1,)


@dataclasses.dataclass(frozen=True, kw_only=True)
class NodeRun(AgentRun):
    """A program on the node of a place."""

    place: NodeCase
    #: the module that reads what the program printed, with these options
    tool: ModuleType
    options: Any = None
    #: the argv of the program; nodes fill in {scratch}, a folder of their own
    command: Sequence[str]
    #: the argv that prints its version; none where its output states that
    version: Sequence[str] = ()
    runner: str = "single_node"
    expected_run_s: float = 1
    #: the longest time that the program may take
    run_limit_s: int = 60
    #: the name of the JSON file that the program leaves in {scratch}; None for none
    result: str | None = None
    #: the GPUs that Slurm is asked for; None for none
    gpus: int | None = None
    #: the folders in which nodes look for the program first
    path: Sequence[str] = ()
    #: how what was left is judged
    judge: Callable[[NodeRun, SweepPlace], Observation] = dataclasses.field(
        default_factory=lambda: judge_output
    )

    @property
    def nodes(self) -> Mapping[str, str]:
        return {"node": self.place.node}

    @property
    def longest_run_s(self) -> float:
        return self.run_limit_s + 20

    def job_needs(self, nodes: Sequence[str]) -> JobNeeds:
        return JobNeeds(gpus_per_node=self.gpus)

    def order(self, bound: BoundBefore) -> SingleNodeOrder:
        return SingleNodeOrder(
            self.run_limit_s,
            tuple(self.command),
            tuple(self.version),
            self.result,
            path=tuple(self.path),
        )

    def observe(self, left: SweepPlace, bound: BoundBefore) -> Observation:
        return self.judge(self, left)


def stated(run: NodeRun, left: SweepPlace) -> tuple[list[Call], Facts]:
    """The call of the program, and the facts of its node; both empty where it did not end."""
    line = left.exit_line(ROLE)
    return ([line.call], {run.place.node: line.facts}) if line else ([], {})


def judge_output(run: NodeRun, left: SweepPlace) -> Observation:
    """The observation of what the program printed."""
    calls, facts = stated(run, left)
    reading = run.tool.read(left.output(ROLE), calls=calls, options=run.options)
    return Observation(reading, calls, facts)


def of_nodes(check: str, cases: type[NodeCases], place: Case) -> list[tuple[str, str]]:
    """The places of a preflight of nodes that are those of another check's place."""
    return nodes_in(known_places(check, cases, NODE), place)
