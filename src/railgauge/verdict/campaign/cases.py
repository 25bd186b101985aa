"""A campaign's folder as test cases, each with its measurements against limit and reference."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from railgauge.campaign.folder import PLAN, POSSIBLE, RESULT_FILE, Campaign
from railgauge.model import failure as kinds
from railgauge.model import record
from railgauge.model.call import Call
from railgauge.model.failure import (
    NO_REFERENCE,
    NOT_MEASURED,
    OVERRIDING_KINDS,
    PRECONDITION_FAILED,
    Failure,
)
from railgauge.model.record import (
    BrokenRecordError,
    Place,
    PlaceKey,
    Planned,
    Remaining,
    Row,
)
from railgauge.model.references import Ratio
from railgauge.model.uplinks import Uplink
from railgauge.slurm.waiting import NOT_AVAILABLE, unavailable_nodes
from railgauge.verdict.campaign import recorded_facts
from railgauge.verdict.campaign.session_results import Attempt, read_attempts


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
    job of several places (`of_job`).

    `result` is ReFrame's word (pass, fail, abort, ...), or `not run`; of a place among others it is
    its own. `reason` is ReFrame's where the check itself left no result; of a place that was not
    run it says why, such as the preconditions that failed.
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
    #: what its output says besides its numbers
    notes: tuple[str, ...] = ()
    #: why the check's own record cannot be read
    damage: str = ""
    #: nodes that did not answer Slurm, so that its job did not start
    unavailable: tuple[str, ...] = ()
    #: the stored ratios that this check has a side of
    ratios: tuple[Ratio, ...] = ()
    #: what it measures of its nodes, where a check measures several things: a transport, the rails
    kind: str = ""
    #: all of what it measures but where: the kind, and the use of a link or the state of the hosts
    condition: str = ""
    #: what moved data, where transfers by several tools are compared
    transfer_tool: str = ""
    unique_name: str = ""
    #: that of the place within its case
    place: str = ""
    #: the planned place that this one measures again with another pair, to separate its nodes
    repeats: str = ""
    #: whether that was done while all else was quiet, to distinguish load from a fault
    quiet: bool = False
    #: the round of its job in which it was measured, where that is known
    round: int | None = None
    #: the campaign's session that it ran in
    session: int = 1
    #: whether the check left its record
    recorded: bool = False
    #: node -> the fingerprint of its state, where the check recorded it
    fingerprints: Mapping[str, str] = dataclasses.field(default_factory=dict)
    #: node -> what it reported of itself
    facts: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    #: whether only tools count that are as their package installed them
    strict_provenance: bool = False
    #: the least spread of equal places, as a share of their median
    peer_spread: float = 0.05
    #: why the system's description takes floors for enough; "" where it does not
    floors_suffice: str = ""
    uplinks: tuple[Uplink, ...] = ()
    #: leaf -> the flows that it sent over these uplinks, and received
    flows: Mapping[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    #: what is to be known of its job, the same for every place of it
    notes_of_job: tuple[str, ...] = ()
    #: whether it is the job of a sweep, and not one of its places
    of_job: bool = False

    @functools.cached_property
    def passed(self) -> bool:
        """Whether nothing speaks against it: ReFrame's result, the check's own, every number."""
        return (
            self.result == "pass"
            and bool(self.rows)
            and not self.failures
            and not self.damage
            and all(row.within is not False for row in self.rows)
        )

    @functools.cached_property
    def unreferenced(self) -> bool:
        """Whether nothing speaks against it but that some of its numbers have no reference."""
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
        """Whether it came to a result, good or bad, and was not left out or broken off."""
        return self.result in ("pass", "fail")

    @property
    def complete(self) -> bool:
        """Whether its result is its own: it was measured, or its nodes took no job."""
        return (
            self.finished
            and not self.damage
            and not self.disturbed
            and (self.recorded or bool(self.unavailable))
        )

    @property
    def disturbed(self) -> bool:
        """Whether its job was cancelled, forgotten or not started, or lacked what jobs need of the
        cluster. Then it says nothing of its nodes.
        """
        return any(failure.kind in OVERRIDING_KINDS for failure in self.failures)

    @property
    def to_measure(self) -> bool:
        """Whether it was not measured, for no fault of its nodes, and is to be measured yet."""
        by_others = all(failure.kind in kinds.EXTERNAL_CAUSES for failure in self.failures)
        return self.outcome is Outcome.UNMEASURED and not self.damage and by_others

    @functools.cached_property
    def outcome(self) -> Outcome:
        """How the case ended. All that accuses or clears a node rests on this classification."""
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
        """Whether nothing was run, as an optional tool is not there, and nothing else is wrong."""
        return self.left_out is not None and self.result == "pass" and not self.failures

    @property
    def precondition_failed(self) -> bool:
        """Whether it was left out because of another case's failure."""
        return self.result == "not run" and bool(self.reason)


