"""A campaign's folder as test cases, each with its measurements against limit and reference."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pydantic

from railgauge.campaign.folder import ENDED, PLAN, POSSIBLE, RESULT_FILE, Campaign
from railgauge.model import failure as kinds
from railgauge.model import record
from railgauge.model.call import Call
from railgauge.model.failure import ALONE, NO_REFERENCE, NOT_MEASURED, PRECONDITION_FAILED, Failure
from railgauge.model.record import (
    BrokenRecordError,
    Ended,
    Key,
    Place,
    PlaceKey,
    Planned,
    Remaining,
    Row,
)
from railgauge.model.references import Ratio
from railgauge.slurm.waiting import NOT_AVAILABLE, unavailable_nodes


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
    """A check at one place of a partition, as planned and as it went; or what is wrong with the
    job of several (`of_job`).

    `result` is ReFrame's word (pass, fail, abort, ...), or `not run`; of one place among others it
    is that place's own. `reason` is ReFrame's, and stands only where the check itself left no
    result; of a place that was not run it says why, such as the preconditions that failed.
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
    #: what moved data, where transfers by several tools are compared
    transfer_tool: str = ""
    unique_name: str = ""
    #: that of the place within its case
    place: str = ""
    #: the planned place of which this is another pair, measured to tell its nodes apart
    like: str = ""
    #: the round of its job in which it was measured, where that is known
    round: int | None = None
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
    #: it is the job of a sweep, and not one of its places
    of_job: bool = False

    @functools.cached_property
    def passed(self) -> bool:
        """Nothing against it anywhere: ReFrame's result, the check's own, and every number."""
        return (
            self.result == "pass"
            and bool(self.rows)
            and not self.failures
            and not self.damage
            and all(row.within is not False for row in self.rows)
        )

    @functools.cached_property
    def unreferenced(self) -> bool:
        """Nothing against it anywhere, but that numbers of it have no reference."""
        return (
            self.result == "fail"
            and bool(self.rows)
            and bool(self.failures)
            and all(failure.kind == NO_REFERENCE for failure in self.failures)
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
    def to_measure(self) -> bool:
        """It was not measured, for no fault of its nodes, and is to be measured yet."""
        by_others = all(failure.kind in kinds.BY_OTHERS for failure in self.failures)
        return self.outcome is Outcome.UNMEASURED and not self.damage and by_others

    @functools.cached_property
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


def _cases(planned: Planned, ran: _Ran | None, run: int, session: int = 1) -> list[Case]:
    """The places of a case in one run of it; of those that this session was not to measure none."""
    whole = Case(
        check=planned.check,
        name=planned.case,
        place="",
        partition=planned.partition,
        nodes=planned.nodes,
        run=run,
        result=ran.result if ran else "not run",
        reason=_reason(ran.fail_reason) if ran and ran.fail_reason else "",
        rows=(),
        failures=(),
        folder=ran.stagedir if ran else None,
        unique_name=planned.unique_name,
        session=session,
        transfer_tool=planned.transfer_tool,
    )
    if ran is not None and ran.damage:
        return _everywhere(planned, dataclasses.replace(whole, damage=ran.damage))
    if ran is None or ran.stagedir is None:
        return _everywhere(planned, whole)
    try:
        found = record.read_record(ran.stagedir / RESULT_FILE)
    except BrokenRecordError as error:
        return _everywhere(planned, dataclasses.replace(whole, damage=str(error)))
    if found is None:
        return _everywhere(planned, whole)
    return _recorded(planned, whole, found)


def _everywhere(planned: Planned, like: Case) -> list[Case]:
    """The same of every place."""
    return [_at(place, like) for place in planned.places]


def _at(place: Place, like: Case) -> Case:
    name = f"{like.check} {place.name}" if place.name else like.name
    return dataclasses.replace(
        like, name=name, place=place.name, nodes=place.nodes or like.nodes, kind=place.kind
    )


def _recorded(planned: Planned, whole: Case, found: record.Record) -> list[Case]:
    """The places of which a case left something, each by its own result.

    What ReFrame holds against a case without a word of the check is held against all of it.
    """
    whole = dataclasses.replace(
        whole,
        gate=found.gate,
        strict_provenance=found.strict_provenance,
        peer_spread=found.peer_spread,
        recorded=True,
        ratios=found.ratios,
    )
    results = {result.place: result for result in found.results}
    cases = []
    for place in planned.places:
        if place.name in results:
            cases.append(_measured(_at(place, whole), results[place.name]))
        elif place.name in found.not_run:
            left = dataclasses.replace(whole, result="not run", reason=found.not_run[place.name])
            cases.append(_at(place, dataclasses.replace(left, recorded=False)))
    places = {place.name: place for place in planned.places}
    for result in found.results:
        if result.like and result.like in places:
            like = places[result.like]
            again = Place(name=result.place, nodes=result.nodes, kind=like.kind)
            case = dataclasses.replace(_at(again, whole), like=like.name)
            cases.append(_measured(case, result))
    if damage := _not_as_planned(planned, found):
        return _everywhere(planned, dataclasses.replace(whole, damage=damage))
    bad = [case for case in cases if case.result != "pass" or not case.passed]
    if found.failures:
        # It is of those that were not measured for it; the others have results of their own.
        without = (p.nodes for p in planned.places if p.name in found.not_run)
        nodes = tuple(dict.fromkeys(n for members in without for n in members)) or whole.nodes
        cases.append(dataclasses.replace(whole, nodes=nodes, failures=found.failures, of_job=True))
    elif whole.result != "pass" and not bad:
        cases = [dataclasses.replace(case, result=whole.result) for case in cases]
    return cases


def _not_as_planned(planned: Planned, found: record.Record) -> str:
    """What a record says of places that it cannot have measured; "" of one that may be true."""
    names = [result.place for result in found.results]
    known = {place.name for place in planned.places}
    again = [r for r in found.results if r.like and r.like in known - {r.place}]
    known |= {one.place for one in again if set(one.nodes) <= set(planned.nodes)}
    strangers = sorted(set(names) - known)
    if strangers:
        return f"its record has results of {', '.join(strangers)}, which were not planned"
    twice = sorted(name for name, count in collections.Counter(names).items() if count > 1)
    return f"its record has several results of {', '.join(twice)}" if twice else ""


def _measured(case: Case, result: record.Result) -> Case:
    good = not result.failures and all(row.within is not False for row in result.rows)
    word = case.result
    if word in ("pass", "fail"):
        word = "pass" if good else "fail"
    return dataclasses.replace(
        case,
        result=word,
        reason="" if word == "pass" else case.reason,
        rows=result.rows,
        failures=result.failures,
        calls=result.calls,
        facts=result.facts,
        notes=result.notes,
        left_out=result.left_out,
        round=result.round,
        fingerprints={
            node: str(told["fingerprint"])
            for node, told in result.facts.items()
            if told.get("fingerprint")
        },
    )


def read_possible(campaign: Campaign) -> record.Possible:
    """Check -> partition -> number of places without any filter; BrokenRecordError where the file
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
    """Every place of every planned case, in every run of every session.

    One that was planned and has no end counts as not run; one whose own record is damaged says so.
    Where a session broke off and a later one measured what was missing, that stands in its place.
    Raises BrokenRecordError where the plan or a report is damaged.
    """
    plan = record.read_plan(campaign.folder / PLAN) or ()
    sessions = {n: _attempts(campaign, n, plan) for n in range(1, campaign.sessions + 1)}
    cases = []
    for planned in plan:
        attempts: dict[str, list[Case]] = {place.name: [] for place in planned.places}
        of_jobs: list[Case] = []
        again: list[Case] = []
        for session, ended in sessions.items():
            for run, ran in ended.get(planned.key, ()):
                for case in _cases(planned, ran, run, session):
                    case = dataclasses.replace(case, unavailable=_unavailable(campaign, case))
                    kept = of_jobs if case.of_job else again if case.like else attempts[case.place]
                    kept.append(case)
        never = {case.place: case for case in _cases(planned, None, 0)}
        for place, found in attempts.items():
            found = found or [never[place]]
            cases += [
                c for c in found if not (_lost(c, found) and _replaced(c, found, planned.runs))
            ]
        cases += again
        # What was wrong with a job counts no more once all of it was measured in a later session.
        whole = [case for found in attempts.values() for case in found]
        cases += [c for c in of_jobs if not (c.disturbed and _made_up_for(c, whole, planned))]
    return _with_preconditions(cases, plan)


def _made_up_for(job: Case, attempts: Sequence[Case], planned: Planned) -> bool:
    """Whether every place of a case has a result of its own, of that session or a later one."""
    done = {c.place for c in attempts if c.session >= job.session and c.complete}
    return done >= {place.name for place in planned.places}


def _with_preconditions(cases: Sequence[Case], plan: Sequence[Planned]) -> list[Case]:
    """The places that were left out, with the failed preconditions that they name."""
    names = {
        (p.unique_name, place.name): f"{p.check} {place.name}" if place.name else p.case
        for p in plan
        for place in p.places
    }
    needs = {(p.unique_name, p.partition, x.name): x.needs for p in plan for x in p.places}
    failed, aborted = set(), set()
    for case in cases:
        key = case.unique_name, case.partition, case.place
        if (case.result == "fail" and not case.unreferenced) or (case.finished and case.failed):
            failed.add(key)
        elif case.result == "abort":
            aborted.add(key)
    found: list[Case] = []
    more = True
    while more:
        # What was left out is itself missing to what needs it.
        more, found = False, []
        for case in cases:
            # One that was not even skipped is missing because the session ended.
            because = failed if case.result == "not run" else failed | aborted
            needed = needs.get((case.unique_name, case.partition, case.place), ())
            unmet = [(n, place) for n, place in needed if (n, case.partition, place) in because]
            if unmet and not case.finished:
                told = "; ".join(names.get(n, n[0]) for n in unmet)
                reason = f"{PRECONDITION_FAILED}{told}"
                case = dataclasses.replace(case, result="not run", reason=reason)
                key = case.unique_name, case.partition, case.place
                more = more or key not in failed
                failed.add(key)
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
    attempts: dict[PlaceKey, list[Case]] = {(*p.key, x.name): [] for p in plan for x in p.places}
    for case in read(campaign):
        if not case.of_job and not case.like:
            attempts[case.unique_name, case.partition, case.place].append(case)
    failed = {
        key
        for key, cases in attempts.items()
        if any(c.result == "fail" and not (c.unreferenced or _lost(c, cases)) for c in cases)
        or any(c.complete and not (c.passed or c.unreferenced) for c in cases)
    }
    blocked: set[PlaceKey] = set()
    more = set(failed)
    while more:
        blocked |= more
        more = {
            (*p.key, place.name)
            for p in plan
            for place in p.places
            if any((n, p.partition, needed) in blocked for n, needed in place.needs)
        } - blocked
    missing = []
    for planned in plan:
        for place in planned.places:
            key = (*planned.key, place.name)
            cases = attempts[key]
            done = any(_enough(cases, n, planned.runs) for n in range(1, campaign.sessions + 1))
            if key not in blocked and (not done or any(_lost(case, cases) for case in cases)):
                missing.append(key)
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
    return tuple(n for n in named if n in campaign.unavailable and n in case.nodes)
