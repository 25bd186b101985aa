"""Known symptoms in logs or in a campaign, with their causes: hints, which change no verdict."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from railgauge.common.names import counted
from railgauge.model import signatures
from railgauge.model.nic import Nic
from railgauge.model.signatures import Hint
from railgauge.report.outputs import Outputs
from railgauge.report.readings import read_paths
from railgauge.report.visible import clean
from railgauge.textfiles import Text, Unread
from railgauge.verdict.campaign.cases import Case

#: So many places of one symptom are printed.
_SHOWN = 6


@dataclasses.dataclass
class Explained:
    """The hints, and what has none: (place, what it is, how many measurements)."""

    hints: list[Hint] = dataclasses.field(default_factory=list)
    without: list[tuple[str, str, int]] = dataclasses.field(default_factory=list)
    unread: list[Unread] = dataclasses.field(default_factory=list)

    def lines(self) -> Iterator[str]:
        by_name: dict[str, list[Hint]] = {}
        for hint in self.hints:
            by_name.setdefault(hint.name, []).append(hint)
        for name, hints in by_name.items():
            signature = hints[0].signature
            yield f"{name}: {signature.symptom}"
            yield from (f"  at {_evidence(hint)}" for hint in hints[:_SHOWN])
            if len(hints) > _SHOWN:
                yield f"  and at {len(hints) - _SHOWN} more places"
            yield from signatures.details(signature)
            yield ""
        for place, what, count in self.without:
            numbers = counted(count, "measurement", "no")
            yield f"{clean(place)}  {what}: no known symptom in {numbers}"
        for name, reason in self.unread:
            yield f"not read: {clean(name)}: {clean(reason)}"
        found = counted(len(by_name), "known symptom", "no")
        yield f"{found}; a symptom is a hint, and changes no verdict" if by_name else found

    def as_dict(self) -> dict[str, Any]:
        """As a document (docs/schema/symptoms.json)."""
        return {
            "hints": [
                {
                    "name": hint.name,
                    "place": hint.place,
                    "line": hint.line.text if hint.line else None,
                    "measurements": [number.as_dict() for number in hint.measurements],
                    **hint.signature.model_dump(exclude={"when"}),
                }
                for hint in self.hints
            ],
            "without": [
                {"place": place, "what": what, "measurements": count}
                for place, what, count in self.without
            ],
            "unread": [unread._asdict() for unread in self.unread],
        }


def of_logs(paths: Sequence[str], nic: Nic | None) -> Explained:
    """What the outputs in files, folders, archives and `-` show."""
    lines: dict[str, dict[str, signatures.Line]] = {}

    def keep_lines(text: Text) -> None:
        lines[text.name] = signatures.lines_of(text.text)

    readings = read_paths(paths, nic, with_text=keep_lines)
    explained = Explained()
    with_hint = set()
    for name, of_file in lines.items():
        hints = signatures.of_lines(name, of_file)
        explained.hints += hints
        with_hint |= {name} if hints else set()
    # A log that no reader knows may have lines that are known.
    explained.unread = [one for one in readings.unread if one.name not in with_hint]
    for run in readings.runs:
        numbers = [(number, readings.limit(run, number)) for number in run.reading.measurements]
        hosts = len(set(run.reading.seen.get("hosts") or ())) or None
        subject = signatures.Run(
            run.place, numbers, run.reading.seen, hosts, nic, lines.get(run.file, {})
        )
        hints = signatures.of_run(subject)
        explained.hints += hints
        if not hints:
            what = run.name if run.reading.ok else f"{run.name}, which is no valid result"
            explained.without.append((run.place, what, len(numbers)))
    return explained


def of_campaign(cases: Sequence[Case]) -> Explained:
    """What the records of a campaign show, and the outputs of places that did not pass."""
    explained = Explained()
    recorded = Outputs()
    for case in cases:
        if case.of_job:
            continue
        place = f"{case.check} {case.place or ' '.join(case.nodes)}"
        lines: dict[str, signatures.Line] = {}
        if not case.passed:
            try:
                outputs = recorded.of(case)
            except (OSError, ValueError) as error:
                explained.unread.append(Unread(place, str(error)))
                outputs = []
            for _, text in outputs:
                lines |= signatures.lines_of(text)
        numbers = [(row.measurement, row.limit) for row in case.rows]
        run = signatures.Run(place, numbers, {}, len(case.nodes) or None, None, lines)
        hints = [*signatures.of_lines(place, lines), *signatures.of_run(run)]
        explained.hints += hints
        if not hints and not case.passed:
            explained.without.append((place, case.result, len(numbers)))
    return explained


def _evidence(hint: Hint) -> str:
    parts = [hint.place]
    if (number := hint.measurement) is not None:
        parts += [number.words, f"{number.value:.6g} {number.unit}"]
        if len(hint.measurements) > 1:
            parts.append(f"and {len(hint.measurements) - 1} more of this run")
    if hint.line is not None:
        text = hint.line.text
        parts.append(f"{text[:157]}..." if len(text) > 160 else text)
    return "  ".join(clean(part) for part in parts)
