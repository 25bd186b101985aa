"""What changed at a place, with controlled error: pure functions on arrays.

A place under one condition is a *link* here. Its values are compared as logarithms, so that a
difference is a relative change: -0.083 is 8 % less. Places of one condition are a *class*: what all
of them share (a shift, noise of a run) is taken out, and their variances are learnt from each
other, which is what makes three runs enough.

Sources: G. K. Smyth, Linear models and empirical Bayes methods for assessing differential
expression in microarray experiments, Stat. Appl. Genet. Mol. Biol. 3 (2004) 3, of the moderated t;
D. J. McCarthy and G. K. Smyth, Testing significance relative to a fold-change threshold is a TREAT,
Bioinformatics 25 (2009) 765; Y. Benjamini and Y. Hochberg, J. R. Stat. Soc. B 57 (1995) 289;
Y. Benjamini and D. Yekutieli, Ann. Stat. 29 (2001) 1165; D. J. Schuirmann, J. Pharmacokinet.
Biopharm. 15 (1987) 657, of the two one-sided tests; B. Efron, Large-scale simultaneous hypothesis
testing: the choice of a null hypothesis, J. Am. Stat. Assoc. 99 (2004) 96.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import scipy
from numpy.typing import NDArray

from railgauge.common.spread import LEAST_SD, NORMAL

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


# --- variances -----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Prior:
    """What is known of a link's variance from the others of its class: a scaled inverse chi square
    of `df` degrees of freedom around `variance`. No links say anything: df 0; all alike: infinite.
    """

    df: float
    variance: float


def trigamma_inverse(y: Floats) -> Floats:
    """x > 0 with trigamma(x) = y > 0, by Newton's method on 1/trigamma (Smyth 2004, appendix)."""
    y = np.asarray(y, dtype=float)
    x = 0.5 + 1 / y
    for _ in range(50):
        value = scipy.special.polygamma(1, x)
        step = value * (1 - value / y) / scipy.special.polygamma(2, x)
        x = x + step
        if np.max(-step / x, initial=0.0) < 1e-10:
            break
    return x


def fit_prior(variance: Floats, df: Floats) -> Prior:
    """The prior of a class, by the moments of the logarithm of its variances (Smyth 2004, 6.2).

    With e = log s² - digamma(df/2) + log(df/2), trigamma(d0/2) is the variance of e less the mean
    trigamma(df/2), and log s0² the mean of e + digamma(d0/2) - log(d0/2).
    """
    usable = df > 0
    if not usable.any():
        return Prior(0.0, 0.0)
    # As in limma: a variance of next to 0 among others that are not is a matter of digits.
    s2 = np.maximum(variance[usable], 1e-5 * np.median(variance[usable]))
    half = df[usable] / 2
    e = np.log(np.maximum(s2, LEAST_SD**2)) - scipy.special.digamma(half) + np.log(half)
    if e.size < 2:
        return Prior(0.0, float(s2[0]))
    excess = float(np.var(e, ddof=1) - np.mean(scipy.special.polygamma(1, half)))
    mean = float(np.mean(e))
    if excess <= 0:
        return Prior(np.inf, float(np.exp(mean)))
    d0 = 2 * float(trigamma_inverse(np.array([excess]))[0])
    return Prior(d0, float(np.exp(mean + scipy.special.digamma(d0 / 2) - np.log(d0 / 2))))


def moderate(variance: Floats, df: Floats, prior: Prior) -> tuple[Floats, Floats]:
    """The variances drawn towards the prior, (d0 s0² + df s²) / (d0 + df), with their degrees of
    freedom: d0 + df, and never more than all links together have.
    """
    all_df = float(np.sum(df))
    if np.isinf(prior.df):
        moderated = np.full_like(variance, prior.variance)
    else:
        total = prior.df + df
        weighted = prior.df * prior.variance + df * variance
        moderated = np.divide(weighted, total, out=np.zeros_like(variance), where=total > 0)
    return np.maximum(moderated, LEAST_SD**2), np.minimum(prior.df + df, all_df)