#: What a case keeps once it was asked for, which is not so of a case with changes.
_CACHED = tuple(
    n for n, value in vars(Case).items() if isinstance(value, functools.cached_property)
)


def _cases(planned: Planned, attempt: Attempt | None, run: int, session: int = 1) -> list[Case]:
    """The places of a case in one run of it, without those that this session was not to measure."""
    whole = Case(
        check=planned.check,
        name=planned.case,
        place="",
        partition=planned.partition,
        nodes=planned.nodes,
        run=run,
        result=attempt.result if attempt else "not run",
        reason=attempt.reason if attempt else "",
        rows=(),
        failures=(),
        folder=attempt.stagedir if attempt else None,
        unique_name=planned.unique_name,
        session=session,
        transfer_tool=planned.transfer_tool,
    )
    if attempt is not None and attempt.damage:
        return _at_every_place(planned, dataclasses.replace(whole, damage=attempt.damage))
    if attempt is None or attempt.stagedir is None:
        return _at_every_place(planned, whole)
    try:
        case_record = record.read_record(
            attempt.stagedir / RESULT_FILE,
            recorded_facts.without_details,
            recorded_facts.ReducedResult,
        )
    except BrokenRecordError as error:
        return _at_every_place(planned, dataclasses.replace(whole, damage=str(error)))
    if case_record is None:
        return _at_every_place(planned, whole)
    return _recorded(planned, whole, case_record)


def _at_every_place(planned: Planned, like: Case) -> list[Case]:
    """The same result for every place."""
    return [_at_place(place, like) for place in planned.places]


def _at_place(place: Place, whole: Case, **changes: Any) -> Case:
    """The same at that place, with these `changes`.

    There are tens of thousands of places, and dataclasses.replace takes five times as long.
    """
    case = object.__new__(Case)
    case.__dict__.update(
        whole.__dict__,
        name=f"{whole.check} {place.name}" if place.name else whole.name,
        nodes=place.nodes or whole.nodes,
        place=place.name,
        kind=place.kind,
        condition=place.condition,
        **changes,
    )
    for name in _CACHED:
        case.__dict__.pop(name, None)
    return case


def _recorded(planned: Planned, whole: Case, case_record: record.Record) -> list[Case]:
    """The places that a case's record has, each with its own result.

    What ReFrame alone says against a case is held against all of its places.
    """
    whole = dataclasses.replace(
        whole,
        gate=case_record.gate,
        strict_provenance=case_record.strict_provenance,
        peer_spread=case_record.peer_spread,
        floors_suffice=case_record.floors_suffice,
        recorded=True,
        ratios=case_record.ratios,
        uplinks=case_record.uplinks,
        flows=case_record.flows,
        notes_of_job=case_record.notes,
    )
    results = {result.place: result for result in case_record.results}
    cases = []
    for place in planned.places:
        if place.name in results:
            cases.append(_measured(place, whole, results[place.name]))
        elif place.name in case_record.not_run:
            not_run = dataclasses.replace(
                whole, result="not run", reason=case_record.not_run[place.name]
            )
            cases.append(_at_place(place, dataclasses.replace(not_run, recorded=False)))
    places = {place.name: place for place in planned.places}
    for result in case_record.results:
        if result.repeats and (again := places.get(result.repeats)):
            retested = dataclasses.replace(again, name=result.place, nodes=result.nodes, needs=())
            cases.append(_measured(retested, whole, result, repeats=again.name, quiet=result.quiet))
    if damage := _unplanned(planned, case_record):
        return _at_every_place(planned, dataclasses.replace(whole, damage=damage))
    bad = [case for case in cases if case.result != "pass" or not case.passed]
    if case_record.failures:
        # They concern the places that were not measured; the others have results of their own.
        node_lists = (p.nodes for p in planned.places if p.name in case_record.not_run)
        nodes = tuple(dict.fromkeys(n for members in node_lists for n in members)) or whole.nodes
        cases.append(
            dataclasses.replace(whole, nodes=nodes, failures=case_record.failures, of_job=True)
        )
    elif whole.result != "pass" and not bad:
        cases = [dataclasses.replace(case, result=whole.result) for case in cases]
    return cases


