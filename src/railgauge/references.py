"""The stored numbers of a system: `results/references/<system>.yaml`.

ReFrame can read references from YAML by itself (`$ref`), but a missing or malformed file then only
skips the test with a warning, and a wrong unit only warns. Here both are errors when the file is
loaded, and every number says where it comes from.
"""

from __future__ import annotations

import datetime
import itertools
from pathlib import Path
from typing import Annotated, Literal

import pydantic

from railgauge import paths
from railgauge.errors import ConfigurationError
from railgauge.measurement import METRIC_UNITS, Measurement
from railgauge.yamlfile import Strict, load_model

Kind = Literal["floor", "published", "baseline"]


class Provenance(Strict):
    """Where a number comes from: a publication, or a campaign of this site."""

    source: str = pydantic.Field(min_length=1)
    date: datetime.date
    fingerprint: str | None = None
    samples: int | None = pydantic.Field(default=None, ge=1)


class Reference(Strict):
    """One number and how far a measurement may be from it.

    `lower` and `upper` are fractions of `value`, as in ReFrame: -0.1 lets a measurement be 10 %
    below. `floor` proves function only; `published` is cited; `baseline` is this site's own.
    """

    value: float = pydantic.Field(gt=0, allow_inf_nan=False)
    lower: float | None = pydantic.Field(default=None, ge=-1, le=0, allow_inf_nan=False)
    upper: float | None = pydantic.Field(default=None, ge=0, allow_inf_nan=False)
    unit: str
    kind: Kind
    provenance: Provenance

    @pydantic.model_validator(mode="after")
    def _bounds_something(self) -> Reference:
        if self.lower in (None, -1) and self.upper is None:
            raise ValueError(
                "this reference bounds nothing: lower is a fraction of value such as -0.1, or "
                "upper one such as 0.1"
            )
        return self

    @property
    def lowest(self) -> float | None:
        return None if self.lower is None else self.value * (1 + self.lower)

    @property
    def highest(self) -> float | None:
        return None if self.upper is None else self.value * (1 + self.upper)

    def deviation(self, value: float) -> float:
        """How far `value` is from the reference, as a fraction of it."""
        return value / self.value - 1

    def admits(self, value: float) -> bool:
        lowest, highest = self.lowest, self.highest
        return (lowest is None or value >= lowest) and (highest is None or value <= highest)


class Entry(Strict):
    """The numbers of one check under one condition."""

    check: str
    partition: str
    operation: str
    transport: str
    nodes: Annotated[int, pydantic.Field(ge=1)] | Literal["any"]
    streams: int | None = None
    size_bytes: int | None = None
    #: of both ends, such as "0-1"; none serves every rail that has no entry of its own
    rails: str | None = None
    window_bytes: int | None = None
    congestion: str | None = None
    delay_ms: float | None = None
    metrics: dict[str, Reference] = pydantic.Field(min_length=1)

    @pydantic.field_validator("metrics")
    @classmethod
    def _units(cls, metrics: dict[str, Reference]) -> dict[str, Reference]:
        for metric, reference in metrics.items():
            if metric not in METRIC_UNITS:
                raise ValueError(f"metric {metric!r} is unknown; one of {', '.join(METRIC_UNITS)}")
            if reference.unit != METRIC_UNITS[metric]:
                raise ValueError(
                    f"{metric} is in {reference.unit!r}, expected {METRIC_UNITS[metric]!r}"
                )
        return metrics

    @property
    def condition(self) -> tuple[object, ...]:
        return (
            *(self.check, self.partition, self.operation, self.transport),
            *(self.nodes, self.streams, self.size_bytes, self.rails),
            *(self.window_bytes, self.congestion, self.delay_ms),
        )


class ReferenceFile(Strict):
    system: str
    references: list[Entry]


class References:
    """All references of one system, by condition."""

    def __init__(self, system: str, entries: list[Entry], path: Path) -> None:
        self.system = system
        self.path = path
        self._entries: dict[tuple[object, ...], Entry] = {}
        for entry in entries:
            if entry.condition in self._entries:
                raise ConfigurationError(
                    f"{path}: two entries for the same condition: {entry.condition}"
                )
            self._entries[entry.condition] = entry

    def find(self, check: str, partition: str, measurement: Measurement) -> Reference | None:
        """The reference for this very condition, or None: near is not the same.

        An entry whose `nodes` is `any` serves where none names the number of nodes, one without
        `rails` where none names them.
        """
        for nodes, rails in itertools.product(
            (len(measurement.nodes), "any"), dict.fromkeys((measurement.rails, None))
        ):
            condition = (
                *(check, partition, measurement.operation, measurement.transport),
                *(nodes, measurement.streams, measurement.size_bytes, rails),
                *(measurement.window_bytes, measurement.congestion, measurement.delay_ms),
            )
            entry = self._entries.get(condition)
            if entry and measurement.metric in entry.metrics:
                return entry.metrics[measurement.metric]
        return None


def path_for(system: str) -> Path:
    return paths.references_folder() / f"{system}.yaml"


def load(system: str, path: Path | None = None) -> References:
    """The references of `system`; none where it has no file yet.

    Raises ConfigurationError with file, line and field for anything wrong in the file.
    """
    path = path or path_for(system)
    if not path.exists():
        return References(system, [], path)
    content = load_model(path, ReferenceFile)
    if content.system != system:
        raise ConfigurationError(f"{path}: system is {content.system!r}, expected {system!r}")
    return References(system, content.references, path)
