"""What outputs of tools say: a line a measurement, what is wrong, and what was not read."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from railgauge.model.limits import Limit
from railgauge.model.measurement import Measurement
from railgauge.model.nic import Nic
from railgauge.report.visible import clean
from railgauge.textfiles import Unread
from railgauge.tools import Completeness, Reading


@dataclasses.dataclass(frozen=True)
class Run:
    """An output of a tool, where it begins, and what its reader makes of it."""

    file: str
    line: int
    tag: str
    tool: str
    reading: Reading

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def name(self) -> str:
        return f"{self.tool} {self.tag}" if self.tag else self.tool


@dataclasses.dataclass
class Readings:
    """All that was read, and what was not."""

    nic: Nic | None = None
    files: int = 0
    runs: list[Run] = dataclasses.field(default_factory=list)
    unread: list[Unread] = dataclasses.field(default_factory=list)

    @property
    def wrong(self) -> list[Run]:
        return [run for run in self.runs if not run.reading.ok]

    def limit(self, run: Run, measurement: Measurement) -> Limit | None:
        return self.nic.limit(measurement, run.reading.seen) if self.nic else None

    def lines(self) -> Iterator[str]:
        for run in self.runs:
            for measurement in run.reading.measurements:
                yield "  ".join(filter(None, self._columns(run, measurement)))
        for run in self.runs:
            for note in run.reading.notes:
                yield f"note: {clean(run.place)}  {run.name}: {clean(note)}"
        for run in self.wrong:
            yield f"wrong: {clean(run.place)}  {run.name}: {clean(run.reading.reason)}"
        for name, reason in self.unread:
            yield f"not read: {clean(name)}: {clean(reason)}"
        yield self._summary()

    def _columns(self, run: Run, measurement: Measurement) -> Iterator[str]:
        yield clean(run.place)
        yield run.name
        yield measurement.words
        yield f"{measurement.value:.6g} {measurement.unit}"
        if limit := self.limit(run, measurement):
            share = limit.share(measurement.value)
            above = ", more than it allows" if limit.exceeded_by(measurement.value) else ""
            yield f"{share:.1%} of {limit.value:.4g} {limit.unit}{above}"
        if run.reading.simulated:
            yield "SIMULATED"

    def _summary(self) -> str:
        good = [run for run in self.runs if run.reading.ok]
        whole = sum(run.reading.completeness is Completeness.PROVED for run in good)
        open_ended = len(good) - whole
        parts = [
            f"{_counted(len(self.runs), 'run')} in {_counted(self.files, 'file')}",
            f"{len(good)} good" if good else "",
            f"{open_ended} of them not proved to have finished" if open_ended else "",
            f"{len(self.wrong)} no valid result" if self.wrong else "",
            f"{len(self.unread)} not read" if self.unread else "",
        ]
        return ", ".join(filter(None, parts))

    def as_dict(self) -> dict[str, Any]:
        """As a document (docs/schema/read.json)."""
        return {
            "files": self.files,
            "runs": [self._run(run) for run in self.runs],
            "unread": [unread._asdict() for unread in self.unread],
        }

    def _run(self, run: Run) -> dict[str, Any]:
        fields = run.reading.as_dict()
        limits = [self.limit(run, measurement) for measurement in run.reading.measurements]
        fields["measurements"] = [
            {**measurement, "limit": dataclasses.asdict(limit) if limit else None}
            for measurement, limit in zip(fields["measurements"], limits, strict=True)
        ]
        place = {"file": run.file, "line": run.line, "tag": run.tag, "tool": run.tool}
        return {**place, **fields}


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
