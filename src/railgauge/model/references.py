"""The stored numbers of a system: `results/references/<system>.yaml`.

ReFrame can read references from YAML by itself (`$ref`), but a missing or malformed file then only
skips the test with a warning, and a wrong unit only warns. Here both are errors when the file is
loaded, and every number says where it comes from.
"""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Iterable, Mapping
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError
from typing_extensions import LiteralString

from railgauge import paths
from railgauge.common.errors import ConfigurationError
from railgauge.model.leaves import Within
from railgauge.model.measurement import METRICS, Load, Measurement
from railgauge.yamlfile import Strict, load_model

Kind = Literal["floor", "published", "baseline", "share"]

#: Of several numbers for one condition, the first of these kinds is the reference.
PRECEDENCE: tuple[Kind, ...] = ("baseline", "published", "floor")

#: How far a measurement may be on the worse side of a published number that gives no bounds.
PROVISIONAL = 0.1


class Provenance(Strict):
    """Where a number comes from: a publication, or a campaign of this site.

    `tools` are those it was measured with, each with the version that it prints of itself.
    """

    source: str = pydantic.Field(min_length=1)
    date: datetime.date
    tools: dict[
        Annotated[str, pydantic.StringConstraints(pattern="^[a-z][a-z0-9_-]*$")],
        Annotated[str, pydantic.StringConstraints(pattern=r"^[0-9]+(\.[0-9]+)+")],
    ] = {}
    fingerprint: str | None = None
    samples: int | None = pydantic.Field(default=None, ge=1)

    def __hash__(self) -> int:
        # Mappings are not hashable; the other fields distinguish provenances.
        return hash((self.source, self.date))


def _wrong(field: str, message: LiteralString) -> ValidationError:
    """A validation error of one field, found once all fields are read."""
    details = InitErrorDetails(
        type=PydanticCustomError("wrong_value", message), loc=(field,), input=None
    )
    return ValidationError.from_exception_data("Bounded", [details])


class Bounded(Strict):
    """One number, and how far what is measured may be from it.

    `lower` and `upper` are fractions of `value`, as in ReFrame: -0.1 lets a measurement be 10 %
    below. With `condition: unstated` the source leaves a part of the condition open: the number is
    context, has no bounds and gates nothing. `note` says of the condition what no field can.
    """

    value: float = pydantic.Field(ge=0, allow_inf_nan=False)
    lower: float | None = pydantic.Field(default=None, ge=-1, le=0, allow_inf_nan=False)
    upper: float | None = pydantic.Field(default=None, ge=0, allow_inf_nan=False)
    condition: Literal["stated", "unstated"] = "stated"
    note: str = ""
    provenance: Provenance

    @pydantic.model_validator(mode="after")
    def _bounds_something(self) -> Bounded:
        if self.is_context:
            if (self.lower, self.upper) != (None, None):
                raise ValueError("its condition is unstated, so it gates nothing: no lower, upper")
        elif self.value == 0 and self.upper != 0:
            raise _wrong("value", "0: a fraction of it bounds nothing; expected upper: 0")
        elif self.lower in (None, -1) and self.upper is None:
            raise ValueError(
                "this reference bounds nothing: lower is a fraction of value such as -0.1, or "
                "upper one such as 0.1"
            )
        return self

    @property
    def is_context(self) -> bool:
        return self.condition == "unstated"

    @property
    def lowest(self) -> float | None:
        return None if self.lower is None else self.value * (1 + self.lower)

    @property
    def highest(self) -> float | None:
        return None if self.upper is None else self.value * (1 + self.upper)

    def deviation(self, value: float) -> float:
        """How far `value` is from the reference, as a fraction of it."""
        if self.value == 0:
            return math.inf if value else 0.0
        return value / self.value - 1

    def admits(self, value: float) -> bool:
        lowest, highest = self.lowest, self.highest
        return (lowest is None or value >= lowest) and (highest is None or value <= highest)


class Reference(Bounded):
    """The number of a metric under one condition.

    `floor` proves function only; `published` is cited, and gates until there is a `baseline`, this
    site's own. A `share` of the limit judges where nothing is stored (`model/shares.py`).
    """

    unit: str
    kind: Kind

    @pydantic.model_validator(mode="after")
    def _only_publications_leave_things_out(self) -> Reference:
        if self.is_context and self.kind != "published":
            raise ValueError(f"a {self.kind} knows its condition; only published may be unstated")
        return self


