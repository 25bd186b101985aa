"""The decision: accept, reject or inconclusive, with its findings.

reject: something measured, or a node that should have been, is not as it must be; or nothing was
measured at all. inconclusive: nothing speaks against the nodes, but not all that is required was
measured, or nothing says what it should be. provisional accept: as accept, but what judged some of
it is no baseline of this site (`first_day`). accept: every required check passed on every node.
Missing data is never a pass.
"""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Collection, Sequence
from typing import Any

from railgauge import hostlist, systems
from railgauge.campaign.folder import Campaign
from railgauge.locating import Suspect
from railgauge.model.failure import (
    DISTURBED,
    ENVIRONMENT,
    NO_REFERENCE,
    NOT_MEASURED,
    OF_THE_SUBNET,
    TAKEN,
    UNAVAILABLE,
    Failure,
)
from railgauge.model.record import BrokenRecordError, Row
from railgauge.model.references import Bounded, step_to_record
from railgauge.verdict.campaign.cases import Case, fingerprints, read, read_possible
from railgauge.verdict.campaign.finding import Decision, Finding, places_of
from railgauge.verdict.campaign.inventory_peers import OddNodes, odd_nodes
from railgauge.verdict.campaign.no_baseline import first_day, floors
from railgauge.verdict.campaign.outliers import Outlier, outliers
from railgauge.verdict.campaign.ratios import RatioRow, judge
from railgauge.verdict.campaign.reboots import Restart, restarts
from railgauge.verdict.campaign.size_curves import DipAtPlaces, dips_at_places
from railgauge.verdict.campaign.tool_builds import Notice, not_as_packaged, notices
from railgauge.verdict.decision.not_measured import (
    coverage_findings,
    selection_findings,
    with_next_command,
)
from railgauge.verdict.decision.verdict import Verdict
from railgauge.verdict.location import switch_ports
from railgauge.verdict.location.campaign_routes import CampaignRoutes
from railgauge.verdict.location.direct_evidence import by_itself, seen_once
from railgauge.verdict.location.from_campaign import read_leaves
from railgauge.verdict.location.locate import name_suspects


def _bound(reference: Bounded, value: float) -> str:
    """The bound that `value` exceeds."""
    if reference.lowest is not None and value < reference.lowest:
        return f"at least {reference.lowest:.4g}"
    return f"at most {reference.highest:.4g}"


def _row_finding(case: Case, row: Row) -> Finding:
    reference, measurement = row.reference, row.measurement
    assert reference is not None
    share = row.share_of_limit
    of_limit = f", {share:.0%} of what the link allows" if share is not None else ""
    over = f" over {measurement.nics}" if measurement.nics else ""
    return Finding(
        "reject",
        "out-of-reference",
        f"{measurement.variable}{over} is {measurement.value:.4g} {measurement.unit}, expected "
        f"{_bound(reference, measurement.value)} {measurement.unit} ({reference.kind}; "
        f"{reference.deviation(measurement.value):+.0%} of {reference.value:g}{of_limit})",
        next_step="look at the link rate, errors and cabling of the nodes named",
        **_where(case),
    )


def _where(case: Case) -> dict[str, Any]:
    return {
        "check": case.check,
        "partition": case.partition,
        "nodes": case.nodes,
        "place": case.place,
        "evidence": str(case.folder) if case.folder else "",
    }


def _gate_findings(campaign: Campaign, case: Case) -> list[Finding]:
    """Findings where a check ran in another mode, or an acceptance has numbers without a reference,
    whatever mode the check was given.
    """
    findings = []
    if case.gate and case.gate != campaign.gate:
        findings.append(
            Finding(
                "reject", "gate", f"ran as {case.gate}, expected {campaign.gate}", **_where(case)
            )
        )
    unreferenced = _without_reference(case)
    named = any(failure.kind == NO_REFERENCE for failure in case.failures)
    if campaign.gate == "acceptance" and unreferenced and not named and not case.quiet:
        message = f"no reference for {', '.join(unreferenced)}"
        findings.append(Finding("inconclusive", NO_REFERENCE, message, **_where(case)))
    return findings


