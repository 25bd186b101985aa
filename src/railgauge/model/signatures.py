"""Known symptoms: by what a measurement or a line of a log fits one, and what its cause is.

`signatures.yaml` has them, with their sources. A symptom that fits is a hint: it changes no
verdict, and what it says wants to be confirmed. What is not known of a measurement never fits.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic

from railgauge import yamlfile
from railgauge.model.limits import TOLERANCE, Limit
from railgauge.model.measurement import METRICS, Measurement
from railgauge.model.nic import Nic
from railgauge.model.sizes import parse_size

_FILE = Path(__file__).with_name("signatures.yaml")

#: A fault wants repair; `normal` numbers only look wrong; a `setting` or the way of measuring
#: explains the number.
Kind = Literal["fault", "normal", "setting"]
Confidence = Literal["high", "medium", "low"]

#: Raw rates of links in Gb/s, and the least part of one that its limit leaves for payload.
_RATES = (10, 25, 40, 50, 100, 200, 400, 800)
_LEAST_PAYLOAD = 0.8

#: At the size of a dip the rate is below this part of the rates at both sizes next to it.
_DIP = 0.7
_LEAST_SIZES = 5
#: The first row of a table is slow where it takes so many times as long as the second one.
_SLOW_FIRST = 2.0


def _is_pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is no regular expression: {error}") from None
    return text


_Pattern = Annotated[str, pydantic.AfterValidator(_is_pattern)]
_Texts = Annotated[list[str], pydantic.Field(min_length=1)]


class Range(yamlfile.Strict):
    """From `least` to `most`; one that is left out is no bound."""

    least: float | None = None
    most: float | None = None

    @pydantic.model_validator(mode="after")
    def _bounds_something(self) -> Range:
        if self.least is None and self.most is None:
            raise ValueError("expected `least`, `most` or both")
        if self.least is not None and self.most is not None and self.least > self.most:
            raise ValueError(f"least {self.least:g} is above most {self.most:g}")
        return self

    def holds(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return False
        above = self.least is None or value >= self.least
        return above and (self.most is None or value <= self.most)


class When(yamlfile.Strict):
    """A condition: all that it states must hold, and be known."""

    tools: _Texts | None = None
    operations: _Texts | None = None
    metrics: _Texts | None = None
    transports: _Texts | None = None
    rates: list[int] | None = None
    """The raw rate of the link in Gb/s: of --nic, or by the limit of a campaign's check."""
    devices: _Pattern | None = None
    """A device that the output names."""
    gpus: _Texts | None = None
    """A word of the accelerator's name."""
    nodes: Literal["one", "two", "several"] | None = None
    from_size: str | None = None
    streams: Range | None = None
    value: Range | None = None
    """In the unit of the metric."""
    share: Range | None = None
    """Of the limit."""
    share_of_nics: Range | None = None
    """Of what all NICs of a node carry together: of --nic and --nics."""
    seen: dict[str, Range | _Pattern] = {}
    """What the output states of its run: a range of a number, or a pattern of the whole text."""
    shape: Literal["dip", "slow first", "above the NICs", "alltoall above the NICs"] | None = None
    """The shape of the numbers of a run, or a number above the rate of the NICs."""
    line: _Pattern | None = None
    """A line of the log has this."""

    @pydantic.field_validator("metrics")
    @classmethod
    def _known_metrics(cls, metrics: list[str] | None) -> list[str] | None:
        for metric in metrics or ():
            if metric not in METRICS:
                raise ValueError(f"metric {metric!r} is unknown; one of {', '.join(METRICS)}")
        return metrics

    @pydantic.field_validator("from_size")
    @classmethod
    def _is_a_size(cls, size: str | None) -> str | None:
        if size is not None:
            parse_size(size)
        return size

    @pydantic.model_validator(mode="after")
    def _states_enough(self) -> When:
        if not self.of_text_alone and self.metrics is None:
            raise ValueError("expected `line` alone, or the `metrics` of the measurement")
        return self

    @property
    def of_text_alone(self) -> bool:
        return self.line is not None and self.model_fields_set == {"line"}

    def fits(self, run: Run, measurement: Measurement, limit: Limit | None) -> bool:
        """Whether a measurement of a run is as stated, but for `line` and `shape`."""
        m, seen = measurement, run.seen
        hosts = run.nodes
        by_nodes = {"one": hosts == 1, "two": hosts == 2, "several": (hosts or 0) > 1}
        devices = seen.get("devices") or ()
        gpu = str(seen.get("gpu") or "")
        return (
            (self.tools is None or m.tool in self.tools)
            and (self.operations is None or m.operation.partition(" ")[0] in self.operations)
            and (self.metrics is None or m.metric in self.metrics)
            and (self.transports is None or m.transport in self.transports)
            and (self.rates is None or _rate(run, limit) in self.rates)
            and (self.devices is None or any(re.search(self.devices, str(one)) for one in devices))
            and (
                self.gpus is None
                or any(re.search(rf"\b{re.escape(word)}\b", gpu) for word in self.gpus)
            )
            and (self.nodes is None or by_nodes[self.nodes])
            and (self.from_size is None or (m.size_bytes or 0) >= parse_size(self.from_size))
            and (self.streams is None or self.streams.holds(m.streams))
            and (self.value is None or self.value.holds(m.value))
            and (self.share is None or self.share.holds(limit.share(m.value) if limit else None))
            and (
                self.share_of_nics is None
                or ((nics := _nics(run)) is not None and self.share_of_nics.holds(m.value / nics))
            )
            and all(_states(seen.get(name), wanted) for name, wanted in self.seen.items())
        )


