"""What a campaign's folder says of its cases: the plan, each case's record, and its end.

One schema for who writes (the checks and the guard) and who reads (the verdict, the resumed
session). A record that does not fit it is damaged, and no result. A case measures one place or
many, in one job; what is said of each place stands for itself.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import pydantic

from railgauge.common.atomic import write_json, write_text
from railgauge.model.call import Call
from railgauge.model.failure import Failure
from railgauge.model.limits import Limit
from railgauge.model.measurement import Measurement
from railgauge.model.references import Ratio, Reference
from railgauge.model.reported_traffic import Claim
from railgauge.model.routes import Route
from railgauge.model.uplinks import Uplink

#: By which a case is the same in the plan, in reports and in records: unique name, partition.
Key = tuple[str, str]

#: A place of a case: its key, and the place's name within it.
PlaceKey = tuple[str, str, str]

#: Check -> partition -> how many places there are without any filter.
Possible = dict[str, dict[str, pydantic.NonNegativeInt]]

#: Partition -> leaf -> its nodes, a host list.
KnownLeaves = dict[str, dict[str, str]]


class PartitionRoutes(pydantic.BaseModel):
    """The routes between the leaves of a partition; `problem` says why there are none."""

    model_config = pydantic.ConfigDict(frozen=True, defer_build=True)

    rows: tuple[Route, ...] = ()
    problem: str = ""


#: Partition -> its routes.
KnownRoutes = dict[str, PartitionRoutes]

#: A case's name -> partition -> place -> what went there, Gb/s, by what devices counted.
Rates = dict[str, dict[str, dict[str, pydantic.PositiveFloat]]]


class BrokenRecordError(ValueError):
    """A file of the campaign that is there and cannot be read."""


class Document(pydantic.BaseModel):
    """What stands in a file of its own; a field that is not known is left alone."""

    model_config = pydantic.ConfigDict(frozen=True, defer_build=True)

    def write(self, path: Path) -> None:
        """Whole, or not at all."""
        write_json(path, self.model_dump(mode="json"))


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a case measures: its nodes, server first, and what it tells apart of the same nodes
    (`kind`: a transport, the rails). `needs` are the places that must have passed before, each by
    its case's unique name and its own. `condition` is all of what it measures but where: also the
    use of a link, the state of the hosts, the round trip.
    """

    name: str
    nodes: tuple[str, ...]
    kind: str = ""
    needs: tuple[tuple[str, str], ...] = ()
    condition: str = ""


class Planned(Document):
    """A case that ReFrame selected.

    `places` are measured in one job, pairs of nodes in the rounds of `schedule`, those of `random`
    by `seed`. `limit_s` is the longest that it may take, the queue included. `runs` is how many
    times it is to run. `transfer_tool` is what moves data, where transfers by several tools are
    compared.
    """

    check: str
    case: str
    unique_name: str
    partition: str
    places: tuple[Place, ...]
    limit_s: float
    depends_on: tuple[str, ...]
    runs: int
    transfer_tool: str = ""
    schedule: str = ""
    seed: int | None = None

    @property
    def key(self) -> Key:
        return self.unique_name, self.partition

    @property
    def title(self) -> str:
        return title(self.case, len(self.places))

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(node for place in self.places for node in place.nodes))

    @property
    def identity(self) -> tuple[object, ...]:
        """What it must still be when the campaign is resumed."""
        names = (self.check, self.case, self.unique_name, self.partition)
        return (*names, self.places, self.depends_on, self.runs)


def title(case: str, places: int) -> str:
    """A case for people: `RdmaLatency ib, 4 places` of `RdmaLatency %sweep=ib`."""
    name = " ".join(word.partition("=")[2] or word for word in case.split())
    return name if places < 2 else f"{name}, {places} places"


class Listed(Document):
    """A case as `railgauge accept --plan` lists it: how many `places` it measures in how many
    `rounds` of which schedule, on how many nodes, and about how long it holds them; `limit_s` is
    the time that its job asks for.
    """

    case: str
    partition: str
    places: int
    rounds: int
    node_count: int
    seconds: float | None
    limit_s: float = 0
    schedule: str = ""
    seed: int | None = None

    @property
    def title(self) -> str:
        return title(self.case, self.places)


