"""What a verdict says of each node: whether it may return, why not, and what was tested there."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence

from railgauge.model.failure import TAKEN
from railgauge.model.record import Standing, StandingOutcome
from railgauge.verdict.answer import Finding, Verdict
from railgauge.verdict.compare import Case
from railgauge.verdict.rules import TO_MEASURE


def why_not(verdict: Verdict, node: str) -> str:
    """Why `node` stays out of service after this campaign; "" where nothing keeps it.

    A node returns alone on its own evidence: a finished acceptance by real tools, no finding that
    names it, none that names no node (of the session, or of its partition), and a case that passed
    on it. That it was tested with one that failed is enough to keep it: who of a pair is at fault
    the pair cannot tell. The gate tests it again, without those that are.
    """
    cases = [case for case in verdict.cases if node in case.nodes]
    return _why_not(verdict, node, [f for f in verdict.findings if _is_about(f, node)], cases)


def _why_not(
    verdict: Verdict,
    node: str,
    findings: Sequence[Finding],
    cases: Sequence[Case],
    provisionally: bool = False,
) -> str:
    """By the findings that name it or none, and its own cases; `provisionally` without what only
    lacks a baseline.
    """
    obstacles = _obstacles(verdict, node, findings, cases, provisionally)
    return next((one.why for one in obstacles), "")


@dataclasses.dataclass(frozen=True)
class _Obstacle:
    """What keeps a node from being accepted; `to_measure`: only that it is to be measured yet."""

    why: str
    to_measure: bool = False


def _obstacles(
    verdict: Verdict,
    node: str,
    findings: Sequence[Finding],
    cases: Sequence[Case],
    provisionally: bool,
) -> Iterator[_Obstacle]:
    campaign = verdict.campaign
    if verdict.simulated:
        yield _Obstacle("a rehearsal accepts nothing")
    broke_off = campaign.state == "interrupted"
    if campaign.gate != "acceptance" or campaign.state != "finished":
        why = f"campaign {campaign.id} is {campaign.state}, mode {campaign.gate}"
        yield _Obstacle(why, to_measure=broke_off and campaign.gate == "acceptance")
    partitions = [name for name, nodes in campaign.scope.nodes.items() if node in nodes]
    if not partitions:
        yield _Obstacle(f"campaign {campaign.id} was not about it")
    for finding in findings:
        if provisionally and finding.weight == "provisional accept":
            continue
        if finding.nodes or _concerns(finding, partitions):
            # Of one that broke off the session says no more than that.
            to_measure = finding.kind in TO_MEASURE or (broke_off and not finding.nodes)
            yield _Obstacle(words(finding), to_measure and finding.weight == "inconclusive")
    if accused := _accused(verdict, node):
        yield _Obstacle(accused)
    good = [case for case in cases if case.passed or (provisionally and case.unreferenced)]
    well = {id(case) for case in good}
    for case in cases:
        if id(case) in well or case.was_left_out or _is_made_up_for(case, node, good):
            continue
        yield _Obstacle(f"{case.check} {' '.join(case.nodes)}: {case.result}", case.to_measure)
    if not any(case.partition in partitions for case in good):
        yield _Obstacle(f"nothing was measured on it in campaign {campaign.id}", to_measure=True)


def _is_made_up_for(case: Case, node: str, good: Sequence[Case]) -> bool:
    """Whether a place lacks only because its other nodes were somebody else's, and another showed
    the same of this one: what this check measures there, and in the same role, as it may be bad in
    one direction.
    """
    taken = {n for failure in case.failures if failure.kind == TAKEN for n in failure.nodes}
    if not taken or node in taken:
        return False
    return any(
        (one.check, one.partition, one.kind) == (case.check, case.partition, case.kind)
        and len(one.nodes) == len(case.nodes)
        and one.nodes.index(node) == case.nodes.index(node)
        for one in good
    )


def _is_about(finding: Finding, node: str) -> bool:
    return node in finding.nodes or not finding.nodes


def _concerns(finding: Finding, partitions: Collection[str]) -> bool:
    """A finding without nodes is about its partition, or about all."""
    return not finding.partition or finding.partition in partitions


def failed(verdict: Verdict, node: str) -> str:
    """What `node` failed of what was measured, whatever became of the campaign; "" where nothing
    speaks against it. As of `why_not`: who of a pair is at fault, the pair cannot tell.
    """
    for finding in verdict.findings:
        if finding.weight == "reject" and node in finding.nodes:
            return words(finding)
    return _accused(verdict, node)


def _accused(verdict: Verdict, node: str) -> str:
    """Why it is at fault for sure; "" where it is not."""
    return next((s.why for s in verdict.suspects if node in s.failing_nodes), "")


def words(finding: Finding) -> str:
    """A finding in the words of a drained node's reason: check, nodes, what was found."""
    return ": ".join(filter(None, [" ".join([finding.check, *finding.nodes]), finding.message]))


