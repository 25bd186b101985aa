"""An InfiniBand subnet before a session measures and after it: one node reads it for all."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import reframe.core.runtime as rt

from railgauge import paths
from railgauge.checks.framework import minimum_bounds, subnet_reading
from railgauge.checks.framework.cases import NodeCase
from railgauge.checks.framework.observation import Observation
from railgauge.checks.framework.subnet_reading import FIRST
from railgauge.checks.jobs.single_node import NodeCases, NodeRun, stated
from railgauge.checks.jobs.sweep_run import JobOutput, SweepPlace, Whole
from railgauge.checks.preflight import subnet_state
from railgauge.fabric import asking, expected, findings
from railgauge.fabric import folder as folders
from railgauge.fabric.check import check
from railgauge.fabric.compare import compare
from railgauge.fabric.expected import Expected
from railgauge.fabric.findings import FabricFinding
from railgauge.fabric.folder import Fabric, FabricError
from railgauge.model.failure import ENVIRONMENT, Failure
from railgauge.model.measurement import Measurement
from railgauge.model.references import Reference
from railgauge.systems import Infiniband, Partition
from railgauge.tools import Completeness, ParseError, Reading

#: The outputs, in the case's folder: for `railgauge fabric check --from` and `compare`.
OUTPUTS = asking.FOLDER

#: The expected cabling, in a system's folder: `railgauge fabric expect --write`.
EXPECTED = expected.FILE


class Found(NamedTuple):
    """What was found in a subnet: with the expected cabling, and what else is to know. `unread` is
    why no node without a fault of its own can be judged.
    """

    findings: Sequence[FabricFinding]
    expected: Expected | None
    notes: tuple[str, ...] = ()
    unread: Failure | None = None


class InfinibandCases(NodeCases):
    """Every node of a partition on a subnet."""

    measures_features = False

    def __init__(self) -> None:
        super().__init__("infiniband")


def readers(how: Infiniband, nodes: Sequence[str]) -> Sequence[str]:
    """The nodes of a job that read the subnet: the named one, else the first, and the last in case
    the first one's own link is down.
    """
    return [how.node] if how.node in nodes else list(dict.fromkeys((nodes[0], nodes[-1])))


def subnet_run(place: NodeCase, partition: Partition, nodes: Sequence[str]) -> NodeRun:
    """The run of a node in a job on `nodes`: some of them read the subnet for all, and every one
    says which HCAs it has.

    A node fails for a fault of its own ports, and where it is not in the subnet.
    """
    how, system = partition.extras.infiniband, rt.runtime().system.name

    def describe(measurement: Measurement) -> Reference:
        """One link at least. A node that lacks some of its links has a failure for each."""
        file = f"configs/systems/{system}/reframe.yaml"
        return minimum_bounds.at_least(measurement, 1, file)

    return NodeRun(
        place=place,
        partition=partition,
        tool=subnet_state,
        command=subnet_state.argv(how, reads=place.node in readers(how, nodes)),
        result=subnet_state.FILE,
        expected_run_s=2,
        run_limit_s=how.timeout_s + 10,
        describe=describe,
        judge=judge_links,
    )


def judge_links(run: NodeRun, left: SweepPlace) -> Observation:
    """Is the node in the subnet, without a fault of its own?"""
    (calls, facts), node = stated(run, left), run.place.node
    subnet: subnet_state.Judgement = left.whole.shared
    failures = subnet.failures(node)
    if any(failure.kind == ENVIRONMENT for failure in failures):
        return Observation(Reading.invalid(failures[0].message), calls, facts, failures)
    count = subnet.links.get(node, 0)
    links = Measurement("links", count, subnet_state.TOOL, operation="subnet", transport="any")
    ended = bool(calls) and all(call.failure is None for call in calls)
    completeness = Completeness.PROVED if ended else Completeness.UNKNOWN
    reading = Reading(True, f"{count} links in the subnet", completeness, (links,), {})
    return Observation(reading, calls, facts, failures)


def judge_subnet(left: JobOutput, find: Callable[[Fabric, JobOutput], Found]) -> Whole:
    """The judgement of the subnet, by which all nodes are judged. What is wrong between switches
    fails the job, and names no node.
    """
    judged = _judgement(left, find)
    return Whole(judged.of_subnet, judged.notes, shared=judged)


def _judgement(
    left: JobOutput, find: Callable[[Fabric, JobOutput], Found]
) -> subnet_state.Judgement:
    """The judgement by the first reader that read all, else by the first one. `find` says what is
    wrong, FabricError where that cannot be known.
    """
    of_node = _left_by_nodes(left)
    asked = readers(left.partition.extras.infiniband, left.nodes)
    step = f"look at {asked[0]}, or name another node: extras.infiniband.node"
    there = [node for node in asked if node in of_node]
    if not there:
        why = f"no outputs came from {' and '.join(asked)}"
        return subnet_state.Judgement(unread=subnet_state.unread(why, step))
    reader = next((node for node in there if not of_node[node].needed_errors), there[0])
    texts, errors = of_node[reader].texts, of_node[reader].needed_errors
    without = [why for file, why in of_node[reader].errors.items() if file not in errors]
    unread = subnet_state.unread_file(reader, errors) if errors else None
    try:
        asking.save(texts, left.folder / OUTPUTS)
        fabric = folders.from_texts(texts)
        found = find(fabric, left)
        findings.save(found.findings, left.folder / findings.FILE)
    except FabricError as error:
        unread = unread or subnet_state.unread(error.message, error.next_step or step)
        return subnet_state.Judgement(unread=unread)
    nodes = [place.nodes[0] for place in left.places]
    judged = subnet_state.judge(
        found.findings,
        fabric.subnet,
        found.expected,
        nodes,
        {node: output.guids for node, output in of_node.items()},
        {node: left.partition.extras.absent_devices(node) for node in nodes},
    )
    lacking = [f"not checked: {why}" for why in without]
    notes = (*judged.notes, *found.notes, *lacking)
    return dataclasses.replace(judged, unread=unread or found.unread, notes=notes)


def _left_by_nodes(left: JobOutput) -> Mapping[str, subnet_state.NodeOutput]:
    """Node -> what it left, of those where that can be read."""
    of_node = {}
    for place in left.measured:
        for side in left.output.sides(place).values():
            with contextlib.suppress(ParseError):
                text = side.files.get(subnet_state.FILE, "")
                of_node[place.nodes[0]] = subnet_state.parse(text)
    return of_node


def find_unexpected(fabric: Fabric, left: JobOutput) -> Found:
    """Is the subnet as it is expected to be, and as both ends of each link can be?"""
    file = paths.system_folder(left.system) / EXPECTED
    if file.exists():
        wanted = expected.load(file)
        return Found(check(fabric, wanted), wanted)
    missing = f"configs/systems/{left.system}/{EXPECTED}"
    note = f"no expected cabling to compare with: {missing} is missing"
    return Found(check(fabric, None), None, (note,))


def find_changes(fabric: Fabric, left: JobOutput) -> Found:
    """Has the subnet changed since the first reading of the campaign, and has it counted errors?"""
    if (first := subnet_reading.first(left.folder)) is None:
        step = f"railgauge accept without a filter: {FIRST} reads it first"
        return Found((), None, (), subnet_state.unread("no earlier reading is kept", step))
    before = folders.from_folder(first)
    changes, lacking = compare(before, fabric, left.partition.extras.infiniband.most_errors)
    unread = None
    if lacking:
        step = f"why the first reading lacks it, {FIRST} says"
        unread = subnet_state.unread(f"not compared: {'; '.join(lacking)}", step)
    return Found(changes, expected.of_fabric(before), (), unread)