class Condition(Strict):
    """What was measured, how and between which nodes, in the words of a Measurement.

    A part that is written counts, also as null ("nothing was asked for"); one that is left out is
    unstated.
    """

    operation: str | None = None
    transport: str | None = None
    nodes: Annotated[int, pydantic.Field(ge=1)] | Literal["any"] | None = None
    #: of a parallel program; none serves every number that has no entry of its own
    ranks: Annotated[int, pydantic.Field(ge=1)] | None = None
    streams: int | None = None
    size_bytes: int | None = None
    #: of both ends, such as "0-1"; none serves every rail that has no entry of its own
    rails: str | None = None
    #: such as "eth1+eth2"; none serves all NICs that have no entry of their own
    nics: str | None = None
    window_bytes: int | None = None
    congestion: str | None = None
    delay_ms: float | Literal["any"] | None = None
    #: two nodes of one leaf, or of two; none serves both that have no entry of their own
    within: Within | None = None
    #: one place at a time, or others with it; none serves both that have no entry of their own
    load: Load | None = None
    #: of nccl-tests; none serves every warm-up that has no entry of its own
    warmup: int | None = None

    def matches(self, check: str, partition: str, measurement: Measurement) -> bool:
        """Whether every part that is stated is as measured."""
        measured = _condition(check, partition, measurement)
        return all(
            getattr(self, part) in (measured[part], "any")
            for part in self.model_fields_set & measured.keys()
        )

    @property
    def stated(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.model_fields_set}


def _condition(check: str, partition: str, measurement: Measurement) -> dict[str, object]:
    """All parts of a condition, in the order in which entries are compared."""
    return {
        "check": check,
        "partition": partition,
        "operation": measurement.operation,
        "transport": measurement.transport,
        "nodes": len(measurement.nodes),
        "ranks": measurement.ranks,
        "streams": measurement.streams,
        "size_bytes": measurement.size_bytes,
        "rails": measurement.rails,
        "nics": measurement.nics,
        "window_bytes": measurement.window_bytes,
        "congestion": measurement.congestion,
        "delay_ms": measurement.delay_ms,
        "within": measurement.within,
        "load": measurement.load,
        "warmup": measurement.warmup,
    }


def _known(metric: str) -> str:
    if metric not in METRICS:
        raise ValueError(f"metric {metric!r} is unknown; one of {', '.join(METRICS)}")
    return metric


def _with_provisional_bound(metric: object, number: Any) -> Any:
    """A published number that states its condition and no bounds gates on its worse side."""
    if (
        not isinstance(number, dict)
        or number.get("kind") != "published"
        or number.get("condition", "stated") != "stated"
        or any(number.get(bound) is not None for bound in ("lower", "upper"))
    ):
        return number
    if str(metric) not in METRICS:
        return number
    more = METRICS[str(metric)].better == "more"
    return {**number, **({"lower": -PROVISIONAL} if more else {"upper": PROVISIONAL})}


class Entry(Condition):
    """The numbers of one check under one condition.

    Only where the condition of every number is unstated may parts of it be left out.
    """

    check: str
    partition: str
    metrics: dict[str, Reference] = pydantic.Field(min_length=1)

    @pydantic.field_validator("metrics", mode="before")
    @classmethod
    def _provisional_bounds(cls, metrics: Any) -> Any:
        if not isinstance(metrics, dict):
            return metrics
        return {name: _with_provisional_bound(name, number) for name, number in metrics.items()}

    @pydantic.field_validator("metrics")
    @classmethod
    def _units(cls, metrics: dict[str, Reference]) -> dict[str, Reference]:
        for metric, reference in metrics.items():
            _known(metric)
            if reference.kind not in PRECEDENCE:
                raise ValueError(
                    f"a {reference.kind} is not stored: state it in extras.least_shares of the "
                    "partition"
                )
            if reference.unit != METRICS[metric].unit:
                raise ValueError(
                    f"{metric} is in {reference.unit!r}, expected {METRICS[metric].unit!r}"
                )
        return metrics

    @pydantic.model_validator(mode="after")
    def _states_its_condition(self) -> Entry:
        if all(reference.is_context for reference in self.metrics.values()):
            return self
        missing = PydanticCustomError(
            "missing", "must be stated, unless every number here has `condition: unstated`"
        )
        parts = [p for p in ("operation", "transport", "nodes") if getattr(self, p) is None]
        if parts:
            errors = [InitErrorDetails(type=missing, loc=(part,), input=None) for part in parts]
            raise ValidationError.from_exception_data("Entry", errors)
        return self