def _is_explained(case: Case, failed: Collection[tuple[str, str, str]]) -> bool:
    """Whether a pair was measured only to tell who is at fault for an existing finding: one of its
    nodes has `failed` the same check at a planned place. A failure that names a node is a finding
    of its own.
    """
    keys = ((case.check, case.partition, node) for node in case.nodes)
    names = any(failure.nodes for failure in case.failures)
    return bool(case.repeats) and not names and any(key in failed for key in keys)


def _without_reference(case: Case) -> list[str]:
    """The variables that must have a reference, and have none."""
    return [row.measurement.variable for row in case.rows if row.gates and row.reference is None]


def _first_day_findings(cases: Sequence[Case]) -> list[Finding]:
    """Two findings for each partition at most: what nothing judges, and what is judged by something
    else than a baseline.
    """
    findings = []
    step = f"make a baseline: {step_to_record(None)}"
    for partition in dict.fromkeys(case.partition for case in cases):
        day = first_day([case for case in cases if case.partition == partition])
        if day.unjudged:
            conditions = (f"{c.check} {r.measurement.variable}" for c, r in day.unjudged)
            names = list(dict.fromkeys(conditions))
            shown = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
            message = (
                f"{len(day.unjudged)} conditions have no reference, no known share of a limit and "
                f"no four places to compare: {shown}"
            )
            there = [(case, row) for case, row in day.unjudged if row.elsewhere]
            if there:
                case, row = there[0]
                message = (
                    f"the baseline of {case.check} {row.measurement.variable} is for "
                    f"{row.elsewhere}, and no floor accepts in its place; {message}"
                )
            load = (there or day.unjudged)[0][1].measurement.load
            findings.append(
                Finding(
                    "inconclusive",
                    NO_REFERENCE,
                    message,
                    partition=partition,
                    next_step=f"make a baseline: {step_to_record(load)}",
                )
            )
        if day.provisional:
            findings.append(
                Finding(
                    "provisional accept",
                    "no-baseline",
                    day.message,
                    partition=partition,
                    next_step=step,
                )
            )
    return findings


def _case_findings(case: Case) -> list[Finding]:
    if case.passed or case.was_left_out or (case.unreferenced and _without_reference(case)):
        return []
    if case.damage:
        return [Finding("inconclusive", "broken-record", case.damage, **_where(case))]
    if not case.finished:
        why = case.reason or "the session ended before it"
        return [Finding("inconclusive", NOT_RUN, f"{case.result}: {why}", **_where(case))]
    findings = [
        Finding(
            "inconclusive" if failure.kind in NOT_MEASURED else "reject",
            failure.kind,
            failure.message,
            next_step=failure.next_step,
            **{**_where(case), "nodes": _nodes_of(failure, case)},
        )
        for failure in case.failures
    ]
    # The preflights' numbers count what their failures name; a disturbed job's count for nothing.
    if not case.disturbed and not any(
        failure.kind in ("path", "state", *OF_THE_SUBNET) for failure in case.failures
    ):
        findings += [_row_finding(case, row) for row in case.rows if row.within is False]
    if findings:
        return findings
    unavailable = case.unavailable
    if unavailable:
        return [
            Finding(
                "reject",
                UNAVAILABLE,
                f"{hostlist.fold(unavailable)} does not answer Slurm: {case.reason}",
                next_step=f"scontrol show node {hostlist.fold(unavailable)}",
                **{**_where(case), "nodes": unavailable},
            )
        ]
    # No result of the check, no node named: Slurm, the file system or the suite itself.
    reason = case.reason or f"ReFrame says {case.result}, and the check left no result"
    return [Finding("inconclusive", "no-result", reason, **_where(case))]


def _nodes_of(failure: Failure, case: Case) -> tuple[str, ...]:
    """The nodes that a failure speaks against: those that it names, else all of its place. What is
    wrong between switches names none.
    """
    return failure.nodes or (() if failure.kind in OF_THE_SUBNET else case.nodes)


NOT_RUN = "not-run"

#: The most conditions without a judge that are named.
_NAMED = 3

#: Kinds of findings that several places may have for one reason.
_SHARED = ("no-result", NOT_RUN, UNAVAILABLE, DISTURBED, TAKEN, ENVIRONMENT)

#: Kinds of findings that say only that something is to be measured yet, for no fault of the nodes.
TO_MEASURE = ("no-result", NOT_RUN, DISTURBED, TAKEN, "not-measured", "interrupted")


