"""Each family against its own derivatives, and the one place that knows its name."""

import ast
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from tfglm.config import ModelConfig, NetworkConfig
from tfglm.families import FAMILIES, Family

PACKAGE = Path(__file__).parents[2] / "scripts" / "tfglm"
ETA = np.array([-30.0, -4.0, -0.7, 0.0, 0.3, 2.0, 9.0])
LINKS = {"identity": lambda mean: mean, "logit": lambda mean: np.log(mean / (1 - mean)), "log": np.log}

REGRESSIONS = {name: family for name, family in FAMILIES.items() if not family.of_classes}
each_family = pytest.mark.parametrize("family", REGRESSIONS.values(), ids=list(REGRESSIONS))


def test_the_config_has_the_families_there_are():
    assert set(get_args(NetworkConfig.model_fields["family"].annotation)) == set(FAMILIES)
    assert set(get_args(ModelConfig.model_fields["family"].annotation)) == set(REGRESSIONS)


def test_no_other_code_decides_by_the_name_of_a_family():
    for path in PACKAGE.rglob("*.py"):
        if path.parent.name != "families" and "config" not in path.relative_to(PACKAGE).parts[0]:
            texts = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
            assert not texts & set(FAMILIES), path.name


@each_family
def test_mean_and_variance_are_the_derivatives_of_the_loss(family):
    y, eta, h = np.full(6, 1.0), ETA[1:], 1e-5
    score = (family.loss(eta + h, y) - family.loss(eta - h, y)) / (2 * h)
    np.testing.assert_allclose(score, family.mean(eta) - y, rtol=1e-6, atol=1e-8)
    weight = (family.mean(eta + h) - family.mean(eta - h)) / (2 * h)
    np.testing.assert_allclose(weight, family.variance(family.mean(eta)), rtol=1e-6, atol=1e-10)


@each_family
@pytest.mark.parametrize("rows", [1, 15, 16, 700])
@pytest.mark.parametrize("unit", [True, False])
def test_terms_are_those_of_each_row(family, rows, unit):
    random = np.random.default_rng(3)
    eta, y = random.normal(0, 3, rows), random.integers(0, 2, rows).astype(float)
    weight = (random.random(rows) < 0.8) * (1.0 if unit else random.uniform(0.5, 3, rows))
    terms, by_row = family.terms(eta, y, weight, unit), Family.terms(family, eta, y, weight, unit)
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
    assert family.link(mean) == pytest.approx(LINKS[family.link_name](mean), rel=1e-12)


@each_family
def test_the_saturated_loss_is_that_of_the_response_as_its_own_mean(family):
    y = np.array([0.2, 0.5, 0.9])
    eta = np.array([family.link(value) for value in y])
    np.testing.assert_allclose(family.saturated(y), family.loss(eta, y), rtol=1e-12, atol=1e-15)
    assert np.all(family.saturated(y) <= family.loss(eta + 0.1, y))


@each_family
def test_groups_at_an_end_of_the_range_have_no_finite_estimate(family):
    weight = np.array([4.0, 4.0, 4.0])
    expected = [family.smallest == 0.0, False, family.largest == 1.0]
    assert np.broadcast_to(family.at_an_end(np.array([0.0, 3.0, 4.0]), weight), 3).tolist() == expected
