"""A comparison of two sets of runs, place by place: of campaigns, or of anyone's numbers.

A side is a frame with a row for each measurement and the columns `place`, `condition`, `of_class`,
`family` (a check), `partition`, `version` (of the tool), `built` (what that changed), `warmup`,
`run`, `value`, `less` (less is better), `unit`, `decides` (an unknown result here makes the whole
inconclusive), `margin` (the smallest change that matters, a share; the same within a class) and
`nodes` (separated by commas). `built` and `warmup` are null where they are not known, and a part of
the condition where they differ. `link_changes.py` has the statistics.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from railgauge import textfile
from railgauge.common.errors import EXIT_ACCEPT, EXIT_INCONCLUSIVE, EXIT_REJECT, RailgaugeError
from railgauge.common.table import separator
from railgauge.model.measurement import BY_CHANCE, COUNTS, METRICS
from railgauge.tools import recognize
from railgauge.verdict.comparison import (
    collective_settings,
    link_changes,
    measurement_table,
    power,
)
from railgauge.verdict.comparison.link_changes import WORDS, Contrast, Samples, Word, overall
from railgauge.verdict.comparison.significance import Ints, numbered

#: Metrics that are steady enough to decide. Where a start's time, or the worst of a thousand
#: messages, remains unknown, the rest still has its answer.
DECIDING = ("latency", *(name for name, metric in METRICS.items() if metric.comparable))

#: The columns of a campaign's table that its side is made of.
TABLE_COLUMNS = (
    "settings",
    *("gates", "vouched", "metric", "run", "condition", "launch", "nodes", "place", "peers"),
    *("check", "value", "partition", "again", "tool", "version", "warmup"),
)

#: Columns of a file of anyone's numbers.
CSV_COLUMNS = ("place", "condition", "run", "value")

_EXIT_CODES: dict[Word, int] = {
    "better": EXIT_ACCEPT,
    "same": EXIT_ACCEPT,
    "worse": EXIT_REJECT,
    "unknown": EXIT_INCONCLUSIVE,
}


# --- sides ---------------------------------------------------------------------------------------


def of_tables(
    tables: Iterable[pl.DataFrame],
    margins: Mapping[str, float],
    margin: float = link_changes.MARGIN,
) -> pl.DataFrame:
    """The side of campaigns: the numbers that their checks gate by and vouch for. `margins` are by
    partition; `margin` is that of all other partitions.
    """
    sides = [_of_campaign(table, number, margins, margin) for number, table in enumerate(tables)]
    return pl.concat(sides)


def _of_campaign(
    table: pl.DataFrame, number: int, margins: Mapping[str, float], margin: float
) -> pl.DataFrame:
    """The rows of a campaign, which has this number on its side."""
    versions = table.select("tool", "version").unique()
    built = [changed_since(*version) for version in versions.rows()]
    versions = versions.with_columns(pl.Series("built", built, pl.String))
    left_out = [*(name for name, m in METRICS.items() if m.unit in COUNTS), *BY_CHANCE]
    less = [name for name, metric in METRICS.items() if metric.better == "less"]
    units = {name: metric.unit for name, metric in METRICS.items()}
    rows = (
        table.lazy()
        .filter(pl.col("gates") & pl.col("vouched") & ~pl.col("metric").is_in(left_out))
        .with_columns(pl.format("{}/{}", pl.lit(number), "run").alias("run"))
    )
    # Of a place that was measured again, the second result counts.
    run = ["place", "condition", "run"]
    remeasured = rows.filter("again").select(run).unique()
    rows = pl.concat(
        [rows.filter(~pl.col("again")).join(remeasured, on=run, how="anti"), rows.filter("again")]
    )
    # All groups of an NCCL launch share one number: it counts as one place.
    launch_columns = ["condition", "run", "launch"]
    single = rows.filter(pl.col("launch").is_null())
    shared = (
        rows.filter(pl.col("launch").is_not_null())
        .with_columns(place="launch", nodes=pl.col("nodes").str.join(",").over(launch_columns))
        .unique(launch_columns, maintain_order=True)
    )
    return (
        pl.concat([single, shared])
        .join(versions.lazy(), on=["tool", "version"], how="left", maintain_order="left")
        .select(
            "place",
            "condition",
            of_class="peers",
            family="check",
            partition="partition",
            built="built",
            version="version",
            warmup=pl.format("warm-up {}", "warmup"),
            run="run",
            value="value",
            less=pl.col("metric").is_in(less),
            decides=pl.col("metric").is_in(DECIDING),
            margin=pl.col("partition").replace_strict(
                margins, default=margin, return_dtype=pl.Float64
            ),
            nodes="nodes",
            unit=pl.col("metric").replace_strict(units, return_dtype=pl.String),
            settings="settings",
        )
        .collect()
    )


def of_csv(path: Path, better: str | None, margin: float) -> pl.DataFrame:
    """The side in a file with the columns of CSV_COLUMNS; each condition is a class.

    `better` is `more` or `less`; None for that of the metric with which a condition begins, and
    `more` where it begins with none.
    """
    try:
        with path.open("rb") as start:
            textfile.refuse_utf16(path, start.read(2))
        with path.open(encoding="utf-8-sig") as stream:
            parted = separator(stream.readline())
        text = pl.read_csv(path, infer_schema=False, separator=parted)
    except UnicodeDecodeError as error:
        raise RailgaugeError(
            f"{path}: {error.reason} at byte {error.start}, expected a CSV file in UTF-8",
            next_step="save it as CSV UTF-8",
        ) from None
    except (OSError, pl.exceptions.PolarsError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error).splitlines()[0]
        raise RailgaugeError(
            f"{path}: cannot be read: {why}; expected a CSV file with the columns "
            f"{','.join(CSV_COLUMNS)}",
            next_step=f"ls -l {shlex.quote(str(path))}; railgauge compare --help",
        ) from None
    lacking = [name for name in CSV_COLUMNS if name not in text.columns]
    if lacking:
        raise RailgaugeError(
            f"{path}: no column {', '.join(lacking)} (found {', '.join(text.columns)})",
            next_step=f"make the first line: {','.join(CSV_COLUMNS)}",
        )
    if text.is_empty():
        raise RailgaugeError(
            f"{path}: no row below its heading, expected one for each result",
            next_step="give a file that has numbers: what measured it may have ended early",
        )
    frame = text.select(
        *CSV_COLUMNS[:3], number=pl.col("value").str.strip_chars().cast(pl.Float64, strict=False)
    )
    wrong = (
        frame["number"].is_null()
        | ~(frame["number"] > 0)
        | ~frame["number"].is_finite()
        | frame["place"].is_null()
        | frame["condition"].is_null()
        | frame["run"].is_null()
    ).arg_true()
    if wrong.len():
        row = int(wrong[0])
        cells = ", ".join(f"{name} {text[name][row] or ''!r}" for name in CSV_COLUMNS)
        raise RailgaugeError(
            f"{path}:{row + 2}: found {cells}; expected a place, a condition, a run and a value "
            "that is a number above 0",
            next_step="of a place that carried nothing leave the row out: it is named as missing",
        )
    conditions = frame["condition"].unique()
    less = {c: (better or _better_of(c) or "more") == "less" for c in conditions}
    return frame.select(
        "place",
        "condition",
        of_class="condition",
        family=pl.lit("all"),
        partition=pl.lit(""),
        built=pl.lit(None, pl.String),
        version=pl.lit(""),
        warmup=pl.lit(None, pl.String),
        run="run",
        value="number",
        less=pl.col("condition").replace_strict(less, return_dtype=pl.Boolean),
        unit=pl.lit(""),
        decides=pl.lit(True),
        margin=pl.lit(margin),
        nodes=pl.lit(""),
    )


#: Parts of a condition's first word by which more of it is better, and less. Behind it stands
#: what it was measured under: `write 10 ms`, `send at 1 % loss`.
_MORE = frozenset({"bandwidth", "bw", "busbw", "algbw", "gbps", "throughput", "iops"})
_LESS = frozenset(
    {
        *("lat", "latency", "rtt", "ping", "jitter", "time", "duration", "elapsed"),
        *("loss", "lost", "drop", "drops", "error", "errors", "retry", "retries"),
        *("retransmit", "retransmits", "retrans"),
    }
)
#: So much in a time, where nothing else says so: `ops/sec`, `msgs_per_us`.
_RATES = frozenset({"rate", "per"})
#: Behind another part only: `write_us`, not `us-east-1`.
_UNITS = frozenset({"us", "usec", "ms", "msec", "ns", "nsec", "sec", "seconds"})


def _better_of(condition: str) -> str | None:
    """Whether more or less of a condition is better, by its first word; None where it does not
    say.
    """
    first = "".join(condition.lower().split()[:1])
    parts = re.findall("[a-z]+", first)
    for name in (first, *parts[:1]):
        if name in METRICS:
            return METRICS[name].better
    if _MORE.intersection(parts):
        return "more"
    if _LESS.intersection(parts):
        return "less"
    if _RATES.intersection(parts) or "/" in first:
        return "more"
    return "less" if _UNITS.intersection(parts[1:]) else None


def taken_for_more(frame: pl.DataFrame) -> list[str]:
    """The conditions of a CSV with words that do not say whether more or less is better."""
    return sorted(c for c in frame["condition"].unique() if _better_of(c) is None)


# --- comparison ----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Class:
    """Places under one condition: how many have each word (`words`), the medians of both sides,
    their common change with its interval (`shift`), and the smallest loss on one of them that is
    found with 99 % (`finds`, a share; None where it is not known). `margin` is the smallest change
    that matters. `decides`: an unknown result here makes the whole inconclusive.
    """

    name: str
    partition: str
    unit: str
    before: float
    after: float
    words: dict[Word, int]
    shift: dict[str, Any] | None
    finds: float | None
    margin: float
    decides: bool

    @property
    def word(self) -> Word:
        of_shift: list[Word] = [self.shift["verdict"]] if self.shift else []
        return overall([*(w for w, n in self.words.items() if n), *of_shift])


@dataclasses.dataclass(frozen=True)
class Comparison:
    """`places` has a row for each place and condition that both sides have: `place`, `condition`,
    `verdict`, `change` (a share, without its class's shift), `low`, `high` (its 95 % interval),
    `p`, `runs_needed`, `before`, `after` (means), `runs_before`, `runs_after`, `nodes`. `missing`
    has `place`, `condition` and the `side` that lacks it.
    """

    places: pl.DataFrame
    classes: tuple[Class, ...]
    missing: pl.DataFrame
    contrast: Contrast
    samples: Samples

    @property
    def word(self) -> Word:
        """The word of the whole: worse if anything is, else unknown if anything that decides is,
        else better or the same.
        """
        decisions = [(group.word, group.decides) for group in self.classes]
        words = [word for word, decides in decisions if decides or word != "unknown"]
        return overall([*words, "unknown"] if self.missing.height or not words else words)

    @property
    def margins(self) -> list[float]:
        """The smallest changes that matter in any class, as shares."""
        return sorted({group.margin for group in self.classes})

    @property
    def exit_code(self) -> int:
        return _EXIT_CODES[self.word]

    def as_dict(self) -> dict[str, Any]:
        places = self.places.select(
            "place",
            "condition",
            "verdict",
            "change",
            pl.concat_list("low", "high").alias("interval"),
            "p",
            "runs_needed",
            "before",
            "after",
            "runs_before",
            "runs_after",
        )
        return {
            "verdict": self.word,
            "exit_code": self.exit_code,
            "places": places.to_dicts(),
            "shifts": [group.shift for group in self.classes if group.shift],
            "missing": self.missing.select("place", "condition", "side").to_dicts(),
            "finds": [
                {"class": group.name, "loss_on_one_place": group.finds, "margin": group.margin}
                for group in self.classes
            ],
        }


def compare(
    before: pl.DataFrame,
    after: pl.DataFrame,
    level: float = link_changes.FALSE_DISCOVERIES,
    dependent: bool = False,
) -> Comparison:
    """The comparison of both sides; RailgaugeError where they have no place in common. What was
    measured with other settings on each side is missing on both.
    """
    before, after = collective_settings.apart(before, after)
    rows = pl.concat([before.with_columns(after=False), after.with_columns(after=True)])
    # Only positive values have a logarithm; a place without any is missing.
    rows = by_tool(rows.filter(pl.col("value") > 0))
    samples, links = _samples(rows)
    if not links.height:
        raise RailgaugeError(
            "neither side has a number that could be compared",
            next_step="railgauge verdict CAMPAIGN says what came of each",
        )
    result = link_changes.contrast(samples, links["margin"].to_numpy(), level, dependent)
    if not result.compared.any():
        before, after = rows.filter(~pl.col("after")), rows.filter("after")
        raise RailgaugeError(
            f"no place was measured under one condition on both sides: before "
            f"{before['place'].n_unique()} places such as {_first(before)}, after "
            f"{after['place'].n_unique()} such as {_first(after)}",
            next_step="use the same places and conditions on both sides; what a campaign measured: "
            "railgauge verdict --all CAMPAIGN",
        )
    places, missing = _places(links, result)
    classes = tuple(_classes(links, samples, result, level))
    return Comparison(places, classes, missing, result, samples)


def by_tool(rows: pl.DataFrame) -> pl.DataFrame:
    """Name version and warm-up of the tool in conditions that were measured with several of them,
    so that numbers of one kind are compared with each other only.
    """
    for name in ("built", "warmup"):
        if rows[name].drop_nulls().n_unique() < 2:
            continue
        differs = pl.col(name).drop_nulls().n_unique().over("condition") > 1
        named = pl.when(differs & (pl.col(name) != "")).then(pl.format(", {}", name))
        rows = rows.with_columns(
            pl.concat_str(column, named.otherwise(pl.lit(""))).alias(column)
            for column in ("condition", "of_class")
        )
    return rows


def changed_since(tool: str, version: str) -> str | None:
    """`perftest of 26.04 and later`: what changed the numbers of a tool, where the versions of its
    ends have it; empty where they have none, None where no version is known.
    """
    if not version:
        return None
    words = []
    for change in recognize.changes(tool):
        ends = {change.is_in(one) for one in version.split(measurement_table.VERSIONS)} - {None}
        # The warm-up is asked for, whatever the version's own is.
        if True in ends and not change.first_sizes:
            where = " at one end" if False in ends else ""
            words.append(f"{tool} of {change.named} and later{where}")
    return ", ".join(words)


def _first(side: pl.DataFrame) -> str:
    return f"{side['place'][0]} ({side['condition'][0]})" if side.height else "none"


def _samples(rows: pl.DataFrame) -> tuple[Samples, pl.DataFrame]:
    """The arrays for the statistics, and a frame with place, condition, class and so on by link."""

    def codes(name: str) -> Ints:
        return rows[name].cast(pl.Categorical).to_physical().to_numpy().astype(np.int64)

    place, of_class = codes("place"), codes("of_class")
    link_keys, link = numbered(of_class * (place.max(initial=0) + 1) + place)
    first = np.zeros(link_keys.size, dtype=np.int64)
    first[link[::-1]] = np.arange(link.size - 1, -1, -1)
    later = rows["after"].to_numpy().astype(np.int64)
    run_keys, run = numbered(codes("run") * 2 + later)
    # Several values of a link in one run count by their mean: they are no runs of their own.
    cells, cell = numbered(link * run_keys.size + run)
    log_means = np.bincount(cell, weights=np.log(rows["value"].to_numpy())) / np.bincount(cell)
    links = rows[first].select(
        "place",
        "condition",
        "of_class",
        "family",
        "partition",
        "less",
        "unit",
        "decides",
        "margin",
        "nodes",
    )
    samples = Samples(
        log=log_means,
        link=cells // run_keys.size,
        run=cells % run_keys.size,
        after=run_keys % 2 == 1,
        of_class=of_class[first],
        family=codes("family")[first],
        less=links["less"].to_numpy(),
    )
    return samples, links


def _places(links: pl.DataFrame, result: Contrast) -> tuple[pl.DataFrame, pl.DataFrame]:
    compared = result.compared
    low, high = np.expm1(result.interval())
    runs_needed = pl.Series(result.runs_needed)
    all_links = links.select("place", "condition").with_columns(
        pl.Series("verdict", np.array(WORDS)[result.word]),
        pl.Series("change", np.expm1(result.change)),
        pl.Series("low", low),
        pl.Series("high", high),
        pl.Series("p", result.p),
        runs_needed.set(runs_needed < 0, None).alias("runs_needed"),
        pl.Series("before", np.exp(result.mean[0])),
        pl.Series("after", np.exp(result.mean[1])),
        pl.Series("runs_before", result.runs[0]),
        pl.Series("runs_after", result.runs[1]),
        *(links[name] for name in ("nodes", "family", "partition", "decides")),
    )
    absent = all_links.filter(~pl.Series(compared)).select(
        "place",
        "condition",
        "family",
        "partition",
        side=pl.when(pl.col("runs_before") == 0).then(pl.lit("before")).otherwise(pl.lit("after")),
    )
    # JSON knows no NaN.
    return all_links.filter(pl.Series(compared)).fill_nan(None), absent


def _classes(
    links: pl.DataFrame, samples: Samples, result: Contrast, level: float
) -> Iterator[Class]:
    shifts = {shift.of_class: shift for shift in result.shifts}
    order = np.argsort(samples.of_class, kind="stable")
    ends = np.searchsorted(samples.of_class[order], np.arange(samples.of_class.max() + 2))
    for number in range(ends.size - 1):
        members = order[ends[number] : ends[number + 1]]
        members = members[result.compared[members]]
        if not members.size:
            continue
        name, unit = links["of_class"][int(members[0])], links["unit"][int(members[0])]
        margin = float(links["margin"][int(members[0])])
        words = np.bincount(result.word[members], minlength=len(WORDS))
        before, after = np.exp(np.median(result.mean[:, members], axis=1))
        shift = shifts.get(number)
        yield Class(
            name,
            links["partition"][int(members[0])],
            unit,
            float(before),
            float(after),
            {word: int(words[index]) for index, word in enumerate(WORDS)},
            _shift(name, shift) if shift else None,
            power.of_links(result, samples, number, margin, level),
            margin,
            bool(links["decides"][int(members[0])]),
        )


def _shift(name: str, shift: link_changes.Shift) -> dict[str, Any]:
    interval = np.expm1(shift.interval())
    return {
        "class": name,
        "places": shift.links,
        "verdict": WORDS[shift.word],
        "change": float(np.expm1(shift.change)),
        "interval": [float(end) for end in interval],
        "p": shift.p,
    }
