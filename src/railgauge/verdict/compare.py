"""A campaign's folder as test cases, each with its measurements against limit and reference."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pydantic

from railgauge import hostlist
from railgauge.campaign.folder import ENDED, PLAN, POSSIBLE, RESULT_FILE, Campaign
from railgauge.model import record
from railgauge.model.call import Call
from railgauge.model.failure import ALONE, NOT_MEASURED, Failure
from railgauge.model.record import BrokenRecordError, Ended, Key, Planned, Remaining, Row
from railgauge.model.references import Ratio
from railgauge.slurm.waiting import NOT_AVAILABLE


class Outcome(enum.Enum):
    """What a case's end says of its nodes."""

    #: measured, and all of it good
    PASSED = "passed"
    #: measured and bad, or its nodes died, hung or left no exit line
    FAILED = "failed"
    #: nothing: blocked, cancelled, aborted, not started, left out, its record damaged
    UNMEASURED = "unmeasured"


@dataclasses.dataclass(frozen=True)
class Case:
    """One test case: a check on some nodes of a partition, as planned and as it went.

    `result` is ReFrame's word (pass, fail, abort, ...), or `not run`. `reason` is ReFrame's, and
    stands only where the check itself left no result; of a case that was not run it names the
    preconditions that failed.
    """

    check: str
    name: str
    partition: str
    nodes: tuple[str, ...]
    run: int
    result: str
    reason: str
    rows: tuple[Row, ...]
    failures: tuple[Failure, ...]
    folder: Path | None
    #: the tools' calls
    calls: tuple[Call, ...] = ()
    #: why an optional tool was not run
    left_out: Failure | None = None
    #: acceptance or baseline, as the check ran
    gate: str = ""
    #: what its output tells beside its numbers
    notes: tuple[str, ...] = ()
    #: why the check's own record cannot be read
    damage: str = ""
    #: nodes that did not answer Slurm, so that its job did not start
    unavailable: tuple[str, ...] = ()
    #: the stored ratios that this check has a side of
    ratios: tuple[Ratio, ...] = ()
    #: what it measures of its nodes, where a check measures several things: a transport, the rails
    kind: str = ""
    unique_name: str = ""
    #: the campaign's session that it ran in
    session: int = 1
    #: whether the check left its record
    recorded: bool = False
    #: node -> the fingerprint of its state, where the check told it
    fingerprints: Mapping[str, str] = dataclasses.field(default_factory=dict)
    #: what each node said of itself, by node
    facts: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    #: whether only tools that are as their package brought them count here
    strict_provenance: bool = False
    #: what equal places differ by at least, as a share of their median
    peer_spread: float = 0.05

    @property
    def passed(self) -> bool:
        """Nothing against it anywhere: ReFrame's result, the check's own, and every number."""
        return (
            self.result == "pass"
            and bool(self.rows)
            and not self.failures
            and not self.damage
            and all(row.within is not False for row in self.rows)
        )

    @property
    def finished(self) -> bool:
        """It came to a result, good or bad, and was not left out or broken off."""
        return self.result in ("pass", "fail")

    @property
    def complete(self) -> bool:
        """Its result is its own: it was measured, or its nodes took no job."""
        return (
            self.finished
            and not self.damage
            and not self.disturbed
            and (self.recorded or bool(self.unavailable))
        )

    @property
    def disturbed(self) -> bool:
        """Its job was cancelled, forgotten or not started, or lacked what jobs need of their
        cluster: it says nothing of its nodes.
        """
        return any(failure.kind in ALONE for failure in self.failures)

    @property
    def outcome(self) -> Outcome:
        """The one classification of how a case ended; all that accuses or clears rests on it."""
        if self.was_left_out or not self.finished or self.damage:
            return Outcome.UNMEASURED
        if self.passed:
            return Outcome.PASSED
        speaks = (
            bool(self.unavailable)
            or any(failure.kind not in NOT_MEASURED for failure in self.failures)
            or any(row.within is False for row in self.rows)
        )
        return Outcome.FAILED if speaks and not self.disturbed else Outcome.UNMEASURED

    @property
    def failed(self) -> bool:
        return self.outcome is Outcome.FAILED

    @property
    def was_left_out(self) -> bool:
        """Nothing was run, as an optional tool is not there, and nothing else is wrong."""
        return self.left_out is not None and self.result == "pass" and not self.failures

    @property
    def precondition_failed(self) -> bool:
        """It was left out because of another case's failure."""
        return self.result == "not run" and bool(self.reason)