def _merged(findings: Sequence[Finding]) -> list[Finding]:
    """The findings, with those merged that several places of a partition have for one reason: one
    finding of all their nodes.
    """
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        if finding.kind in _SHARED:
            groups.setdefault((finding.partition, finding.message), []).append(finding)
    merged = []
    for finding in findings:
        group = groups.get((finding.partition, finding.message), [])
        if finding.kind not in _SHARED or len(group) < 2:
            merged.append(finding)
        elif finding is group[0]:
            checks = dict.fromkeys(member.check for member in group)
            merged.append(
                dataclasses.replace(
                    finding,
                    check=finding.check if len(checks) == 1 else "",
                    message=f"{len(group)} places ({', '.join(checks)}): {finding.message}",
                    nodes=tuple(dict.fromkeys(n for member in group for n in member.nodes)),
                    place="",
                    evidence="",
                )
            )
    return merged


def _retry_findings(campaign: Campaign, cases: Sequence[Case]) -> list[Finding]:
    """Findings for cases that failed in one run and passed in another: they are flaky."""
    findings = []
    passed = {(c.unique_name, c.partition, c.place) for c in cases if c.passed}
    for case in cases:
        if case.failed and (case.unique_name, case.partition, case.place) in passed:
            findings.append(
                Finding(
                    "reject",
                    "flaky",
                    f"failed in run {case.run}"
                    + (f" of session {case.session}" if campaign.sessions > 1 else "")
                    + " and passed in another: a retry hides a flaky link",
                    **_where(case),
                )
            )
    return findings


def _ratio_findings(campaign: Campaign, rows: Sequence[RatioRow]) -> list[Finding]:
    """Findings for ratios out of their bounds: both sides may be within their own bounds."""
    findings = []
    for row in rows:
        reference, value = row.reference, row.value
        if campaign.gate == "acceptance" and value is not None and row.within is False:
            findings.append(
                Finding(
                    "reject",
                    "out-of-ratio",
                    f"{row.name}: {reference.metric} of ({reference.of}) is {value:.4g} times that "
                    f"of ({reference.over}), expected {_bound(reference, value)} "
                    f"({reference.deviation(value):+.0%} of {reference.value:g})",
                    check=reference.of.check or "",
                    partition=reference.of.partition or "",
                    next_step="compare the settings and the rows of the two conditions",
                )
            )
    return findings


def _fingerprint_findings(cases: Sequence[Case]) -> list[Finding]:
    """Findings for nodes whose fingerprint changed between measurements of the campaign."""
    seen: dict[str, dict[str, None]] = {}
    for case in cases:
        for node, fingerprint in case.fingerprints.items():
            seen.setdefault(node, {})[fingerprint] = None
    return [
        Finding(
            "inconclusive",
            "two-states",
            f"measured with two states of {node}: its fingerprint was {', then '.join(states)}",
            nodes=(node,),
            next_step="measure again: railgauge accept",
        )
        for node, states in sorted(seen.items())
        if len(states) > 1
    ]


def _updated_nodes(campaign: Campaign, cases: Sequence[Case]) -> list[str]:
    """The nodes under test of a gate run that differ from what was accepted of them."""
    now, accepted = fingerprints(cases), campaign.scope.accepted
    return [n for n in campaign.scope.updated if n not in accepted or now.get(n) != accepted[n]]


def _peer_findings(odd: Sequence[OddNodes]) -> list[Finding]:
    """Findings for nodes that differ from their peers, though each may be as its system expects."""
    return [
        Finding(
            "reject",
            "odd-node",
            nodes.message,
            next_step=nodes.next_step,
            **{**_where(nodes.case), "nodes": nodes.nodes},
        )
        for nodes in odd
    ]


def _outlier_findings(far: Sequence[Outlier]) -> list[Finding]:
    """Findings for numbers that are within every bound, and far worse than those of their peers.

    A single run tells a bad place from a bad moment less surely than a bound does. So no node is
    rejected for it, and none is accepted with it.
    """
    return [
        Finding(
            "inconclusive",
            "stands-out",
            outlier.message,
            next_step="measure again: railgauge accept; where it is so again, look at the link's "
            "rate and errors, PCIe and power there",
            **{**_where(outlier.case), "nodes": outlier.nodes},
        )
        for outlier in far
    ]