StandingOutcome = Literal["accepted", "provisional", "not tested", "not accepted"]


class Standing(Document):
    """What a campaign says of a node: whether anything was measured on it; whether it was accepted,
    else why not; the checks that it passed; of each rail that was measured, by its place among the
    node's RDMA devices, whether all was well; and what stands for its firmware and tuning then.

    `alarms` are the checks that accused it, and whether a retest in the same campaign confirmed
    that; None where nothing was judged, and in what was written before there were any. `carriers`
    are of each of its devices that was looked at the changes of its carrier since the node started,
    at first and at last. "not tested" is a node of which not all was measured, for no fault of its
    own, and against which nothing speaks. `open`: something is wrong where it was measured, and
    nobody is confirmed to be the reason. `cleared` are the checks that failed there at first, with
    no node at fault, and were good when they were measured again with another partner.
    """

    measured: bool
    outcome: StandingOutcome
    why: str
    checks: tuple[str, ...]
    rails: dict[str, bool]
    fingerprint: str | None
    alarms: dict[str, bool] | None = None
    carriers: dict[str, tuple[int, int]] = {}
    open: bool = False
    cleared: tuple[str, ...] = ()


class Remaining(Document):
    """What a campaign still lacks: `missing` is to be run; what has `failed` is not run again."""

    missing: tuple[PlaceKey, ...]
    failed: tuple[PlaceKey, ...]


#: How a case ends that comes to an end.
EndResult = Literal["pass", "fail"]


class Ended(Document):
    """How a case ended, at the moment at which ReFrame knew it.

    `stage` is its folder within the session's; `record_sha256` is that of its record then: one that
    is there without its end was broken off.
    """

    campaign: str
    session: int
    system: str
    partition: str
    check: str
    unique_name: str
    nodes: tuple[str, ...]
    run: pydantic.NonNegativeInt
    result: EndResult
    reason: str
    stage: Path | None
    record_sha256: str | None


#: What was read before, by its text: the same references stand at thousands of places.
_KNOWN_REFERENCES: dict[str, Reference] = {}
_MOST_KNOWN = 10_000


def _known_reference(value: object, validate: Callable[[object], Reference]) -> Reference:
    """One that was read before, where it says the same."""
    if not isinstance(value, Mapping):
        return validate(value)
    text = repr(value)
    if (known := _KNOWN_REFERENCES.get(text)) is not None:
        return known
    reference = validate(value)
    if len(_KNOWN_REFERENCES) < _MOST_KNOWN:
        _KNOWN_REFERENCES[text] = reference
    return reference


_Known = Annotated[Reference, pydantic.WrapValidator(_known_reference)]


def _measurement(value: object) -> object:
    return Measurement.from_dict(value) if isinstance(value, Mapping) else value


@dataclasses.dataclass(frozen=True)
class Row:
    """One measurement beside what it is compared with.

    `context` are published numbers whose condition is not wholly known, to look at. `gates` says
    whether it must have a reference. `own`: the reference follows from the system's description,
    and no stored number would replace it. `elsewhere` is what a baseline of the metric states that
    is not as measured, where for that reason nothing judges this number.
    """

    measurement: Annotated[
        Measurement,
        pydantic.BeforeValidator(_measurement),
        pydantic.PlainSerializer(Measurement.as_dict),
    ]
    reference: _Known | None
    limit: Limit | None
    context: tuple[_Known, ...] = ()
    gates: bool = True
    own: bool = False
    elsewhere: str = ""

    @functools.cached_property
    def within(self) -> bool | None:
        """Whether the reference admits it; None where there is no reference."""
        return self.reference.admits(self.measurement.value) if self.reference else None

    @property
    def share_of_limit(self) -> float | None:
        return self.limit.share(self.measurement.value) if self.limit else None