def _unplanned(planned: Planned, case_record: record.Record) -> str:
    """Which results a record cannot have, of other places or nodes, or twice; "" where it has none
    such.
    """
    places = {place.name: place.nodes or planned.nodes for place in planned.places}
    for result in case_record.results:
        expected = places.get(result.place, result.nodes)
        if result.nodes != expected and (unknown := set(result.nodes).difference(expected)):
            return f"its record has {result.place or 'a result'} of {', '.join(sorted(unknown))}"
    names = [result.place for result in case_record.results]
    known = {place.name for place in planned.places}
    retests = [r for r in case_record.results if r.repeats and r.repeats in known - {r.place}]
    known |= {retest.place for retest in retests if set(retest.nodes) <= set(planned.nodes)}
    unplanned = sorted(set(names) - known)
    if unplanned:
        return f"its record has results of {', '.join(unplanned)}, which were not planned"
    repeated = sorted(name for name, count in collections.Counter(names).items() if count > 1)
    return f"its record has several results of {', '.join(repeated)}" if repeated else ""


def _measured(place: Place, whole: Case, result: record.Result, **changes: Any) -> Case:
    good = not result.failures and all(row.within is not False for row in result.rows)
    word = whole.result
    if word in ("pass", "fail"):
        word = "pass" if good else "fail"
    return _at_place(
        place,
        whole,
        result=word,
        reason="" if word == "pass" else whole.reason,
        rows=result.rows,
        failures=result.failures,
        calls=result.calls,
        facts=result.facts,
        notes=result.notes,
        left_out=result.left_out,
        round=result.round,
        fingerprints={
            node: str(node_facts["fingerprint"])
            for node, node_facts in result.facts.items()
            if node_facts.get("fingerprint")
        },
        **changes,
    )


def read_possible(campaign: Campaign) -> record.Possible:
    """Check -> partition -> number of places without any filter; BrokenRecordError where the file
    is damaged.
    """
    return record.read_possible(campaign.folder / POSSIBLE) or {}


def read(campaign: Campaign) -> list[Case]:
    """Every place of every planned case, in every run of every session.

    A planned case without an end counts as not run; one with a damaged record says so. Where a
    session broke off, the result of a later one replaces what was missing.
    Raises BrokenRecordError where the plan or a report is damaged.
    """
    plan = record.read_plan(campaign.folder / PLAN) or ()
    sessions = {n: read_attempts(campaign, n, plan) for n in range(1, campaign.sessions + 1)}
    cases = []
    for planned in plan:
        attempts: dict[str, list[Case]] = {place.name: [] for place in planned.places}
        job_cases: list[Case] = []
        retests: list[Case] = []
        for session, ended in sessions.items():
            for run, attempt in ended.get(planned.key, ()):
                for case in _cases(planned, attempt, run, session):
                    if unavailable := _unavailable(campaign, case):
                        case = dataclasses.replace(case, unavailable=unavailable)
                    if case.of_job:
                        job_cases.append(case)
                    elif case.repeats:
                        retests.append(case)
                    else:
                        attempts[case.place].append(case)
        not_run: dict[str, Case] = {}
        for place, tries in attempts.items():
            if not tries:
                not_run = not_run or {case.place: case for case in _cases(planned, None, 0)}
                tries = [not_run[place]]
            cases += [
                c
                for c in tries
                if not (_lacks_result(c, tries) and _is_replaced(c, tries, planned.runs))
            ]
        cases += retests
        # What was wrong with a job counts no more once all of it was measured in a later session.
        whole = [case for tries in attempts.values() for case in tries]
        cases += [
            c for c in job_cases if not (c.disturbed and _is_covered_by_attempts(c, whole, planned))
        ]
    return _with_preconditions(cases, plan)


def _is_covered_by_attempts(job: Case, attempts: Sequence[Case], planned: Planned) -> bool:
    """Whether every place of a case has a result of its own, of that session or a later one."""
    done = {c.place for c in attempts if c.session >= job.session and c.complete}
    return done >= {place.name for place in planned.places}


