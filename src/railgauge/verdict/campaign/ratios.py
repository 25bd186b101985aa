"""Two conditions of one campaign against each other: tuned over default, two cables over one.

Pure: the cases bring the stored ratios with them, as they were when the checks ran.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence

from railgauge.model.references import Ratio, RatioSide
from railgauge.verdict.campaign.cases import Case


@dataclasses.dataclass(frozen=True)
class RatioRow:
    """A stored ratio next to the one that was measured.

    `value` is the median under `of` divided by that under `over`, None where a side was not
    measured.
    """

    name: str
    value: float | None
    reference: Ratio

    @property
    def within(self) -> bool | None:
        """Whether the reference admits it; None where it was not measured, or gates nothing."""
        if self.value is None or self.reference.is_context:
            return None
        return self.reference.admits(self.value)


def judge(cases: Sequence[Case]) -> list[RatioRow]:
    """Every ratio that a check of these cases has a side of."""
    known = {ratio.name: ratio for case in cases for ratio in case.ratios}
    return [RatioRow(ratio.name, _value(ratio, cases), ratio) for ratio in known.values()]


def _value(ratio: Ratio, cases: Sequence[Case]) -> float | None:
    of, over = (_median(side, ratio.metric, cases) for side in (ratio.of, ratio.over))
    return of / over if of is not None and over else None


def _median(side: RatioSide, metric: str, cases: Sequence[Case]) -> float | None:
    """Of all runs; a number that its own check does not vouch for is left out."""
    values = [
        row.measurement.value
        for case in cases
        if case.finished and not case.failures and not case.quiet
        for row in case.rows
        if row.measurement.metric == metric
        and side.matches(case.check, case.partition, row.measurement)
    ]
    return statistics.median(values) if values else None
