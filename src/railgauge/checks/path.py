"""The preflight of a node's path, and how other checks depend on it."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from reframe.core.builtins import run_before

from railgauge.checks import path_state
from railgauge.checks.base import Observation, StrictCheck
from railgauge.checks.cases import Case, Cases, NodeCase
from railgauge.checks.pair import chosen_nodes
from railgauge.model import references
from railgauge.model.failure import Failure
from railgauge.model.measurement import Measurement
from railgauge.systems import Extras, Partition
from railgauge.tools import ParseError, Reading

#: The concrete check in reframe/, by whose name others depend on it.
NAME = "Path"

_ORDERS = "path.json"


class NodeCases(Cases[NodeCase]):
    """Every node of the session."""

    def on(self, partition: Partition) -> Iterable[NodeCase]:
        return [NodeCase(partition.name, node) for node in chosen_nodes(partition.nodes)]

    def node_counts(self, partition: Partition) -> Sequence[int]:
        return (1,)


class PathCases(NodeCases):
    """Every node that has rails or a bond, whatever the features are."""

    def on(self, partition: Partition) -> Iterable[NodeCase]:
        return [] if self.lacks_description(partition) else super().on(partition)

    def lacks_description(self, partition: Partition) -> str:
        if partition.extras.rdma or partition.extras.bond:
            return ""
        return "looks at extras.rdma and extras.bond, and there is neither"


def path_case(partition: str, node: str) -> str:
    """The unique name, in ReFrame's words, of the preflight of a node."""
    return numbered(NAME, list(PathCases()), NodeCase(partition, node))


def numbered(check: str, values: Sequence[Case], value: Case) -> str:
    """The unique name of a check's case, as ReFrame's RegressionTestMeta.variant_name numbers the
    values of its only parameter.
    """
    if len(values) == 1:
        return check
    return f"{check}_{values.index(value):0{len(str(len(values)))}}"


def path_preconditions(partition: str, node: str) -> list[str]:
    """The unique name of the preflight of a node's path, if it has one.

    What a single pair measures does not wait for NodeState: whether a wrong setting costs anything,
    the numbers tell. NCCL, which takes many nodes for minutes, does.
    """
    known = NodeCase(partition, node) in PathCases()
    return [path_case(partition, node)] if known else []


class NodeCheck(StrictCheck):
    """One small job on one node, judged by what the system's description says of it."""

    place: NodeCase
    num_tasks = 1
    num_tasks_per_node = 1
    expected_seconds = 2

    @classmethod
    def unstated(cls, extras: Extras) -> Sequence[str]:
        return ()

    @property
    def target(self) -> NodeCase:
        return self.place


class PathCheck(NodeCheck):
    """One small job on one node: are its rails and its bond in the state that they should be in?

    The concrete check gives its own `cases = PathCases()`.
    """

    tool = path_state
    metrics = ["links"]

    @property
    def options(self) -> path_state.Options:
        extras = self.partition_data.extras
        return path_state.Options(rdma=extras.rdma, bond=extras.bond)

    @run_before("run")
    def look(self) -> None:
        orders = Path(self.stagedir, _ORDERS)
        orders.write_text(json.dumps(self.options.orders()), encoding="utf-8")
        self.run_on_nodes(
            "ranks",
            {
                "tool": path_state.TOOL,
                "argv": path_state.argv(_ORDERS),
                "version": path_state.version_argv(),
                "run_limit_s": 60,
            },
        )

    def read(self) -> Observation:
        line = self.exit_line("rank0")
        calls = [line.call] if line else []
        try:
            document = path_state.parse(self.text("rank0.out"))
        except ParseError as error:
            return Observation(Reading.refused(str(error)), calls)
        (node,) = self.pinned_nodes
        return Observation(
            path_state.read(document, calls, self.options),
            calls,
            {node: document},
            [
                Failure("path", f"{node}: {difference}", (node,), difference.mend)
                for difference in path_state.differences(document, self.options)
            ],
        )

    def own_reference(self, measurement: Measurement) -> references.Reference:
        """Every rail and every link of the bond, no more and no less."""
        extras = self.partition_data.extras
        rails = extras.rdma.rails if extras.rdma else 0
        return references.Reference(
            value=rails + len(extras.bond.links if extras.bond else ()),
            lower=0,
            upper=0,
            unit=measurement.unit,
            kind="floor",
            provenance=references.Provenance(
                source=f"configs/systems/{self.current_system.name}/reframe.yaml",
                date=datetime.date.today(),
            ),
        )