#: How Slurm gives the nodes that keep a job from starting; under load it says only that some do.
_UNAVAILABLE = re.compile(r"UnavailableNodes:([\w\[\],.-]+)")


def unavailable_nodes(reason: str) -> tuple[str, ...]:
    """The nodes that Slurm's pending reason names as not available."""
    found = _UNAVAILABLE.search(reason)
    try:
        return hostlist.expand(found[1].rstrip(",")) if found else ()
    except ValueError:
        return ()


# Of ReFrame's report, what is read here; what else is in it is left alone.


class _Ran(pydantic.BaseModel):
    unique_name: str
    partition: str
    result: str
    fail_reason: str | None = None
    #: none for a case that was skipped
    stagedir: Path | None = None
    #: why it cannot be taken for what it says
    damage: str = ""


class _Run(pydantic.BaseModel):
    testcases: list[_Ran]


class _Report(pydantic.BaseModel):
    runs: list[_Run]


#: How ReFrame begins its reason where a job could not be had; two cases have the same one then.
_OF_A_JOB = re.compile(r"^job (blocked )?error: \[jobid=\w+\] ")


def _reason(text: str) -> str:
    return _OF_A_JOB.sub("", " ".join(text.split()))


def _case(planned: Planned, ran: _Ran | None, run: int, session: int = 1) -> Case:
    case = Case(
        check=planned.check,
        name=planned.case,
        partition=planned.partition,
        nodes=planned.nodes,
        run=run,
        result=ran.result if ran else "not run",
        reason=_reason(ran.fail_reason) if ran and ran.fail_reason else "",
        rows=(),
        failures=(),
        folder=ran.stagedir if ran else None,
        kind=planned.kind,
        unique_name=planned.unique_name,
        session=session,
    )
    if ran is not None and ran.damage:
        return dataclasses.replace(case, damage=ran.damage)
    if ran is None or ran.stagedir is None:
        return case
    try:
        found = record.read(ran.stagedir / RESULT_FILE, record.Record)
    except BrokenRecordError as error:
        return dataclasses.replace(case, damage=str(error))
    if found is None:
        return case
    results = found.results
    facts = {node: told for result in results for node, told in result.facts.items()}
    left_out = [result.left_out for result in results if result.left_out]
    return dataclasses.replace(
        case,
        rows=tuple(row for result in results for row in result.rows),
        gate=found.gate,
        strict_provenance=found.strict_provenance,
        peer_spread=found.peer_spread,
        recorded=True,
        facts=facts,
        notes=tuple(note for result in results for note in result.notes),
        ratios=found.ratios,
        failures=tuple(failure for result in results for failure in result.failures),
        fingerprints={
            node: str(told["fingerprint"])
            for node, told in facts.items()
            if told.get("fingerprint")
        },
        calls=tuple(call for result in results for call in result.calls),
        left_out=left_out[0] if left_out else None,
    )


def read_possible(campaign: Campaign) -> record.Possible:
    """Check -> partition -> number of cases without any filter; BrokenRecordError where the file
    is damaged.
    """
    return record.read_possible(campaign.folder / POSSIBLE) or {}


def _reported(report: _Report) -> dict[Key, list[tuple[int, _Ran]]]:
    found: dict[Key, list[tuple[int, _Ran]]] = {}
    for number, run in enumerate(report.runs):
        # Of a case that is there twice the last counts.
        for key, ran in {(t.unique_name, t.partition): t for t in run.testcases}.items():
            found.setdefault(key, []).append((number, ran))
    return found


