"""The preflight of a node's firmware and tuning, and what other checks depend on."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import reframe.core.runtime as rt

from railgauge.campaign import inventories
from railgauge.checks.framework import minimum_bounds
from railgauge.checks.framework.cases import Case, NodeCase
from railgauge.checks.framework.observation import Facts, Observation
from railgauge.checks.framework.stages import stages_so_far
from railgauge.checks.jobs.single_node import NodeCases, NodeCheck, of_nodes
from railgauge.checks.preflight import gpu_health
from railgauge.checks.preflight import inventory_state as node_state
from railgauge.model import inventory
from railgauge.model.failure import ENVIRONMENT, Failure
from railgauge.model.inventory import Inventory
from railgauge.model.measurement import Measurement
from railgauge.model.references import Reference
from railgauge.node.orders.places import SingleNodeOrder
from railgauge.node.transport import results_file
from railgauge.systems import Partition, expected
from railgauge.systems.expected import Expected
from railgauge.tools import ParseError, Reading

#: The concrete check in reframe/, by whose name others depend on it.
NAME = "NodeState"


class NodeStateCases(NodeCases):
    """Every node of a system that says, in expected.yaml, what its nodes must show."""

    measures_features = False

    def on(self, partition: Partition) -> Iterable[NodeCase]:
        stated = expected.load(rt.runtime().system.name)
        return [] if stated is None else super().on(partition)


def of_states(place: Case) -> list[tuple[str, str]]:
    """The preflights of the states of a place's nodes, as far as they have one."""
    return of_nodes(NAME, NodeStateCases, place)


class NodeStateCheck(NodeCheck):
    """Are a node's firmware, tuning and state what the system expects?

    The concrete check gives its own `cases = NodeStateCases()`.
    """

    tool = node_state
    metrics = ["expectations"]
    run_limit_s = 90

    @property
    def node_expected(self) -> Expected:
        loaded = expected.load(rt.runtime().system.name)
        assert loaded is not None  # or there would be no case
        return loaded

    @property
    def options(self) -> node_state.Options:
        return node_state.Options(self.node_expected.of(self.partition_data.name))

    def order(self) -> SingleNodeOrder:
        argv = node_state.argv(f"{{scratch}}/{inventory.FILE}")
        # No version: the document states its schema, and another Python is started for nothing
        # else.
        return SingleNodeOrder(self.run_limit_s, tuple(argv), (), result=inventory.FILE)

    def read(self) -> Observation:
        line = self.exit_line("rank0")
        calls = [line.call] if line else []
        try:
            node_inventory = node_state.parse(self.text(inventory.FILE))
        except ParseError as error:
            return Observation(Reading.invalid(str(error)), calls)
        reading = node_state.read(node_inventory, calls, self.options)
        return Observation(
            reading, calls, self._facts(node_inventory), self._violations(node_inventory)
        )

    def _facts(self, node_inventory: Inventory) -> Facts:
        """The facts that the verdict compares with the peers', and stores with every number."""
        fabric = inventory.fabric_of(self.current_system.name)
        extras = self.partition_data.extras
        absent = extras.absent_devices(node_inventory.node)
        agreed = node_state.agreed(node_inventory, self.node_expected, extras.rdma, absent)
        mends = {
            name: node_state.fix_command(agreed["keys"].get(name, name), self.options)
            for name in agreed["fields"]
        }
        return {
            node_inventory.node: {
                "boot_id": node_inventory.boot_id,
                "fingerprint": inventory.fingerprint(
                    fabric.beside(node_inventory) if fabric else node_inventory
                ),
                "agreed": {**agreed, "mends": {n: fix for n, fix in mends.items() if fix}},
            }
        }

    def _violations(self, node_inventory: Inventory) -> Sequence[Failure]:
        """Failures for fields that are not as expected, and for another node's document."""
        node = self.here.node
        if node_inventory.node != node:
            return [Failure("state", f"the inventory is of {node_inventory.node}, expected {node}")]
        return [
            Failure("state", f"{node}: {difference}", (node,), difference.fix)
            for difference in node_state.differences(node_inventory, self.options)
        ]

    def own_reference(self, measurement: Measurement) -> Reference:
        """Every entry of the partition."""
        file = f"configs/systems/{self.current_system.name}/expected.yaml"
        return minimum_bounds.of_count(measurement, len(self.options.expected), file)


class GpuNodeCases(NodeStateCases):
    """The nodes with GPUs of such a system."""

    def __init__(self) -> None:
        super().__init__("gpu")


class GpuCountersCheck(NodeStateCheck):
    """Is all of that still so after all else, and did a GPU count errors meanwhile?

    The concrete check gives its own `cases = GpuNodeCases()`.
    """

    turn = 1

    def read(self) -> Observation:
        observed = super().read()
        compared = self._compared()
        notes = (*observed.reading.notes, *compared.notes)
        return dataclasses.replace(
            observed,
            reading=dataclasses.replace(observed.reading, notes=notes),
            failures=[*observed.failures, *compared.failures],
        )

    def _compared(self) -> gpu_health.Compared:
        """What happened since the first reading of this node in the campaign."""
        try:
            after = node_state.parse(self.text(inventory.FILE))
        except ParseError:
            return gpu_health.Compared((), ())
        if after.node != self.here.node:
            return gpu_health.Compared((), ())
        before = self._first_readings.get(after.node)
        if before is None:
            message = f"{after.node}: no earlier reading of its GPUs to compare with"
            step = f"railgauge accept without a filter: {NAME} reads them first"
            return gpu_health.Compared((Failure(ENVIRONMENT, message, (), step),), ())
        return gpu_health.compare(before, after)

    @functools.cached_property
    def _first_readings(self) -> Mapping[str, Inventory]:
        """Node -> the first inventory that NodeState took of it in this campaign."""
        first: dict[str, Inventory] = {}
        for stage in stages_so_far(Path(self.stagedir)):
            kept = sorted(
                stage.glob(f"{NAME}*/{results_file.FILE}"), key=lambda file: file.stat().st_mtime
            )
            for one in (one for path in kept for one in inventories.in_sweep(path)):
                first.setdefault(one.node, one)
        return first

    def _facts(self, node_inventory: Inventory) -> Facts:
        """What the verdict compares with the first reading, but nothing to compare peers by."""
        (node, facts), *_ = super()._facts(node_inventory).items()
        return {node: {name: value for name, value in facts.items() if name != "agreed"}}
