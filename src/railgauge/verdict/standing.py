"""What a verdict says of each node: whether it may return, why not, and what was tested there."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from railgauge.model.record import Standing
from railgauge.verdict.answer import Finding, Verdict
from railgauge.verdict.compare import Case


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
    campaign = verdict.campaign
    if verdict.simulated:
        return "a rehearsal accepts nothing"
    if campaign.gate != "acceptance" or campaign.state != "finished":
        return f"campaign {campaign.id} is {campaign.state}, mode {campaign.gate}"
    partitions = [name for name, nodes in campaign.scope.nodes.items() if node in nodes]
    if not partitions:
        return f"campaign {campaign.id} was not about it"
    for finding in findings:
        if provisionally and finding.weight == "provisional accept":
            continue
        if finding.nodes or _concerns(finding, partitions):
            return words(finding)
    if accused := _accused(verdict, node):
        return accused
    good = []
    for case in cases:
        if case.passed or (provisionally and case.unreferenced):
            good.append(case)
        elif not case.was_left_out:
            return f"{case.check} {' '.join(case.nodes)}: {case.result}"
    if not any(case.partition in partitions for case in good):
        return f"nothing was measured on it in campaign {campaign.id}"
    return ""


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
    check accuses; of what nothing judged, or nobody measured in earnest, none.

    A check that found a pair bad accuses neither of its nodes alone: only a culprit is accused.
    """
    if not _is_judged(verdict):
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
            accused.get(node, {}) if _is_judged(verdict) else None,
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
    why = _why_not(verdict, node, findings, cases)
    provisional = why and not _why_not(verdict, node, findings, cases, provisionally=True)
    return Standing(
        measured=any(case.complete for case in cases),
        outcome="accepted" if not why else "provisional" if provisional else "not accepted",
        why=why,
        checks=tuple(sorted({case.check for case in cases if case.passed or case.unreferenced})),
        # What nothing judged, or nobody measured in earnest, was not seen to be well.
        rails=_rails(node, cases) if _is_judged(verdict) else {},
        fingerprint=fingerprint,
        alarms=accused,
        carriers=_carriers(node, cases),
    )


def _is_judged(verdict: Verdict) -> bool:
    campaign = verdict.campaign
    ended = campaign.gate == "acceptance" and campaign.state == "finished"
    return ended and not verdict.simulated


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
