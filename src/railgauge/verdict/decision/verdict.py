"""A verdict and its findings: the answer, and why."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from railgauge.campaign.folder import Campaign
from railgauge.common.errors import EXIT_ACCEPT, EXIT_INCONCLUSIVE, EXIT_REJECT
from railgauge.common.names import natural
from railgauge.locating import Suspect, suspected_nodes
from railgauge.locating.suspects import Fewest
from railgauge.model.measurement import METRICS
from railgauge.model.record import Row
from railgauge.verdict.campaign.cases import Case, fingerprints, passed_nodes
from railgauge.verdict.campaign.finding import Decision, Finding
from railgauge.verdict.campaign.outliers import Outlier
from railgauge.verdict.campaign.ratios import RatioRow
from railgauge.verdict.campaign.tool_builds import Build, Notice, builds
from railgauge.verdict.comparison import campaign_power
from railgauge.verdict.comparison.campaign_power import OfCampaign
from railgauge.verdict.location.unnamed import Unnamed

#: Units of what is counted, and not measured: what the description lists is all there.
_COUNTS = (METRICS["links"].unit, METRICS["expectations"].unit)

EXIT_CODES: dict[Decision, int] = {
    "accept": EXIT_ACCEPT,
    # Unless the user takes it for one: `railgauge accept --provisional`.
    "provisional accept": EXIT_INCONCLUSIVE,
    "reject": EXIT_REJECT,
    "inconclusive": EXIT_INCONCLUSIVE,
}


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The answer to: may these nodes go back into service?"""

    decision: Decision
    reason: str
    campaign: Campaign
    cases: tuple[Case, ...]
    findings: tuple[Finding, ...]
    suspects: tuple[Suspect, ...]
    ratios: tuple[RatioRow, ...] = ()
    #: numbers that are within every bound, and far worse than those of their peers
    outliers: tuple[Outlier, ...] = ()
    #: to know, and no reason for the decision
    notices: tuple[Notice, ...] = ()
    #: the end that is no suspect with the fewest good results, where what was bad between two
    #: nodes has no confirmed suspect
    min_good_results_of_cleared_end: Fewest | None = None
    #: why no node is named for what is bad between two nodes
    unnamed: tuple[Unnamed, ...] = ()

    @property
    def tools(self) -> tuple[Build, ...]:
        """The builds of the tools that ran."""
        return builds(self.cases)

    @property
    def by_published(self) -> bool:
        """Whether another site's published number gated where there is no baseline yet."""
        return any(
            row.reference is not None and row.reference.kind == "published"
            for case in self.cases
            for row in case.rows
        )

    @property
    def by_floors(self) -> bool:
        """Whether nothing but floors judged how fast the nodes are."""
        kinds = {
            row.reference.kind
            for case in self.cases
            for row in case.rows
            if row.reference is not None and row.measurement.unit not in _COUNTS
        }
        return kinds == {"floor"}

    @functools.cached_property
    def power(self) -> OfCampaign:
        """What the campaign would have found on healthy nodes; nothing where it judged nothing."""
        if self.campaign.gate != "acceptance":
            return campaign_power.of(())
        failing = set(self.failing_nodes)
        return campaign_power.of([case for case in self.cases if failing.isdisjoint(case.nodes)])

    @functools.cached_property
    def simulated(self) -> bool:
        """Whether any of it came from a stand-in; then it says nothing of any node."""
        return self.campaign.simulated is not None or any(
            row.measurement.simulated for case in self.cases for row in case.rows
        )

    @property
    def failing_nodes(self) -> list[str]:
        """The nodes that are at fault for sure, or have a rail that is."""
        failing = {node for suspect in self.suspects for node in suspect.failing_nodes}
        return sorted(failing, key=natural)

    @property
    def passing_nodes(self) -> list[str]:
        """The nodes that passed somewhere, are in no suspect node, rail, pair, silent leaf, and
        failed only with one that is at fault, if at all.
        """
        passed = passed_nodes(self.cases).difference(suspected_nodes(self.suspects))
        apart = failed_apart(self.findings, self.cases, self.failing_nodes)
        return sorted(passed.difference(apart), key=natural)

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.decision]

    def as_dict(self) -> dict[str, Any]:
        return {
            "verdict": self.decision,
            "exit_code": self.exit_code,
            "reason": self.reason,
            "provisional": self.decision == "provisional accept",
            "simulated": self.simulated,
            "campaign": self.campaign.id,
            "system": self.campaign.system,
            "gate": self.campaign.gate,
            "scope": dataclasses.asdict(self.campaign.scope),
            "started": self.campaign.started,
            "finished": self.campaign.finished,
            # More than one where it broke off and was resumed.
            "sessions": [
                {name: context.get(name) for name in ("started", "host", "commit")}
                for context in self.campaign.contexts
            ],
            "findings": [
                {**dataclasses.asdict(finding), "nodes": list(finding.nodes)}
                for finding in self.findings
            ],
            "suspects": [_suspect_as_dict(suspect) for suspect in self.suspects],
            "no_suspect": [
                {
                    "check": one.check,
                    "partition": one.partition,
                    "why": one.why,
                    "next_step": one.next_step(self.campaign.accept_command),
                }
                for one in self.unnamed
            ],
            "measurements": [row_as_dict(case, row) for case in self.cases for row in case.rows],
            "power": self.power.as_dict(),
            "ratios": [_ratio_as_dict(row) for row in self.ratios],
            "fingerprints": fingerprints(self.cases),
            "notices": [dataclasses.asdict(notice) for notice in self.notices],
            "tools": [
                {**dataclasses.asdict(build), "nodes": list(build.nodes)} for build in self.tools
            ],
            "left_out": [_left_out_as_dict(case) for case in self.cases if case.was_left_out],
        }


