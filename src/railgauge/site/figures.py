"""The measured figures, docs/figures.csv, and the page on them that `make docs` writes.

A series is all rows with the same area, name and kind of unit. The page states the last row of a
series, and has a plot where the series has three dates or more.
"""

from __future__ import annotations

import collections
import csv
import dataclasses
import datetime
import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import pydantic

from railgauge import paths
from railgauge.common.errors import RailgaugeError
from railgauge.site import figure_plot, growth_plot

FILE = paths.HOME / "docs" / "figures.csv"
#: The folder of the plots, as the page names it.
PLOTS = "figures"

#: Units of a value that is a part of n.
_COUNTED = ("campaigns", "faults", "runs")
_MINUTE_S = 60

#: The area with the figures of how cost grows, its plot, and the name of a size's row: at the
#: size 0 stands the cost of the start.
GROWTH = "growth"
_OF_SIZE = re.compile(r"CPU time by (?P<quantity>.+), (?P<size>[0-9,]+)")

_Number = Annotated[str, pydantic.Field(pattern=r"^(-?[0-9]+(\.[0-9]+)?)?$")]
_Text = Annotated[str, pydantic.Field(min_length=1)]


class Row(pydantic.BaseModel):
    """One measured figure, as it stands in the file: a number keeps its digits, "" is not stated.

    `value` is the median of `n` runs, or the only one; `least` and `most` are the extremes. A count
    such as "18 of 1,500 campaigns" has the value 18 and an `n` of 1500.
    """

    model_config = pydantic.ConfigDict(frozen=True)

    area: _Text
    what: _Text
    value: _Number
    least: _Number
    most: _Number
    unit: _Text
    n: Annotated[str, pydantic.Field(pattern=r"^([1-9][0-9]*)?$")]
    command: Annotated[str, pydantic.Field(pattern=r"^((make|python|railgauge) .+)?$")]
    date: Annotated[str, pydantic.Field(pattern=r"^([0-9]{4}-[0-9]{2}-[0-9]{2})?$")]
    commit: Annotated[str, pydantic.Field(pattern=r"^([0-9a-f]{7,40})?$")]
    machine: str
    note: str

    @pydantic.model_validator(mode="after")
    def _check(self) -> Row:
        if self.date:
            datetime.date.fromisoformat(self.date)
        if not self.value and not (self.least and self.most):
            raise ValueError("expected a value, or both least and most")
        known = [float(text) for text in (self.least, self.value, self.most) if text]
        if known != sorted(known):
            raise ValueError("expected least, value and most in rising order")
        return self


@dataclasses.dataclass(frozen=True)
class Figure:
    """A sentence of the page: each {} is the last row of a series, in order.

    `plot` names the plot of the first series.
    """

    plot: str
    sentence: str
    area: str
    series: tuple[str, ...]