def _ended(
    campaign: Campaign, session: int, plan: Sequence[Planned]
) -> dict[Key, list[tuple[int, _Ran]]]:
    """What the cases of a session without a report left of their ends.

    A record without its end was broken off, and is none. An end that is not of this session and
    this plan, or whose record is another than it was, is damage, and no result.
    """
    folder = campaign.session_folder(session)
    planned = {case.key: case for case in plan}
    found: dict[Key, list[tuple[int, _Ran]]] = {}
    for path in sorted((folder / ENDED).glob("*.json")):
        try:
            ended = record.read(path, Ended)
        except BrokenRecordError:
            # Whose it is cannot be told: that case has not ended.
            continue
        if ended is None or (ended.unique_name, ended.partition) not in planned:
            continue
        key = ended.unique_name, ended.partition
        damage = _strange(campaign, session, planned[key], ended)
        stage = folder / ended.stage if ended.stage else None
        if not damage and stage is not None:
            damage = _altered(folder, stage, ended.record_sha256)
        ran = _Ran(
            unique_name=ended.unique_name,
            partition=ended.partition,
            result=ended.result,
            fail_reason=ended.reason,
            stagedir=stage,
            damage=f"{path}: {damage}" if damage else "",
        )
        found.setdefault(key, []).append((ended.run, ran))
    return {key: _in_order(runs) for key, runs in found.items()}


def _in_order(runs: Sequence[tuple[int, _Ran]]) -> list[tuple[int, _Ran]]:
    """A case's runs, all of them: a retry without the run before it may hide a failure."""
    ordered = sorted(runs, key=lambda run: run[0])
    if [number for number, _ in ordered] == list(range(len(ordered))):
        return ordered
    lacks = {"result": "fail", "damage": "the end of an earlier run of this case is not there"}
    return [(number, ran.model_copy(update=lacks)) for number, ran in ordered]


def _strange(campaign: Campaign, session: int, planned: Planned, ended: Ended) -> str:
    """What of an end is not of this campaign, session and case."""
    for name, found, expected in (
        ("campaign", ended.campaign, campaign.id),
        ("session", ended.session, session),
        ("system", ended.system, campaign.system),
        ("check", ended.check, planned.check),
        ("nodes", ended.nodes, planned.nodes),
    ):
        if found != expected:
            return f"{name} is {found!r}, expected {expected!r}"
    return ""


def _altered(folder: Path, stage: Path, digest: str | None) -> str:
    """Whether the record is not the one that there was when the case ended."""
    if not stage.resolve().is_relative_to((folder / "stage").resolve()):
        return f"its stage folder {stage} is not of this session"
    try:
        content = (stage / RESULT_FILE).read_bytes()
    except FileNotFoundError:
        return "its record is gone" if digest else ""
    except OSError as error:
        return f"its record: {error.strerror}"
    return "" if hashlib.sha256(content).hexdigest() == digest else "its record is another one now"


def _attempts(
    campaign: Campaign, session: int, plan: Sequence[Planned]
) -> dict[Key, list[tuple[int, _Ran]]]:
    """What each case came to in one session, by its runs: from ReFrame's report; where a session
    broke off and left none, from what each case left itself.
    """
    path = campaign.session_folder(session) / "report.json"
    try:
        report = record.read(path, _Report)
    except BrokenRecordError:
        if campaign.ended_well(session):
            raise
        report = None
    if report is not None:
        return _reported(report)
    return {} if campaign.ended_well(session) else _ended(campaign, session, plan)


def read(campaign: Campaign) -> list[Case]:
    """Every planned case, in every run of every session.

    A case that was planned and has no end counts as not run; one whose own record is damaged says
    so. Where a session broke off and a later one measured what was missing, that stands in its
    place. Raises BrokenRecordError where the plan or a report is damaged.
    """
    plan = record.read_plan(campaign.folder / PLAN) or ()
    sessions = {n: _attempts(campaign, n, plan) for n in range(1, campaign.sessions + 1)}
    cases = []
    for planned in plan:
        found = [
            _case(planned, ran, run, session)
            for session, attempts in sessions.items()
            for run, ran in attempts.get(planned.key, ())
        ]
        found = found or [_case(planned, None, 0)]
        found = [dataclasses.replace(c, unavailable=_unavailable(campaign, c)) for c in found]
        cases += [c for c in found if not (_lost(c, found) and _replaced(c, found, planned.runs))]
    ran = {(case.unique_name, case.result) for case in cases}
    keys = {planned.key for planned in plan}
    for attempts in sessions.values():
        # The plan does not have them; their failures count all the same.
        others = [runs for key, runs in attempts.items() if key not in keys]
        ran |= {(other.unique_name, other.result) for runs in others for _, other in runs}
    return _with_preconditions(cases, plan, ran)


