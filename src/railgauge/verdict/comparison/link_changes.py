"""Before against after, link by link: what changed, what is the same, and what is not known.

Pure, on arrays; `significance.py` has the tests and their sources. Of each class of links:

1. What a run has in common (a warm afternoon) and what all links have in common (the shift of an
   update) are medians over the links; both are taken out, and the shift is a finding of its own.
2. The variances within the links are moderated by those of their class. With one run a side there
   are none: then the spread between the links is the variance, with the tails that it has.
3. Where the links differ more from before to after than their runs do among themselves (drift,
   cables that were moved), their errors are widened to that (Efron's empirical null).
4. A link is better or worse where its change besides the shift is larger than the margin, at the
   false discovery rate of its family; the same where it is surely smaller; else it is not known.
5. What is called better or worse must not be what exchanging runs between the sides makes of links
   that jump between two rates.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import scipy

from railgauge.common.spread import LEAST_SD, NORMAL
from railgauge.verdict.comparison import significance
from railgauge.verdict.comparison.significance import Bools, Floats, Ints

Word = Literal["better", "same", "worse", "unknown"]

#: The words as numbers of `Contrast.word`.
WORDS: tuple[Word, ...] = ("unknown", "same", "better", "worse")
UNKNOWN, SAME, BETTER, WORSE = range(4)

#: Of fewer links it is not known what they have in common: none is taken out.
LEAST_LINKS = 4

#: From so many links on their spread is known well enough to widen errors by it.
LEAST_FOR_NULL = 20

#: The smallest change that matters, as a share.
MARGIN = 0.02

#: The share of false ones among those that are called better or worse.
FALSE_DISCOVERIES = 0.01

#: The error of each of the two tests by which a link is the same.
EQUIVALENCE = 0.05

#: Of the interval that is shown.
CONFIDENCE = 0.95

#: So many links of a class may come to a p by chance, and it still counts.
ALLOWED = 0.1

#: By so many exchanges of runs that is tried.
MOST_EXCHANGES = 20

#: With one run a side the tails of the spread are looked at here.
TAIL = 0.01

#: More runs than these are never advised.
MOST_RUNS = 1000


def overall(words: Sequence[Word]) -> Word:
    """The one word that counts among several."""
    order: tuple[Word, ...] = ("worse", "unknown", "better", "same")
    return next((word for word in order if word in words), "unknown")


@dataclasses.dataclass(frozen=True)
class Samples:
    """Values above 0 of links in runs, one a link and run.

    `log`, `link`, `run` are one a value; `after` one a run; `of_class`, `family` and `less` (less
    is better) one a link.
    """

    log: Floats
    link: Ints
    run: Ints
    after: Bools
    of_class: Ints
    family: Ints
    less: Bools


@dataclasses.dataclass(frozen=True)
class Shift:
    """What the links of a class have in common, as a difference of logarithms."""

    of_class: int
    links: int
    change: float
    se: float
    df: float
    p: float
    word: int

    def interval(self) -> tuple[float, float]:
        half = float(scipy.special.stdtrit(self.df, (1 + CONFIDENCE) / 2)) * self.se
        return self.change - half, self.change + half


@dataclasses.dataclass(frozen=True)
class Contrast:
    """Of each link: runs and mean logarithm on both sides (NaN where there is none), the change
    besides its class's shift, its standard error, degrees of freedom, p against the margin, the
    word, and how many more runs a side are needed (-1: none suffice, 0: it is known).
    """

    runs: Ints
    mean: Floats
    change: Floats
    se: Floats
    df: Floats
    p: Floats
    word: Ints
    runs_needed: Ints
    shifts: tuple[Shift, ...]

    @property
    def compared(self) -> Bools:
        return np.isfinite(self.change)

    def interval(self) -> Floats:
        """Of the change, 2 by links."""
        half = scipy.special.stdtrit(self.df, (1 + CONFIDENCE) / 2) * self.se
        return np.stack([self.change - half, self.change + half])


def contrast(
    samples: Samples,
    margin: float | Floats = MARGIN,
    level: float = FALSE_DISCOVERIES,
    dependent: bool = False,
) -> Contrast:
    """Every link after against before. `margin` is a share, of all links or one a link (those of a
    class have the same); `dependent` keeps the rate also where links share switches
    (Benjamini-Yekutieli).
    """
    links = samples.of_class.size
    empty = np.full(links, np.nan)
    result = Contrast(
        runs=np.zeros((2, links), dtype=np.int64),
        mean=np.full((2, links), np.nan),
        change=empty.copy(),
        se=empty.copy(),
        df=empty.copy(),
        p=empty.copy(),
        word=np.zeros(links, dtype=np.int64),
        runs_needed=np.full(links, -1, dtype=np.int64),
        shifts=(),
    )
    # As a difference of logarithms, the same both ways.
    bounds = np.broadcast_to(np.log1p(margin), links)
    by_class = np.argsort(samples.of_class[samples.link], kind="stable")
    ends = np.searchsorted(
        samples.of_class[samples.link][by_class], np.arange(samples.of_class.max(initial=-1) + 2)
    )
    adjust = significance.benjamini_yekutieli if dependent else significance.benjamini_hochberg
    classes, shifts = [], []
    for number, (begin, end) in enumerate(itertools.pairwise(ends)):
        if begin == end:
            continue
        of, known, after = _of_class(samples, by_class[begin:end])
        bound = float(bounds[known[0]])
        changes = of.changes(after, bound)
        classes.append((of, known, after))
        result.runs[:, known], result.mean[:, known] = changes.runs, changes.mean
        compared = known[changes.both]
        result.change[compared], result.se[compared] = changes.own, changes.se
        result.df[compared], result.p[compared] = changes.df, changes.p
        if changes.own.size >= LEAST_LINKS:
            shifts.append(_shift(number, of, changes, after, bound))
    flagged = _flagged(samples, result, level, adjust)
    for of, known, after in classes:
        if flagged[known].any():
            bound = float(bounds[known[0]])
            flagged[known] &= ~_doubtful(of, after, result.p[known], bound, level)
    _judge(samples, result, flagged, bounds)
    return dataclasses.replace(result, shifts=_judged(shifts, samples, bounds, level, adjust))


@dataclasses.dataclass(frozen=True)
class _Class:
    """The values of one class, with its links and runs numbered from 0."""

    log: Floats
    link: Ints
    run: Ints
    links: int
    runs: int

    def changes(self, after: Bools, margin: float) -> _Changes:
        """As if the runs were before and after as `after` says of each."""
        many = self.links
        cell = after[self.run].astype(np.int64) * many + self.link
        log, effects = _without_effects_of_runs(self.log, self.run, cell, self.runs, many)
        mean = significance.means(log, cell, 2 * many).reshape(2, many)
        counts = np.bincount(cell, minlength=2 * many).reshape(2, many)
        both: Bools = np.all(counts > 0, axis=0)
        change = (mean[1] - mean[0])[both]
        shift = float(np.median(change)) if change.size >= LEAST_LINKS else 0.0
        residual = log - mean.reshape(-1)[cell]
        squares = significance.sums(residual**2, self.link, many)[both]
        within = (counts[:, both].sum(axis=0) - 2).astype(np.float64)
        se, df = _errors(change - shift, squares, within, counts[:, both])
        p = significance.treat(change - shift, se, df, margin)
        return _Changes(counts, mean, both, shift, effects, change - shift, se, df, p)


@dataclasses.dataclass(frozen=True)
class _Changes:
    """`runs` and `mean` are 2 by links, `both` says which links have both sides; `own` (the change
    besides the shift), `se`, `df` and `p` are of these alone. `effects` are one a run.
    """

    runs: Ints
    mean: Floats
    both: Bools
    shift: float
    effects: Floats
    own: Floats
    se: Floats
    df: Floats
    p: Floats


def _of_class(samples: Samples, chosen: Ints) -> tuple[_Class, Ints, Bools]:
    """A class's values, the numbers of its links, and which of its runs are after."""
    known, link = significance.numbered(samples.link[chosen])
    runs, run = significance.numbered(samples.run[chosen])
    of = _Class(samples.log[chosen], link, run, known.size, runs.size)
    return of, known, samples.after[runs]