SECTIONS: dict[str, tuple[Figure, ...]] = {
    "Acceptance": (
        Figure(
            "accept-cold",
            "In a fresh clone, `make accept` takes {} from nothing to the verdict.",
            "accept",
            ("make accept, cold",),
        ),
        Figure(
            "accept-warm",
            "With the lab up, `make accept` takes {}.",
            "accept",
            ("make accept, lab up",),
        ),
        Figure(
            "accept-over-tools",
            "An acceptance takes {} times as long as its tools alone.",
            "accept",
            ("acceptance over its tools' time",),
        ),
    ),
    "Tests": (Figure("make-test", "`make test` takes {}.", "tests", ("make test",)),),
    "Large clusters": (
        Figure(
            "place-overhead",
            "A sweep adds {} to the time of a tool of 3 s at each place.",
            "sweep",
            ("overhead of a place, tools of 3 s",),
        ),
        Figure(
            "plan",
            "`railgauge accept --plan` of 4,608 nodes takes {}.",
            "plan",
            ("plan of 4,608 nodes, CPU time",),
        ),
        Figure(
            "verdict",
            "A verdict on 36,864 places takes {}, and {} of memory.",
            "verdict",
            ("verdict of 36,864 places, CPU time", "verdict of 36,864 places, memory"),
        ),
    ),
    "How cost grows": (
        Figure(
            GROWTH,
            "Twice as much takes 2 to the power of the slope times as long, and 1 is linear. By "
            "nodes of a plan the slope is {}, by rails and by places of a verdict {} and {}, by "
            "campaigns of a trend {}, by bytes of logs {}.",
            GROWTH,
            tuple(
                f"slope by {quantity}"
                for quantity in ("nodes", "rails", "places", "campaigns", "log bytes")
            ),
        ),
    ),
    "Logs": (
        Figure(
            "read-logs",
            "`railgauge read` of 1,000 logs takes {}.",
            "logs",
            ("railgauge read of 1,000 logs",),
        ),
    ),
    "Before and after": (
        Figure(
            "false-findings",
            "Nothing changed, but a tenth of the runs is 8 % slower: `railgauge compare` of five "
            "runs on each side reports {}, and a fixed bound of 5 % reports {}.",
            "before and after",
            (
                "false findings, bimodal: 8 % lower in 10 % of runs, 5 runs against 5",
                "false findings of a fixed bound of 5 %, bimodal: 8 % lower in 10 % of runs, "
                "5 runs against 5",
            ),
        ),
        Figure(
            "loss-found",
            "With ten runs on each side it finds a loss of {} with a probability of 99 %.",
            "before and after",
            ("smallest loss found with 99 %, 10 runs against 10",),
        ),
    ),
    "Other programs on the same work": (
        Figure(
            "all-pairs",
            "All pairs of 16 nodes of the larger lab take hp2p of CEA {}, the sweep of `railgauge "
            "accept` {}, and ReFrame with a test for each pair {}. Over the time of its messages "
            "hp2p takes {}, and over that of its tools the sweep {}.",
            "peers",
            (
                "all pairs of 16 nodes, hp2p of CEA",
                "all pairs of 16 nodes, sweep of railgauge accept",
                "all pairs of 16 nodes, ReFrame with a test for each pair",
                "all pairs of 16 nodes, hp2p of CEA, over its messages",
                "all pairs of 16 nodes, sweep of railgauge accept, over its tools",
            ),
        ),
        Figure(
            "compare-beside",
            "1,013,760 measurements before and after take `railgauge compare` {}, `reframe "
            "--performance-compare` {}, and `sb result diagnosis` of superbench {}.",
            "peers",
            (
                "before and after of 1,013,760 measurements, railgauge compare",
                "before and after of 1,013,760 measurements, reframe --performance-compare",
                "before and after of 1,013,760 measurements, sb result diagnosis",
            ),
        ),
    ),
    "Locate": (
        Figure(
            "innocents",
            "An innocent node or rail was confirmed in {}. The upper bound with 95 % confidence is "
            "{}.",
            "locate",
            (
                "campaigns that confirm an innocent node or rail",
                "campaigns that confirm an innocent node or rail, 95 % upper bound",
            ),
        ),
        Figure(
            "slow-uplink",
            "An uplink that is slow in one direction is named by round 4 in {}, by round 6 in {}.",
            "locate",
            (
                "slow direction of one uplink, 64 nodes: named by round 4",
                "slow direction of one uplink, 64 nodes: named by round 6",
            ),
        ),
        Figure(
            "drills",
            "In drills with real faults the culprit and nothing else was named in {}.",
            "drills",
            ("all drills: right",),
        ),
        Figure(
            "drill-shaped-link",
            "The drill with one slow link takes {}.",
            "drills",
            ("drill shaped-link: time",),
        ),
    ),
    "InfiniBand": (
        Figure(
            "fabric-check",
            "The outputs of four fabric tools on 2,000 hosts are read and checked in {}.",
            "infiniband",
            ("read and check of all four outputs, 2,000 hosts, 200 switches",),
        ),
    ),
    "Patrol": (
        Figure(
            "patrol-wait",
            "A user's job for nodes under test waits {}. One job waited {}.",
            "patrol",
            (
                "week of patrol, preempted ten times: wait of a job for nodes under test",
                "wait of a user's job for a node that Slurm releases late",
            ),
        ),
    ),
    "Soak": (
        Figure(
            "soak",
            "On a loaded machine `make accept` takes {}, and accepts the healthy lab in {}.",
            "soak",
            ("make accept, loaded machine", "make accept, loaded machine, good runs"),
        ),
    ),
    "The embedded cluster": (
        Figure(
            "lab32",
            "The larger lab is up in {}, and needs {} of memory.",
            "embedded cluster",
            ("lab32 up, until 32 nodes are idle", "memory of lab32"),
        ),
    ),
    "The pinned stack": (
        Figure(
            "stack",
            "Spack solves, builds and installs perftest and iperf2 in {}.",
            "stack",
            ("unpack Spack, solve, build perftest and iperf2",),
        ),
    ),
    "Transfers": (
        Figure(
            "transfers",
            "WDT moves a large file {} times as fast as lftp over a link of 1 Gb/s.",
            "transfers",
            ("WDT discarded over lftp, large file, 1 Gb/s",),
        ),
    ),
}


