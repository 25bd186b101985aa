"""A campaign's folder as test cases, each with its measurements against limit and reference."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any, TypeVar

import pydantic

from railgauge import hostlist
from railgauge.campaign import Campaign
from railgauge.checks.protections import Failure
from railgauge.limits import Limit
from railgauge.measurement import Measurement
from railgauge.references import Ratio, Reference


@dataclasses.dataclass(frozen=True)
class Row:
    """One measurement beside what it is compared with."""

    measurement: Measurement
    reference: Reference | None
    limit: Limit | None
    #: published numbers whose condition is not wholly known: to look at, gating nothing
    context: tuple[Reference, ...] = ()
    #: whether it must have a reference
    gates: bool = True

    @property
    def within(self) -> bool | None:
        """Whether the reference admits it; None where there is no reference."""
        return self.reference.admits(self.measurement.value) if self.reference else None

    @property
    def share_of_limit(self) -> float | None:
        return self.limit.share(self.measurement.value) if self.limit else None


class ToolCall(pydantic.BaseModel):
    """What ran in one call of a tool; older campaigns know neither path nor package."""

    model_config = pydantic.ConfigDict(frozen=True)

    tool: str
    version: str
    host: str = ""
    path: str = ""
    package: str = ""


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
    #: the tools' calls, as far as their provenance goes
    calls: tuple[ToolCall, ...] = ()
    #: acceptance or baseline, as the check ran
    gate: str = ""
    #: why the check's own record cannot be read
    damage: str = ""
    #: nodes for which its job did not start
    unavailable: tuple[str, ...] = ()
    #: the stored ratios that this check has a side of
    ratios: tuple[Ratio, ...] = ()
    #: what it measures of its nodes, where a check measures several things: a transport, the rails
    kind: str = ""
    unique_name: str = ""

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
    def precondition_failed(self) -> bool:
        """It was left out because of another case's failure."""
        return self.result == "not run" and bool(self.reason)


#: How Slurm gives the nodes that keep a job from starting; under load it says only that some do.
_UNAVAILABLE = re.compile(r"UnavailableNodes:([\w\[\],.-]+)")
_SOME = "ReqNodeNotAvail"


def unavailable_nodes(reason: str) -> tuple[str, ...]:
    """The nodes that Slurm's pending reason names as not available."""
    found = _UNAVAILABLE.search(reason)
    try:
        return hostlist.expand(found[1].rstrip(",")) if found else ()
    except ValueError:
        return ()


class BrokenRecordError(ValueError):
    """A file of the campaign that is there and cannot be read."""


# The parts of the files that are read here; what else is in them is left alone.


class _Planned(pydantic.BaseModel):
    check: str
    case: str
    unique_name: str
    partition: str
    nodes: list[str]
    depends_on: list[str] = []
    kind: str = ""


class _Ran(pydantic.BaseModel):
    unique_name: str
    partition: str
    result: str
    fail_reason: str | None = None
    #: none for a case that was skipped
    stagedir: Path | None = None


class _Run(pydantic.BaseModel):
    testcases: list[_Ran]


class _Report(pydantic.BaseModel):
    runs: list[_Run]


class _Failure(pydantic.BaseModel):
    kind: str
    message: str
    nodes: tuple[str, ...]
    next_step: str


class _Limit(pydantic.BaseModel):
    value: pydantic.PositiveFloat
    unit: str
    reason: str


class _Result(pydantic.BaseModel):
    gate: str
    measurements: list[dict[str, Any]]
    limits: dict[str, _Limit]
    references: dict[str, Reference]
    context: dict[str, list[Reference]] = {}
    ratios: list[Ratio] = []
    recorded: list[str] = []
    failures: list[_Failure]
    calls: list[ToolCall]

    def rows(self) -> tuple[Row, ...]:
        rows = []
        for fields in self.measurements:
            measurement = Measurement.from_dict(fields)
            limit = self.limits.get(measurement.variable)
            rows.append(
                Row(
                    measurement,
                    self.references.get(measurement.variable),
                    Limit(**limit.model_dump()) if limit else None,
                    tuple(self.context.get(measurement.variable, ())),
                    measurement.variable not in self.recorded,
                )
            )
        return tuple(rows)