class Signature(yamlfile.Strict):
    """A symptom with its known cause."""

    symptom: Annotated[str, pydantic.Field(min_length=1)]
    cause: Annotated[str, pydantic.Field(min_length=1)]
    kind: Kind
    confidence: Confidence
    """How surely the symptom has this cause: other causes look like it where it is not high."""
    when: Annotated[list[When], pydantic.Field(min_length=1)]
    """Any of these."""
    confirm: _Texts
    """What would show that it is so."""
    next: _Texts
    """What to type, or to change."""
    sources: Annotated[
        list[Annotated[str, pydantic.Field(pattern="^https://")]], pydantic.Field(min_length=1)
    ]


class _File(yamlfile.Strict):
    signatures: dict[Annotated[str, pydantic.Field(pattern="^[a-z0-9-]+$")], Signature]


@functools.cache
def load(path: Path = _FILE) -> Mapping[str, Signature]:
    """Name -> signature; ConfigurationError with file and line where one is wrong."""
    return yamlfile.load_model(path, _File).signatures


# ---- what is held against them ----


@dataclasses.dataclass(frozen=True)
class Run:
    """The numbers of one run of a tool, each with the limit of its link where that is known.

    `seen` is what the output states (`tools.Reading`), `lines` are those that signatures ask for,
    by the pattern (`lines_of`).
    """

    place: str
    numbers: Sequence[tuple[Measurement, Limit | None]]
    seen: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    nodes: int | None = None
    nic: Nic | None = None
    lines: Mapping[str, Line] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Line:
    """A line of a log; `number` counts from 1."""

    number: int
    text: str


@dataclasses.dataclass(frozen=True)
class Hint:
    """A signature that fits, where, and by what: a measurement, or a line.

    `measurements` are all of the run that fit.
    """

    name: str
    place: str
    measurements: tuple[Measurement, ...] = ()
    line: Line | None = None

    @property
    def signature(self) -> Signature:
        return load()[self.name]

    @property
    def measurement(self) -> Measurement | None:
        """The one of the largest message."""
        return max(self.measurements, key=lambda m: m.size_bytes or 0, default=None)


_CONFIDENCE = {"high": 0, "medium": 1, "low": 2}


def lines_of(text: str) -> dict[str, Line]:
    """Pattern -> the first line of a log that has it, of all patterns of all signatures."""
    found = {}
    for pattern in _patterns():
        if matched := re.compile(pattern, re.MULTILINE).search(text):
            begin = text.rfind("\n", 0, matched.start()) + 1
            end = text.find("\n", matched.start())
            number = text.count("\n", 0, begin) + 1
            found[pattern] = Line(number, text[begin : end if end >= 0 else None].strip())
    return found


@functools.cache
def _patterns() -> tuple[str, ...]:
    conditions = itertools.chain.from_iterable(one.when for one in load().values())
    return tuple(dict.fromkeys(when.line for when in conditions if when.line is not None))


def of_lines(place: str, lines: Mapping[str, Line]) -> list[Hint]:
    """The hints that a log's lines give alone, the surest first."""
    hints: dict[str, Hint] = {}
    for name, signature in load().items():
        for when in signature.when:
            if when.of_text_alone and when.line is not None and when.line in lines:
                line = lines[when.line]
                hints.setdefault(name, Hint(name, f"{place}:{line.number}", line=line))
    return _sorted(hints.values())


