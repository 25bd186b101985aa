"""The tests of significance against scipy, published examples and numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, special, stats

from railgauge.verdict.comparison import significance
from railgauge.verdict.comparison.significance import Prior

#: The 15 p of Benjamini and Hochberg (1995), section 3.2.
NEUHAUS = np.array(
    [
        *(0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459),
        *(0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0000),
    ]
)


def one(*values: float) -> np.ndarray:
    return np.array(values, dtype=float)


def test_the_published_example_of_benjamini_and_hochberg_rejects_four() -> None:
    assert int((significance.benjamini_hochberg(NEUHAUS) <= 0.05).sum()) == 4


@pytest.mark.parametrize("method", ["bh", "by"])
def test_the_adjusted_p_are_those_of_scipy(method: str) -> None:
    p = np.random.default_rng(1).permutation(np.append(NEUHAUS, NEUHAUS[3:7] / 3))
    ours = {"bh": significance.benjamini_hochberg, "by": significance.benjamini_yekutieli}[method]
    expected = stats.false_discovery_control(p, method=method)  # type: ignore[arg-type]
    assert ours(p) == pytest.approx(expected)


@pytest.mark.parametrize("y", [1e-6, 0.01, 0.3, 1.0, 20.0, 1e5])
def test_the_inverse_of_trigamma_is_what_a_root_finder_has(y: float) -> None:
    def distance(x: float) -> float:
        return float(np.log(special.polygamma(1, np.exp(x)) / y))

    assert significance.trigamma_inverse(one(y))[0] == pytest.approx(
        np.exp(optimize.brentq(distance, -20, 20, xtol=1e-14)), rel=1e-6
    )


def test_the_prior_is_that_worked_out_from_two_variances() -> None:
    # df 2: e = log s² - digamma(1) + log 1 = log s² + 0.577216; its variance of log 1 and log 1000
    # is 6.907755²/2 = 23.8585, less trigamma(1) = 1.644934 leaves 22.21358.
    prior = significance.fit_prior(one(1.0, 1000.0), one(2.0, 2.0))
    half = prior.df / 2
    assert special.polygamma(1, half) == pytest.approx(22.21358, rel=1e-5)
    assert np.log(prior.variance) == pytest.approx(
        6.907755 / 2 + 0.577216 + special.digamma(half) - np.log(half), rel=1e-5
    )


def test_the_prior_of_simulated_variances_is_found() -> None:
    random = np.random.default_rng(2)
    true = 4e-4 * 6 / random.chisquare(6, 40_000)
    prior = significance.fit_prior(
        true * random.chisquare(4, true.size) / 4, np.full(true.size, 4.0)
    )
    assert prior.df == pytest.approx(6, rel=0.05) and prior.variance == pytest.approx(
        4e-4, rel=0.02
    )


def test_links_that_are_all_equal_share_one_variance() -> None:
    prior = significance.fit_prior(np.full(50, 2.0), np.full(50, 4.0))
    assert prior.df == np.inf
    variance, df = significance.moderate(one(1.0, 3.0), one(4.0, 4.0), Prior(np.inf, 2.0))
    assert (variance.tolist(), df.tolist()) == ([2.0, 2.0], [8.0, 8.0])


def test_a_variance_is_drawn_towards_the_prior_by_their_degrees_of_freedom() -> None:
    # (6 x 2 + 4 x 7) / 10 = 4, with 10 degrees of freedom.
    variance, df = significance.moderate(one(7.0, 2.0, 2.0), np.full(3, 4.0), Prior(6.0, 2.0))
    assert (variance[0], df[0]) == (4.0, 10.0)


def test_nothing_is_more_certain_than_the_last_digit() -> None:
    variance, _ = significance.moderate(one(0.0), one(4.0), Prior(0.0, 0.0))
    assert variance[0] == significance.LEAST_SD**2


def test_without_a_margin_treat_is_the_t_test_of_scipy() -> None:
    before, after = one(1.0, 1.2, 0.9, 1.1), one(1.6, 1.3, 1.5, 1.8)
    expected = stats.ttest_ind(after, before)
    variance = (before.var(ddof=1) + after.var(ddof=1)) / 2
    p = significance.treat(
        one(after.mean() - before.mean()), one(np.sqrt(variance / 2)), one(6.0), 0.0
    )
    assert p[0] == pytest.approx(expected.pvalue)


def test_treat_is_the_sum_of_both_tails_beyond_the_margin() -> None:
    p = significance.treat(one(-0.05), one(0.01), one(8.0), 0.02)
    assert p[0] == pytest.approx(stats.t.sf(3, 8) + stats.t.sf(7, 8))


def test_a_change_of_the_margin_itself_is_significant_by_chance_only() -> None:
    assert significance.treat(one(0.02), one(1e-4), one(8.0), 0.02)[0] == pytest.approx(0.5)


def test_without_degrees_of_freedom_there_is_no_p() -> None:
    assert np.isnan(significance.treat(one(0.02), one(1e-4), one(0.0), 0.02)[0])


def test_two_are_the_same_by_the_larger_of_two_one_sided_tests() -> None:
    # scipy's t test against either end of the margin, one-sided.
    before, after = one(1.0, 1.2, 0.9, 1.1), one(1.1, 1.3, 1.0, 1.1)
    low = stats.ttest_ind(after + 0.5, before, alternative="greater").pvalue
    high = stats.ttest_ind(after - 0.5, before, alternative="less").pvalue
    se = np.sqrt((before.var(ddof=1) + after.var(ddof=1)) / 4)
    p = significance.equivalence(one(after.mean() - before.mean()), one(se), one(6.0), 0.5)
    assert p[0] == pytest.approx(max(low, high))


def test_medians_and_means_of_groups() -> None:
    values, group = one(3, 1, 2, 8, 4), np.array([0, 0, 0, 2, 2])
    assert np.array_equal(significance.medians(values, group, 3), one(2, np.nan, 6), equal_nan=True)
    assert np.array_equal(significance.means(values, group, 3), one(2, np.nan, 6), equal_nan=True)


def test_the_median_absolute_deviation_is_that_of_scipy() -> None:
    values = np.random.default_rng(4).normal(0, 3, 200)
    assert significance.mad(values) == pytest.approx(
        stats.median_abs_deviation(values, scale="normal"), rel=1e-4
    )
