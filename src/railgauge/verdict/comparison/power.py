"""What a comparison finds: the smallest loss named with a certainty.

Pure. A link is named where its p against the margin is at
most alpha. Of an error `se` with `df` degrees of freedom, a loss d beyond the margin m (as
logarithms) is named with the probability P(T > t - (d - m)/se), T of Student's t and t its quantile
at 1 - alpha. That this holds for a given link of a class is what the moderated variances are made
for (Smyth 2004, 3).
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import scipy

from railgauge.common.spread import LEAST_SD
from railgauge.verdict.comparison.link_changes import (
    FALSE_DISCOVERIES,
    LEAST_FOR_NULL,
    LEAST_LINKS,
    MARGIN,
    Contrast,
    Samples,
)
from railgauge.verdict.comparison.significance import Floats, trigamma_inverse
from railgauge.verdict.comparison.smallest_loss import (
    MOST,
    POWER,
    least,
    of_each,
    share,
)

#: How many links of a class are looked at.
_LINKS = 200


def chance_of_finding(
    loss: float | Floats, se: Floats, df: Floats, alpha: float, margin: float
) -> Floats:
    """With which probability each link is named that has this loss; all are logarithms.

    `alpha` is of both sides together where there is no margin, as in treat.
    """
    critical = _critical(df, alpha, margin)
    chance: Floats = scipy.special.stdtr(df, (loss - margin) / se - critical)
    return chance


def _critical(df: Floats, alpha: float, margin: float) -> Floats:
    """The quantile of Student's t above which a link is named."""
    tail = alpha if margin > 0 else alpha / 2
    quantile: Floats = scipy.special.stdtrit(df, 1 - tail)
    return quantile


def smallest_loss(
    se: Floats, df: Floats, alpha: float, margin: float = MARGIN, power: float = POWER
) -> float | None:
    """The least loss, as a share, that is found with that power on a link of these, whichever it
    is; None where no loss is. `margin` is a share.
    """
    usable = (df > 0) & np.isfinite(se)
    if not usable.any():
        return None
    order = np.argsort(se[usable])
    # Of many links so many do, evenly among their errors.
    chosen = order[np.unique(np.linspace(0, order.size - 1, _LINKS).astype(np.int64))]
    se, df = np.maximum(se[usable][chosen], LEAST_SD), df[usable][chosen]
    log_margin = float(np.log1p(margin))

    def mean_chance(loss: float) -> float:
        return float(np.mean(chance_of_finding(loss, se, df, alpha, log_margin)))

    loss = least(mean_chance, power, log_margin)
    return None if loss is None else share(loss)


def smallest_losses(se: Floats, df: Floats, alpha: float, margin: float = MARGIN) -> Floats:
    """`smallest_loss` with POWER of each link for itself, all at once; nan where no loss is."""
    usable = (df > 0) & np.isfinite(se)
    error, freedom = np.maximum(se[usable], LEAST_SD), df[usable]
    # chance_of_finding(loss) is POWER where the loss is as many errors beyond the margin as both
    # quantiles together.
    beyond = _critical(freedom, alpha, margin) + scipy.special.stdtrit(freedom, POWER)
    found = np.log1p(margin) + error * beyond
    losses = np.full(se.shape, np.nan)
    losses[usable] = np.where(found <= MOST, -np.expm1(-found), np.nan)
    return losses


@dataclasses.dataclass(frozen=True)
class Power:
    """The smallest losses, as shares, that are found with POWER: on one link, on all links of one
    node, on all links of a class. None where none would be.
    """

    link: float | None
    node: float | None
    all: float | None

    def as_dict(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "power": POWER}


def _error(se: float, own: int, links: int) -> tuple[Floats, Floats]:
    """A link's error and its degrees of freedom (`own` of its own), where the noise is the same
    everywhere; with what the estimates cost.

    The prior and the widening of the errors are estimates from the links, and either can be one
    standard deviation of its own on the bad side: the variance of n logarithms of variances (about
    trigamma(own/2) sqrt(3/n)) makes the prior finite, and a median absolute deviation of n values
    is off by 1.17/sqrt(n).
    """
    if own == 0:
        return np.array([se]), np.array([float(links - 1 if links >= LEAST_LINKS else 0)])
    excess = float(scipy.special.polygamma(1, own / 2)) * math.sqrt(3 / links)
    prior = 2 * float(trigamma_inverse(np.array([excess]))[0])
    wider = 1 + 1.17 / math.sqrt(links) if links >= LEAST_FOR_NULL else 1.0
    return np.array([se * wider]), np.array([min(prior + own, links * own)])


def planned(
    noise: float,
    runs: int,
    baseline: int,
    links: int,
    of_node: int = 2,
    conditions: int = 1,
    margin: float = MARGIN,
    level: float = FALSE_DISCOVERIES,
) -> Power:
    """Of `links` links of one condition with the same noise of a run (a share), so many runs
    against so many of a baseline; a node has `of_node` of the links, and a family so many
    conditions.

    Of one bad place among many, Benjamini-Hochberg calls a p of at most level / places.
    """
    alpha = level / (links * conditions)
    own = runs + baseline - 2
    se, freedom = _error(noise * math.sqrt(1 / runs + 1 / baseline), own, links)
    # The median of n normal values has pi/2 times the variance of their mean.
    shift = se * np.sqrt(np.pi / 2 / links)
    return Power(
        smallest_loss(se, freedom, alpha, margin),
        smallest_loss(se, freedom, alpha, margin, of_each(of_node)),
        smallest_loss(shift, freedom, level, margin) if links >= LEAST_LINKS else None,
    )


def of_links(
    result: Contrast, samples: Samples, number: int, margin: float, level: float
) -> float | None:
    """The smallest loss that a comparison would have found on one link of a class, whichever it is,
    if all others are well.
    """
    of_class = np.flatnonzero((samples.of_class == number) & result.compared)
    if not of_class.size:
        return None
    family = samples.family[of_class[0]]
    tested = int(((samples.family == family) & np.isfinite(result.p)).sum())
    return smallest_loss(result.se[of_class], result.df[of_class], level / max(tested, 1), margin)
