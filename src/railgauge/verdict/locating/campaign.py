"""A campaign's places between two nodes as evidence."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from railgauge.model.measurement import METRICS
from railgauge.model.record import Row
from railgauge.verdict import outliers
from railgauge.verdict.compare import Case, Outcome
from railgauge.verdict.locating import scoring
from railgauge.verdict.locating.evidence import End, Evidence, Missing, Observation


def read(cases: Sequence[Case]) -> Evidence:
    """The evidence of all pairs and rails of pairs; what was not measured of these is missing.

    A place counts once, by the largest size that it measured of what is alike everywhere.
    """
    # Who is within it of the others is good.
    spread = max((case.peer_spread for case in cases), default=0.0) / scoring.GOOD
    evidence = Evidence(least_spread=max(spread, 0.01))
    observations = []
    missing = []
    for case in cases:
        if case.of_job or len(case.nodes) != 2:
            continue
        if case.outcome is Outcome.UNMEASURED:
            why = case.reason or case.damage or case.result
            missing.append(Missing(case.place or "-".join(case.nodes), None, why))
            continue
        observations.append(_observation(case))
    evidence.add(observations, missing)
    return evidence


def _observation(case: Case) -> Observation:
    rows = [row for row in case.rows if _counts(row)]
    row = max(rows, key=lambda row: row.measurement.size_bytes or 0, default=None)
    a, b = _ends(case, row)
    if row is None or case.failures:
        return Observation(a, b, None, condition=(case.check, case.partition, case.kind))
    m = row.measurement
    condition: Hashable = outliers.condition(case, m)
    bound = row.reference.lowest if row.reference else None
    return Observation(a, b, m.value, condition=condition, bound=bound)


def _counts(row: Row) -> bool:
    metric = METRICS[row.measurement.metric]
    return row.gates and metric.alike and metric.better == "more"


def _ends(case: Case, row: Row | None) -> tuple[End, End]:
    """By device where the facts tell it, else by the rail's number."""
    rails = row.measurement.rails if row else None
    numbers = rails.split("-") if rails else []
    names = []
    for place, node in enumerate(case.nodes):
        device = case.facts.get(node, {}).get("device") if numbers else None
        number = numbers[place] if len(numbers) == 2 else None
        names.append(End(node, device if isinstance(device, str) else number))
    return names[0], names[1]
