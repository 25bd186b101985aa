"""Numbers that others published: context for a measurement, and never its judge.

`results/references/published/` has a file for each publisher, and `systems.yaml`. They are apart
from `results/references/NAME.yaml`: no check and no verdict reads them. A person promotes one by
writing it into the file of a system, with its condition (docs/references.md).
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic

from railgauge import paths, yamlfile
from railgauge.common.errors import ConfigurationError
from railgauge.model.measurement import METRICS, Measurement
from railgauge.model.nic import Nic
from railgauge.model.sizes import format_size, parse_size

#: What a number is: of good hardware, of a known fault, or the least that a site lets pass.
Kind = Literal["normal", "fault", "gate"]

#: Sizes and numbers of nodes that differ by more than this factor are not near each other.
NEAR = 2.0

_SYSTEMS = "systems.yaml"
_Count = Annotated[int, pydantic.Field(ge=1)]
_Text = Annotated[str, pydantic.Field(min_length=1)]
_Switch = Literal["on", "off"]


class System(yamlfile.Strict):
    """A kind of machine."""

    title: _Text
    gpu: str | None = None
    """As outputs name it: `GB200` stands in `NVIDIA GB200`."""


class _Systems(yamlfile.Strict):
    systems: dict[str, System]


class Conditions(yamlfile.Strict):
    """What the publication states of a run; what it leaves out is not known."""

    tool_version: str | None = None
    nccl: str | None = None
    algorithm: str | None = None
    nvls: _Switch | None = None
    mnnvl: _Switch | None = None
    sharp: _Switch | None = None
    gdr: _Switch | None = None
    warmup: int | None = None
    iterations: int | None = None
    streams: _Count | None = None
    mtu: int | None = None
    memory: Literal["host", "gpu"] | None = None
    software: str | None = None
    note: str | None = None

    @property
    def words(self) -> str:
        """For people: `NCCL 2.26.2, NVLS off`."""
        named = (
            (self.tool_version, "{}"),
            (self.nccl, "NCCL {}"),
            (self.algorithm, "{}"),
            (self.nvls, "NVLS {}"),
            (self.mnnvl, "MNNVL {}"),
            (self.sharp, "SHARP {}"),
            (self.gdr, "GPUDirect RDMA {}"),
            (self.warmup, "{} warm-up"),
            (self.iterations, "{} iterations"),
            (self.streams, "{} streams"),
            (self.mtu, "MTU {}"),
            (self.memory, "{} memory"),
            (self.software, "{}"),
            (self.note, "{}"),
        )
        return ", ".join(text.format(value) for value, text in named if value is not None)


class Numbers(yamlfile.Strict):
    """The numbers of one run, by metric and message size."""

    system: str
    kind: Kind = "normal"
    cause: str | None = None
    """Of a fault: its cause."""
    fabric: str | None = None
    nic: str | None = None
    """One link, as `--nic` has it: 400g-roce."""
    nodes: _Count | None = None
    gpus_per_node: _Count | None = None
    tool: _Text
    operation: str | None = None
    """As measurements name it; none where the publication does not state it."""
    conditions: Conditions = Conditions()
    values: dict[str, dict[str, Annotated[float, pydantic.Field(gt=0)]]] = pydantic.Field(
        min_length=1
    )
    """Metric -> message size (8GiB, 2B, `unstated`, or `none` where the tool streams) -> value."""

    @pydantic.field_validator("nic")
    @classmethod
    def _is_a_link(cls, nic: str | None) -> str | None:
        if nic is not None:
            Nic.of(nic)
        return nic

    @pydantic.field_validator("values")
    @classmethod
    def _known_metrics_and_sizes(
        cls, values: dict[str, dict[str, float]]
    ) -> dict[str, dict[str, float]]:
        for metric, by_size in values.items():
            if metric not in METRICS:
                raise ValueError(f"metric {metric!r} is unknown; one of {', '.join(METRICS)}")
            if not by_size:
                raise ValueError(f"{metric} has no value")
            for size in by_size:
                if size not in ("unstated", "none"):
                    parse_size(size)
        return values

    @pydantic.model_validator(mode="after")
    def _a_fault_has_a_cause(self) -> Numbers:
        if (self.kind == "fault") != (self.cause is not None):
            raise ValueError("`cause` belongs to `kind: fault`, and only to it")
        return self


class Publication(yamlfile.Strict):
    """Where numbers come from."""

    title: _Text
    url: Annotated[str, pydantic.Field(pattern=r"^https://[^\s]+$")]
    version: str | None = None
    """The commit that was read."""
    read: Literal["whole", "excerpt"]
    """How much of it was read."""
    read_on: datetime.date
    numbers: list[Numbers] = pydantic.Field(min_length=1)


class _File(yamlfile.Strict):
    publications: list[Publication] = pydantic.Field(min_length=1)


@dataclasses.dataclass(frozen=True)
class Published:
    """One number, and where it comes from. `size_bytes` is None where the tool streams, and where
    the size is not stated (`size_stated`).
    """

    metric: str
    value: float
    size_bytes: int | None
    size_stated: bool
    of: Numbers
    publication: Publication

    @property
    def unit(self) -> str:
        return METRICS[self.metric].unit

    @property
    def gpus(self) -> int | None:
        nodes, per_node = self.of.nodes, self.of.gpus_per_node
        return nodes * per_node if nodes and per_node else None

    @property
    def scale(self) -> str:
        """`2 x 8 GPUs`, `2 nodes`, or nothing."""
        if self.of.nodes is None:
            return ""
        if self.of.gpus_per_node is not None:
            return f"{self.of.nodes} x {self.of.gpus_per_node} GPU{'s' * (self.gpus != 1)}"
        return f"{self.of.nodes} node{'s' * (self.of.nodes > 1)}"

    @property
    def size(self) -> str:
        if self.size_bytes is not None:
            return format_size(self.size_bytes)
        return "" if self.size_stated else "size not stated"

    @property
    def words(self) -> str:
        """Where and how it was measured, and its source."""
        of = self.of
        parts = (self.size, self.scale, of.fabric, of.conditions.words)
        return f"{of.system}: {', '.join(filter(None, parts))} [{self.publication.title}]"

    def as_dict(self) -> dict[str, Any]:
        of = self.of
        return {
            "system": of.system,
            "kind": of.kind,
            "cause": of.cause,
            "fabric": of.fabric,
            "nic": of.nic,
            "nodes": of.nodes,
            "gpus_per_node": of.gpus_per_node,
            "tool": of.tool,
            "operation": of.operation,
            "metric": self.metric,
            "size_bytes": self.size_bytes,
            "size_stated": self.size_stated,
            "value": self.value,
            "unit": self.unit,
            "conditions": of.conditions.model_dump(exclude_none=True),
            "source": {
                "title": self.publication.title,
                "url": self.publication.url,
                "version": self.publication.version,
                "read": self.publication.read,
                "read_on": self.publication.read_on.isoformat(),
            },
        }


@dataclasses.dataclass(frozen=True)
class Library:
    """All published numbers, and the systems that they are of."""

    systems: Mapping[str, System]
    numbers: tuple[Published, ...]

    @functools.cached_property
    def _by_subject(self) -> dict[tuple[str, str | None, str], list[Published]]:
        found: dict[tuple[str, str | None, str], list[Published]] = {}
        for number in self.numbers:
            if number.of.kind == "normal":
                subject = (number.of.tool, number.of.operation, number.metric)
                found.setdefault(subject, []).append(number)
        return found

    def about(self, tool: str, operation: str, metric: str) -> list[Published]:
        """The numbers of good hardware for what was measured."""
        return self._by_subject.get((tool, operation, metric), [])


@functools.cache
def load(folder: Path | None = None) -> Library:
    """What lies in `folder`, which is that of the checkout unless another one is named.

    ConfigurationError with file, line, what was found and what was expected.
    """
    folder = folder or paths.PUBLISHED
    systems = yamlfile.load_model(folder / _SYSTEMS, _Systems).systems
    numbers: list[Published] = []
    for path in sorted(folder.glob("*.yaml")):
        if path.name == _SYSTEMS:
            continue
        publications = yamlfile.load_model(path, _File).publications
        for at, publication in enumerate(publications):
            for within, run in enumerate(publication.numbers):
                if run.system not in systems:
                    where = ("publications", at, "numbers", within, "system")
                    raise ConfigurationError(
                        f"{yamlfile.place(path, where)}: system: found {run.system!r}, expected "
                        f"one of {_SYSTEMS}: {', '.join(systems)}"
                    )
                numbers += _each(run, publication)
    return Library(systems, tuple(numbers))


def _each(run: Numbers, publication: Publication) -> Iterable[Published]:
    for metric, by_size in run.values.items():
        for size, value in by_size.items():
            size_bytes = None if size in ("unstated", "none") else parse_size(size)
            yield Published(metric, value, size_bytes, size != "unstated", run, publication)


# ---- the numbers that are near a measurement ----


@dataclasses.dataclass(frozen=True)
class Near:
    """A published number, and what of its condition is known to differ from the measurement's."""

    number: Published
    differs: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class _Measured:
    """What decides which published numbers are near: the same for many runs."""

    tool: str
    operation: str
    metric: str
    transport: str
    size_bytes: int | None
    streams: int | None
    ranks: int | None
    nodes: int | None
    gpu: str | None
    nccl: str | None
    warmup: int | None