class Result(Document):
    """One run of a tool at one place: its exit lines, what the nodes said of themselves, the
    numbers, and what is wrong. Each number has its own condition.

    `repeats` is the planned place that this one measures again with another pair, to tell its nodes
    apart; `quiet`: while all else was quiet, to tell load from a fault.
    `round` counts the rounds of its job from 0; None where it has none. `facts` are by node.
    `notes` speak against nothing. `left_out` is why an optional tool was not
    run.
    """

    place: str
    nodes: tuple[str, ...]
    calls: tuple[Call, ...]
    claims: tuple[Claim, ...]
    facts: dict[str, dict[str, Any]]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    left_out: Failure | None
    failures: tuple[Failure, ...]
    #: `like` in records of earlier releases
    repeats: str = pydantic.Field("", validation_alias=pydantic.AliasChoices("repeats", "like"))
    quiet: bool = False
    round: int | None = None


class Job(Document):
    """A case's job as Slurm told it; `nodes` are those that it got."""

    id: str | None
    state: str | None
    exit_code: int | None
    nodes: tuple[str, ...]


def _as_set(ratio: Ratio) -> dict[str, Any]:
    return ratio.model_dump(mode="json", exclude_unset=True)


class Record(Document):
    """All that a case measured, as its check left it in its stage folder: one line for the case,
    then one for each result.

    `not_run` are the places that were to be measured and were not, and why. `failures` are of the
    job as a whole, not of a place. `ratios` are the stored ones that the check has a side of; what
    is left out of a ratio's condition must stay out, so that only what was set is written.
    `strict_provenance`: only tools that are as their package brought them count; `peer_spread`:
    what equal places differ by at least, as a share of their median; `uplinks`: what those between
    the nodes carried meanwhile, where switches count it; `flows`: of those leaves, how many flows
    each sent to others and received from them, of which each took an uplink by chance. `notes` of
    the job are worth knowing, and speak against nothing. `floors_suffice` is why the system's
    description takes floors for enough; "" where it does not.
    """

    check: str
    case: str
    system: str
    partition: str
    gate: str
    strict_provenance: bool
    peer_spread: float
    simulated: bool
    run: int
    job: Job
    ratios: tuple[Annotated[Ratio, pydantic.PlainSerializer(_as_set)], ...]
    not_run: dict[str, str]
    failures: tuple[Failure, ...]
    results: tuple[Result, ...]
    uplinks: tuple[Uplink, ...] = ()
    flows: dict[str, tuple[int, int]] = {}
    notes: tuple[str, ...] = ()
    floors_suffice: str = ""

    def write(self, path: Path) -> None:
        """Whole, or not at all."""
        case = self.model_dump(mode="json", exclude={"results"})
        lines = [json.dumps({**case, "results": len(self.results)}, ensure_ascii=False)]
        lines += [result.model_dump_json() for result in self.results]
        write_text(path, "".join(f"{line}\n" for line in lines))


class Line(NamedTuple):
    """A line of a record: its file, where it starts and how long it is (bytes), and the place of
    its result.
    """

    path: Path
    start: int
    size: int
    place: str

    def result(self) -> Result:
        """The result, read again; BrokenRecordError where it is not there any more."""
        try:
            with self.path.open("rb") as stream:
                stream.seek(self.start)
                text = stream.read(self.size)
        except OSError as error:
            raise BrokenRecordError(f"{self.path}: {error.strerror}") from None
        result = _valid(functools.partial(Result.model_validate_json, text), str(self.path))
        if result.place != self.place:
            raise BrokenRecordError(
                f"{self.path}: changed while it was read: has {result.place or 'a result'} where "
                f"{self.place or 'another'} was"
            )
        return result


