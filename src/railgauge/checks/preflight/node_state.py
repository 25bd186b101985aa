"""The preflight of a node: firmware, tuning, rails and bond; and what other checks depend on."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import reframe.core.runtime as rt

from railgauge.campaign import inventories
from railgauge.checks.framework import minimum_bounds
from railgauge.checks.framework.cases import Case, NodeCase
from railgauge.checks.framework.check import StrictCheck
from railgauge.checks.framework.dependencies import LINKS_ALONE, Preconditions
from railgauge.checks.framework.observation import Facts, Judged, Observation
from railgauge.checks.framework.stages import stages_so_far
from railgauge.checks.jobs.single_node import NodeCases, NodeCheck, of_nodes
from railgauge.checks.preflight import gpu_health, inventory_state, rails_and_bond
from railgauge.checks.preflight.rails_and_bond import Links
from railgauge.model import inventory
from railgauge.model.failure import ENVIRONMENT, Failure
from railgauge.model.inventory import Inventory
from railgauge.model.measurement import Measurement
from railgauge.model.references import Reference
from railgauge.node.orders.places import SingleNodeOrder
from railgauge.node.transport import results_file
from railgauge.systems import Extras, Partition, expected
from railgauge.systems.expected import Expected
from railgauge.tools import ParseError, Reading

#: The concrete check in reframe/, by whose name others depend on it.
NAME = "NodeState"

#: Kind of failure -> the metric that counts what is well.
_METRICS = {"state": "expectations", "path": "links"}


def has_links(extras: Extras) -> bool:
    """Whether the nodes of a partition have rails or a bond."""
    return bool(extras.rdma or extras.bond)


class NodeStateCases(NodeCases):
    """Every node with rails or a bond, and every node of a system with an expected.yaml."""

    measures_features = False

    def on(self, partition: Partition) -> Iterable[NodeCase]:
        stated = expected.load(rt.runtime().system.name)
        return super().on(partition) if stated or has_links(partition.extras) else []


def of_states(place: Case) -> list[tuple[str, str]]:
    """The preflights of a place's nodes, as far as they have one."""
    return of_nodes(NAME, NodeStateCases, place)


class LinkPreconditions(Preconditions):
    """The preflights of a place's nodes, of which rails and bond must be as expected."""

    stopped_by = LINKS_ALONE

    def finder(self, partition: Partition) -> Callable[[Case], Sequence[tuple[str, str]]]:
        return of_states


class StatePreconditions(LinkPreconditions):
    """The same, of which firmware and tuning must be as expected; rails have their own probes."""

    stopped_by = frozenset({"state"})


class NodeStateCheck(NodeCheck):
    """Are a node's firmware, tuning, rails and bond what the system expects?

    The concrete check gives its own `cases = NodeStateCases()`.
    """

    tool = inventory_state
    metrics = list(_METRICS.values())
    run_limit_s = 90

    @property
    def _stated(self) -> Expected | None:
        """The system's expected.yaml."""
        return expected.load(rt.runtime().system.name)

    @property
    def options(self) -> inventory_state.Options:
        extras, stated = self.partition_data.extras, self._stated
        return inventory_state.Options(
            None if stated is None else stated.of(self.partition_data.name),
            Links(extras.rdma, extras.bond, extras.absent_devices(self.here.node)),
        )

    def required_metrics(self) -> Sequence[str]:
        return list(self.options.counts)

    def satisfies(self, dependent: StrictCheck, judged: Judged) -> bool:
        """Whether nothing is wrong on the node but what `dependent` is measured in spite of."""
        ignored = _METRICS.keys() - dependent.preconditions.stopped_by
        counts = {_METRICS[kind] for kind in ignored}
        bounds = {n: r for n, r in judged.evidence.references.items() if n not in counts}
        failures = [failure for failure in judged.failures if failure.kind not in ignored]
        evidence = dataclasses.replace(judged.evidence, references=bounds)
        return Judged(judged.place, evidence, failures).satisfies_dependents

    def order(self) -> SingleNodeOrder:
        argv = inventory_state.argv(f"{{scratch}}/{inventory.FILE}")
        # No version: the document states its schema, and another Python is started for nothing
        # else.
        return SingleNodeOrder(self.run_limit_s, tuple(argv), (), result=inventory.FILE)

    def read(self) -> Observation:
        line, node, options = self.exit_line("rank0"), self.here.node, self.options
        calls = [line.call] if line else []
        try:
            taken = inventory_state.parse(self.text(inventory.FILE))
        except ParseError as error:
            return Observation(Reading.invalid(str(error)), calls)
        if taken.node != node:
            reason = f"the inventory is of {taken.node}, expected {node}"
            return Observation(Reading.invalid(reason), calls)
        of_path = rails_and_bond.judge(taken, options.links)[1]
        of_state = inventory_state.differences(taken, options)
        return Observation(
            inventory_state.read(taken, calls, options),
            calls,
            self._facts(taken),
            [
                *(Failure("path", f"{node}: {d}", (node,), d.fix) for d in of_path),
                *(Failure("state", f"{node}: {d}", (node,), d.fix) for d in of_state),
            ],
        )

    def _facts(self, taken: Inventory) -> Facts:
        """The facts that the verdict compares with the peers', and stores with every number."""
        fabric, stated = inventory.fabric_of(self.current_system.name), self._stated
        facts: dict[str, Any] = {
            "boot_id": taken.boot_id,
            "fingerprint": inventory.fingerprint(fabric.beside(taken) if fabric else taken),
        }
        if unknown := inventory.unknown_lasting(taken):
            facts["unknown_fields"] = unknown
        if stated is None:
            return {taken.node: facts}
        options = self.options
        agreed = inventory_state.agreed(taken, stated, options.links.rdma, options.links.absent)
        mends = {
            name: inventory_state.fix_command(agreed["keys"].get(name, name), options)
            for name in agreed["fields"]
        }
        mends = {name: fix for name, fix in mends.items() if fix}
        return {taken.node: {**facts, "agreed": {**agreed, "mends": mends}}}

    def own_reference(self, measurement: Measurement) -> Reference:
        """Every entry of the partition, and every rail and bonded link: no more and no less."""
        name = "expected.yaml" if measurement.metric == "expectations" else "reframe.yaml"
        file = f"configs/systems/{self.current_system.name}/{name}"
        return minimum_bounds.of_count(measurement, self.options.counts[measurement.metric], file)


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
            after = inventory_state.parse(self.text(inventory.FILE))
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
