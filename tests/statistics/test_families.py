"""Each family against its own derivatives, and the one place that knows its name."""

import ast
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import digamma, expit, ndtri

from tfglm.config import ModelConfig, NetworkConfig
from tfglm.config.families import DISPERSION_ESTIMATED, LINKS, POSITIVE_PREDICTOR
from tfglm.families import FAMILIES, Family, family_of
from tfglm.families import LINKS as LINKS_THERE_ARE

PACKAGE = Path(__file__).parents[2] / "scripts" / "tfglm"
ETA = np.array([-30.0, -4.0, -0.7, 0.0, 0.3, 2.0, 9.0])
FORMULAS = {
    "identity": lambda mean: mean,
    "logit": lambda mean: np.log(mean / (1 - mean)),
    "log": np.log,
    "probit": ndtri,
    "cloglog": lambda mean: np.log(-np.log(1 - mean)),
    "inverse": lambda mean: 1 / mean,
    "1/mu^2": lambda mean: mean**-2,
}

REGRESSIONS = {
    f"{name} {link}": family_of(name, link)
    for name, links in LINKS_THERE_ARE.items()
    for link in links
    if not FAMILIES[name].of_classes
}
REGRESSIONS["negative_binomial theta"] = family_of("negative_binomial", theta=1.3)
REGRESSIONS["truncated_negative_binomial theta"] = family_of("truncated_negative_binomial", theta=1.3)
REGRESSIONS["beta theta"] = family_of("beta", theta=1.3)
REGRESSIONS["tweedie power"] = family_of("tweedie", power=1.3)
each_family = pytest.mark.parametrize("family", REGRESSIONS.values(), ids=list(REGRESSIONS))


def with_means(family: Family, eta: np.ndarray = ETA) -> np.ndarray:
    """Those of some linear predictors that have a mean, not so far off that numerical derivatives have no digits."""
    return (
        np.abs(eta) + 0.1 if family.positive_predictor else np.clip(eta, -4.5, 3.5 if not family.canonical else np.inf)
    )


def test_the_config_has_the_families_there_are():
    networks = get_args(NetworkConfig.model_fields["family"].annotation)
    assert set(networks) == {name for name, family in FAMILIES.items() if family.in_networks}
    models = get_args(ModelConfig.model_fields["family"].annotation)
    assert set(models) == set(FAMILIES)
    assert {name: tuple(links) for name, links in LINKS_THERE_ARE.items()} == LINKS
    estimated = {name for name, family in FAMILIES.items() if not family.dispersion_known}
    assert set(DISPERSION_ESTIMATED) == estimated
    positive = {link for name, links in LINKS.items() for link in links if family_of(name, link).positive_predictor}
    assert set(POSITIVE_PREDICTOR) == positive


@pytest.mark.slow
def test_no_other_code_decides_by_the_name_of_a_family():
    for path in PACKAGE.rglob("*.py"):
        if path.parent.name != "families" and "config" not in path.relative_to(PACKAGE).parts[0]:
            texts = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
            assert not texts & set(FAMILIES), path.name


def expected_response(family: Family, eta: np.ndarray) -> np.ndarray:
    """The response at which the observed information is the expected one, as the loss is linear in it, or in its logit."""
    mean = family.mean(eta)
    is_beta = family.name == "beta" and family.theta
    return expit(digamma(family.theta * mean) - digamma(family.theta * (1 - mean))) if is_beta else mean