def near(
    measurement: Measurement,
    seen: Mapping[str, Any],
    system: str | None = None,
    nic: Nic | None = None,
) -> tuple[Near, ...]:
    """The published numbers of the same tool, operation and metric, near in size and scale, those
    of the nearest condition first. `seen` is what the output states (`tools.Reading`).
    """
    if not load().about(measurement.tool, measurement.operation, measurement.metric):
        return ()
    hosts = set(seen.get("hosts") or measurement.nodes)
    measured = _Measured(
        measurement.tool,
        measurement.operation,
        measurement.metric,
        measurement.transport,
        measurement.size_bytes,
        measurement.streams,
        measurement.ranks,
        len(hosts) or None,
        _text(seen.get("gpu")),
        _text(seen.get("nccl_version")),
        _number(seen.get("warmup")),
    )
    return _near(measured, system, f"{nic.gbits}g-{nic.fabric}" if nic else None)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


@functools.lru_cache(maxsize=4096)
def _near(measured: _Measured, system: str | None, nic: str | None) -> tuple[Near, ...]:
    library = load()
    about = library.about(measured.tool, measured.operation, measured.metric)
    if system is not None:
        about = [number for number in about if number.of.system == system]
    elif measured.gpu is not None:
        about = [number for number in about if _has(library.systems[number.of.system], measured)]
    if nic is not None:
        about = [number for number in about if number.of.nic in (None, nic)]
    found = []
    for number in about:
        size = _distance(measured.size_bytes, number.size_bytes)
        if number.size_stated and (measured.size_bytes is None) != (number.size_bytes is None):
            size = math.inf
        scale = _scale_distance(measured, number)
        if max(size, scale) <= math.log2(NEAR):
            same, differs = _compared(measured, number)
            if measured.gpu and not _has(library.systems[number.of.system], measured):
                differs = (f"system {number.of.system}, here {measured.gpu}", *differs)
            found.append((len(differs), -same, scale, size, Near(number, differs)))
    found.sort(key=lambda one: one[:-1])
    return tuple(one[-1] for one in found)


