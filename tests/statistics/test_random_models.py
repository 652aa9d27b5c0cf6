"""Models put together at random agree with statsmodels and NumPy, row by row (random_models), or with the smoothing parameters of
mgcv (random_smooths)."""

import json
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest

import random_models
import random_smooths
from random_models import Model
from tfglm.errors import UserError

REFUSED = (
    "1 less the leverage",
    "leave no residual variance",
    "combinations of levels have no training rows",
    "the information matrix is singular",  # of columns that are nearly the same on 60 rows, with weights near 0
    "the separated rows could not be found",  # of such columns where terms separate rows
)
"""Why a model cannot be fitted to few rows."""

FEW, MANY = range(1, 13), range(1000, 1150)


def agrees(seed: int, folder, rows: tuple[int, int]) -> bool:
    """Whether the model is fitted, and not refused for its few rows. Raises AssertionError with the model that does not agree."""
    random = np.random.default_rng(seed)
    frame = random_models.table(int(random.integers(*rows)), random)
    model = Model.drawn(random)
    told = f"seed {seed}: {model.formula} {model.settings}"
    try:
        predicted, summary = random_models.ours(model, frame, folder)
    except UserError as error:
        # What few rows do not tell: each is a refusal of its own, with its own tests.
        assert rows != LARGE and any(reason in str(error) for reason in REFUSED), f"{told}: {error}"
        return False
    kept = predicted["remark"].isna().to_numpy()
    assert rows != LARGE or kept.all(), told
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # statsmodels says that 0 and 1 are foretold without error
        eta, errors = random_models.theirs(model, frame, kept)
    assert summary["converged"], told
    ours = predicted.loc[kept, "linear_predictor"].to_numpy()
    assert np.all(np.abs(ours - eta) <= 1e-6 * np.maximum(np.abs(eta), errors)), told
    mine = predicted.loc[kept, "linear_predictor_std_error"].to_numpy()
    if model.settings["std_errors"] == "cluster(date)":
        # Those of a row that one or two dates determine are left empty.
        there = np.isfinite(mine)
        assert rows != LARGE or there.all(), told
        mine, errors = mine[there], errors[there]
    # Errors of what is nearly determined lose digits with the information matrix, which fit.json says. And a row that its
    # coefficients fit without error has a robust error of 0, but for rounding.
    precision = 1e-3 if summary["nearly_aliased"] else 1e-5
    assert np.all(np.abs(mine - errors) <= np.maximum(precision * errors, 1e-4 * np.median(errors))), told
    return True


LARGE, SMALL = (400, 2500), (60, 250)


@pytest.mark.slow
@pytest.mark.parametrize("seed", FEW)
def test_a_few(seed, tmp_path):
    assert agrees(seed, tmp_path, LARGE)


@pytest.mark.slow
def test_rows_are_separated_that_are_seen_to_be_only_once_others_have_left(tmp_path):
    # An interaction with splines on 65 rows: in the numbers of the first rows to leave the later ones drown.
    assert agrees(20217, tmp_path, SMALL)


@pytest.mark.drill
@pytest.mark.parametrize("rows", [LARGE, SMALL], ids=["large", "small"])
def test_many(rows, tmp_path):
    fitted = [agrees(seed, tmp_path / str(seed), rows) for seed in MANY]
    assert np.mean(fitted) > 0.95


OF_MGCV = json.loads((Path(__file__).parents[1] / "golden" / "random_smooths.json").read_text())
"""The gain of V by mgcv, for seeds where steps of b and lambda together do not end at the lowest V."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", OF_MGCV)
def test_smoothing_parameters_are_as_good_as_those_of_mgcv(seed, tmp_path):
    assert random_smooths.drawn(int(seed)).gain(tmp_path)[0] >= OF_MGCV[seed] - 1e-4


@pytest.mark.drill
@pytest.mark.processes
@pytest.mark.skipif(not shutil.which("Rscript"), reason="needs R with mgcv")
def test_many_smooth_models_have_smoothing_parameters_as_good_as_those_of_mgcv(tmp_path):
    table = random_smooths.compare(tmp_path, range(1000, 1060))
    settled = table[table["mgcv_converged"].eq(True)]
    assert len(settled) > 0.9 * len(table) and settled["error"].isna().all()
    assert (settled["gain"] >= settled["mgcv_gain"] - 1e-4).all()
