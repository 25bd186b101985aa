"""The observation of a place, which is read once, and its judgement."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from railgauge.checks.framework.cases import Case
from railgauge.checks.framework.protections import JobEvidence
from railgauge.model.call import Call
from railgauge.model.failure import NO_REFERENCE, Failure
from railgauge.model.measurement import Measurement
from railgauge.model.reported_traffic import Claim
from railgauge.tools import Completeness, Reading


@dataclasses.dataclass(frozen=True)
class ExitLine:
    """The proof that a tool's call has ended, and the facts of its node."""

    call: Call
    facts: Mapping[str, Any]


def as_one(
    readings: Mapping[str, Reading],
    what: str,
    measured: Callable[[], Iterable[Measurement]],
    conditions: Iterable[str],
) -> Reading:
    """The reading of several runs that together are one place, by their names; `what` they are, in
    the plural. Of a condition it has the value that all state, or each one's by its name.
    """
    refused = {name: reading for name, reading in readings.items() if not reading.ok}
    if refused:
        return Reading.invalid(
            "; ".join(f"{name}: {reading.reason}" for name, reading in refused.items()),
            inconclusive=all(reading.inconclusive for reading in refused.values()),
        )

    def stated(condition: str) -> Any:
        values = {name: reading.seen.get(condition) for name, reading in readings.items()}
        first, *others = values.values()
        return first if all(value == first for value in others) else values

    each = list(readings.values())
    unproved = [r for r in each if r.completeness is not Completeness.PROVED]
    return Reading(
        True,
        unproved[0].reason if unproved else f"{len(each)} {what}: {each[0].reason}",
        unproved[0].completeness if unproved else Completeness.PROVED,
        tuple(measured()),
        {condition: stated(condition) for condition in conditions},
    )


#: What each node stated of itself (device, mtu_bytes, ...), by its name.
Facts = Mapping[str, Mapping[str, Any]]


@dataclasses.dataclass(frozen=True)
class Observation:
    """What a place left, read once: its tool's reading, its exit lines, what each node stated of
    itself (device, mtu_bytes, ...) by its name, and what is wrong beside what every check is judged
    by. `claims` are what the tool says that the nodes' devices carried, to be held against their
    counters. `prefix` stands before the roles of the run that is judged.
    `required` and `gated` are those of PlaceRun where only the output tells them.
    """

    reading: Reading
    calls: Sequence[Call]
    facts: Facts = dataclasses.field(default_factory=dict)
    failures: Sequence[Failure] = ()
    claims: Sequence[Claim] = ()
    prefix: str = ""
    required: Sequence[str] | None = None
    gated: Sequence[str] | None = None


@dataclasses.dataclass(frozen=True)
class Judged:
    """The judgement of a place: its evidence and its failures, and its aspects (PlaceRun)."""

    place: Case
    evidence: JobEvidence
    failures: Sequence[Failure]
    aspects: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def within(self) -> bool:
        """Whether every number is within its reference's bounds."""
        known = self.evidence.references
        return all(
            known[m.variable].admits(m.value)
            for m in self.evidence.measurements
            if m.variable in known
        )

    @property
    def passed(self) -> bool:
        return not self.failures and self.within

    def satisfies(self, stopped_by: Collection[str]) -> bool:
        """Whether a check that needs this place may be measured: nothing speaks against it but
        aspects that do not stop the check, though nothing stored may say what its numbers should
        be.
        """
        ignored = self.aspects.keys() - stopped_by
        counts = {self.aspects[kind] for kind in ignored}
        known = self.evidence.references
        bounds = {name: bound for name, bound in known.items() if name not in counts}
        evidence = dataclasses.replace(self.evidence, references=bounds)
        kinds = {failure.kind for failure in self.failures} - ignored
        return Judged(self.place, evidence, ()).within and kinds <= {NO_REFERENCE}