def read(path: Path = FILE) -> list[Row]:
    """The rows of the file.

    Raises `RailgaugeError` with the number of the first row that breaks a rule.
    """
    rows: list[Row] = []
    try:
        with path.open(encoding="utf-8", newline="") as file:
            lines = csv.reader(file, strict=True)
            if next(lines, None) != list(Row.model_fields):
                raise ValueError(f"expected the columns {','.join(Row.model_fields)}")
            for cells in lines:
                if len(cells) != len(Row.model_fields):
                    raise ValueError(f"{len(cells)} cells, expected {len(Row.model_fields)}")
                row = Row.model_validate(dict(zip(Row.model_fields, cells, strict=True)))
                if rows and (row.area, row.date) < (rows[-1].area, rows[-1].date):
                    raise ValueError(f"{row.what!r}: expected rows sorted by area and date")
                rows.append(row)
    except (ValueError, csv.Error) as error:
        raise RailgaugeError(
            f"{path}, row {len(rows) + 1} below the header: {_reason(error)}",
            next_step="correct the row, then type: make docs",
        ) from error
    return rows


def _reason(error: Exception) -> str:
    if isinstance(error, pydantic.ValidationError):
        return "; ".join(
            f"{'.'.join(map(str, e['loc'])) or 'row'} is {e['input']!r}: {e['msg']}"
            for e in error.errors()
        )
    return str(error)


def page(rows: Sequence[Row]) -> str:
    """The generated part of docs/figures.md."""
    return "\n".join(_lines(rows))


def _lines(rows: Sequence[Row]) -> Iterator[str]:
    left = collections.Counter(row.area for row in rows)
    for heading, figures in SECTIONS.items():
        yield f"## {heading}\n"
        for figure in figures:
            yield from _paragraphs(figure, rows)
        areas = dict.fromkeys(figure.area for figure in figures)
        counts = (f"`{area}` ({left.pop(area)} rows)" for area in areas)
        yield f"More in [{FILE.name}]({FILE.name}): {', '.join(counts)}.\n"
    yield "## Other areas\n"
    yield f"Only in [{FILE.name}]({FILE.name}):\n"
    for area, count in left.items():
        yield f"- `{area}`, {count} rows"
    yield ""