class RatioSide(Condition):
    """One of the two conditions that a ratio compares.

    `state` is what must be so and no measurement says of itself ("tuned hosts"): a side that has
    one is never taken from a campaign.
    """

    check: str | None = None
    partition: str | None = None
    state: str | None = None

    @pydantic.model_validator(mode="after")
    def _says_what(self) -> RatioSide:
        if self.check is None and self.state is None:
            raise ValueError("needs a check, or a state that says what no check measures")
        return self

    def matches(self, check: str, partition: str, measurement: Measurement) -> bool:
        return self.state is None and super().matches(check, partition, measurement)

    def __str__(self) -> str:
        plain = {name: value for name, value in self.stated.items() if name not in _TELLING}
        named = [str(self.stated[name]) for name in _TELLING if self.stated.get(name)]
        parts = [f"{name} {'none' if v is None else v}" for name, v in sorted(plain.items())]
        return ", ".join([*named, *parts])


#: Parts of a condition that need no name to be understood.
_TELLING = ("check", "partition", "operation", "transport", "state")


class Ratio(Bounded):
    """How many times the metric under condition `of` is that under condition `over`.

    Both are taken from one campaign, so that a ratio holds where no absolute number is known.
    """

    name: str = pydantic.Field(min_length=1)
    metric: Annotated[str, pydantic.AfterValidator(_known)]
    of: RatioSide
    over: RatioSide
    kind: Literal["ratio"] = "ratio"

    @pydantic.model_validator(mode="after")
    def _compares_two_things(self) -> Ratio:
        if self.of.stated == self.over.stated:
            raise ValueError("of and over are the same condition")
        if not self.is_context and (self.of.state or self.over.state):
            raise ValueError("no campaign can show a state: this ratio is `condition: unstated`")
        return self


class ReferenceFile(Strict):
    system: str
    references: list[Entry]
    ratios: list[Ratio] = []


class References:
    """All stored numbers of one system, by condition."""

    def __init__(
        self, system: str, entries: list[Entry], path: Path, ratios: list[Ratio] | None = None
    ) -> None:
        self.system = system
        self.path = path
        self.entries = entries
        self.ratios = ratios or []
        self._gating: dict[tuple[object, ...], Reference] = {}
        self._by_condition: dict[tuple[object, ...], Reference | None] = {}
        for entry in entries:
            self._add(entry)
        names = [ratio.name for ratio in self.ratios]
        for name in names:
            if names.count(name) > 1:
                raise ConfigurationError(f"{path}: two ratios are called {name!r}")

    def _add(self, entry: Entry) -> None:
        parts = {part: getattr(entry, part) for part in _PARTS}
        for metric, reference in entry.metrics.items():
            if reference.is_context:
                continue
            key = (*parts.values(), metric, reference.kind)
            if key in self._gating:
                stated = ", ".join(f"{p} {v}" for p, v in parts.items() if v is not None)
                raise ConfigurationError(
                    f"{self.path}: two entries for the same condition have a {reference.kind} "
                    f"{metric}: {stated}"
                )
            self._gating[key] = reference

    def find(self, check: str, partition: str, measurement: Measurement) -> Reference | None:
        """The reference for this very condition, or None: near is not the same.

        An entry with `any` for `nodes` or `delay_ms` serves where none names the very one, an entry
        without `rails`, `ranks`, `nics`, `within`, `load` or `warmup` where none names them. A
        baseline wins over a published number, that over a floor.
        """
        parts = _condition(check, partition, measurement)
        key = (*parts.values(), measurement.metric)
        if key not in self._by_condition:
            # Thousands of places have the same condition.
            self._by_condition[key] = self._find(parts, measurement.metric)
        return self._by_condition[key]

    def _find(self, parts: Mapping[str, object], metric: str) -> Reference | None:
        options = {part: dict.fromkeys((parts[part], more)) for part, more in _OPEN.items()}
        for kind, *values in itertools.product(PRECEDENCE, *options.values()):
            condition = {**parts, **dict(zip(options, values, strict=True))}
            reference = self._gating.get((*condition.values(), metric, kind))
            if reference:
                return reference
        return None

    def elsewhere(self, check: str, partition: str, measurement: Measurement) -> str:
        """What the nearest baseline of a metric states that is not as measured: "load loaded".

        "" where a baseline serves this condition, or none of the metric and operation is stored.
        """
        found = self.find(check, partition, measurement)
        if found is not None and found.kind == "baseline":
            return ""
        measured = _condition(check, partition, measurement)
        alike = (check, partition, measurement.operation, measurement.metric, "baseline")
        differing = [
            {
                part: value
                for part, value in zip(_PARTS, key, strict=False)
                if value not in (measured[part], _OPEN.get(part, measured[part]))
            }
            for key in self._gating
            if (*key[:3], *key[-2:]) == alike
        ]
        nearest = min(differing, key=len, default={})
        return ", ".join(f"{part} {'none' if v is None else v}" for part, v in nearest.items())

    def highest_bound(
        self, check: str, partition: str, metric: str, within: Within | None, load: Load | None
    ) -> Reference | None:
        """The reference with the highest bound on the worse side of a metric, of all conditions of
        a check on a partition that `within` and `load` admit; None where none has such a bound.

        A rate below the highest lower bound fails under one of these conditions at least. What is
        above the highest upper bound fails under each of them.
        """
        side = attrgetter("lowest" if METRICS[metric].better == "more" else "highest")
        admitted = [
            reference
            for key, reference in self._gating.items()
            if key[:2] == (check, partition)
            and key[-2] == metric
            and key[_PARTS.index("within")] in (within, None)
            and key[_PARTS.index("load")] in (load, None)
            and side(reference) is not None
        ]
        return max(admitted, key=side, default=None)

    def context(self, check: str, partition: str, measurement: Measurement) -> list[Reference]:
        """Published numbers to look at with this one. None of them is its reference.

        What their source states of the condition is as measured; what it leaves out may be
        anything.
        """
        return [
            reference
            for entry in self.entries
            if (reference := entry.metrics.get(measurement.metric))
            and reference.is_context
            and entry.matches(check, partition, measurement)
        ]

    def ratios_of(self, check: str) -> list[Ratio]:
        """The ratios that have a side which this check measures."""
        return [ratio for ratio in self.ratios if check in (ratio.of.check, ratio.over.check)]