def row_as_dict(case: Case, row: Row) -> dict[str, Any]:
    """A measurement of a case, with what it is compared with."""
    reference = row.reference
    return {
        **row.measurement.as_dict(),
        "check": case.check,
        "partition": case.partition,
        "run": case.run,
        "session": case.session,
        "passed": case.passed,
        "within_reference": row.within,
        "reference": reference.model_dump(mode="json") if reference else None,
        "context": [number.model_dump(mode="json") for number in row.context],
        "limit": dataclasses.asdict(row.limit) if row.limit else None,
        "share_of_limit": row.share_of_limit,
    }


def failed_apart(
    findings: Iterable[Finding], cases: Sequence[Case], guilty: Collection[str]
) -> dict[str, Finding]:
    """The nodes that a rejecting finding speaks against, with the first one, except nodes that had
    a guilty node at the same place, or in the same job where that is what failed.
    """
    nodes_there = nodes_of_findings(cases)
    found: dict[str, Finding] = {}
    for finding in findings:
        if finding.weight == "reject" and nodes_there(finding).isdisjoint(guilty):
            for node in finding.nodes:
                found.setdefault(node, finding)
    return found


def nodes_of_findings(cases: Sequence[Case]) -> Callable[[Finding], set[str]]:
    """A function that returns the nodes of a finding, and all others that were measured there: at
    its place, or in its job where that is what failed.
    """
    at_place = {(case.check, case.partition, case.place): case.nodes for case in cases}
    in_job: dict[tuple[str, str], set[str]] = {}
    for job in [case for case in cases if case.of_job]:
        of_check = (c for c in cases if (c.check, c.partition) == (job.check, job.partition))
        in_job[job.check, job.partition] = {node for case in of_check for node in case.nodes}

    def nodes_there(finding: Finding) -> set[str]:
        key = finding.check, finding.partition, finding.place
        others = at_place.get(key, ()) if finding.place else in_job.get(key[:2], ())
        return {*finding.nodes, *others}

    return nodes_there


def _suspect_as_dict(suspect: Suspect) -> dict[str, Any]:
    return {
        **suspect.as_dict(),
        "nodes": list(suspect.nodes),
        "confirmed": suspect.confirmed,
        "why": suspect.why,
        "checks": list(suspect.checks),
    }


def _left_out_as_dict(case: Case) -> dict[str, Any]:
    assert case.left_out is not None
    return {
        **dataclasses.asdict(case.left_out),
        "check": case.check,
        "partition": case.partition,
        "case": case.name,
    }


def _ratio_as_dict(row: RatioRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "value": row.value,
        "within": row.within,
        "reference": row.reference.model_dump(mode="json", exclude_unset=True),
    }
