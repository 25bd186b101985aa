"""What part of its limit a healthy link or fabric reaches, for conditions without a stored number.

`configs/least_shares.yaml` has what holds for every system, with its sources; `extras.least_shares`
of a partition comes before it.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from typing import Literal

import pydantic

from railgauge import paths
from railgauge.model.limits import Limit
from railgauge.model.measurement import METRICS, Measurement
from railgauge.model.references import Provenance, Reference
from railgauge.yamlfile import Strict, load_model


class LeastShare(Strict):
    """The least part of the limit that good hardware reaches under the conditions that it states;
    what it does not state may be anything.
    """

    metric: str = "bandwidth"
    """A rate; of times nothing says how short they may be."""
    tool: str | None = None
    """As measurements name it."""
    operation: str | None = None
    """As in references: write, all_reduce."""
    transport: str | None = None
    """As in references: roce, sockets."""
    nodes: Literal["one", "several"] | None = None
    """Whether it stays within a node."""
    from_bytes: int | None = pydantic.Field(default=None, ge=1)
    """Only messages of so many bytes and more."""
    share: float = pydantic.Field(gt=0, le=1)
    """Of the payload rate that the limit allows."""
    source: str = pydantic.Field(min_length=1)
    """The source: where which share was measured, or chosen."""

    @pydantic.field_validator("metric")
    @classmethod
    def _is_a_rate(cls, metric: str) -> str:
        rates = [name for name, known in METRICS.items() if known.better == "more"]
        if metric not in rates:
            raise ValueError(f"metric is {metric!r}, expected one of {', '.join(rates)}")
        return metric

    def is_of(self, measurement: Measurement) -> bool:
        m = measurement
        stated = {"tool": m.tool, "operation": m.operation, "transport": m.transport}
        return (
            self.metric in (m.metric, m.metric.removesuffix("_in_place"))
            and all(getattr(self, part) in (None, value) for part, value in stated.items())
            and self.nodes in (None, "several" if len(m.nodes) > 1 else "one")
            and (self.from_bytes is None or (m.size_bytes or 0) >= self.from_bytes)
        )


class _File(Strict):
    least_shares: list[LeastShare]


def of_every_system() -> Sequence[LeastShare]:
    """ConfigurationError with file and line for anything wrong in the file."""
    return load_model(paths.LEAST_SHARES, _File).least_shares


def reference(
    measurement: Measurement, limit: Limit | None, of_system: Iterable[LeastShare]
) -> Reference | None:
    """What a measurement is judged by where no number is stored: the first share that is of its
    condition, of its `limit`. None where either is not known.
    """
    if limit is None:
        return None
    known = (share for share in (*of_system, *of_every_system()) if share.is_of(measurement))
    least = next(known, None)
    if least is None:
        return None
    return Reference(
        value=limit.value,
        lower=least.share - 1,
        unit=limit.unit,
        kind="share",
        note=f"{least.share:.0%} of the limit: {limit.reason}",
        provenance=Provenance(source=least.source, date=datetime.date.today()),
    )