def _dip_findings(found: Sequence[DipAtPlaces]) -> list[Finding]:
    """Findings for holes in curves over message sizes. A disturbed moment can make one, so that no
    node is rejected for it, and none is accepted with it.
    """
    return [
        Finding(
            "inconclusive",
            "dip",
            dip.message,
            next_step="measure again: railgauge accept; where it is so again, look at MTU and "
            "buffers of the path, and for NCCL at its algorithm, protocol and tuner plugin",
            **{**_where(dip.case), "nodes": dip.nodes},
        )
        for dip in found
    ]


def _restart_findings(restarted: Sequence[Restart]) -> list[Finding]:
    """Findings for nodes that restarted: such a node is not well, however fast it is."""
    return [
        Finding(
            "reject" if restart.in_session else "inconclusive",
            "restarted",
            restart.message,
            nodes=(restart.node,),
            next_step=f"journalctl --boot=-1 on {restart.node}, and the event log of its BMC, say "
            "why; then measure again: railgauge accept",
        )
        for restart in restarted
    ]


def _provenance_findings(cases: Sequence[Case]) -> list[Finding]:
    """Findings for tools that are not as packaged, where the system's data makes that count."""
    return [
        Finding(
            "inconclusive",
            "tool-changed",
            changed.message,
            partition=changed.partition,
            nodes=changed.build.nodes,
            next_step="reinstall the package, then measure again; or build it: make stack",
        )
        for changed in not_as_packaged(cases)
        if changed.strict
    ]


def _other_suspects(
    odd: Sequence[OddNodes], far: Sequence[Outlier], restarted: Sequence[Restart]
) -> list[Suspect]:
    """Suspects without a partner: they restarted, differ from their peers, or stand out alone."""
    named = [
        by_itself(restart.node, restart.message) for restart in restarted if restart.in_session
    ]
    for nodes in odd:
        if not nodes.tie:
            named += [by_itself(node, "not as its peers") for node in nodes.nodes]
    return named + [
        seen_once(outlier.nodes[0], outlier.message, outlier.case.check)
        for outlier in far
        if len(outlier.case.nodes) == 1
    ]


def _state_findings(campaign: Campaign, cases: Sequence[Case]) -> list[Finding]:
    """The finding that a campaign did not come to its own end, which proves nothing of the rest."""
    places = [case for case in cases if not (case.of_job or case.repeats)]
    finished = {(c.unique_name, c.partition, c.place) for c in places if c.finished}
    planned = {(c.unique_name, c.partition, c.place) for c in places}
    done = f"after {len(finished)} of {len(planned)} places"
    if campaign.state == "interrupted":
        by = campaign.session.interrupted_by if campaign.session else ""
        message = f"interrupted {done}" + (f": {by}" if by else "")
        return [
            Finding("inconclusive", "interrupted", message, next_step=campaign.next_command),
        ]
    if campaign.state != "finished" or campaign.session is None:
        return [
            Finding(
                "inconclusive",
                "unfinished",
                f"still running, or broken off, {done}",
                next_step=campaign.next_command,
            )
        ]
    return []


def _session_findings(
    campaign: Campaign, cases: Sequence[Case], others: Sequence[Finding]
) -> list[Finding]:
    """The finding that ReFrame ended badly, unless the cases explain its exit code: failures do,
    and cases whose precondition failed; cases that a broken session left open do not.
    """
    session = campaign.session
    if session is None or session.exit_code == 0:
        return []
    left_open = any(not case.finished and not case.precondition_failed for case in cases)
    killed = session.exit_code < 0
    if others and not (left_open and (session.last_error or killed)):
        return []
    return [
        Finding(
            "inconclusive",
            "session",
            f"ReFrame was ended by signal {-session.exit_code}"
            if killed
            else f"ReFrame ended with exit code {session.exit_code}: {session.last_error}",
            evidence=str(campaign.session_folder(campaign.sessions) / "reframe.out"),
            next_step=campaign.next_command if left_open else "",
        )
    ]


def decide(campaign: Campaign) -> Verdict:
    """Read the campaign's folder and decide."""
    # Records make no circles, and looking for some among millions of objects took half of the time.
    collects = gc.isenabled()
    gc.disable()
    try:
        return _decide(campaign)
    finally:
        if collects:
            gc.enable()