@each_family
@pytest.mark.parametrize("y", [0.3, 0.99])
def test_score_and_information_are_the_derivatives_of_the_loss(family, y):
    eta, h = with_means(family, ETA[1:]), 1e-5
    y = np.full(len(eta), y)
    score = (family.loss(eta + h, y) - family.loss(eta - h, y)) / (2 * h)
    ours = family.terms(eta, y, np.ones(len(eta)), True)
    np.testing.assert_allclose(score, ours.score, rtol=1e-5, atol=1e-7)
    up, down = (family.terms(eta + sign * h, y, np.ones(len(eta)), True).score for sign in (1, -1))
    np.testing.assert_allclose((up - down) / (2 * h), family.observed(eta, y), rtol=1e-5, atol=1e-7)
    mean, some = family.mean(eta), eta < (1.0 if family.name == "beta" else np.inf)  # others are too near 1
    expected = family.observed(eta[some], expected_response(family, eta[some]))
    np.testing.assert_allclose(family.information(eta, mean)[some], expected, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(family.information(eta, mean), ours.weight, rtol=1e-8, atol=1e-12)
    assert family.canonical == np.allclose(family.observed(eta, y), ours.weight, rtol=1e-9)


@each_family
def test_slope_and_curvature_are_the_derivatives_of_the_mean(family):
    eta, h = with_means(family, ETA[1:]), 1e-5
    mean, up, down = (family.mean(eta + shift) for shift in (0, h, -h))
    np.testing.assert_allclose((up - down) / (2 * h), family.slope(eta, mean), rtol=1e-5, atol=1e-9)
    slopes = family.slope(eta + h, up) - family.slope(eta - h, down)
    np.testing.assert_allclose(slopes / (2 * h), family.curvature(eta, mean), rtol=1e-5, atol=1e-9)
    lower, upper = family.interval(eta - 0.01, eta + 0.01)
    assert np.all((lower <= mean) & (mean <= upper))


@each_family
@pytest.mark.parametrize("rows", [1, 15, 16, 700])
@pytest.mark.parametrize("unit", [True, False])
def test_terms_are_those_of_each_row(family, rows, unit):
    random = np.random.default_rng(3)
    eta, y = with_means(family, random.normal(0, 3, rows)), random.integers(0, 2, rows) + 0.5 * (family.smallest == 0)
    y = np.clip(y, 0.1, 0.9) if family.name == "beta" else np.minimum(y, family.largest)
    weight = (random.random(rows) < 0.8) * (1.0 if unit else random.uniform(0.5, 3, rows))
    terms = family.terms(eta, y, weight, unit)
    by_row = Family.terms(family, eta, y, weight, unit) if family.canonical and family.in_networks else terms
    assert terms.loss == pytest.approx(np.sum(weight * family.loss(eta, y)), rel=1e-12, abs=1e-12)
    for got, expected in zip(terms, by_row, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12)
    assert not terms.score[weight == 0].any()
    assert not terms.weight[weight == 0].any()


@each_family
def test_the_link_leads_back_to_the_linear_predictor_and_has_its_name(family):
    eta = 0.4
    mean = float(family.mean(np.array([eta]))[0])
    assert family.link(mean) == pytest.approx(eta, rel=1e-12)
    untruncated = family.smallest != 1
    assert family.link(mean) == pytest.approx(FORMULAS[family.link_name](mean), rel=1e-12) or not untruncated


@each_family
def test_the_saturated_loss_is_that_of_the_response_as_its_own_mean(family):
    if family.name == "beta" and family.theta:
        best = minimize_scalar(lambda eta: family.loss(np.array(eta), np.array(0.9)), (0.0, 1.0), tol=1e-12).fun
        assert family.saturated(np.array([0.9])) == pytest.approx(best, rel=1e-12)
        return
    y = np.array([0.2, 0.5, 0.9]) + max(family.smallest, 0.0)
    eta = np.array([family.link(value) for value in y])
    np.testing.assert_allclose(family.saturated(y), family.loss(eta, y), rtol=1e-12, atol=1e-15)
    assert np.all(family.saturated(y) <= family.loss(eta + 0.1, y))
    assert (
        family.loss(np.array([eta[0]]), np.array([0.4]))  # linear in the response
        == pytest.approx(
            2 * family.loss(np.array([eta[0]]), np.array([0.3])) - family.loss(np.array([eta[0]]), np.array([0.2]))
        )
        or family.metrics == "means"
    )


@each_family
def test_groups_at_an_end_of_the_range_have_no_finite_estimate(family):
    weight = np.array([4.0, 4.0, 4.0])
    expected = [
        bool(family.in_range(np.array(0.0))) and family.smallest == 0.0,
        False,
        1.0 in (family.smallest, family.largest),
    ]
    assert np.broadcast_to(family.at_an_end(np.array([0.0, 3.0, 4.0]), weight), 3).tolist() == expected
