"""What ReFrame's own report shows of a job of many places: complaints and numbers."""

from __future__ import annotations

import datetime
import statistics
from collections.abc import Iterable, Mapping, Sequence

from railgauge.checks.framework.cases import Case
from railgauge.checks.framework.observation import Judged
from railgauge.model.references import Provenance, Reference

#: A value, its unit, and what it is compared with.
Number = tuple[float, str, Reference | None]

#: What the number of failed places is compared with.
_NONE_FAILED = Reference(
    value=0,
    upper=0,
    unit="1",
    kind="floor",
    note="every place must be good",
    provenance=Provenance(source="railgauge: every place must be good", date=datetime.date.min),
)

#: So many of the places that failed are named.
_NAMED = 5


def complaints(results: Sequence[Judged], not_run: Mapping[str, str]) -> list[str]:
    """What failed at the first places; why others were not measured (`not_run`, by place)."""
    failed = [judged for judged in results if judged.failures]
    named = [
        f"{judged.place.place}: {'; '.join(failure.message for failure in judged.failures)}"
        for judged in failed[:_NAMED]
    ]
    more = [f"and {len(failed) - _NAMED} more places"] if len(failed) > _NAMED else []
    not_measured = [
        f"{sum(r == why for r in not_run.values())} places not measured: {why}"
        for why in dict.fromkeys(not_run.values())
    ]
    return [*named, *more, *not_measured]


def numbers(results: Sequence[Judged], not_run: Sequence[Case]) -> Mapping[str, Number]:
    """Of each condition the worst and the median, and how many places failed or were `not_run`,
    of which there must be none.
    """
    measured: dict[str, list[Number]] = {}
    ways = {(m.within, m.load) for judged in results for m in judged.evidence.measurements}
    for judged in results:
        for m in judged.evidence.measurements:
            # Of the way and the load only what tells some of its places from others.
            more = (m.within, m.load) if len(ways) > 1 else ()
            name = _named(m.variable, (*judged.place.condition, *more))
            reference = judged.evidence.references.get(m.variable)
            measured.setdefault(name, []).append((m.value, m.unit, reference))
    shown: dict[str, Number] = {}
    for name, values in measured.items():
        worst = min(values, key=_margin)
        shared = worst[2] if all(reference == worst[2] for _, _, reference in values) else None
        shown[f"{name}_worst"] = worst
        shown[f"{name}_median"] = (statistics.median(n for n, _, _ in values), worst[1], shared)
    failed = [judged.place for judged in results if not judged.passed]
    counts = dict.fromkeys((judged.place.condition for judged in results), 0)
    for place in (*failed, *not_run):
        counts[place.condition] = counts.get(place.condition, 0) + 1
    by_name: dict[str, int] = {}
    for condition, count in counts.items():
        name = _named("places_failed", condition)
        by_name[name] = by_name.get(name, 0) + count
    return {**shown, **{name: (count, "1", _NONE_FAILED) for name, count in by_name.items()}}


def _named(variable: str, condition: Iterable[object]) -> str:
    """A performance variable of a condition; ReFrame takes letters, digits and underscores."""
    return "_".join([variable, *(_as_name(part) for part in condition if part is not None)])


def _as_name(part: object) -> str:
    """A part of a condition in letters, digits and underscores."""
    text = "+".join(map(str, part)) if isinstance(part, tuple) else str(part)
    return "".join(c if c.isalnum() else "_" for c in text)


def _margin(number: Number) -> float:
    """How far a number is within its bounds, as a share of its reference; below 0 outside of them.
    The least is the worst.
    """
    value, _, reference = number
    if reference is None:
        return value
    distances = [
        (value - reference.lowest) if reference.lowest is not None else None,
        (reference.highest - value) if reference.highest is not None else None,
    ]
    known = [distance for distance in distances if distance is not None]
    return min(known, default=value) / (reference.value or 1)
