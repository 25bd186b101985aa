"""A verdict as JUnit's XML, as CI servers read it.

    verdict      one case: passed only by an accept; a failure for a reject, else an error; skipped
                 where the accept is of a rehearsal
    findings     a case for each finding of the campaign as a whole
    <check>      a case for each condition that passed somewhere, one for each place that failed
                 under it, one for each place that came to nothing (an error: missing data is no
                 pass), and one skipped for an optional tool that is not there

The format has no published standard; this is what the Jenkins xUnit plugin's schema (junit-10.xsd)
admits.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from typing import Literal

from railgauge.report import numbers
from railgauge.report.numbers import Number
from railgauge.report.visible import clean
from railgauge.verdict.campaign.cases import Case, Outcome
from railgauge.verdict.decision.verdict import Verdict

#: In the campaign's folder.
FILE = "junit.xml"

Bad = Literal["failure", "error", "skipped"]


class _Suite:
    """Cases of one check; counts as the format wants them."""

    def __init__(self, name: str, verdict: Verdict) -> None:
        self.element = ElementTree.Element("testsuite", name=clean(name))
        self.prefix = f"{'SIMULATED.' if verdict.simulated else ''}{verdict.campaign.system}"
        self.started = verdict.campaign.started.partition("+")[0]
        self.counts = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}

    def add(
        self,
        name: str,
        seconds: float = 0.0,
        bad: Bad | None = None,
        why: str = "",
        output: str = "",
    ) -> None:
        suite = self.element.get("name", "")
        case = ElementTree.SubElement(
            self.element,
            "testcase",
            name=clean(name),
            classname=clean(f"{self.prefix}.{suite}"),
            time=f"{seconds:.3f}",
        )
        self.counts["tests"] += 1
        if output:
            ElementTree.SubElement(case, "system-out").text = clean(output)
        if bad is not None:
            first = clean(why).partition("\n")[0] or bad
            below = ElementTree.SubElement(case, bad, message=first, type=bad)
            below.text = clean(why)
            self.counts[{"failure": "failures", "error": "errors"}.get(bad, bad)] += 1

    def ended(self) -> ElementTree.Element:
        for name, count in self.counts.items():
            self.element.set(name, str(count))
        self.element.set("time", "0.000")
        if self.started:
            self.element.set("timestamp", self.started)
        return self.element


def xml(verdict: Verdict) -> str:
    suites = [_of_verdict(verdict), *_of_findings(verdict)]
    by_case: dict[int, list[Number]] = {}
    for one in numbers.collect(verdict):
        by_case.setdefault(id(one.case), []).append(one)
    by_check: dict[str, list[Case]] = {}
    for case in verdict.cases:
        by_check.setdefault(case.check, []).append(case)
    suites += [_of_check(verdict, name, cases, by_case) for name, cases in by_check.items()]
    root = ElementTree.Element("testsuites", name=clean(verdict.campaign.id))
    for suite in suites:
        root.append(suite.ended())
    for name in ("tests", "failures", "errors"):
        root.set(name, str(sum(suite.counts[name] for suite in suites)))
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _of_verdict(verdict: Verdict) -> _Suite:
    suite = _Suite("verdict", verdict)
    bad: Bad | None = "error"
    if verdict.decision == "accept":
        bad = "skipped" if verdict.simulated else None
    elif verdict.decision == "reject":
        bad = "failure"
    mark = "SIMULATED " if verdict.simulated else ""
    suite.add("verdict", bad=bad, why=f"{mark}{verdict.decision.upper()} {verdict.reason}")
    return suite


def _of_findings(verdict: Verdict) -> list[_Suite]:
    suite = _Suite("findings", verdict)
    for finding in verdict.findings:
        if not finding.check:
            bad: Bad = "failure" if finding.weight == "reject" else "error"
            suite.add(finding.message, bad=bad, why=_next(finding.message, finding.next_step))
    return [suite] if suite.counts["tests"] else []


def _next(message: str, step: str) -> str:
    return f"{message}\nnext: {step}" if step else message


def _of_check(
    verdict: Verdict, name: str, cases: Sequence[Case], by_case: dict[int, list[Number]]
) -> _Suite:
    suite = _Suite(name, verdict)
    passed = [one for case in cases if case.passed for one in by_case.get(id(case), ())]
    for line in numbers.conditions(passed):
        worst = line.worst
        quantity = numbers.quantity(worst.row.measurement)
        # A name is the same from campaign to campaign: CI servers keep a history by it.
        suite.add(
            f"{worst.case.partition} {numbers.measured(worst.row.measurement)}",
            output=f"{line.places} places, the worst {quantity} at {numbers.location(worst)}",
        )
    for case in cases:
        if case.passed and not case.was_left_out:
            continue
        seconds = sum(call.seconds for call in case.calls)
        where = f"{case.partition} {case.place or ' '.join(case.nodes)}"
        where += " (the job)" if case.of_job else ""
        if case.was_left_out and case.left_out is not None:
            suite.add(
                where, seconds, "skipped", _next(case.left_out.message, case.left_out.next_step)
            )
        elif case.outcome is Outcome.FAILED:
            suite.add(where, seconds, "failure", _why(case, by_case.get(id(case), ())))
        else:
            suite.add(where, seconds, "error", _why(case, ()))
    return suite


def _why(case: Case, measured: Sequence[Number]) -> str:
    lines = [_next(failure.message, failure.next_step) for failure in case.failures]
    for one in measured:
        if one.row.within is False:
            quantity = numbers.quantity(one.row.measurement)
            what = numbers.measured(one.row.measurement)
            lines.append(f"{what} is {quantity}, expected {numbers.reference_of(one.row)}")
    return "\n".join(lines or [case.damage or case.reason or case.result])
