"""How each case of a session ended, by run: from ReFrame's report and the cases' own ends.

An end has the digest of its case's record. Only here is it decided if a record is still the one
that was measured, and where it lies: below the campaign's folder, wherever that was copied to.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import pydantic

from railgauge.campaign.folder import ENDED, RESULT_FILE, Campaign
from railgauge.model import record
from railgauge.model.record import BrokenRecordError, Ended, EndResult, Key, Planned

#: The beginning of ReFrame's reason where a job could not be had, which differs from job to job.
_JOB_ERROR = re.compile(r"^job (blocked )?error: \[jobid=\w+\] ")

# The parts of ReFrame's report that are read here.


class Attempt(pydantic.BaseModel, defer_build=True):
    """A run of a case, as ReFrame's report has it."""

    unique_name: str
    partition: str
    result: str
    fail_reason: str | None = None
    #: none for a case that was skipped
    stagedir: Path | None = None
    #: why what it says cannot be trusted
    damage: str = ""

    @property
    def reason(self) -> str:
        """ReFrame's reason in one line, without its number of the job."""
        return _JOB_ERROR.sub("", " ".join((self.fail_reason or "").split()))


class _Run(pydantic.BaseModel, defer_build=True):
    testcases: list[Attempt]


class _Report(pydantic.BaseModel, defer_build=True):
    runs: list[_Run]


def read_attempts(
    campaign: Campaign, session: int, plan: Sequence[Planned]
) -> dict[Key, list[tuple[int, Attempt]]]:
    """The attempts of each case in one session, by run: from ReFrame's report, held against what
    each case left itself; where a session broke off and left no report, from that alone.
    """
    path = campaign.session_folder(session) / "report.json"
    try:
        report = record.read(path, _Report.model_validate_json)
    except BrokenRecordError:
        if campaign.ended_well(session):
            raise
        report = None
    ended = _ended(campaign, session, plan)
    if report is not None:
        return _reported(campaign, session, report, ended)
    if campaign.ended_well(session):
        return {}
    return {key: _in_order(runs) for key, runs in ended.items()}


def _reported(
    campaign: Campaign, session: int, report: _Report, ended: dict[Key, list[tuple[int, Attempt]]]
) -> dict[Key, list[tuple[int, Attempt]]]:
    by_case: dict[Key, list[tuple[int, Attempt]]] = {}
    for number, run in enumerate(report.runs):
        # Of a case that is there twice the last counts.
        for key, attempt in {(t.unique_name, t.partition): t for t in run.testcases}.items():
            end = dict(ended.get(key, ())).get(number)
            held = _held_against(campaign.session_folder(session), attempt, end)
            by_case.setdefault(key, []).append((number, held))
    return by_case


def _held_against(folder: Path, reported: Attempt, end: Attempt | None) -> Attempt:
    """What the report says of a case, where the case itself said the same at its end."""
    stage = end.stagedir if end else _within(folder, reported.stagedir)
    damage = ""
    if reported.result not in get_args(EndResult):
        # It came to no end, and has no result.
        pass
    elif end is None and (reported.result == "pass" or _has_record(folder, reported.stagedir)):
        damage = f"{folder / ENDED}: has no end of this case, so its record cannot be trusted"
    elif end is not None and end.damage:
        damage = end.damage
    elif end is not None and end.result != reported.result:
        damage = f"{folder / 'report.json'}: says {reported.result}, the case's end {end.result}"
    return reported.model_copy(update={"stagedir": stage, "damage": damage})


def _has_record(folder: Path, stage: Path | None) -> bool:
    """Whether the case left a record in this session, wherever it was when it was measured."""
    if stage is None or "stage" not in stage.parts:
        return False
    after = len(stage.parts) - stage.parts[::-1].index("stage")
    return (folder / "stage").joinpath(*stage.parts[after:], RESULT_FILE).exists()


def _within(folder: Path, stage: Path | None) -> Path | None:
    """That folder where it is of this session, and not of the place that it was copied from."""
    if stage is None or not stage.resolve().is_relative_to((folder / "stage").resolve()):
        return None
    return stage


def _ended(
    campaign: Campaign, session: int, plan: Sequence[Planned]
) -> dict[Key, list[tuple[int, Attempt]]]:
    """The attempts of a session by the ends that its cases left.

    A record without its end was broken off, and counts for nothing. An end of another session or
    plan, or one with a record that was changed since, is damage, and no result.
    """
    folder = campaign.session_folder(session)
    planned = {case.key: case for case in plan}
    by_case: dict[Key, list[tuple[int, Attempt]]] = {}
    for path in sorted((folder / ENDED).glob("*.json")):
        try:
            ended = record.read(path, Ended.model_validate_json)
        except BrokenRecordError:
            # Its case is not known: that case has not ended.
            continue
        if ended is None or (ended.unique_name, ended.partition) not in planned:
            continue
        key = ended.unique_name, ended.partition
        mismatch = _mismatch(campaign, session, planned[key], ended)
        damage = f"{path}: {mismatch}" if mismatch else ""
        stage = folder / ended.stage if ended.stage else None
        if not damage and stage is not None:
            damage = _record_damage(folder, path, stage, ended.record_sha256)
        attempt = Attempt(
            unique_name=ended.unique_name,
            partition=ended.partition,
            result=ended.result,
            fail_reason=ended.reason,
            stagedir=stage,
            damage=damage,
        )
        by_case.setdefault(key, []).append((ended.run, attempt))
    return by_case


def _in_order(runs: Sequence[tuple[int, Attempt]]) -> list[tuple[int, Attempt]]:
    """A case's runs in order; all are damaged where one lacks, as a retry may hide a failure."""
    ordered = sorted(runs, key=lambda run: run[0])
    if [number for number, _ in ordered] == list(range(len(ordered))):
        return ordered
    lacks = {"result": "fail", "damage": "the end of an earlier run of this case is not there"}
    return [(number, attempt.model_copy(update=lacks)) for number, attempt in ordered]


def _mismatch(campaign: Campaign, session: int, planned: Planned, ended: Ended) -> str:
    """The first field of an end that is not of this campaign, session and case; "" for none."""
    for name, actual, expected in (
        ("campaign", ended.campaign, campaign.first_id),
        ("session", ended.session, session),
        ("system", ended.system, campaign.system),
        ("check", ended.check, planned.check),
        ("nodes", ended.nodes, planned.nodes),
    ):
        if actual != expected:
            return f"{name} is {actual!r}, expected {expected!r}"
    return ""


def _digest(path: Path) -> str:
    """Its SHA-256; part by part, as records of large sweeps have hundreds of megabytes."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while part := stream.read(2**20):
            digest.update(part)
    return digest.hexdigest()


def _record_damage(folder: Path, end: Path, stage: Path, digest: str | None) -> str:
    """Why the record is not the one that there was when the case ended; "" where it is."""
    if _within(folder, stage) is None:
        return f"{end}: its stage folder {stage} is not of this session"
    path = stage / RESULT_FILE
    try:
        found = _digest(path)
    except FileNotFoundError:
        return f"{path}: is gone; it was there when the case ended" if digest else ""
    except OSError as error:
        return f"{path}: cannot be read: {error.strerror}"
    if found == digest:
        return ""
    return f"{path}: is not as it was when the case ended (its SHA-256 is another than in {end})"
