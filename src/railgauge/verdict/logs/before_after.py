"""Before and after, of logs that people have: place by place, also where each side has one run.

The statistics are those of `verdict/comparison/link_changes.py`. Where a condition has too few
places to learn the noise from them, the noise is that of the place's own runs. Where these are too
few as well, the variance is drawn towards a usual one: as a moderated variance (Smyth 2004,
`verdict/comparison/significance.py`) with a prior that is assumed, and not fitted. So a place with
one run a side has an answer, too.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from railgauge.common.errors import EXIT_ACCEPT, EXIT_INCONCLUSIVE, EXIT_REJECT, RailgaugeError
from railgauge.model.measurement import METRICS
from railgauge.model.sizes import format_size
from railgauge.textfiles import Large, Text, Unread
from railgauge.tools import recognize
from railgauge.verdict.comparison import link_changes, power, significance
from railgauge.verdict.comparison.link_changes import WORDS, Samples, Word, overall
from railgauge.verdict.comparison.significance import Floats
from railgauge.verdict.logs.matching import Match, Series, Side, match, series_of
from railgauge.verdict.logs.runs import LogRun, below, read

#: The spread of equal runs that is assumed where runs do not show it, a share: as the locator
#: assumes of few values (`locating/peers.py`). It weighs as much as so many degrees of freedom.
NOISE, NOISE_DF = 0.05, 4.0
#: From so many degrees of freedom on the noise of a place's own runs counts alone.
_OWN_DF = 2
#: Tools print two decimals, and three digits or more: equal runs show at least this spread.
_LEAST_SPREAD, _LEAST_STEP = 1e-3, 3e-3
#: Messages that reach less than this share of the best rate are bound by latency, and vary more: by
#: this factor.
_BANDWIDTH_BOUND, _NOISE_FACTOR = 0.5, 4.0
#: The first sizes of a run, which too little warm-up makes slower.
_FIRST_SIZES = 3
#: The largest common size counts for a link if it reaches this share of the best before.
_PLATEAU = 0.9

SIDES: tuple[Side, Side] = ("before", "after")

#: What outputs state, and what is different if it differs; all else is part of the condition, or
#: says nothing of the number.
_STATED = {
    "version": "version of the tool",
    "nccl_version": "NCCL",
    "gpu": "GPU",
    "active_mtu_bytes": "MTU",
    "mss_bytes": "MSS",
    "link_type": "link",
    "congestion": "congestion control",
    "gid_index": "GID index",
    "warmup": "warm-up iterations",
    "data_validation": "data validation",
}


@dataclasses.dataclass(frozen=True)
class Row:
    """One size of a pair: means and runs of both sides, and what the statistics say of it.

    `change` is the place's own, a share; `total` with what all places of its condition share. `why`
    says why it is not judged, "" where it is.
    """

    size_bytes: int | None
    before: float
    after: float
    runs: tuple[int, int]
    change: float | None
    low: float | None
    high: float | None
    p: float | None
    word: Word
    runs_needed: int | None
    #: the noise is assumed, as no run shows it
    assumed: bool
    #: the smallest loss that would be called one with 99 %, a share
    finds: float | None
    why: str = ""

    @property
    def total(self) -> float:
        return self.after / self.before - 1


@dataclasses.dataclass(frozen=True)
class Pair:
    """A place under a condition on both sides: its sizes, the largest last."""

    match: Match
    rows: tuple[Row, ...]
    #: what all places of its condition have in common at the largest size: its word
    shift: Word | None
    #: what speaks against comparing it, and what to know of it
    notes: tuple[str, ...] = ()

    @property
    def series(self) -> Series:
        return self.match.after[0]

    @property
    def less_is_better(self) -> bool:
        return METRICS[self.series.metric].better == "less"

    @property
    def main(self) -> Row:
        """The largest size that is judged, or the largest."""
        return next((row for row in reversed(self.rows) if not row.why), self.rows[-1])

    @property
    def word(self) -> Word:
        """`worse` if any size is; else of the largest size."""
        words = [row.word for row in self.rows]
        if "worse" in words:
            return "worse"
        return self.main.word

    def condition(self, row: Row) -> str:
        size = "" if row.size_bytes is None else f" {format_size(row.size_bytes)}"
        parts = (f"{self.series.metric}{size}", self.series.words)
        return ", ".join(filter(None, parts))


@dataclasses.dataclass(frozen=True)
class Missing:
    """What one side alone has; `side` is the one that lacks it."""

    place: str
    condition: str
    side: Side
    reason: str


@dataclasses.dataclass(frozen=True)
class LeftOut:
    side: Side
    name: str
    reason: str
    #: it is an output of a tool, so that a result is missing
    is_run: bool = True


@dataclasses.dataclass(frozen=True)
class Difference:
    """What else differs between the two sides by their outputs, and in how many pairs."""

    what: str
    before: str
    after: str
    pairs: int


@dataclasses.dataclass(frozen=True)
class Comparison:
    pairs: tuple[Pair, ...]
    shifts: tuple[dict[str, Any], ...]
    missing: tuple[Missing, ...]
    left_out: tuple[LeftOut, ...]
    different: tuple[Difference, ...]
    noise: float
    margin: float
    simulated: bool

    @property
    def word(self) -> Word:
        words: list[Word] = [pair.word for pair in self.pairs]
        words += [shift["verdict"] for shift in self.shifts if shift["verdict"] != "unknown"]
        if self.missing or any(one.is_run for one in self.left_out):
            words.append("unknown")
        return overall(words)

    @property
    def exit_code(self) -> int:
        if self.simulated and self.word != "worse":
            return EXIT_INCONCLUSIVE
        codes = {"worse": EXIT_REJECT, "unknown": EXIT_INCONCLUSIVE}
        return codes.get(self.word, EXIT_ACCEPT)

    def as_dict(self) -> dict[str, Any]:
        """As a document (docs/schema/compare.json)."""
        return {
            "verdict": self.word,
            "exit_code": self.exit_code,
            "places": [_place(pair, row) for pair in self.pairs for row in pair.rows],
            "shifts": list(self.shifts),
            "missing": [dataclasses.asdict(one) for one in self.missing],
            "left_out": [
                {"side": one.side, "name": one.name, "reason": one.reason} for one in self.left_out
            ],
            "different": [dataclasses.asdict(one) for one in self.different],
            "finds": [
                {
                    "class": f"{pair.match.place}, {pair.condition(pair.main)}",
                    "loss_on_one_place": pair.main.finds,
                    "margin": self.margin,
                }
                for pair in self.pairs
            ],
            "drift": [],
            "simulated": self.simulated,
        }


def _place(pair: Pair, row: Row) -> dict[str, Any]:
    return {
        "place": pair.match.place,
        "condition": pair.condition(row),
        "tool": pair.series.run.tool,
        "unit": pair.series.unit,
        "paired_by": pair.match.by,
        "verdict": row.word,
        "change": row.change,
        "interval": [row.low, row.high],
        "p": row.p,
        "runs_needed": row.runs_needed,
        "before": row.before,
        "after": row.after,
        "runs_before": row.runs[0],
        "runs_after": row.runs[1],
        "noise_is_assumed": row.assumed,
        "not_judged": row.why,
        "notes": list(pair.notes),
    }


# --- sides ---------------------------------------------------------------------------------------


class _OneSide:
    """The runs of a side: valid ones as series, and what was left out."""

    def __init__(
        self, side: Side, sources: Iterable[Text | Large | Unread], others: Iterable[LogRun] = ()
    ) -> None:
        self.side = side
        self.valid: list[LogRun] = []
        self.refused: list[LogRun] = []
        self.left_out: list[LeftOut] = []
        first = {run.digest: run for run in others}
        files: set[str] = set()
        for run in read(sources):
            files.add(run.name if isinstance(run, Unread) else run.file)
            if isinstance(run, Unread):
                self.left_out.append(LeftOut(side, run.name, run.reason, is_run=False))
            elif copied := first.get(run.digest):
                why = f"a copy of {copied.where}: the same run"
                self.left_out.append(LeftOut(side, run.where, why, is_run=False))
            else:
                first[run.digest] = run
                (self.valid if run.reading.ok else self.refused).append(run)
        self.files = len(files)
        paths = below(dict.fromkeys(run.file for run in (*self.valid, *self.refused)))
        self.paths = paths
        of_runs = [(run, list(series_of(run, paths[run.file]))) for run in self.valid]
        self.series = [one for _, series in of_runs for one in series]
        self.left_out += [
            LeftOut(side, run.where, f"{run.tool}: no number that can be compared", is_run=False)
            for run, series in of_runs
            if not series
        ]
        self.left_out += [
            LeftOut(side, run.where, f"{run.tool}: no valid result: {run.reading.reason}")
            for run in self.refused
        ]


def compare(
    before: Iterable[Text | Large | Unread],
    after: Iterable[Text | Large | Unread],
    margin: float = link_changes.MARGIN,
    noise: float = NOISE,
    dependent: bool = False,
) -> Comparison:
    """The comparison of two sets of logs; RailgaugeError where they have nothing in common.

    `margin` is the smallest change that matters, `noise` the usual spread of equal runs: shares.
    """
    first = _OneSide("before", before)
    sides = (first, _OneSide("after", after, (*first.valid, *first.refused)))
    for side in sides:
        if not side.series:
            raise _nothing(side)
    two_files = all(side.files == 1 for side in sides)
    matches, alone = match(sides[0].series, sides[1].series, two_files)
    if not matches:
        raise _nothing_in_common(sides)
    matches.sort(key=lambda m: (m.place, m.after[0].run.tool, m.after[0].words))
    pairs, shifts, incomplete = _judged(matches, margin, noise, dependent)
    ids = {id(one) for one in sides[0].series}
    missing = [
        *(_missing(one, sides[1] if id(one) in ids else sides[0]) for one in alone),
        *incomplete,
    ]
    return Comparison(
        tuple(pairs),
        tuple(shifts),
        tuple(missing),
        (*sides[0].left_out, *sides[1].left_out),
        tuple(_differences(matches)),
        noise,
        margin,
        any(run.reading.simulated for side in sides for run in side.valid),
    )


def _nothing(side: _OneSide) -> RailgaugeError:
    reasons = [f"{one.name}: {one.reason}" for one in side.left_out]
    many = f" and {len(reasons) - 1} more" if len(reasons) > 1 else ""
    what = "no output of a tool with a number that can be compared"
    return RailgaugeError(
        f"{side.side.upper()}: {what}" + (f": {reasons[0]}{many}" if reasons else ""),
        next_step=f"railgauge read {side.side.upper()} says what is in it, with that path",
    )


def _nothing_in_common(sides: Sequence[_OneSide]) -> RailgaugeError:
    shown = [
        f"{side.side} {len(side.series)} such as {side.series[0].place} "
        f"({side.series[0].run.tool}, {side.series[0].metric}, {side.series[0].words})"
        for side in sides
    ]
    return RailgaugeError(
        f"no place was measured under one condition on both sides: {'; '.join(shown)}",
        next_step="measure the same on both sides, or give the files the same names (rail01.log "
        "and rail01.log); railgauge read says what is in each",
    )


def _missing(one: Series, lacking: _OneSide) -> Missing:
    """A series that the other side lacks, and why."""
    words = ", ".join(filter(None, (one.metric, one.words)))
    place_of = (one.run.pair or one.run.hosts, one.by_name())
    refused = next(
        (
            run
            for run in lacking.refused
            if run.tool == one.run.tool
            and (
                ((run.pair or run.hosts) and (run.pair or run.hosts) == place_of[0])
                or Series(run, lacking.paths[run.file], "", "", {}).by_name() == place_of[1]
            )
        ),
        None,
    )
    if refused is not None:
        reason = f"its run there is no valid result ({refused.where})"
    else:
        others = [
            s
            for s in lacking.series
            if s.run.tool == one.run.tool and s.place == one.place and s.words != one.words
        ]
        reason = f"measured otherwise there: {others[0].words}" if others else "no output of it"
    return Missing(one.place, f"{one.run.tool}: {words}", lacking.side, reason)


def _differences(matches: Sequence[Match]) -> Iterator[Difference]:
    counts: dict[tuple[str, str, str], int] = {}
    for one in matches:
        for name, what in _STATED.items():
            values = [
                sorted({str(s.run.reading.seen[name]) for s in side if name in s.run.reading.seen})
                for side in one.sides
            ]
            if all(values) and values[0] != values[1]:
                key = (what, ", ".join(values[0]), ", ".join(values[1]))
                counts[key] = counts.get(key, 0) + 1
    for (what, before, after), count in counts.items():
        yield Difference(what, before, after, count)


# --- statistics ----------------------------------------------------------------------------------


def _judged(
    matches: Sequence[Match], margin: float, noise: float, dependent: bool
) -> tuple[list[Pair], list[dict[str, Any]], list[Missing]]:
    """The pairs, the shifts of conditions with several places, and what lacks its large sizes."""
    common = [_common_sizes(one) for one in matches]
    missing = [
        Missing(
            one.place,
            f"{one.after[0].run.tool}: {one.after[0].metric}, {one.after[0].words}",
            "after" if not sizes else "before",
            "no size in common",
        )
        for one, sizes in zip(matches, common, strict=True)
        if not sizes
    ]
    links = [
        (place, size)
        for place, sizes in enumerate(common)
        for size in sorted(sizes, key=lambda size: size or 0)
    ]
    if not links:
        return [], [], missing
    classes: dict[object, int] = {}
    families: dict[str, int] = {}
    of_class: list[int] = []
    family: list[int] = []
    logs: list[float] = []
    link_of: list[int] = []
    run_of: list[int] = []
    after_of: list[bool] = []
    runs: dict[tuple[int, str, int], int] = {}
    for link, (place, size) in enumerate(links):
        one = matches[place]
        condition = (*one.after[0].condition, size)
        of_class.append(classes.setdefault(condition, len(classes)))
        tool = one.after[0].run.tool
        family.append(families.setdefault(tool, len(families)))
        for later, side in enumerate(one.sides):
            for number, series in enumerate(side):
                if size in series.values:
                    logs.append(math.log(series.values[size]))
                    link_of.append(link)
                    run = runs.setdefault((later, tool, number), len(runs))
                    if run == len(after_of):
                        after_of.append(bool(later))
                    run_of.append(run)
    samples = Samples(
        np.array(logs),
        np.array(link_of, dtype=np.int64),
        np.array(run_of, dtype=np.int64),
        np.array(after_of, dtype=bool),
        np.array(of_class, dtype=np.int64),
        np.array(family, dtype=np.int64),
        np.array([METRICS[matches[p].after[0].metric].better == "less" for p, _ in links]),
    )
    judged = _Judged(samples, _usual_noise(matches, links, noise), margin, dependent)
    names = {number: condition for condition, number in classes.items()}
    shifts = [judged.shift(number, names[number]) for number in judged.shift_numbers]  # type: ignore[arg-type]
    pairs = []
    at = 0
    for one, sizes in zip(matches, common, strict=True):
        if not sizes:
            continue
        notes, unjudged = _changed_versions(one, sorted(sizes, key=lambda s: s or 0))
        if one.note:
            notes.insert(0, one.note)
        notes += _other_sizes(one, sizes)
        rows = []
        for _ in sizes:
            rows.append(judged.row(at, links[at][1], unjudged.get(links[at][1], "")))
            at += 1
        pair = Pair(one, tuple(rows), judged.shift_word(at - 1), tuple(notes))
        if pair.word in ("worse", "better"):
            unstated = _versions_not_stated(one)
            pair = dataclasses.replace(pair, notes=(*pair.notes, *unstated))
        pairs.append(pair)
        missing += _without_large_sizes(pair)
    return pairs, shifts, missing


def _common_sizes(one: Match) -> set[int | None]:
    before, after = ({size for series in side for size in series.values} for side in one.sides)
    return before & after


def _usual_noise(
    matches: Sequence[Match], links: Sequence[tuple[int, int | None]], noise: float
) -> Floats:
    """Of each link: that of a rate near its best, or more of a message bound by latency."""
    noises = []
    for place, size in links:
        series = matches[place].before[0]
        best = max(series.values.values())
        value = next(s.values[size] for s in matches[place].before if size in s.values)
        more = METRICS[series.metric].better == "more"
        near = not more or value >= _BANDWIDTH_BOUND * best
        noises.append(noise if near else noise * _NOISE_FACTOR)
    return np.array(noises)


def _without_large_sizes(pair: Pair) -> Iterator[Missing]:
    """Where the sizes in common do not reach the rate that was measured before."""
    series = pair.match.before[0]
    if METRICS[series.metric].better != "more":
        return
    best = max(v for s in pair.match.before for v in s.values.values())
    if max(row.before for row in pair.rows) >= _PLATEAU * best:
        return
    largest = max(size or 0 for s in pair.match.before for size in s.values)
    words = ", ".join(filter(None, (series.metric, series.words)))
    yield Missing(
        pair.match.place,
        f"{series.run.tool}: {words}",
        "after",
        f"sizes up to {format_size(largest)} were measured before, and the sizes in common reach "
        f"{max(row.before for row in pair.rows):.4g} of {best:.4g} {series.unit} only",
    )


def _other_sizes(one: Match, common: set[int | None]) -> Iterator[str]:
    """Which sizes are compared, where a side has others too."""
    swept = [{size or 0 for series in side for size in series.values} for side in one.sides]
    if swept[0] != swept[1]:
        shown = [
            format_size(min(sizes)) + (f" to {format_size(max(sizes))}" if len(sizes) > 1 else "")
            for sizes in ({size or 0 for size in common}, *swept)
        ]
        yield f"compared at {shown[0]}: {shown[1]} were measured before, {shown[2]} after"


def _changed_versions(
    one: Match, sizes: Sequence[int | None]
) -> tuple[list[str], dict[int | None, str]]:
    """What the tool changed between the versions of both sides: notes, and by size why it is not
    judged.
    """
    notes: list[str] = []
    unjudged: dict[int | None, str] = {}
    tool = one.after[0].run.tool
    first = sorted(one.after[0].values, key=lambda size: size or 0)[:_FIRST_SIZES]
    for change in recognize.changes(tool):
        seen = [side[0].run.reading.seen for side in one.sides]
        if not change.between(*seen):
            continue
        values = [str(s.get(change.stated, s.get("version"))) for s in seen]
        affected = first if change.first_sizes else list(sizes)
        text = (
            f"{tool}: {change.stated.replace('_', ' ') or 'version'} {values[0]} before, "
            f"{values[1]} after (since {change.named} it {change.what}): "
            + (
                f"the {_FIRST_SIZES} first sizes are not judged"
                if change.first_sizes
                else "not judged"
            )
        )
        notes.append(text)
        unjudged |= dict.fromkeys(affected, text)
    return notes, unjudged


def _versions_not_stated(one: Match) -> Iterator[str]:
    """What a tool changed that a changed number may come from, as no output states its version."""
    tool = one.after[0].run.tool
    for change in recognize.changes(tool):
        seen = [side[0].run.reading.seen for side in one.sides]
        if not change.first_sizes and change.between(*seen) is None:
            yield (
                f"these outputs do not state the version of {tool}: since {change.named} it "
                f"{change.what}, so compare runs of one version"
            )


class _Judged:
    """The statistics of all links: as `link_changes` has them, and with the usual noise where a
    condition has too few places.
    """

    def __init__(self, samples: Samples, noise: Floats, margin: float, dependent: bool) -> None:
        self._samples = samples
        self._noise = noise
        self._margin = margin
        result = link_changes.contrast(samples, margin, dependent=dependent)
        counts = np.bincount(
            samples.of_class[result.compared], minlength=samples.of_class.max() + 1
        )
        few = result.compared & (counts[samples.of_class] < link_changes.LEAST_LINKS)
        self._assumed = np.zeros(few.size, dtype=bool)
        if few.any():
            self._moderate(result, few, dependent)
        self._result = result
        self._low, self._high = np.expm1(result.interval())
        self._losses = power.smallest_losses(
            result.se, result.df, link_changes.FALSE_DISCOVERIES, margin
        )
        self._shifts = {shift.of_class: shift for shift in result.shifts}

    def _moderate(self, result: link_changes.Contrast, few: Any, dependent: bool) -> None:
        """Judge the links of few places, by the variance of their runs and the usual one."""
        s = self._samples
        cell = s.after[s.run].astype(np.int64) * few.size + s.link
        means = significance.means(s.log, cell, 2 * few.size)
        squares = np.bincount(s.link, weights=(s.log - means[cell]) ** 2, minlength=few.size)[few]
        runs = result.runs[:, few]
        own_df = (runs.sum(axis=0) - 2).astype(float)
        prior_df = np.where(own_df < _OWN_DF, NOISE_DF, 0.0)
        df = prior_df + own_df
        least = np.maximum(_LEAST_SPREAD, _LEAST_STEP / np.exp(result.mean[:, few].min(axis=0)))
        variance = np.maximum((prior_df * self._noise[few] ** 2 + squares) / df, least**2)
        se = np.sqrt(variance * (1 / runs).sum(axis=0))
        change = result.mean[1, few] - result.mean[0, few]
        bound = float(np.log1p(self._margin))
        p = significance.treat(change, se, df, bound)
        adjust = significance.benjamini_yekutieli if dependent else significance.benjamini_hochberg
        called = adjust(p) <= link_changes.FALSE_DISCOVERIES
        same = significance.equivalence(change, se, df, bound) <= link_changes.EQUIVALENCE
        up = (change > 0) != s.less[few]
        word = np.full(change.size, link_changes.UNKNOWN)
        word[same] = link_changes.SAME
        word[called] = np.where(up, link_changes.BETTER, link_changes.WORSE)[called]
        needed = link_changes.runs_needed(change, se, runs, np.full(change.size, bound))
        needed[word != link_changes.UNKNOWN] = 0
        result.change[few], result.se[few], result.df[few] = change, se, df
        result.p[few], result.word[few], result.runs_needed[few] = p, word, needed
        self._assumed[np.flatnonzero(few)[own_df < _OWN_DF]] = True

    def row(self, link: int, size: int | None, why: str) -> Row:
        r = self._result
        number = int(r.runs_needed[link])
        return Row(
            size,
            float(np.exp(r.mean[0, link])),
            float(np.exp(r.mean[1, link])),
            (int(r.runs[0, link]), int(r.runs[1, link])),
            _known(np.expm1(r.change[link])),
            _known(self._low[link]),
            _known(self._high[link]),
            _known(r.p[link]),
            "unknown" if why else WORDS[r.word[link]],
            None if number < 0 else number,
            bool(self._assumed[link]),
            _known(self._losses[link]),
            why,
        )

    @property
    def shift_numbers(self) -> list[int]:
        return sorted(self._shifts)

    def shift(self, number: int, condition: tuple[Any, ...]) -> dict[str, Any]:
        shift = self._shifts[number]
        tool, _, metric, words, size = condition
        of_size = "" if size is None else f" {format_size(size)}"
        return {
            "class": f"{tool}: " + ", ".join(filter(None, (f"{metric}{of_size}", words))),
            "places": shift.links,
            "verdict": WORDS[shift.word],
            "change": float(np.expm1(shift.change)),
            "interval": [float(end) for end in np.expm1(shift.interval())],
            "p": shift.p,
        }

    def shift_word(self, link: int) -> Word | None:
        shift = self._shifts.get(int(self._samples.of_class[link]))
        return WORDS[shift.word] if shift else None


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