def _with_preconditions(cases: Sequence[Case], plan: Sequence[Planned]) -> list[Case]:
    """The cases; those that were left out for a failed precondition have its name as reason."""
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
    explained: list[Case] = []
    more = True
    while more:
        # A place that was left out is itself an unmet precondition of others.
        more, explained = False, []
        for case in cases:
            needed = needs.get((case.unique_name, case.partition, case.place), ())
            unmet = []
            if needed and not case.finished:
                # One that was not even skipped is missing because the session ended.
                blocking = failed if case.result == "not run" else failed | aborted
                unmet = [(n, at) for n, at in needed if (n, case.partition, at) in blocking]
            if unmet:
                unmet_names = "; ".join(names.get(n, n[0]) for n in unmet)
                reason = f"{PRECONDITION_FAILED}{unmet_names}"
                case = dataclasses.replace(case, result="not run", reason=reason)
                key = case.unique_name, case.partition, case.place
                more = more or key not in failed
                failed.add(key)
            explained.append(case)
    return explained


# --- what a resumed session has to do ------------------------------------------------------------


def _lacks_result(case: Case, attempts: Sequence[Case]) -> bool:
    """Whether it came to no result of its own, and nothing says that its nodes are why.

    A case that failed and left a record, readable or not, has its result. So has one that failed
    where another run of the same session came to a result: that is flaky.
    """
    if case.complete:
        return False
    if case.result != "fail":
        return True
    others = [c for c in attempts if c.session == case.session and c.complete]
    return not (others or case.damage)


def _is_complete(attempts: Sequence[Case], session: int, runs: int) -> bool:
    """Whether every run of a case in this session has its result."""
    done = {c.run for c in attempts if c.session == session and c.complete}
    return done >= set(range(max(runs, *(run + 1 for run in done)) if done else runs))


def _is_replaced(case: Case, attempts: Sequence[Case], runs: int) -> bool:
    """Whether a later session came to the result that this attempt lacks."""
    later = {c.session for c in attempts if c.session > case.session}
    return any(_is_complete(attempts, session, runs) for session in later)


def remaining(campaign: Campaign, known: Sequence[Case] | None = None) -> Remaining | None:
    """What a campaign that broke off still lacks; None where it has no plan yet. `known` are its
    cases, where they have been read.
    """
    plan = record.read_plan(campaign.folder / PLAN)
    if plan is None:
        return None
    attempts: dict[PlaceKey, list[Case]] = {(*p.key, x.name): [] for p in plan for x in p.places}
    for case in read(campaign) if known is None else known:
        if not case.of_job and not case.repeats:
            attempts[case.unique_name, case.partition, case.place].append(case)
    failed = {
        key
        for key, cases in attempts.items()
        if any(
            c.result == "fail" and not (c.unreferenced or _lacks_result(c, cases)) for c in cases
        )
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
            done = any(
                _is_complete(cases, n, planned.runs) for n in range(1, campaign.sessions + 1)
            )
            if key not in blocked and (
                not done or any(_lacks_result(case, cases) for case in cases)
            ):
                missing.append(key)
    return Remaining(missing=tuple(missing), failed=tuple(sorted(failed)))


def passed_nodes(cases: Iterable[Case]) -> set[str]:
    """The nodes with a case that passed, or lacked only a reference."""
    return {node for case in cases if case.passed or case.unreferenced for node in case.nodes}


def fingerprints(cases: Sequence[Case]) -> dict[str, str]:
    """The fingerprint of every node with an inventory, by node."""
    return {
        node: fingerprint
        for case in cases
        for node, fingerprint in sorted(case.fingerprints.items())
    }


def unknown_fields(cases: Sequence[Case]) -> dict[str, tuple[str, ...]]:
    """The fields that the fingerprint of a node does not know, by node; none of other nodes."""
    return {
        node: tuple(case.facts.get(node, {}).get("unknown_fields", ()))
        for case in cases
        for node in case.fingerprints
    }


def _unavailable(campaign: Campaign, case: Case) -> tuple[str, ...]:
    """The nodes of a case that did not answer Slurm, where its job waited for nodes.

    Under load the pending reason comes without names. It names nodes, too, that a user drained or
    reserved, which are not at fault.
    """
    if NOT_AVAILABLE not in case.reason:
        return ()
    named = unavailable_nodes(case.reason) or case.nodes
    return tuple(n for n in named if n in campaign.unavailable and n in case.nodes)