_PLAN = pydantic.TypeAdapter(list[_Planned])
_POSSIBLE = pydantic.TypeAdapter(dict[str, dict[str, pydantic.NonNegativeInt]])

_Content = TypeVar("_Content")


def _read(path: Path, content: pydantic.TypeAdapter[_Content]) -> _Content | None:
    """The document at `path`, None where there is none."""
    try:
        return content.validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the document"
        raise BrokenRecordError(f"{path}: {place}: {first['msg']}") from None
    except OSError as error:
        raise BrokenRecordError(f"{path}: {error.strerror}") from None


def _case(planned: _Planned, ran: _Ran | None, run: int) -> Case:
    case = Case(
        check=planned.check,
        name=planned.case,
        partition=planned.partition,
        nodes=tuple(planned.nodes),
        run=run,
        result=ran.result if ran else "not run",
        reason=" ".join((ran.fail_reason or "").split()) if ran else "",
        rows=(),
        failures=(),
        folder=ran.stagedir if ran else None,
        kind=planned.kind,
        unique_name=planned.unique_name,
    )
    if ran is None or ran.stagedir is None:
        return case
    path = ran.stagedir / "railgauge.json"
    try:
        result = _read(path, pydantic.TypeAdapter(_Result))
        if result is None:
            return case
        rows = result.rows()
    except BrokenRecordError as error:
        return dataclasses.replace(case, damage=str(error))
    except (TypeError, ValueError) as error:
        return dataclasses.replace(case, damage=f"{path}: measurements: {error}")
    return dataclasses.replace(
        case,
        rows=rows,
        gate=result.gate,
        ratios=tuple(result.ratios),
        failures=tuple(Failure(**failure.model_dump()) for failure in result.failures),
        calls=tuple(dict.fromkeys(result.calls)),
    )


def read_possible(campaign: Campaign) -> dict[str, dict[str, int]]:
    """Check -> partition -> number of cases without any filter; empty for an old campaign.

    Raises BrokenRecordError where the file is damaged.
    """
    return _read(campaign.folder / "possible.json", _POSSIBLE) or {}


def read(campaign: Campaign) -> list[Case]:
    """Every planned case, in every run of the session.

    A case that was planned and is not in ReFrame's report counts as not run; one whose own record
    is damaged says so. Raises BrokenRecordError where the plan or the report is damaged.
    """
    plan = _read(campaign.folder / "plan.json", _PLAN) or []
    report = _read(campaign.folder / "report.json", pydantic.TypeAdapter(_Report))
    runs = (
        [{(t.unique_name, t.partition): t for t in run.testcases} for run in report.runs]
        if (report)
        else []
    )
    cases = []
    failed = {
        ran.unique_name for run in runs for ran in run.values() if ran.result in ("fail", "abort")
    }
    names = {planned.unique_name: planned.case for planned in plan}
    for planned in plan:
        key = (planned.unique_name, planned.partition)
        found = [_case(planned, run[key], number) for number, run in enumerate(runs) if key in run]
        unmet = [names.get(name, name) for name in planned.depends_on if name in failed]
        if unmet:
            reason = f"its precondition failed: {'; '.join(unmet)}"
            found = [
                c if c.finished else dataclasses.replace(c, result="not run", reason=reason)
                for c in found
            ]
        cases += found or [_case(planned, None, 0)]
    return [dataclasses.replace(case, unavailable=_unavailable(campaign, case)) for case in cases]


def _unavailable(campaign: Campaign, case: Case) -> tuple[str, ...]:
    """As the pending reason names them; else those that Slurm knew to be down at the end."""
    known = tuple(node for node in case.nodes if node in campaign.unavailable)
    return unavailable_nodes(case.reason) or (known if _SOME in case.reason else ())