def of_run(run: Run) -> list[Hint]:
    """The hints that the numbers of a run give, the surest first."""
    hints = []
    for name, signature in load().items():
        fitting: dict[int, Measurement] = {}
        line = None
        for when in signature.when:
            if when.of_text_alone or (when.line is not None and when.line not in run.lines):
                continue
            for number in _fitting(when, run):
                fitting[id(number)] = number
                line = run.lines[when.line] if when.line is not None else line
        if fitting:
            hints.append(Hint(name, run.place, tuple(fitting.values()), line))
    return _sorted(hints)


def _sorted(hints: Iterable[Hint]) -> list[Hint]:
    return sorted(hints, key=lambda hint: _CONFIDENCE[hint.signature.confidence])


def _fitting(when: When, run: Run) -> Iterator[Measurement]:
    numbers = [m for m, limit in run.numbers if not m.simulated and when.fits(run, m, limit)]
    if when.shape is None:
        yield from numbers
    elif when.shape == "dip":
        yield from _dips(numbers)
    elif when.shape == "slow first":
        if len(numbers) > 1 and numbers[0].value > _SLOW_FIRST * numbers[1].value:
            yield numbers[0]
    else:
        for number in numbers:
            if _above(when.shape, run, number):
                yield number


def _dips(numbers: Sequence[Measurement]) -> Iterator[Measurement]:
    """The one size at which a rate falls, where there is only one."""
    by_size = sorted((m for m in numbers if m.size_bytes), key=lambda m: m.size_bytes or 0)
    if len(by_size) >= _LEAST_SIZES and len({m.metric for m in by_size}) == 1:
        dips = [
            here
            for before, here, after in zip(by_size, by_size[1:], by_size[2:])  # noqa: B905
            if here.value < _DIP * min(before.value, after.value)
        ]
        if len(dips) == 1:
            yield from dips


def _above(shape: str, run: Run, number: Measurement) -> bool:
    """Whether a busbw is above what the NICs carry, and within what explains that."""
    of_node = _nics(run)
    if of_node is None or not run.nodes or run.nodes < 2:
        return False
    if shape == "above the NICs":
        return number.value > of_node * (1 + TOLERANCE)
    if not number.ranks:
        return False
    # nccl-tests, issue 130: over N nodes N/(N-1) times the network bandwidth of a GPU.
    of_gpu = of_node * run.nodes / number.ranks
    most = of_gpu * run.nodes / (run.nodes - 1)
    return of_gpu * (1 + TOLERANCE) < number.value <= most * (1 + TOLERANCE)


def _nics(run: Run) -> float | None:
    """What the NICs of a node carry together, in GB/s; None where they are not known."""
    nic = run.nic
    return nic.count * nic.gbits / 8 if nic is not None and nic.count is not None else None


def _rate(run: Run, limit: Limit | None) -> int | None:
    """The raw rate of the link: as stated, or the one that leaves such a limit for payload."""
    if run.nic is not None:
        return run.nic.gbits
    if limit is None or limit.unit != "Gb/s":
        return None
    return next((r for r in _RATES if _LEAST_PAYLOAD * r <= limit.value <= r), None)


def _states(value: object, wanted: Range | str) -> bool:
    if isinstance(wanted, Range):
        return wanted.holds(value)
    return isinstance(value, str) and re.fullmatch(wanted, value) is not None


# ---- for people ----


def page() -> str:
    """The section of each signature, for docs/explain.md."""
    return "\n".join("\n".join(_section(name, one)) for name, one in load().items())


def explained(name: str) -> list[str] | None:
    """The lines of a signature; None where there is none of this name."""
    signature = load().get(name)
    if signature is None:
        return None
    return [f"{name}: {signature.symptom}", "", *details(signature)]


def details(signature: Signature) -> list[str]:
    return [
        f"  likely cause ({signature.kind}, confidence {signature.confidence}): {signature.cause}",
        "  would confirm it:",
        *(f"    - {one}" for one in signature.confirm),
        "  next:",
        *(f"    - {one}" for one in signature.next),
        "  sources:",
        *(f"    - {one}" for one in signature.sources),
    ]


def _section(name: str, signature: Signature) -> Iterator[str]:
    yield f"## {name}\n"
    yield f"{signature.symptom} Cause: {signature.cause}\n"
    yield f"- {signature.kind}, confidence {signature.confidence}"
    yield f"- would confirm it: {'; '.join(signature.confirm)}"
    yield f"- next: {'; '.join(signature.next)}"
    yield f"- sources: {', '.join(f'<{source}>' for source in signature.sources)}"
    yield ""