# --- tests ---------------------------------------------------------------------------------------


def treat(delta: Floats, se: Floats, df: Floats, margin: float | Floats) -> Floats:
    """p of "the change is no larger than `margin`", both ways (McCarthy and Smyth 2009).

    P(T > (|delta| - margin)/se) + P(T > (|delta| + margin)/se), T of Student's t with `df`; without
    a margin that is the two-sided t test.
    """
    size = np.abs(delta)
    with np.errstate(divide="ignore", invalid="ignore"):
        near, far = (size - margin) / se, (size + margin) / se
    p = scipy.special.stdtr(df, -near) + scipy.special.stdtr(df, -far)
    bounded: Floats = np.where(df > 0, np.minimum(p, 1.0), np.nan)
    return bounded


def equivalence(delta: Floats, se: Floats, df: Floats, margin: float | Floats) -> Floats:
    """p of "the change is at least `margin`": the larger of two one-sided tests (Schuirmann)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        p = scipy.special.stdtr(df, -(margin - np.abs(delta)) / se)
    known: Floats = np.where(df > 0, p, np.nan)
    return known


def benjamini_hochberg(p: Floats) -> Floats:
    """Adjusted p: calling those at most q keeps the false discovery rate at q."""
    order = np.argsort(p)
    steps = p[order] * p.size / np.arange(1, p.size + 1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.minimum.accumulate(steps[::-1])[::-1], 1.0)
    return adjusted


def benjamini_yekutieli(p: Floats) -> Floats:
    """The same under any dependence of the tests, such as links that share switches."""
    harmonic = float(np.sum(1 / np.arange(1, p.size + 1)))
    adjusted: Floats = np.minimum(benjamini_hochberg(p) * harmonic, 1.0)
    return adjusted


# --- groups --------------------------------------------------------------------------------------


def medians(values: Floats, group: Ints, groups: int) -> Floats:
    """The median of each group; NaN of one without a value."""
    counts = np.bincount(group, minlength=groups)
    if groups and counts.min() == counts.max() > 0:
        # All are of one size: a row each. Small integers are sorted in linear time.
        small = group.astype(np.uint16) if groups <= np.iinfo(np.uint16).max else group
        rows = values[np.argsort(small, kind="stable")].reshape(groups, -1)
        return np.asarray(np.median(rows, axis=1), dtype=np.float64)
    order = np.lexsort((values, group))
    ordered = values[order]
    first = np.cumsum(counts) - counts
    result = np.full(groups, np.nan)
    there = counts > 0
    low = first[there] + (counts[there] - 1) // 2
    high = first[there] + counts[there] // 2
    result[there] = (ordered[low] + ordered[high]) / 2
    return result


def numbered(keys: Ints) -> tuple[Ints, Ints]:
    """The keys that there are, ascending, and each by its place among them."""
    if keys.size and int(keys.max()) > 8 * keys.size:
        known, number = np.unique(keys, return_inverse=True)
        return known, number
    # In linear time: the keys are numbers of something, and most of these are there.
    known = np.flatnonzero(np.bincount(keys))
    places = np.zeros(known.max(initial=0) + 1, dtype=np.int64)
    places[known] = np.arange(known.size)
    return known, places[keys]


def sums(values: Floats, group: Ints, groups: int) -> Floats:
    """The sum of each group; 0 of one without a value."""
    return np.asarray(np.bincount(group, weights=values, minlength=groups), dtype=np.float64)


def means(values: Floats, group: Ints, groups: int) -> Floats:
    """The mean of each group; NaN of one without a value."""
    counts = np.bincount(group, minlength=groups)
    averages: Floats = np.divide(
        sums(values, group, groups), counts, out=np.full(groups, np.nan), where=counts > 0
    )
    return averages


def mad(values: Floats) -> float:
    """The median absolute deviation from the median, as a normal's standard deviation."""
    return float(NORMAL * np.median(np.abs(values - np.median(values)))) if values.size else 0.0


Adjust = Callable[[Floats], Floats]
