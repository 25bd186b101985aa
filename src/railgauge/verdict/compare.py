"""A campaign's folder as test cases, each with its measurements against limit and reference."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pydantic

from railgauge.campaign import Campaign
from railgauge.checks.protections import Failure
from railgauge.limits import Limit
from railgauge.measurement import Measurement
from railgauge.references import Reference


@dataclasses.dataclass(frozen=True)
class Row:
    """One measurement beside what it is compared with."""

    measurement: Measurement
    reference: Reference | None
    limit: Limit | None

    @property
    def within(self) -> bool | None:
        """Whether the reference admits it; None where there is no reference."""
        return self.reference.admits(self.measurement.value) if self.reference else None

    @property
    def share_of_limit(self) -> float | None:
        return self.limit.share(self.measurement.value) if self.limit else None


@dataclasses.dataclass(frozen=True)
class Case:
    """One test case: a check on some nodes of a partition, as planned and as it went.

    `result` is ReFrame's word (pass, fail, abort, ...), or `not run`. `reason` is ReFrame's, and
    stands only where the check itself left no result.
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
    versions: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Nothing against it anywhere: ReFrame's result, the check's own, and every number."""
        return (
            self.result == "pass"
            and bool(self.rows)
            and not self.failures
            and all(row.within is not False for row in self.rows)
        )

    @property
    def finished(self) -> bool:
        """It came to a result, good or bad, and was not left out or broken off."""
        return self.result in ("pass", "fail")


class BrokenRecord(ValueError):
    """A file of the campaign that is there and cannot be read."""


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise BrokenRecord(f"{path}: {error}") from None


def _rows(result: dict[str, Any]) -> tuple[Row, ...]:
    rows = []
    for fields in result["measurements"]:
        measurement = Measurement.from_dict(fields)
        reference = result["references"].get(measurement.variable)
        limit = result["limits"].get(measurement.variable)
        rows.append(
            Row(
                measurement,
                Reference.model_validate(reference) if reference else None,
                Limit(**limit) if limit else None,
            )
        )
    return tuple(rows)


def _case(planned: dict[str, Any], ran: dict[str, Any] | None, run: int) -> Case:
    result = _read_json(Path(ran["stagedir"]) / "railgauge.json") if ran else None
    rows: tuple[Row, ...] = ()
    failures: tuple[Failure, ...] = ()
    versions: tuple[str, ...] = ()
    if result is not None:
        try:
            rows = _rows(result)
            failures = tuple(
                Failure(**{**failure, "nodes": tuple(failure["nodes"])})
                for failure in result["failures"]
            )
            versions = tuple(sorted({f"{c['tool']}: {c['version']}" for c in result["calls"]}))
        except (KeyError, TypeError, ValueError, pydantic.ValidationError) as error:
            raise BrokenRecord(f"{ran and ran['stagedir']}/railgauge.json: {error}") from None
    return Case(
        check=planned["check"],
        name=planned["case"],
        partition=planned["partition"],
        nodes=tuple(planned["nodes"]),
        run=run,
        result=ran["result"] if ran else "not run",
        reason=" ".join(((ran or {}).get("fail_reason") or "").split()),
        rows=rows,
        failures=failures,
        folder=Path(ran["stagedir"]) if ran else None,
        versions=versions,
    )


def read(campaign: Campaign) -> list[Case]:
    """Every planned case, in every run of the session; BrokenRecord where a file is damaged.

    A case that was planned and is not in ReFrame's report counts as not run.
    """
    plan = _read_json(campaign.folder / "plan.json") or []
    report = _read_json(campaign.folder / "report.json") or {"runs": []}
    try:
        runs = [
            {(t["unique_name"], t["partition"]): t for t in run["testcases"]}
            for run in report["runs"]
        ]
        cases = []
        for planned in plan:
            key = (planned["unique_name"], planned["partition"])
            found = [(number, run[key]) for number, run in enumerate(runs) if key in run]
            cases += [_case(planned, ran, number) for number, ran in found] or [
                _case(planned, None, 0)
            ]
        return cases
    except (KeyError, TypeError) as error:
        raise BrokenRecord(f"{campaign.folder}: plan.json or report.json: {error!r}") from None