def _with_preconditions(
    cases: Sequence[Case], plan: Sequence[Planned], ran: Collection[tuple[str, str]]
) -> list[Case]:
    """The cases that were left out, with the failed preconditions that they name; `ran` are the
    unique names and results of all that ran.
    """
    names = {planned.unique_name: planned.case for planned in plan}
    depends_on = {planned.key: planned.depends_on for planned in plan}
    failed = {name for name, result in ran if result == "fail"}
    aborted = {name for name, result in ran if result == "abort"}
    found = []
    for case in cases:
        # One that was not even skipped is missing because the session ended.
        because = failed if case.result == "not run" else failed | aborted
        unmet = [n for n in depends_on[case.unique_name, case.partition] if n in because]
        if unmet and not case.finished:
            reason = f"its precondition failed: {'; '.join(names.get(n, n) for n in unmet)}"
            case = dataclasses.replace(case, result="not run", reason=reason)
        found.append(case)
    return found


# --- what a resumed session has to do ------------------------------------------------------------


def _lost(case: Case, attempts: Sequence[Case]) -> bool:
    """It came to no result of its own, and nothing says that its nodes are why.

    One that failed and left a record, readable or not, has its result. So has one that failed where
    another run of the same session came to a result: that is flaky.
    """
    if case.complete:
        return False
    if case.result != "fail":
        return True
    beside = [c for c in attempts if c.session == case.session and c.complete]
    return not (beside or case.damage)


def _enough(attempts: Sequence[Case], session: int, runs: int) -> bool:
    """Whether every run of a case in that session has its result."""
    done = {c.run for c in attempts if c.session == session and c.complete}
    return done >= set(range(max(runs, *(run + 1 for run in done)) if done else runs))


def _replaced(case: Case, attempts: Sequence[Case], runs: int) -> bool:
    """Whether a later session came to the result that this attempt has not."""
    later = {c.session for c in attempts if c.session > case.session}
    return any(_enough(attempts, session, runs) for session in later)


def remaining(campaign: Campaign) -> Remaining | None:
    """What a campaign that broke off still lacks; None where it had not even a plan."""
    plan = record.read_plan(campaign.folder / PLAN)
    if plan is None:
        return None
    attempts: dict[Key, list[Case]] = {planned.key: [] for planned in plan}
    for case in read(campaign):
        attempts[case.unique_name, case.partition].append(case)
    failed = {
        key
        for key, cases in attempts.items()
        if any(c.result == "fail" and not _lost(c, cases) for c in cases)
        or any(c.complete and not c.passed for c in cases)
    }
    blocked: set[str] = set()
    more = {unique_name for unique_name, _ in failed}
    while more:
        blocked |= more
        more = {p.unique_name for p in plan if blocked & set(p.depends_on)} - blocked
    missing = []
    for planned in plan:
        cases = attempts[planned.key]
        done = any(_enough(cases, n, planned.runs) for n in range(1, campaign.sessions + 1))
        if planned.unique_name not in blocked and (
            not done or any(_lost(case, cases) for case in cases)
        ):
            missing.append(planned.key)
    return Remaining(missing=tuple(missing), failed=tuple(sorted(failed)))


def fingerprints(cases: Sequence[Case]) -> dict[str, str]:
    """The fingerprint of every node whose inventory was taken, by node."""
    return {node: found for case in cases for node, found in sorted(case.fingerprints.items())}


def _unavailable(campaign: Campaign, case: Case) -> tuple[str, ...]:
    """Those of its nodes that did not answer Slurm, where its job waited for nodes.

    Under load the pending reason comes without names; and it names nodes that somebody drained or
    reserved as well, which are not at fault.
    """
    if NOT_AVAILABLE not in case.reason:
        return ()
    named = unavailable_nodes(case.reason) or case.nodes
    return tuple(node for node in named if node in campaign.unavailable)