def _has(system: System, measured: _Measured) -> bool:
    """Whether the output names the GPU of this system."""
    gpu = measured.gpu or ""
    return system.gpu is not None and re.search(rf"\b{re.escape(system.gpu)}\b", gpu) is not None


def _distance(one: int | None, other: int | None) -> float:
    """By how many factors of two they differ; 0 where one is not known."""
    return abs(math.log2(one / other)) if one and other else 0


def _scale_distance(measured: _Measured, number: Published) -> float:
    nodes = number.of.nodes
    if measured.nodes and nodes and (measured.nodes == 1) != (nodes == 1):
        # Within a node it is another network.
        return math.inf
    of_nodes = _distance(measured.nodes, nodes)
    return max(of_nodes, _distance(measured.ranks, number.gpus))


def _compared(measured: _Measured, number: Published) -> tuple[int, tuple[str, ...]]:
    """How many parts of the condition are known to be the same, and what is not."""
    stated = number.of.conditions
    nic = Nic.of(number.of.nic) if number.of.nic else None
    fabrics = {"roce": "roce", "infiniband": "ib", "tcp": "tcp"}
    pairs = (
        ("nodes", measured.nodes, number.of.nodes),
        ("GPUs", measured.ranks, number.gpus),
        ("streams", measured.streams, stated.streams),
        ("NCCL", measured.nccl, stated.nccl),
        ("warm-up", measured.warmup, stated.warmup),
        ("fabric", fabrics.get(measured.transport), nic.fabric if nic else None),
    )
    differs = []
    if measured.size_bytes != number.size_bytes:
        differs.append(number.size if not number.size_stated else f"size {number.size}")
    if measured.nodes is not None and number.of.nodes is None:
        differs.append("nodes not stated")
    known = [pair for pair in pairs if None not in pair]
    differs += [f"{name} {there}, here {here}" for name, here, there in known if here != there]
    return sum(here == there for _, here, there in known), tuple(differs)