def read_record(
    path: Path,
    kept: Callable[[Result, Line], Result] = lambda result, _: result,
    kind: type[Result] = Result,
) -> Record | None:
    """The record at `path`, None where there is none; BrokenRecordError where it is damaged.
    `kind` says what is read of each result, and `kept` what is kept of it.
    """
    try:
        with path.open("rb") as stream:
            first = stream.readline()
            case = json.loads(first) if first else None
            results, start = [], len(first)
            # Line by line: of a large sweep the text takes as much memory as what is made of it.
            for number, line in enumerate(stream, 2):
                try:
                    result = kind.model_validate_json(line)
                except pydantic.ValidationError as error:
                    raise _broken(error, f"{path}:{number}") from None
                results.append(kept(result, Line(path, start, len(line), result.place)))
                start += len(line)
        if not isinstance(case, dict) or case.get("results") != len(results):
            expected = case.get("results") if isinstance(case, dict) else "a record"
            raise BrokenRecordError(
                f"{path}: {len(results)} results, expected {expected}: it is not whole"
            )
        return _valid(lambda: Record.model_validate({**case, "results": results}), str(path))
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        if isinstance(error, BrokenRecordError):
            raise
        raise BrokenRecordError(f"{path}: {error}") from None
    except OSError as error:
        raise BrokenRecordError(f"{path}: {error.strerror}") from None


_Content = TypeVar("_Content")

#: Built when the first one is read or written: a command reads few of them.
_WHEN_USED = pydantic.ConfigDict(defer_build=True)

_PLAN = pydantic.TypeAdapter(tuple[Planned, ...], config=_WHEN_USED)
_LIST = pydantic.TypeAdapter(tuple[Listed, ...], config=_WHEN_USED)
_STANDINGS = pydantic.TypeAdapter(dict[str, Standing], config=_WHEN_USED)
_LEAVES = pydantic.TypeAdapter(KnownLeaves, config=_WHEN_USED)
_ROUTES = pydantic.TypeAdapter(KnownRoutes, config=_WHEN_USED)
_PARTITIONS = pydantic.TypeAdapter(list[str], config=_WHEN_USED)
_SWITCH_PORTS = pydantic.TypeAdapter(dict[str, dict[str, str]], config=_WHEN_USED)
_POSSIBLE = pydantic.TypeAdapter(Possible, config=_WHEN_USED)
_RATES = pydantic.TypeAdapter(Rates, config=_WHEN_USED)


def read(path: Path, validate: Callable[[bytes], _Content]) -> _Content | None:
    """What `validate` makes of the document at `path`, None where there is none; BrokenRecordError
    where it is damaged.
    """
    try:
        return _valid(lambda: validate(path.read_bytes()), str(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BrokenRecordError(f"{path}: {error.strerror}") from None


def _valid(make: Callable[[], _Content], where: str) -> _Content:
    try:
        return make()
    except pydantic.ValidationError as error:
        raise _broken(error, where) from None


def _broken(error: pydantic.ValidationError, where: str) -> BrokenRecordError:
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"]) or "the document"
    return BrokenRecordError(f"{where}: {place}: {first['msg']}")


def read_plan(path: Path) -> tuple[Planned, ...] | None:
    return read(path, _PLAN.validate_json)


def write_plan(path: Path, plan: Iterable[Planned]) -> None:
    # One line: with thousands of places an indented one takes longer than all else of a plan.
    write_text(path, _PLAN.dump_json(tuple(plan)).decode() + "\n")


def read_list(path: Path) -> tuple[Listed, ...] | None:
    return read(path, _LIST.validate_json)


def write_list(path: Path, cases: Iterable[Listed]) -> None:
    write_text(path, _LIST.dump_json(tuple(cases)).decode() + "\n")


def read_standings(path: Path) -> dict[str, Standing] | None:
    return read(path, _STANDINGS.validate_json)


def write_standings(path: Path, standings: Mapping[str, Standing]) -> None:
    write_json(path, {node: one.model_dump(mode="json") for node, one in standings.items()})


def read_leaves(path: Path) -> KnownLeaves | None:
    return read(path, _LEAVES.validate_json)


def read_switch_ports(path: Path) -> dict[str, dict[str, str]] | None:
    return read(path, _SWITCH_PORTS.validate_json)


def read_static_routes(path: Path) -> list[str] | None:
    return read(path, _PARTITIONS.validate_json)


def read_routes(path: Path) -> KnownRoutes | None:
    return read(path, _ROUTES.validate_json)


def read_possible(path: Path) -> Possible | None:
    return read(path, _POSSIBLE.validate_json)


def read_rates(path: Path) -> Rates | None:
    return read(path, _RATES.validate_json)