def culprits(verdict: Verdict, nodes: Collection[str]) -> set[str]:
    """Those of `nodes` that are at fault for sure, where not all of them are.

    Empty where it does not tell one from another: then all of them stay out.
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


def alarms(verdict: Verdict) -> dict[str, dict[str, bool]]:
    """Node -> check -> whether a retest in the same campaign confirmed it, of the nodes that a
    check accuses; of what nothing judged, or nobody measured in earnest, none. What was measured
    before a campaign broke off accuses as well.

    A check that found a pair bad accuses neither of its nodes alone: only a culprit is accused.
    """
    if not _is_in_earnest(verdict) or verdict.campaign.state not in ("finished", "interrupted"):
        return {}
    scope = {node for members in verdict.campaign.scope.nodes.values() for node in members}
    again = {(node, c.check) for c in verdict.cases if c.like and c.failed for node in c.nodes}
    found = {
        node: {f.check: (node, f.check) in again for f in accusations(verdict, node)}
        for node in sorted(culprits(verdict, scope))
    }
    return {node: by_check for node, by_check in found.items() if by_check}


def accusations(verdict: Verdict, node: str) -> list[Finding]:
    """The findings of checks for which alone a node is rejected: of those that have shown it to be
    at fault, where that is not known without them.
    """
    shown = [suspect.checks for suspect in verdict.suspects if node in suspect.failing_nodes]
    checks = None if () in shown else {check for checks in shown for check in checks}
    return [
        finding
        for finding in verdict.findings
        if finding.weight == "reject" and finding.check and node in finding.nodes
        if checks is None or finding.check in checks
    ]


def standings(verdict: Verdict) -> dict[str, Standing]:
    """Of every node of the campaign: what it leaves for the record of coverage."""
    everywhere = [finding for finding in verdict.findings if not finding.nodes]
    findings: dict[str, list[Finding]] = {}
    for finding in verdict.findings:
        for node in finding.nodes:
            findings.setdefault(node, []).append(finding)
    cases: dict[str, list[Case]] = {}
    for case in verdict.cases:
        for node in case.nodes:
            cases.setdefault(node, []).append(case)
    scope = {node for members in verdict.campaign.scope.nodes.values() for node in members}
    fingerprints = verdict.campaign.fingerprints
    accused = alarms(verdict)
    return {
        node: _standing(
            verdict,
            node,
            [*findings.get(node, ()), *everywhere],
            cases.get(node, []),
            fingerprints.get(node),
            accused.get(node, {} if _is_judged(verdict) else None),
        )
        for node in sorted(scope)
    }


def _standing(
    verdict: Verdict,
    node: str,
    findings: Sequence[Finding],
    cases: Sequence[Case],
    fingerprint: str | None,
    accused: dict[str, bool] | None,
) -> Standing:
    obstacles = list(_obstacles(verdict, node, findings, cases, provisionally=False))
    measured = any(case.complete for case in cases)
    why = ""
    outcome: StandingOutcome = "accepted"
    if obstacles:
        # What speaks against it says more than what lacks.
        why = min(obstacles, key=lambda one: one.to_measure).why
        provisional = not _why_not(verdict, node, findings, cases, provisionally=True)
        lacks = all(one.to_measure for one in obstacles)
        outcome = "provisional" if provisional else "not tested" if lacks else "not accepted"
    return Standing(
        measured=measured,
        outcome=outcome,
        why=why,
        checks=tuple(sorted({case.check for case in cases if case.passed or case.unreferenced})),
        # What nothing judged, or nobody measured in earnest, was not seen to be well.
        rails=_rails(node, cases) if _is_judged(verdict) else {},
        fingerprint=fingerprint,
        alarms=accused,
        carriers=_carriers(node, cases),
        open=_is_open(verdict, node, cases),
    )


def _is_judged(verdict: Verdict) -> bool:
    return _is_in_earnest(verdict) and verdict.campaign.state == "finished"


def _is_in_earnest(verdict: Verdict) -> bool:
    return verdict.campaign.gate == "acceptance" and not verdict.simulated


def _is_open(verdict: Verdict, node: str, cases: Sequence[Case]) -> bool:
    """Whether something is wrong there that nobody is confirmed to be the reason of."""
    guilty = set(verdict.failing_nodes)
    far = {id(outlier.case) for outlier in verdict.outliers}
    odd = (case for case in cases if case.failed or id(case) in far)
    return node not in guilty and any(not guilty & set(case.nodes) for case in odd)


def _carriers(node: str, cases: Sequence[Case]) -> dict[str, tuple[int, int]]:
    """Device -> the least and the most of the changes of its carrier that were counted."""
    counts: dict[str, list[int]] = {}
    for case in cases:
        facts = case.facts.get(node, {})
        device, before = facts.get("device"), facts.get("carrier_changes_before")
        after = facts.get("after")
        meanwhile = after.get("carrier_changes") if isinstance(after, Mapping) else None
        if isinstance(device, str) and isinstance(before, int):
            grown = meanwhile if isinstance(meanwhile, int) else 0
            counts.setdefault(device, []).extend((before, before + grown))
        links = facts.get("links")
        for name, link in links.items() if isinstance(links, Mapping) else ():
            said = (link.get(when, {}).get("carrier_changes") for when in ("before", "after"))
            counts.setdefault(name, []).extend(count for count in said if isinstance(count, int))
    return {device: (min(of), max(of)) for device, of in sorted(counts.items()) if of}


def _rails(node: str, cases: Sequence[Case]) -> dict[str, bool]:
    """Each of its rails that something was measured over, by its place among the node's RDMA
    devices: whether all that was, is as it must be.
    """
    found: dict[str, bool] = {}
    for case in cases:
        for row in case.rows:
            ends, rails = row.measurement.nodes, (row.measurement.rails or "").split("-")
            if len(rails) == 2 and len(ends) == 2:
                for end, rail in zip(ends, rails, strict=True):
                    if end == node:
                        good = case.passed or case.unreferenced
                        found[rail] = found.get(rail, True) and good
    return dict(sorted(found.items(), key=lambda item: (len(item[0]), item[0])))
