"""A small program on every node, as a sweep."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from railgauge import paths
from railgauge.checks.framework.cases import Case, Cases, NodeCase, chosen_nodes
from railgauge.checks.framework.dependencies import NODE, known_places, nodes_in
from railgauge.checks.jobs.sweep import SweepCheck
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


def earlier_stages(stage: Path) -> list[Path]:
    """The folders beside a case's stage folder in which cases of its partition and environment
    staged, in this campaign's sessions in order.
    """
    campaign = paths.campaign_folder()
    if campaign is None:
        return [stage.parent]
    within = stage.parent.resolve().relative_to(paths.session_folder().resolve())
    numbers = range(1, paths.session_number() + 1)
    return [paths.session_in(campaign, number) / within for number in numbers]


def of_nodes(check: str, cases: type[NodeCases], place: Case) -> list[tuple[str, str]]:
    """The places of a preflight of nodes that are those of another check's place."""
    return nodes_in(known_places(check, cases, NODE), place)
