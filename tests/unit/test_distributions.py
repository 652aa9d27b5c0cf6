"""The tails that tests refer to, against scipy.stats."""

import itertools

import numpy as np
import pytest
import scipy.stats

from tfglm.inference import distributions

VALUES = np.array([0.0, 5e-324, 1e-8, 0.3, 1.0, 1.96, 12.5, 37.6, 400.0, 1e5, 1e150, np.inf, np.nan])
DF = np.array([0.0, 0.5, 1.0, 2.0, 3.7, 8.0, 29.5, 1000.0, 317_000.0, 1e12, np.nan])


@pytest.mark.parametrize(
    ("tail", "reference", "dfs"),
    [
        (distributions.t, scipy.stats.t, [(df,) for df in (*DF, np.inf)]),
        (distributions.f, scipy.stats.f, list(itertools.product(DF, DF))),
        (distributions.chi_squared, scipy.stats.chi2, [(df,) for df in DF]),
    ],
)
def test_tails_are_those_of_scipy_to_the_last_digit(tail, reference, dfs):
    for df in dfs:
        shapes = [np.full(len(VALUES), each) for each in df]
        probability, logarithm = tail(VALUES, *shapes)
        np.testing.assert_array_equal(probability, reference.sf(VALUES, *shapes), strict=True)
        np.testing.assert_array_equal(logarithm, reference.logsf(VALUES, *shapes), strict=True)


def test_quantiles_and_the_normal_tail_are_those_of_scipy_to_the_last_digit():
    for probability in (0.5, 0.75, 0.975, 0.9995, 1 - 1e-12):
        expected = scipy.stats.t.ppf(probability, np.append(DF, np.inf))
        np.testing.assert_array_equal(distributions.t_quantile(probability, np.append(DF, np.inf)), expected)
    np.testing.assert_array_equal(distributions.log_normal_tail(VALUES), scipy.stats.norm.logsf(VALUES))


def test_tails_of_sums_of_many_variables_keep_their_digits():
    """Also where one variable has most of the variance, against an integral over it by mpmath."""
    for k, value in ((1, 9.0), (30, 200.0), (300, 1200.0), (3000, 4500.0)):
        tail = distributions.chi_squared_sum(value, np.ones(k))
        assert tail.logarithm == pytest.approx(scipy.stats.chi2.logsf(value, k), rel=1e-12)
    tail = distributions.chi_squared_sum(900.0, np.append(1.0, np.full(312, 0.77)))
    assert tail.logarithm == pytest.approx(-225.380056311265, rel=1e-11)
