"""The standing of each node after a campaign: whether it may return, why not, what was tested."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Collection, Iterator, Mapping, Sequence

from railgauge.model.failure import OF_EVERY_HOST, OF_THE_SUBNET, TAKEN, Failure
from railgauge.model.record import Standing, StandingOutcome
from railgauge.verdict.campaign.cases import Case, unknown_fields
from railgauge.verdict.campaign.finding import Finding
from railgauge.verdict.decision.rules import TO_MEASURE
from railgauge.verdict.decision.verdict import Verdict, nodes_of_findings


def why_not(verdict: Verdict, node: str) -> str:
    """Why `node` stays out of service after this campaign; "" where nothing keeps it.

    A node returns on its own evidence only: a finished acceptance by real tools, no finding that
    names it, none of the session or of its partition that names no node, and a case that passed
    on it. A fault between switches is of no node: it rejects the campaign alone. A failed pair
    keeps both its nodes, as it does not show which of them is at fault. The gate tests them again,
    without those that are.
    """
    cases = [case for case in verdict.cases if node in case.nodes]
    findings = [finding for finding in verdict.findings if _is_about(finding, node)]
    obstacles = _obstacles(verdict, node, findings, cases, _Order(verdict))
    return obstacles[0].why if obstacles else ""


class _Rank(enum.IntEnum):
    """How much an obstacle says of a node: the first one is its reason."""

    #: the campaign is no acceptance of it
    NOT_JUDGED = enum.auto()
    #: a finding that names the node alone, or says what the node is at fault for
    CONVICTS = enum.auto()
    #: a finding at a place where no other node is at fault
    OWN = enum.auto()
    #: what the location of faults says of it
    LOCATED = enum.auto()
    #: the campaign was interrupted
    BROKE_OFF = enum.auto()
    #: a finding at a place where another node is at fault
    WITH_CULPRIT = enum.auto()
    #: a finding that names the node, and accuses it of nothing
    NAMED = enum.auto()
    #: a finding that names no node, or a place of the node that is not good
    OTHER = enum.auto()
    #: something that is to be measured yet
    TO_MEASURE = enum.auto()


@dataclasses.dataclass(frozen=True)
class _Obstacle:
    """What keeps a node from being accepted."""

    why: str
    rank: _Rank


class _Order:
    """Ranks the findings about a node: with two nodes at fault, a pair of them speaks against both,
    and convicts neither as its own fault does.
    """

    def __init__(self, verdict: Verdict) -> None:
        self._guilty = set(verdict.failing_nodes)
        self._nodes_there = nodes_of_findings(verdict.cases)
        self._reasons: dict[str, list[str]] = {}
        for suspect in verdict.suspects:
            for node in suspect.failing_nodes if suspect.own_reason else ():
                self._reasons.setdefault(node, []).append(suspect.own_reason)

    def rank(self, finding: Finding, node: str) -> _Rank:
        if finding.weight != "reject" or not finding.nodes:
            return _Rank.NAMED if finding.nodes else _Rank.OTHER
        reasons = self._reasons.get(node, ())
        if finding.nodes == (node,) or any(why in finding.message for why in reasons):
            return _Rank.CONVICTS
        others = self._guilty - {node}
        return _Rank.OWN if self._nodes_there(finding).isdisjoint(others) else _Rank.WITH_CULPRIT


def _obstacles(
    verdict: Verdict,
    node: str,
    findings: Sequence[Finding],
    cases: Sequence[Case],
    order: _Order,
    provisionally: bool = False,
) -> list[_Obstacle]:
    """What keeps a node out, by the findings that name it or no node, and by its own cases, what
    says most of it first; `provisionally` without what only lacks a baseline.
    """
    found = _unordered(verdict, node, findings, cases, order, provisionally)
    return sorted(found, key=lambda obstacle: obstacle.rank)


def _unordered(
    verdict: Verdict,
    node: str,
    findings: Sequence[Finding],
    cases: Sequence[Case],
    order: _Order,
    provisionally: bool,
) -> Iterator[_Obstacle]:
    campaign = verdict.campaign
    if verdict.simulated:
        yield _Obstacle("a rehearsal accepts nothing", _Rank.NOT_JUDGED)
    broke_off = campaign.state == "interrupted"
    if campaign.gate != "acceptance" or campaign.state != "finished":
        left = broke_off and campaign.gate == "acceptance"
        yield _Obstacle(
            f"campaign {campaign.id} is {campaign.state}, mode {campaign.gate}",
            _Rank.BROKE_OFF if left else _Rank.NOT_JUDGED,
        )
    partitions = [name for name, nodes in campaign.scope.nodes.items() if node in nodes]
    if not partitions:
        yield _Obstacle(f"campaign {campaign.id} was not about it", _Rank.NOT_JUDGED)
    for finding in findings:
        if provisionally and finding.weight == "provisional accept":
            continue
        if finding.nodes or _concerns(finding, partitions):
            # The finding of a session that broke off says no more than that.
            to_measure = finding.kind in TO_MEASURE or (broke_off and not finding.nodes)
            yield _Obstacle(
                reason_text(finding, node),
                _Rank.TO_MEASURE
                if to_measure and finding.weight == "inconclusive"
                else order.rank(finding, node),
            )
    if accused := _accused(verdict, node):
        yield _Obstacle(accused, _Rank.LOCATED)
    good = [case for case in cases if case.passed or (provisionally and case.unreferenced)]
    well = {id(case) for case in good}
    for case in cases:
        if id(case) in well or case.was_left_out or _is_covered_by_another_place(case, node, good):
            continue
        if case.of_job and case.failures and all(map(between_switches, case.failures)):
            continue
        yield _Obstacle(
            f"{case.check} {' '.join(case.nodes)}: {case.result}",
            _Rank.TO_MEASURE if case.to_measure else _Rank.OTHER,
        )
    if not any(case.partition in partitions for case in good):
        why = f"nothing was measured on it in campaign {campaign.id}"
        yield _Obstacle(why, _Rank.TO_MEASURE)


def _is_covered_by_another_place(case: Case, node: str, good: Sequence[Case]) -> bool:
    """Whether a place lacks only because its other nodes were another user's, and another place
    showed the same of this node: by the same check, under the same condition, and in the same
    role, as it may be bad in one direction.
    """
    taken = {n for failure in case.failures if failure.kind == TAKEN for n in failure.nodes}
    if not taken or node in taken:
        return False
    return any(
        _what(other) == _what(case)
        and len(other.nodes) == len(case.nodes)
        and other.nodes.index(node) == case.nodes.index(node)
        for other in good
    )


def _what(case: Case) -> tuple[str, ...]:
    return case.check, case.partition, case.kind, case.condition


def _is_about(finding: Finding, node: str) -> bool:
    return node in finding.nodes or not (finding.nodes or between_switches(finding))


def between_switches(finding: Finding | Failure) -> bool:
    """Whether a finding is a fault of an InfiniBand subnet that is at no host."""
    of_subnet = finding.kind in OF_THE_SUBNET and finding.kind not in OF_EVERY_HOST
    return of_subnet and not finding.nodes


def _concerns(finding: Finding, partitions: Collection[str]) -> bool:
    """Whether a finding without nodes is about one of these partitions, or about all."""
    return not finding.partition or finding.partition in partitions


def failed(verdict: Verdict, node: str) -> str:
    """What `node` failed, whatever became of the campaign; "" where nothing speaks against it. As
    with `why_not`, a failed pair speaks against both its nodes, and what convicts one comes first.
    """
    order = _Order(verdict)
    against = [
        _Obstacle(reason_text(finding, node), order.rank(finding, node))
        for finding in verdict.findings
        if finding.weight == "reject" and node in finding.nodes
    ]
    if accused := _accused(verdict, node):
        against.append(_Obstacle(accused, _Rank.LOCATED))
    return min(against, key=lambda obstacle: obstacle.rank).why if against else ""


def _accused(verdict: Verdict, node: str) -> str:
    """Why a node is at fault for sure; "" where it is not."""
    return next((s.why for s in verdict.suspects if node in s.failing_nodes), "")


def reason_text(finding: Finding, node: str) -> str:
    """A finding as the reason of a drained `node`: check, nodes if there are others, message."""
    nodes = () if finding.nodes == (node,) else finding.nodes
    return ": ".join(filter(None, [" ".join([finding.check, *nodes]), finding.message]))


def culprits(verdict: Verdict, nodes: Collection[str]) -> set[str]:
    """The nodes among `nodes` that are at fault for sure; none where all of them are.

    Then the verdict does not separate them, and all of them stay out.
    """
    failing = set(verdict.failing_nodes)
    return failing & set(nodes) if failing and set(nodes) - failing else set()


def to_measure(verdict: Verdict, node: str) -> list[str]:
    """What would confirm or clear a node that is suspect, and not confirmed; one line each."""
    return list(
        dict.fromkeys(
            f"{suspect.name}: measure {measure.words}"
            for suspect in verdict.suspects
            if node in suspect.nodes and suspect.kind not in ("leaf", "uplink")
            for measure in suspect.confirm
        )
    )


def links_at_fault(verdict: Verdict, node: str) -> list[str]:
    """The links between switches that are at fault for sure, if the node failed with a partner
    at which that link is slow, and is not at fault itself; each with its ports.
    """
    if node in verdict.failing_nodes:
        return []
    failed = [case for case in verdict.cases if case.failed and node in case.nodes]
    return [
        " ".join([f"uplink {suspect.name}", *(f"({port})" for port in suspect.ports)])
        for suspect in verdict.suspects
        if suspect.kind == "uplink" and suspect.confirmed
        if any(c.check in suspect.checks and {*c.nodes} & {*suspect.nodes} for c in failed)
    ]


def alarms(verdict: Verdict) -> dict[str, dict[str, bool]]:
    """Node -> check -> whether a retest in the same campaign confirmed it, of the nodes that a
    check accuses; none of a campaign that judged nothing, or that was a rehearsal. What was
    measured before a campaign broke off accuses as well.

    A check that found a pair bad accuses neither of its nodes for that: only a culprit is accused.
    """
    if not _has_usable_results(verdict):
        return {}
    scope = {node for members in verdict.campaign.scope.nodes.values() for node in members}
    confirmed = {
        (node, c.check) for c in verdict.cases if c.repeats and c.failed for node in c.nodes
    }
    order = _Order(verdict)
    by_node = {
        node: {f.check: (node, f.check) in confirmed for f in _accusations(verdict, node, order)}
        for node in sorted(culprits(verdict, scope))
    }
    return {node: by_check for node, by_check in by_node.items() if by_check}


def accusations(verdict: Verdict, node: str) -> list[Finding]:
    """The rejecting findings that accuse a node, what convicts it first: those of the checks that
    showed it to be at fault. Where it is known without them, all that name it but those at a place
    where another node is at fault; these too where there are no others.
    """
    return _accusations(verdict, node, _Order(verdict))


def _accusations(verdict: Verdict, node: str, order: _Order) -> list[Finding]:
    shown = [suspect.checks for suspect in verdict.suspects if node in suspect.failing_nodes]
    checks = {check for checks in shown for check in checks}
    against = sorted(
        (f for f in verdict.findings if f.weight == "reject" and f.check and node in f.nodes),
        key=lambda finding: order.rank(finding, node),
    )
    accusing = [
        finding
        for finding in against
        if finding.check in checks
        or (() in shown and order.rank(finding, node) < _Rank.WITH_CULPRIT)
    ]
    return accusing or (against if () in shown else [])


def standings(verdict: Verdict) -> dict[str, Standing]:
    """Node -> what the campaign leaves of it for the record of coverage."""
    everywhere = [f for f in verdict.findings if not f.nodes and not between_switches(f)]
    findings: dict[str, list[Finding]] = {}
    for finding in verdict.findings:
        for node in finding.nodes:
            findings.setdefault(node, []).append(finding)
    cases: dict[str, list[Case]] = {}
    for case in verdict.cases:
        for node in case.nodes:
            cases.setdefault(node, []).append(case)
    scope = {node for members in verdict.campaign.scope.nodes.values() for node in members}
    fingerprints, unknown = verdict.campaign.fingerprints, unknown_fields(verdict.cases)
    accused = alarms(verdict)
    order = _Order(verdict)
    return {
        node: _standing(
            verdict,
            node,
            [*findings.get(node, ()), *everywhere],
            cases.get(node, []),
            order,
            fingerprints.get(node),
            accused.get(node, {} if _is_judged(verdict) else None),
            unknown.get(node, ()),
        )
        for node in sorted(scope)
    }


def _standing(
    verdict: Verdict,
    node: str,
    findings: Sequence[Finding],
    cases: Sequence[Case],
    order: _Order,
    fingerprint: str | None,
    accused: dict[str, bool] | None,
    unknown: tuple[str, ...],
) -> Standing:
    obstacles = _obstacles(verdict, node, findings, cases, order)
    measured = any(case.complete for case in cases)
    why = ""
    outcome: StandingOutcome = "accepted"
    if obstacles:
        why = obstacles[0].why
        provisional = not _obstacles(verdict, node, findings, cases, order, provisionally=True)
        lacks = all(one.rank in (_Rank.BROKE_OFF, _Rank.TO_MEASURE) for one in obstacles)
        outcome = "provisional" if provisional else "not tested" if lacks else "not accepted"
    return Standing(
        measured=measured,
        outcome=outcome,
        why=why,
        checks=tuple(sorted({case.check for case in cases if case.passed or case.unreferenced})),
        # A campaign that judged nothing has shown no rail to be well.
        rails=_rails(node, cases) if _has_usable_results(verdict) else {},
        fingerprint=fingerprint,
        unknown=unknown,
        alarms=accused,
        carriers=_carriers(node, cases),
        open=_has_usable_results(verdict) and _is_open(verdict, node, cases),
        cleared=_cleared(verdict, cases) if _has_usable_results(verdict) else (),
    )


def _is_judged(verdict: Verdict) -> bool:
    return _is_acceptance(verdict) and verdict.campaign.state == "finished"


def _has_usable_results(verdict: Verdict) -> bool:
    """Whether its results count: those of a campaign that broke off do, too."""
    return _is_acceptance(verdict) and verdict.campaign.state in ("finished", "interrupted")


def _is_acceptance(verdict: Verdict) -> bool:
    return verdict.campaign.gate == "acceptance" and not verdict.simulated


def _is_open(verdict: Verdict, node: str, cases: Sequence[Case]) -> bool:
    """Whether something is wrong at a node for which no node is confirmed to be the reason."""
    guilty = set(verdict.failing_nodes)
    far = {id(outlier.case) for outlier in verdict.outliers}
    odd = (case for case in cases if case.failed or id(case) in far)
    return node not in guilty and any(not guilty & set(case.nodes) for case in odd)


def _cleared(verdict: Verdict, cases: Sequence[Case]) -> tuple[str, ...]:
    """The checks that failed at a place of a node, by no fault of a node, and were good when the
    node was measured again with others. `cases` are the node's.
    """
    guilty = set(verdict.failing_nodes)
    again: dict[tuple[str, ...], bool] = {}
    for case in cases:
        if case.repeats and not case.quiet:
            good = case.passed or case.unreferenced
            again[_what(case)] = again.get(_what(case), True) and good
    return tuple(
        sorted(
            {
                case.check
                for case in cases
                if again.get(_what(case), False) and not guilty & set(case.nodes)
                if case.failed and not case.repeats and not case.of_job
            }
        )
    )


def _carriers(node: str, cases: Sequence[Case]) -> dict[str, tuple[int, int]]:
    """Device -> the least and the greatest count of its carrier's changes."""
    counts: dict[str, list[int]] = {}
    for case in cases:
        facts = case.facts.get(node, {})
        device, before = facts.get("device"), facts.get("carrier_changes_before")
        after = facts.get("after")
        since = after.get("carrier_changes") if isinstance(after, Mapping) else None
        if isinstance(device, str) and isinstance(before, int):
            increase = since if isinstance(since, int) else 0
            counts.setdefault(device, []).extend((before, before + increase))
        links = facts.get("links")
        for name, link in links.items() if isinstance(links, Mapping) else ():
            changes = (link.get(when, {}).get("carrier_changes") for when in ("before", "after"))
            counts.setdefault(name, []).extend(count for count in changes if isinstance(count, int))
    return {device: (min(of), max(of)) for device, of in sorted(counts.items()) if of}


def _rails(node: str, cases: Sequence[Case]) -> dict[str, bool]:
    """Rail -> whether all is well that was measured over it; a rail is known by its place among the
    node's RDMA devices.
    """
    by_rail: dict[str, bool] = {}
    for case in cases:
        for row in case.rows:
            nodes_there, rails = row.measurement.nodes, (row.measurement.rails or "").split("-")
            if len(rails) == 2 and len(nodes_there) == 2:
                for end, rail in zip(nodes_there, rails, strict=True):
                    if end == node:
                        good = case.passed or case.unreferenced
                        by_rail[rail] = by_rail.get(rail, True) and good
    return dict(sorted(by_rail.items(), key=lambda item: (len(item[0]), item[0])))
