"""Findings for what is required and was not measured, and what measures it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from railgauge import hostlist, systems
from railgauge.campaign import variables
from railgauge.campaign.folder import PLAN, Campaign
from railgauge.common.errors import RailgaugeError
from railgauge.model import references
from railgauge.model.failure import DISTURBED, TAKEN
from railgauge.verdict.campaign.cases import Case, remaining
from railgauge.verdict.campaign.finding import Finding


def coverage_findings(campaign: Campaign, cases: Sequence[Case]) -> list[Finding]:
    """Findings for nodes that a required check has not measured."""
    findings = []
    for partition, checks in campaign.scope.required.items():
        for check in checks:
            # A case that failed is a finding of its own.
            measured = {
                node
                for case in cases
                if (case.check, case.partition) == (check, partition)
                and case.finished
                and not case.was_left_out
                and not case.repeats
                for node in case.nodes
            }
            missing = [n for n in campaign.scope.nodes.get(partition, []) if n not in measured]
            if missing:
                message, next_step = _why_missing(campaign, check, partition, missing, cases)
                findings.append(
                    Finding(
                        "inconclusive",
                        "not-measured",
                        message,
                        check=check,
                        partition=partition,
                        nodes=tuple(missing),
                        next_step=next_step,
                    )
                )
    return findings


def _why_missing(
    campaign: Campaign, check: str, partition: str, missing: Sequence[str], cases: Sequence[Case]
) -> tuple[str, str]:
    """Why a check has no result on these nodes, and what to do."""
    node = _without_partner(campaign, check, partition, cases)
    if node is None:
        where = hostlist.fold(missing)
        return f"required, and without a result on {where}", _without_filter(campaign)
    if campaign.owner is not None:
        message = f"{check} needs two nodes, and no partner of {node} was free"
        return message, f"railgauge gate status; free a node of {partition}, then: " + (
            campaign.next_command
        )
    named = campaign.requested.environment.get(variables.NODES)
    message = f"{check} needs two nodes, and " + (
        "--nodes names one" if named else f"{node} was the only one of {partition}"
    )
    if (partner := _other_node(campaign, partition, node)) is None:
        return message, (
            f"give --nodes {node} and a second node of partition {partition}, with: "
            f"{campaign.accept_command}"
        )
    return message, f"{campaign.accept_command} --nodes {node},{partner}"


def _without_partner(
    campaign: Campaign, check: str, partition: str, cases: Sequence[Case]
) -> str | None:
    """The only node of a partition, where a check of pairs had no case for want of another one."""
    nodes = campaign.scope.nodes[partition]
    planned = any((case.check, case.partition) == (check, partition) for case in cases)
    # A session that broke off early has no plan, and says nothing of what it would have measured.
    has_plan = (campaign.folder / PLAN).exists()
    requested = campaign.requested
    filtered = requested.options or requested.environment.get(variables.PLACES)
    if planned or not has_plan or len(nodes) > 1 or filtered:
        return None
    return nodes[0] if _is_of_pairs(campaign, check, cases) else None


def _is_of_pairs(campaign: Campaign, check: str, cases: Sequence[Case]) -> bool:
    """Whether a check is known to measure pairs: by its cases on other partitions, or else by the
    conditions of the system's stored numbers.
    """
    known: set[object] = {len(case.nodes) for case in cases if case.check == check}
    if not known:
        try:
            stored = references.load(campaign.system).entries
        except RailgaugeError:
            return False
        known = {entry.nodes for entry in stored if entry.check == check}
    return known == {2}


def _other_node(campaign: Campaign, partition: str, node: str) -> str | None:
    """A node that could be a partner."""
    try:
        known = [*systems.load(campaign.system).partition(partition).nodes]
    except RailgaugeError:
        known = []
    return next((name for name in known if name != node), None)


def _without_filter(campaign: Campaign) -> str:
    return f"run without a filter: {campaign.whole_command}"


def selection_findings(
    campaign: Campaign, cases: Sequence[Case], possible: Mapping[str, Mapping[str, int]]
) -> list[Finding]:
    """Findings for places of a required check that a filter left out: one transport or rail is not
    all of them.
    """
    findings = []
    for partition, checks in campaign.scope.required.items():
        for check in checks:
            planned = {
                (c.unique_name, c.place)
                for c in cases
                if (c.check, c.partition) == (check, partition) and not (c.of_job or c.repeats)
            }
            possible_count = possible.get(check, {}).get(partition, 0)
            if len(planned) < possible_count:
                findings.append(
                    Finding(
                        "inconclusive",
                        "left-out",
                        f"{len(planned)} of {possible_count} places were selected: "
                        "a filter left the others out",
                        check=check,
                        partition=partition,
                        next_step=_without_filter(campaign),
                    )
                )
    return findings


def with_next_command(
    campaign: Campaign, cases: Sequence[Case], findings: Sequence[Finding], ended: bool
) -> list[Finding]:
    """The findings, those of places that another session measures with the command for it.

    A campaign that has `ended` and lacks nothing cannot be resumed: all of it is measured again.
    """
    # No filter left out what a session did not come to.
    kinds = {"no-result", DISTURBED, TAKEN, *(() if ended else ("not-measured",))}
    if not any(finding.kind in kinds for finding in findings):
        return list(findings)
    lacks = remaining(campaign, cases)
    missing = {(partition, place) for _, partition, place in lacks.missing} if lacks else set()

    def next_step(finding: Finding) -> str:
        there = (finding.partition, finding.place) in missing if finding.place else bool(missing)
        helps = not ended or lacks is None or there
        return campaign.next_command if helps else f"measure again: {campaign.whole_command}"

    return [
        dataclasses.replace(finding, next_step=next_step(finding))
        if finding.kind in kinds
        else finding
        for finding in findings
    ]
