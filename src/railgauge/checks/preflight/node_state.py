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
from railgauge.checks.framework.dependencies import LINKS_ALONE, Preconditions
from railgauge.checks.framework.observation import Facts, Observation
from railgauge.checks.framework.stages import stages_so_far
from railgauge.checks.jobs.single_node import NodeCases, NodeRun, of_nodes, stated
from railgauge.checks.jobs.sweep_run import JobOutput, SweepPlace, Whole
from railgauge.checks.preflight import gpu_health, inventory_state, rails_and_bond
from railgauge.checks.preflight.rails_and_bond import Links
from railgauge.model import inventory
from railgauge.model.failure import ENVIRONMENT, Failure
from railgauge.model.inventory import Inventory
from railgauge.model.measurement import Measurement
from railgauge.model.references import Reference
from railgauge.node.transport import results_file
from railgauge.systems import Extras, Partition, expected
from railgauge.systems.expected import Expected
from railgauge.tools import ParseError, Reading

#: The concrete check in reframe/, by whose name others depend on it.
NAME = "NodeState"

#: Kind of failure -> the metric that counts what is well.
ASPECTS = {"state": "expectations", "path": "links"}


def _expected() -> Expected | None:
    """The system's expected.yaml."""
    return expected.load(rt.runtime().system.name)


def has_links(extras: Extras) -> bool:
    """Whether the nodes of a partition have rails or a bond."""
    return bool(extras.rdma or extras.bond)


class NodeStateCases(NodeCases):
    """Every node with rails or a bond, and every node of a system with an expected.yaml."""

    measures_features = False

    def on(self, partition: Partition) -> Iterable[NodeCase]:
        is_judged = _expected() or has_links(partition.extras)
        return super().on(partition) if is_judged else []


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


class GpuNodeCases(NodeStateCases):
    """The nodes with GPUs of such a system."""

    def __init__(self) -> None:
        super().__init__("gpu")


def state_run(place: NodeCase, partition: Partition) -> NodeRun:
    """The run that takes the inventory of a node, and judges it by what its system expects."""
    extras, of_system = partition.extras, _expected()
    options = inventory_state.Options(
        None if of_system is None else of_system.of(partition.name),
        Links(extras.rdma, extras.bond, extras.absent_devices(place.node)),
    )

    def describe(measurement: Measurement) -> Reference:
        """Every entry of the partition, and every rail and bonded link: no more and no less."""
        name = "expected.yaml" if measurement.metric == "expectations" else "reframe.yaml"
        file = f"configs/systems/{rt.runtime().system.name}/{name}"
        return minimum_bounds.of_count(measurement, options.counts[measurement.metric], file)

    return NodeRun(
        place=place,
        partition=partition,
        tool=inventory_state,
        options=options,
        # No version: the document states its schema, and another Python is started for nothing
        # else.
        command=inventory_state.argv(f"{{scratch}}/{inventory.FILE}"),
        result=inventory.FILE,
        run_limit_s=90,
        required=list(options.counts),
        aspects=ASPECTS,
        describe=describe,
        judge=judge_state,
    )


def judge_state(run: NodeRun, left: SweepPlace) -> Observation:
    """Are a node's firmware, tuning, rails and bond what the system expects?"""
    calls, node, options = stated(run, left)[0], run.place.node, run.options
    try:
        taken = inventory_state.parse(left.text(inventory.FILE))
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
        _facts(taken, options),
        [
            *(Failure("path", f"{node}: {d}", (node,), d.fix) for d in of_path),
            *(Failure("state", f"{node}: {d}", (node,), d.fix) for d in of_state),
        ],
    )


def _facts(taken: Inventory, options: inventory_state.Options) -> Facts:
    """The facts that the verdict compares with the peers', and stores with every number."""
    fabric, of_system = inventory.fabric_of(rt.runtime().system.name), _expected()
    facts: dict[str, Any] = {
        "boot_id": taken.boot_id,
        "fingerprint": inventory.fingerprint(fabric.beside(taken) if fabric else taken),
    }
    if unknown := inventory.unknown_lasting(taken):
        facts["unknown_fields"] = unknown
    if of_system is None:
        return {taken.node: facts}
    agreed = inventory_state.agreed(taken, of_system, options.links.rdma, options.links.absent)
    mends = {
        name: inventory_state.fix_command(agreed["keys"].get(name, name), options)
        for name in agreed["fields"]
    }
    mends = {name: fix for name, fix in mends.items() if fix}
    return {taken.node: {**facts, "agreed": {**agreed, "mends": mends}}}


def judge_again(run: NodeRun, left: SweepPlace) -> Observation:
    """Is all of that still so after all else, and did a GPU count errors meanwhile?

    The facts are what the verdict compares with the first reading, but nothing to compare peers by.
    """
    observed, compared = judge_state(run, left), _compared(run, left)
    notes = (*observed.reading.notes, *compared.notes)
    return dataclasses.replace(
        observed,
        reading=dataclasses.replace(observed.reading, notes=notes),
        facts={
            node: {name: value for name, value in facts.items() if name != "agreed"}
            for node, facts in observed.facts.items()
        },
        failures=[*observed.failures, *compared.failures],
    )


def _compared(run: NodeRun, left: SweepPlace) -> gpu_health.Compared:
    """What happened since the first reading of this node in the campaign."""
    try:
        after = inventory_state.parse(left.text(inventory.FILE))
    except ParseError:
        return gpu_health.Compared((), ())
    if after.node != run.place.node:
        return gpu_health.Compared((), ())
    before = left.whole.shared().get(after.node)
    if before is None:
        message = f"{after.node}: no earlier reading of its GPUs to compare with"
        step = f"railgauge accept without a filter: {NAME} reads them first"
        return gpu_health.Compared((Failure(ENVIRONMENT, message, (), step),), ())
    return gpu_health.compare(before, after)


def first_readings(left: JobOutput) -> Whole:
    """What all places are compared with: a function, as what it cannot read fails the places."""
    return Whole(shared=functools.cache(lambda: _first_readings(left.folder)))


def _first_readings(folder: Path) -> Mapping[str, Inventory]:
    """Node -> the first inventory that NodeState took of it in this campaign."""
    first: dict[str, Inventory] = {}
    for stage in stages_so_far(folder):
        kept = sorted(
            stage.glob(f"{NAME}*/{results_file.FILE}"), key=lambda file: file.stat().st_mtime
        )
        for one in (one for path in kept for one in inventories.in_sweep(path)):
            first.setdefault(one.node, one)
    return first