def _decide(campaign: Campaign) -> Verdict:
    try:
        cases, possible = read(campaign), read_possible(campaign)
        leaves, routes = read_leaves(campaign), CampaignRoutes(campaign, cases)
    except BrokenRecordError as error:
        finding = Finding("inconclusive", "broken-record", str(error))
        return Verdict("inconclusive", finding.message, campaign, (), (finding,), ())
    findings: list[Finding] = []
    failed = {
        (case.check, case.partition, n)
        for case in cases
        for n in case.nodes
        if case.failed and not case.repeats
    }
    for case in cases:
        if not _is_explained(case, failed):
            findings += _case_findings(case)
        findings += _gate_findings(campaign, case)
    findings = _merged(findings)
    findings += _retry_findings(campaign, cases)
    odd = odd_nodes(cases, _updated_nodes(campaign, cases), campaign.scope.tested)
    findings += _peer_findings(odd)
    far = outliers(cases) if campaign.gate == "acceptance" else []
    # For the load of what was measured alone to tell load from a fault nothing need be stored.
    needed = [case for case in cases if not case.quiet]
    findings += _first_day_findings(needed) if campaign.gate == "acceptance" else []
    findings += _outlier_findings(far) + _provenance_findings(cases)
    findings += _dip_findings(dips_at_places(cases)) if campaign.gate == "acceptance" else []
    restarted = restarts(cases)
    findings += _restart_findings(restarted)
    ratios = judge(cases)
    findings += _ratio_findings(campaign, ratios)
    findings += _fingerprint_findings(cases)
    findings += coverage_findings(campaign, cases)
    findings += selection_findings(campaign, cases, possible)
    comparison: tuple[list[Finding], list[Notice]] = ([], [])
    if campaign.compared_with and campaign.state == "finished":
        # It needs polars, which other verdicts can do without.
        from railgauge.verdict.comparison import regressions

        comparison = regressions.against(campaign, cases, systems.least_changes(campaign.system))
        findings += comparison[0]
    state = _state_findings(campaign, cases)
    findings = with_next_command(campaign, cases, findings, ended=not state)
    findings = state + _session_findings(campaign, cases, state + findings) + findings
    decision, reason = _decision(campaign, cases, findings)
    more_suspects = _other_suspects(odd, far, restarted)
    named = name_suspects(cases, leaves, [outlier.case for outlier in far], more_suspects, routes)
    return Verdict(
        decision,
        reason,
        campaign,
        tuple(cases),
        tuple(findings),
        tuple(switch_ports.shown(campaign, named.suspects, routes)),
        tuple(ratios),
        tuple(far),
        (*notices(cases, ratios), *comparison[1]),
        named.fewest,
        named.unnamed,
    )


def _decision(
    campaign: Campaign, cases: Sequence[Case], findings: Sequence[Finding]
) -> tuple[Decision, str]:
    measured = sum(len(case.rows) for case in cases)
    rejecting = [finding for finding in findings if finding.weight == "reject"]
    if rejecting:
        count, places = len(rejecting), len(places_of(rejecting))
        at = f" at {places} place{'s' if places > 1 else ''}" if places < count else ""
        return "reject", f"{count} finding{'s' if count > 1 else ''}{at}"
    if not cases and campaign.state == "finished":
        error = campaign.session.last_error if campaign.session else ""
        return "reject", f"nothing was measured: {error or 'no test case was selected'}"
    inconclusive = [finding for finding in findings if finding.weight == "inconclusive"]
    if inconclusive:
        return "inconclusive", inconclusive[0].message
    if not measured:
        return "reject", "nothing was measured"
    if campaign.gate == "baseline":
        return (
            "inconclusive",
            f"baseline: {measured} measurements recorded, none had to meet a reference; next: "
            f"railgauge promote {campaign.id}",
        )
    passed, left = sum(c.passed for c in cases), sum(c.was_left_out for c in cases)
    left_out = f", {left} left out" if left else ""
    if findings:
        return "provisional accept", findings[0].message
    return (
        "accept",
        f"{passed} of {len(cases)} places passed{left_out}, {measured} measurements"
        + _on_floors(campaign, cases),
    )


def _on_floors(campaign: Campaign, cases: Sequence[Case]) -> str:
    """What the first line of an accept says where floors judged, as the description allows."""
    judged = floors(case for case in cases if not case.repeats)
    plural = "" if judged == 1 else "s"
    return f"; {judged} condition{plural} by floors, as {campaign.system} allows" if judged else ""