def _by_chance(of: _Class, after: Bools, p: Floats, margin: float) -> Floats:
    """How many links would come to at most each `p` (ascending) if the runs were before or after
    by chance: the mean over exchanges of runs of both sides.

    Links that jump between two rates, as ECMP makes them, come to any p sooner or later; so they
    do when runs are exchanged, which no formula needs to know.
    """
    count, exchanges = np.zeros(p.size), _exchanges(after)
    for exchanged in exchanges:
        count += np.searchsorted(np.sort(of.changes(exchanged, margin).p), p, side="right")
    return count / max(len(exchanges), 1)


def _exchanges(after: Bools) -> list[Bools]:
    """Other ways to call as many runs after, without the one that only swaps the sides."""
    many, chosen = after.size, int(after.sum())
    this = tuple(np.flatnonzero(after))
    swapped = tuple(np.flatnonzero(~after))
    if math.comb(many, chosen) <= 4 * MOST_EXCHANGES:
        ways = list(itertools.combinations(range(many), chosen))
        # A way and its swap are one.
        ways = [w for w in ways if w not in (this, swapped)]
        if 2 * chosen == many:
            ways = [w for w in ways if w[0] == 0]
        step = max(1, -(-len(ways) // MOST_EXCHANGES))
        ways = ways[::step]
    else:
        random = np.random.default_rng(0)
        ways = [tuple(random.permutation(many)[:chosen]) for _ in range(MOST_EXCHANGES)]
    exchanges = []
    for way in ways:
        exchanged = np.zeros(many, dtype=bool)
        exchanged[list(way)] = True
        exchanges.append(exchanged)
    return exchanges


def _without_effects_of_runs(
    log: Floats, run: Ints, cell: Ints, runs: int, links: int
) -> tuple[Floats, Floats]:
    """The values without what the links of a run have in common, and that of each run; NaN of a
    run with no other on its side, or that has few links.
    """
    residual = log - significance.means(log, cell, 2 * links)[cell]
    # A link with one run on its side says nothing of that run.
    telling = np.bincount(cell, minlength=2 * links)[cell] > 1
    effects = significance.medians(residual[telling], run[telling], runs)
    effects[np.bincount(run[telling], minlength=runs) < LEAST_LINKS] = np.nan
    return log - np.nan_to_num(effects)[run], effects


def _errors(own: Floats, squares: Floats, df: Floats, runs: Ints) -> tuple[Floats, Floats]:
    """Standard errors of the changes of a class, and their degrees of freedom; 0 where nothing is
    known. `squares` are the sums of squares within the links, `runs` 2 by links.
    """
    if not (df > 0).any():
        if own.size < LEAST_LINKS:
            return np.full(own.size, np.nan), np.zeros(own.size)
        scale, tails = _spread(own, LEAST_SD)
        return np.full(own.size, scale), np.full(own.size, tails)
    variance = np.divide(squares, df, out=np.zeros_like(squares), where=df > 0)
    moderated, total = significance.moderate(variance, df, significance.fit_prior(variance, df))
    se = np.sqrt(moderated * (1 / runs).sum(axis=0))
    if own.size >= LEAST_FOR_NULL:
        if np.median(runs.min(axis=0)) < 2:
            # A side of one run cannot show that it jumps: only the links among themselves can.
            scale, tails = _spread(own / se, 1.0)
            return se * max(1.0, scale), np.minimum(total, tails)
        probability = np.clip(scipy.special.stdtr(total, own / se), 1e-15, 1 - 1e-15)
        se = se * max(1.0, significance.mad(scipy.special.ndtri(probability)))
    return se, total


def _spread(values: Floats, least: float) -> tuple[float, float]:
    """Student's t that values around their median have: its scale, at least `least`, and its
    degrees of freedom, by the quantiles at a quarter and at TAIL; of few values no tail is known.

    Faults are few and on one side, so the tail is the lighter one of the two.
    """
    quarter = max(significance.mad(values), least) / NORMAL
    if values.size < LEAST_FOR_NULL:
        return quarter * NORMAL, values.size - 1.0
    tail = max(TAIL, 2 / values.size)
    middle, low, high = np.quantile(values, [0.5, tail, 1 - tail])
    ratio = min(middle - low, high - middle) / quarter
    choices = np.append(np.geomspace(0.5, 100, 200), np.inf)
    ratios = scipy.special.stdtrit(choices, 1 - tail) / scipy.special.stdtrit(choices, 0.75)
    df = min(float(choices[np.argmin(np.abs(ratios - ratio))]), values.size - 1.0)
    return quarter / float(scipy.special.stdtrit(df, 0.75)), df


def _shift_of_runs(of: _Class, after: Bools) -> float:
    """The shift by what the links have in common in each run, besides their own medians."""
    own = significance.medians(of.log, of.link, of.links)
    effects = significance.medians(of.log - own[of.link], of.run, of.runs)
    return float(effects[after].mean() - effects[~after].mean())


def _shift(number: int, of: _Class, changes: _Changes, after: Bools, margin: float) -> Shift:
    """The shift of a class with its error: by how much its runs differ, and its links."""
    # The median of n normal values has pi/2 times the variance of their mean.
    variance = np.pi / 2 * significance.mad(changes.own) ** 2 / changes.own.size
    df = changes.own.size - 1.0
    sides = [changes.effects[side & np.isfinite(changes.effects)] for side in (~after, after)]
    freedom = sum(max(side.size - 1, 0) for side in sides)
    if freedom > 0:
        squares = sum(float(np.sum((side - side.mean()) ** 2)) for side in sides if side.size)
        of_runs = squares / freedom * (1 / (~after).sum() + 1 / after.sum())
        if of_runs > 0:
            # Welch and Satterthwaite, of both parts.
            df = (variance + of_runs) ** 2 / (variance**2 / df + of_runs**2 / freedom)
        variance += of_runs
    # Where links jump, the mean of many runs is no measure of a single one: a second estimate.
    variance += (changes.shift - _shift_of_runs(of, after)) ** 2
    se = float(np.sqrt(max(variance, LEAST_SD**2 / changes.own.size)))
    p = significance.treat(np.array([changes.shift]), np.array([se]), np.array([df]), margin)
    return Shift(number, changes.own.size, changes.shift, se, df, float(p[0]), UNKNOWN)


def _flagged(
    samples: Samples, result: Contrast, level: float, adjust: significance.Adjust
) -> Bools:
    """The links with a change larger than the margin, at the false discovery rate."""
    tested = np.flatnonzero(np.isfinite(result.p))
    adjusted = np.ones(result.p.size)
    for family in np.unique(samples.family[tested]):
        members = tested[samples.family[tested] == family]
        adjusted[members] = adjust(result.p[members])
    flagged: Bools = adjusted <= level
    return flagged


def _doubtful(of: _Class, after: Bools, p: Floats, margin: float, level: float) -> Bools:
    """The links with a p that as many others reach by chance: more than `level` of those that are
    called, and more than ALLOWED.
    """
    ordered = np.sort(p[np.isfinite(p)])
    chance = _by_chance(of, after, ordered, margin)
    at = np.searchsorted(ordered, np.where(np.isfinite(p), p, np.inf), side="right")
    expected = np.concatenate([[0.0], chance])[at]
    doubtful: Bools = expected > np.maximum(ALLOWED, level * at)
    return doubtful


def _judge(samples: Samples, result: Contrast, flagged: Bools, margin: Floats) -> None:
    with np.errstate(invalid="ignore"):
        alike = significance.equivalence(result.change, result.se, result.df, margin) <= EQUIVALENCE
        up = (result.change > 0) != samples.less
    result.word[alike] = SAME
    result.word[flagged] = np.where(up, BETTER, WORSE)[flagged]
    result.runs_needed[result.word != UNKNOWN] = 0
    unknown = (result.word == UNKNOWN) & np.isfinite(result.p)
    result.runs_needed[unknown] = runs_needed(
        result.change[unknown], result.se[unknown], result.runs[:, unknown], margin[unknown]
    )


def runs_needed(change: Floats, se: Floats, runs: Ints, margin: Floats) -> Ints:
    """How many more runs a side are needed, if the change stays as it is; -1 where more than
    MOST_RUNS would.

    The two-sided error of EQUIVALENCE must come below the distance to the margin; the error goes
    with the square root of 1/n + 1/n' runs.
    """
    distance = np.abs(np.abs(change) - margin)
    z = float(scipy.special.ndtri(1 - EQUIVALENCE))
    with np.errstate(divide="ignore"):
        wanted = (distance / (z * se)) ** 2 * (1 / runs).sum(axis=0)
    low, high = np.zeros(change.size, dtype=np.int64), np.full(change.size, MOST_RUNS)
    for _ in range(int(np.log2(MOST_RUNS)) + 2):
        middle = (low + high) // 2
        enough = (1 / (runs + middle)).sum(axis=0) <= wanted
        high = np.where(enough, middle, high)
        low = np.where(enough, low, np.minimum(middle + 1, high))
    enough = (1 / (runs + high)).sum(axis=0) <= wanted
    return np.where(enough, np.maximum(high, 1), -1)


def _judged(
    shifts: list[Shift],
    samples: Samples,
    margin: Floats,
    level: float,
    adjust: significance.Adjust,
) -> tuple[Shift, ...]:
    """The shifts with their words: the classes are one family."""
    if not shifts:
        return ()
    less = np.zeros(samples.of_class.max() + 1, dtype=bool)
    less[samples.of_class] = samples.less
    margins = np.zeros(less.size)
    margins[samples.of_class] = margin
    adjusted = adjust(np.array([shift.p for shift in shifts]))
    judged = []
    for shift, p in zip(shifts, adjusted, strict=True):
        change, se, df = (np.array([x]) for x in (shift.change, shift.se, shift.df))
        word = UNKNOWN
        if p <= level:
            word = BETTER if (shift.change > 0) != less[shift.of_class] else WORSE
        elif (
            float(significance.equivalence(change, se, df, margins[shift.of_class])[0])
            <= EQUIVALENCE
        ):
            word = SAME
        judged.append(dataclasses.replace(shift, word=word))
    return tuple(judged)
