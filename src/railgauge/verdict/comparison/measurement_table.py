"""A campaign's measurements as one table, a row each, kept next to its records as Parquet.

The records hold all that is known, and reading them takes a minute where a campaign has a million
numbers; statistics need a few columns of them. The table is made when a campaign is concluded, or
when it is first asked for, and made again when the records are newer.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence

import polars as pl

from railgauge import hostlist
from railgauge.campaign.folder import ENDED, PLAN, Campaign
from railgauge.common import atomic
from railgauge.common.errors import RailgaugeError
from railgauge.model.failure import OF_THE_NUMBER
from railgauge.model.measurement import Measurement
from railgauge.model.record import BrokenRecordError, Row
from railgauge.verdict.campaign.cases import Case
from railgauge.verdict.campaign.cases import read as read_cases
from railgauge.verdict.campaign.outliers import launch
from railgauge.verdict.comparison import collective_settings

#: The table in a campaign's folder.
FILE = "measurements.parquet"

#: What a condition is made of besides check and partition, in the words of a Measurement.
CONDITION = {
    "metric": pl.String,
    "operation": pl.String,
    "transport": pl.String,
    "size_bytes": pl.Int64,
    "streams": pl.Int64,
    "ranks": pl.Int64,
    "window_bytes": pl.Int64,
    "congestion": pl.String,
    "delay_ms": pl.Float64,
    "rails": pl.String,
    "nics": pl.String,
    "load": pl.String,
    "within": pl.String,
    "warmup": pl.Int64,
}

#: Between the versions of a tool where the ends of a link do not have the same one.
VERSIONS = " / "

#: `nodes` are as the measurement has them, folded. `launch` is that of NCCL: its slowest group
#: gave the number of all its places, null where a number is the place's own. `run` separates the
#: runs of a campaign, `retried` the places that ran again after a failure, and `again` what a
#: pair gave when its sweep measured it once more (`locating/plan.py`). `vouched`: the check holds
#: nothing against the result but that its number is low, or that nothing judges it. `share` is that
#: of the limit. `settings` are those of a collective that its condition does not have (NVLS, SHARP,
#: warm-up), null where they are not known.
#: `condition` is all of it, for people, and `peers` the same of places that are each other's peers.
SCHEMA: dict[str, type[pl.DataType]] = {
    "check": pl.String,
    "partition": pl.String,
    "place": pl.String,
    "nodes": pl.String,
    "node_count": pl.Int64,
    "run": pl.String,
    "launch": pl.String,
    "passed": pl.Boolean,
    "retried": pl.Boolean,
    "again": pl.Boolean,
    "vouched": pl.Boolean,
    "gates": pl.Boolean,
    "simulated": pl.Boolean,
    "tool": pl.String,
    "version": pl.String,
    "value": pl.Float64,
    "share": pl.Float64,
    "condition": pl.String,
    "peers": pl.String,
    "settings": pl.String,
    **CONDITION,
}


#: A ReFrame case with its partition, session and run, and the launch; None where there is none.
_LaunchKey = tuple[str, str, int, int, object]


def write(campaign: Campaign, cases: Sequence[Case]) -> pl.DataFrame:
    """The table of what `verdict.compare.read` made of a campaign, kept in its folder; where that
    cannot be written it is made again next time.
    """
    made = made_of(cases)
    path = campaign.folder / FILE
    temporary = atomic.temporary_name(path)
    try:
        made.write_parquet(temporary)
        temporary.replace(path)
    except (OSError, pl.exceptions.PolarsError):
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
    return made


def read(campaign: Campaign, columns: Sequence[str] = tuple(SCHEMA)) -> pl.DataFrame:
    """Columns of the table of a campaign; RailgaugeError where its records are damaged."""
    path = campaign.folder / FILE
    try:
        is_new = path.stat().st_mtime_ns >= max(_written(campaign))
        if is_new and pl.read_parquet_schema(path) == pl.Schema(SCHEMA):
            return pl.read_parquet(path, columns=list(columns))
    except (OSError, pl.exceptions.PolarsError):
        # None yet, or one that is damaged: like one with other columns, it is made of the records.
        pass
    try:
        return write(campaign, read_cases(campaign)).select(columns)
    except BrokenRecordError as error:
        raise RailgaugeError(
            str(error), next_step=f"railgauge verdict {campaign.id} says what is damaged"
        ) from None


def _written(campaign: Campaign) -> Iterator[int]:
    """When the files were written that say which results there are."""
    yield 0
    for number in range(1, campaign.sessions + 1):
        folder = campaign.session_folder(number)
        for path in (folder / PLAN, folder / "report.json", folder / ENDED):
            with contextlib.suppress(OSError):
                yield path.stat().st_mtime_ns


def made_of(cases: Sequence[Case]) -> pl.DataFrame:
    """A row for every measurement of the cases that came to a result; none of other pairs, which a
    sweep measured to separate nodes, nor of what it measured alone to exclude load.
    """
    columns: dict[str, list[object]] = {name: [] for name in SCHEMA}
    failed = {_key(case) for case in cases if case.failed}
    planned = {_key(case): frozenset(case.nodes) for case in cases if not case.repeats}
    several = {_key(case) for case in cases if case.run > 0}
    launches = _launches(cases)
    for case in cases:
        if not case.finished or case.damage or case.quiet:
            continue
        again = bool(case.repeats)
        if again:
            case = dataclasses.replace(case, place=case.repeats)
            if planned.get(_key(case)) != frozenset(case.nodes):
                continue
        versions: dict[str, set[str]] = {}
        for call in case.calls:
            if call.version:
                versions.setdefault(call.tool, set()).add(call.version)
        of_case = {
            "check": case.check,
            "partition": case.partition,
            "run": f"{case.session}.{case.run}",
            "launch": launches.get(_launch_key(case)),
            "passed": case.passed,
            "retried": _key(case) in failed & several,
            "again": again,
            "settings": collective_settings.of_case(case),
            "vouched": all(failure.kind in OF_THE_NUMBER for failure in case.failures),
        }
        for row in case.rows:
            for name, value in (*of_case.items(), *_of_row(case, row, versions)):
                columns[name].append(value)
    return pl.DataFrame(columns, schema=SCHEMA)


def _launches(cases: Sequence[Case]) -> dict[_LaunchKey, str]:
    """What each launch is called, by its nodes too: the jobs of a check that is cut in several, as
    `nodes_per_job` does, have a launch 0 each.
    """
    nodes: dict[_LaunchKey, set[str]] = {}
    places: dict[_LaunchKey, int] = {}
    for case in cases:
        key = _launch_key(case)
        if key[-1] is not None and case.finished and not case.damage:
            nodes.setdefault(key, set()).update(case.nodes)
            places[key] = max(facts.get("slowest_of", 1) for facts in case.facts.values())
    return {
        key: f"launch {key[-1]} of {places[key]} places, {hostlist.fold(sorted(known))}"
        for key, known in nodes.items()
    }


def _launch_key(case: Case) -> _LaunchKey:
    return case.unique_name, case.partition, case.session, case.run, launch(case)


def _key(case: Case) -> tuple[str, str, str]:
    return case.unique_name, case.partition, case.place


def _of_row(case: Case, row: Row, versions: dict[str, set[str]]) -> Iterator[tuple[str, object]]:
    m = row.measurement
    yield "place", place(case, row)
    yield "nodes", ",".join(m.nodes)
    yield "node_count", len(m.nodes)
    yield "gates", row.gates
    yield "simulated", m.simulated
    yield "tool", m.tool
    yield "version", VERSIONS.join(sorted(versions.get(m.tool, ())))
    yield "value", m.value
    yield "share", row.share_of_limit
    yield "condition", condition(case, m)
    yield "peers", peers(case, m)
    for name in CONDITION:
        yield name, getattr(m, name)


def place(case: Case, row: Row) -> str:
    """Where a number belongs, as `railgauge show` knows it: the place, with what it leaves open."""
    m = row.measurement
    name = case.place or ":".join(
        case.nodes if len(case.nodes) < 3 else [hostlist.fold(case.nodes)]
    )
    if m.nodes and m.nodes != case.nodes and set(m.nodes) == set(case.nodes):
        name += f" ({' '.join(m.nodes)})"
    known = name.split(":")
    return ":".join([name, *(part for part in (m.rails, m.nics) if part and part not in known)])


def condition(case: Case, m: Measurement) -> str:
    """`RdmaBandwidth h100: bandwidth 64 KiB, write, roce`."""
    return f"{case.check} {case.partition}: {m.words}"


def peers(case: Case, m: Measurement) -> str:
    """The condition, the same of places that are each other's peers."""
    return condition(case, m) + _shape(m)


def _shape(m: Measurement) -> str:
    """What else distinguishes peers: a path across rails is none of one within a rail."""
    across = m.rails is not None and len(set(m.rails.split("-"))) > 1
    nics = m.nics.count("+") + 1 if m.nics else 0
    return (
        (f", {len(m.nodes)} nodes" if len(m.nodes) > 2 else "")
        + (", across rails" if across else "")
        + (f", {nics} NICs" if nics > 1 else "")
    )
