"""An InfiniBand subnet before a session measures and after it: one node reads it for all."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from railgauge import paths
from railgauge.checks.framework import minimum_bounds, subnet_reading
from railgauge.checks.framework.observation import Observation
from railgauge.checks.framework.subnet_reading import FIRST
from railgauge.checks.jobs.single_node import NodeCases, NodeCheck
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
from railgauge.node.orders.places import SingleNodeOrder
from railgauge.systems import Infiniband
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


class SubnetCheck(NodeCheck):
    """A subnet that one node reads for all. Every node says which HCAs it has.

    A place is a node: it fails for a fault of its own ports, and for a host that is not in the
    subnet. What is wrong between switches fails the job, and names no node.

    A kind of check says what is wrong: `find`. The concrete check gives its own
    `cases = InfinibandCases()`.
    """

    tool = subnet_state
    metrics = ["links"]

    def find(self, fabric: Fabric) -> Found:
        """What is wrong with the subnet; FabricError where that cannot be known."""
        raise NotImplementedError

    @property
    def how(self) -> Infiniband:
        return self.partition_data.extras.infiniband

    @property
    def readers(self) -> Sequence[str]:
        """The nodes that read the subnet: the named one, else the first, and the last in case the
        first one's own link is down.
        """
        named, nodes = self.how.node, self.pinned_nodes
        return [named] if named in nodes else list(dict.fromkeys((nodes[0], nodes[-1])))

    def order(self) -> SingleNodeOrder:
        argv = subnet_state.argv(self.how, reads=self.here.node in self.readers)
        limit_s = self.how.timeout_s + 10
        return SingleNodeOrder(limit_s, tuple(argv), (), result=subnet_state.FILE)

    def expected_run_s(self) -> float:
        return 2

    def longest_run_s(self) -> float:
        return self.how.timeout_s + 30

    # --- what it left --------------------------------------------------------------------------

    def _left(self) -> Mapping[str, subnet_state.NodeOutput]:
        """Node -> what it left, of those where that can be read."""
        left = {}
        for place in self._chosen:
            for side in self._output.sides(place).values():
                with contextlib.suppress(ParseError):
                    text = side.files.get(subnet_state.FILE, "")
                    left[place.nodes[0]] = subnet_state.parse(text)
        return left

    @functools.cached_property
    def _subnet(self) -> subnet_state.Judgement:
        """The judgement of the subnet by the first reader that read all, else by the first one."""
        left = self._left()
        step = f"look at {self.readers[0]}, or name another node: extras.infiniband.node"
        readers = [node for node in self.readers if node in left]
        if not readers:
            why = f"no outputs came from {' and '.join(self.readers)}"
            return subnet_state.Judgement(unread=subnet_state.unread(why, step))
        reader = next((node for node in readers if not left[node].needed_errors), readers[0])
        texts, errors = left[reader].texts, left[reader].needed_errors
        without = [why for file, why in left[reader].errors.items() if file not in errors]
        unread = subnet_state.unread_file(reader, errors) if errors else None
        try:
            asking.save(texts, Path(self.stagedir, OUTPUTS))
            fabric = folders.from_texts(texts)
            found = self.find(fabric)
            findings.save(found.findings, Path(self.stagedir, findings.FILE))
        except FabricError as error:
            unread = unread or subnet_state.unread(error.message, error.next_step or step)
            return subnet_state.Judgement(unread=unread)
        nodes = [place.nodes[0] for place in self.places]
        judged = subnet_state.judge(
            found.findings,
            fabric.subnet,
            found.expected,
            nodes,
            {node: output.guids for node, output in left.items()},
            {node: self.partition_data.extras.absent_devices(node) for node in nodes},
        )
        lacking = [f"not checked: {why}" for why in without]
        notes = (*judged.notes, *found.notes, *lacking)
        return dataclasses.replace(judged, unread=unread or found.unread, notes=notes)

    def read(self) -> Observation:
        line = self.exit_line("rank0")
        calls = [line.call] if line else []
        node = self.here.node
        facts = {node: line.facts} if line else {}
        failures = self._subnet.failures(node)
        if any(failure.kind == ENVIRONMENT for failure in failures):
            return Observation(Reading.invalid(failures[0].message), calls, facts, failures)
        count = self._subnet.links.get(node, 0)
        links = Measurement("links", count, subnet_state.TOOL, operation="subnet", transport="any")
        ended = bool(calls) and all(call.failure is None for call in calls)
        completeness = Completeness.PROVED if ended else Completeness.UNKNOWN
        reading = Reading(True, f"{count} links in the subnet", completeness, (links,), {})
        return Observation(reading, calls, facts, failures)

    def job_failures(self) -> Sequence[Failure]:
        """What is wrong with the job, and with the subnet between the nodes."""
        return [*super().job_failures(), *self._subnet.of_subnet]

    def notes_of_job(self) -> Sequence[str]:
        return self._subnet.notes

    def own_reference(self, measurement: Measurement) -> Reference:
        """One link at least. A node that lacks some of its links has a failure for each."""
        file = f"configs/systems/{self.current_system.name}/reframe.yaml"
        return minimum_bounds.at_least(measurement, 1, file)


class FirstReadingCheck(SubnetCheck):
    """Is the subnet as it is expected to be, and as both ends of each link can be?"""

    turn = -1

    def find(self, fabric: Fabric) -> Found:
        system = self.current_system.name
        file = paths.system_folder(system) / EXPECTED
        if file.exists():
            wanted = expected.load(file)
            return Found(check(fabric, wanted), wanted)
        missing = f"configs/systems/{system}/{EXPECTED}"
        note = f"no expected cabling to compare with: {missing} is missing"
        return Found(check(fabric, None), None, (note,))


class SecondReadingCheck(SubnetCheck):
    """Has the subnet changed since the first reading of the campaign, and has it counted errors?"""

    turn = 1

    def find(self, fabric: Fabric) -> Found:
        if (first := subnet_reading.first(Path(self.stagedir))) is None:
            step = f"railgauge accept without a filter: {FIRST} reads it first"
            return Found((), None, (), subnet_state.unread("no earlier reading is kept", step))
        before = folders.from_folder(first)
        findings, lacking = compare(before, fabric, self.how.most_errors)
        unread = None
        if lacking:
            step = f"why the first reading lacks it, {FIRST} says"
            unread = subnet_state.unread(f"not compared: {'; '.join(lacking)}", step)
        return Found(findings, expected.of_fabric(before), (), unread)