def _paragraphs(figure: Figure, rows: Sequence[Row]) -> Iterator[str]:
    last = [_series(rows, figure.area, what)[-1] for what in figure.series]
    yield figure.sentence.format(*map(_stated, last)) + "\n"
    about = []
    if commands := dict.fromkeys(f"`{row.command}`" for row in last if row.command):
        about.append(f"Command: {', '.join(commands)}.")
    if notes := dict.fromkeys(row.note for row in last if row.note):
        about.append(f"Conditions: {' '.join(notes)}")
    if about:
        yield " ".join(about) + "\n"
    if figure.plot == GROWTH:
        yield f"![CPU time by size]({PLOTS}/{GROWTH}.svg)\n"
    elif _plotted(figure, rows):
        yield f"![{figure.series[0]}, by date]({PLOTS}/{figure.plot}.svg)\n"


def _stated(row: Row) -> str:
    unit = "" if row.unit == "ratio" else f" {row.unit}"
    spread = f"{row.least} to {row.most}" if row.least and row.most else ""
    count = f"{int(row.n):,}" if row.n else ""
    if count and row.unit in _COUNTED:
        number, about = f"{row.value} of {count}", [row.date]
    else:
        number = row.value or spread
        about = [spread if row.value else "", f"n = {count}" if count else "", row.date]
    shown = ", ".join(part for part in about if part)
    return f"**{number}{unit}**" + (f" ({shown})" if shown else "")


def plots(rows: Sequence[Row]) -> dict[str, str]:
    """File name -> SVG of each figure with three dates or more, and of how cost grows."""
    drawn = {}
    if growth := _growth(rows):
        title = "CPU time without the start, times that of the first size, by size"
        drawn[f"{GROWTH}.svg"] = growth_plot.svg(title, growth)
    for figure in itertools.chain(*SECTIONS.values()):
        if figure.plot != GROWTH and (plotted := _plotted(figure, rows)):
            unit = plotted[-1].unit
            points = [_point(row, unit) for row in plotted]
            drawn[f"{figure.plot}.svg"] = figure_plot.svg(f"{figure.series[0]}, {unit}", points)
    return drawn


def _growth(rows: Sequence[Row]) -> dict[str, list[tuple[float, float]]]:
    """Quantity -> its sizes and their CPU time without that of the start, as last measured."""
    measured: dict[str, dict[int, float]] = {}
    for row in rows:
        if row.area == GROWTH and row.value and (of_size := _OF_SIZE.fullmatch(row.what)):
            size = int(of_size["size"].replace(",", ""))
            measured.setdefault(of_size["quantity"], {})[size] = float(row.value)
    return {
        quantity: [(size, cost - costs.get(0, 0)) for size, cost in sorted(costs.items()) if size]
        for quantity, costs in measured.items()
    }


def _plotted(figure: Figure, rows: Sequence[Row]) -> list[Row]:
    """The rows of a plot; none for fewer than three dates."""
    dated = [row for row in _series(rows, figure.area, figure.series[0]) if row.date]
    return dated if len({row.date for row in dated}) >= 3 else []


def _point(row: Row, unit: str) -> figure_plot.Point:
    """A row in another unit of time, where its own differs."""
    factor = {("s", "min"): 1 / _MINUTE_S, ("min", "s"): _MINUTE_S}.get((row.unit, unit), 1)
    value, least, most = (
        float(text) * factor if text else None for text in (row.value, row.least, row.most)
    )
    return figure_plot.Point(datetime.date.fromisoformat(row.date), value, least, most)


def _series(rows: Sequence[Row], area: str, what: str) -> list[Row]:
    """All rows of a series, in the order of the file.

    Raises `RailgaugeError` where there is none, or units that are not those of time differ.
    """
    series = [row for row in rows if (row.area, row.what) == (area, what)]
    units = {row.unit for row in series}
    if len(units) != 1 and units != {"s", "min"}:
        found = f"units {', '.join(sorted(units))}" if units else "no row"
        raise RailgaugeError(
            f"{FILE}: {found} of {area!r}, {what!r}; expected: rows of one unit",
            next_step="correct the rows, or SECTIONS in railgauge/site/figures.py",
        )
    return series
