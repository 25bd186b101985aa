"""Which nodes of a campaign may return, and why the others may not."""

from __future__ import annotations

from collections.abc import Collection

from railgauge.verdict.answer import Finding, Verdict


def why_not(verdict: Verdict, node: str) -> str:
    """Why `node` stays out of service after this campaign; "" where nothing keeps it.

    A node returns alone on its own evidence: a finished acceptance by real tools, no finding that
    names it, none that names no node (of the session, or of its partition), and a case that passed
    on it. That it was tested with one that failed is enough to keep it: who of a pair is at fault
    the pair cannot tell.
    """
    campaign = verdict.campaign
    if verdict.simulated:
        return "a rehearsal accepts nothing"
    if campaign.gate != "acceptance" or campaign.state != "finished":
        return f"campaign {campaign.id} is {campaign.state}, mode {campaign.gate}"
    partitions = [name for name, nodes in campaign.scope.nodes.items() if node in nodes]
    if not partitions:
        return f"campaign {campaign.id} was not about it"
    for finding in verdict.findings:
        if node in finding.nodes or (not finding.nodes and _concerns(finding, partitions)):
            return words(finding)
    mine = [case for case in verdict.cases if node in case.nodes]
    bad = next((case for case in mine if not case.passed and not case.was_left_out), None)
    if bad is not None:
        return f"{bad.check} {' '.join(bad.nodes)}: {bad.result}"
    if not any(case.passed and case.partition in partitions for case in mine):
        return f"nothing was measured on it in campaign {campaign.id}"
    return ""


def _concerns(finding: Finding, partitions: Collection[str]) -> bool:
    """A finding without nodes is about its partition, or about all."""
    return not finding.partition or finding.partition in partitions


def words(finding: Finding) -> str:
    """A finding in the words of a drained node's reason: check, nodes, what was found."""
    return ": ".join(filter(None, [" ".join([finding.check, *finding.nodes]), finding.message]))


def culprits(verdict: Verdict, nodes: Collection[str]) -> set[str]:
    """Those of `nodes` that the evidence points at, where it clears others of them.

    Empty where it does not tell one from another: then all of them stay out.
    """
    suspects = {suspect.node for suspect in verdict.suspects}
    return suspects & set(nodes) if suspects and set(nodes) - suspects else set()