_PARTS = tuple(_condition("", "", Measurement("bandwidth", 0, "", "", "")))

#: The parts that an entry may leave open, and with what; it then serves where no other names them.
_OPEN: Mapping[str, str | None] = {
    **{"nodes": "any", "ranks": None, "rails": None, "nics": None},
    **{"delay_ms": "any", "within": None, "load": None, "warmup": None},
}


def missing_loads(entries: Iterable[Entry], partition: str) -> list[tuple[str, Load]]:
    """The checks that have a baseline for one load and none that serves the other, with that other
    load.
    """
    loads: dict[tuple[object, ...], set[Load | None]] = {}
    for entry in entries:
        how = tuple(getattr(entry, part) for part in _PARTS if part != "load")
        for metric, number in entry.metrics.items():
            if entry.partition == partition and number.kind == "baseline":
                loads.setdefault((entry.check, *how, metric), set()).add(entry.load)
    others: tuple[tuple[Load, Load], ...] = (("quiet", "loaded"), ("loaded", "quiet"))
    missing = [
        (str(key[0]), other)
        for key, stated in loads.items()
        for load, other in others
        if stated == {load}
    ]
    return list(dict.fromkeys(missing))


def step_to_record(load: Load | None) -> str:
    """The commands that make a baseline for this load."""
    schedule = " --schedule quiet" if load == "quiet" else ""
    return f"railgauge accept --mode baseline{schedule} --runs 5, then railgauge promote"


def path_for(system: str) -> Path:
    return paths.references_folder() / f"{system}.yaml"


def file_of(system: str) -> Path:
    """Where the numbers of a system are read: the site's file, else that of the program."""
    path = path_for(system)
    if path.exists() or system not in paths.systems_of_program():
        return path
    return paths.HOME / "results" / "references" / path.name


def load(system: str, path: Path | None = None) -> References:
    """The references of `system`; none where it has no file yet.

    Raises ConfigurationError with file, line and field for anything wrong in the file.
    """
    path = path or file_of(system)
    if not path.exists():
        return References(system, [], path)
    content = load_model(path, ReferenceFile)
    if content.system != system:
        raise ConfigurationError(f"{path}: system is {content.system!r}, expected {system!r}")
    return References(system, content.references, path, content.ratios)
