"""What outputs of tools say: a line a measurement, what is wrong, and what was not read."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from railgauge.common.names import counted
from railgauge.model import published
from railgauge.model.limits import Limit
from railgauge.model.measurement import Measurement
from railgauge.model.nic import Nic
from railgauge.report.visible import clean
from railgauge.textfiles import Large, Text, Unread, read_all
from railgauge.tools import Completeness, Reading, recognize


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
    #: of published numbers, where only those of one system are wanted
    system: str | None = None
    files: int = 0
    runs: list[Run] = dataclasses.field(default_factory=list)
    unread: list[Unread] = dataclasses.field(default_factory=list)

    @property
    def wrong(self) -> list[Run]:
        return [run for run in self.runs if not run.reading.ok]

    def limit(self, run: Run, measurement: Measurement) -> Limit | None:
        return self.nic.limit(measurement, run.reading.seen) if self.nic else None

    def near(self, run: Run, measurement: Measurement) -> tuple[published.Near, ...]:
        """The published numbers for its condition; none for what no hardware has measured."""
        if run.reading.simulated or not run.reading.ok:
            return ()
        return published.near(measurement, run.reading.seen, self.system, self.nic)

    def lines(self) -> Iterator[str]:
        for run in self.runs:
            printed = set()
            for measurement in run.reading.measurements:
                yield "  ".join(filter(None, self._columns(run, measurement)))
                # Several rows of one condition have the same numbers.
                if near := self.near(run, measurement):
                    text = _published(measurement, near)
                    if text not in printed:
                        printed.add(text)
                        yield f"    {text}"
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
            f"{counted(len(self.runs), 'run')} in {counted(self.files, 'file')}",
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
        fields["measurements"] = [
            {
                **document,
                "limit": dataclasses.asdict(limit) if (limit := self.limit(run, number)) else None,
                "published": [
                    {**near.number.as_dict(), "differs": list(near.differs)}
                    for near in self.near(run, number)
                ],
            }
            for document, number in zip(
                fields["measurements"], run.reading.measurements, strict=True
            )
        ]
        place = {"file": run.file, "line": run.line, "tag": run.tag, "tool": run.tool}
        return {**place, **fields}


def read_paths(
    paths: Sequence[str],
    nic: Nic | None = None,
    system: str | None = None,
    with_text: Callable[[Text], None] | None = None,
) -> Readings:
    """All outputs in files, folders, archives and `-`; `with_text` gets each text that is read."""
    readings = Readings(nic, system)
    for found in read_all(paths):
        readings.files += 1
        source: Text | Unread | Run
        if isinstance(found, Large):
            # The run of a tool that reads piece by piece, or else the whole text.
            try:
                known = recognize.read_large(found.pieces) if with_text is None else None
                source = Run(found.name, 1, "", *known) if known else found.whole()
            except OSError as error:
                source = Unread(found.name, error.strerror or str(error))
        else:
            source = found
        if isinstance(source, Unread):
            readings.unread.append(source)
            continue
        if isinstance(source, Run):
            readings.runs.append(source)
            continue
        if with_text is not None:
            with_text(source)
        for section in recognize.outputs(source):
            if isinstance(section, Unread):
                readings.unread.append(section)
            else:
                run = Run(source.name, section.line, section.tag, section.tool, section.read())
                readings.runs.append(run)
    return readings


def _published(measurement: Measurement, near: Sequence[published.Near]) -> str:
    """`published: 80 to 90 GB/s, 3 numbers; the nearest is 84.5 GB/s on ...; differs: ...`."""
    nearest, unit = near[0], measurement.unit
    values = [one.number.value for one in near]
    text = f"{nearest.number.value:.6g} {unit} on {nearest.number.words}"
    if len(near) > 1:
        systems = len({one.number.of.system for one in near})
        of = f" on {systems} systems" if systems > 1 else ""
        text = (
            f"{min(values):.6g} to {max(values):.6g} {unit}, {len(near)} numbers{of}; "
            f"the nearest condition: {text}"
        )
    if nearest.differs:
        text += f"; differs: {', '.join(nearest.differs)}"
    return f"published: {clean(text)}"
