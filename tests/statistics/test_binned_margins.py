"""Averages by bins of the linear predictor against averages row by row, and pieces of the rows against all at once."""

import numpy as np
import pandas as pd
import pytest
import scipy.special

from pools import fit_files, ingest_frame, margins
from tfglm.engine import averages
from tfglm.engine.averages import LevelMeans, average
from tfglm.engine.binned_averages import FARTHEST, BinnedMeans, is_alone
from tfglm.engine.reductions import Together
from tfglm.engine.workload import Workload
from tfglm.results.margins import Largest

ROWS, LEVELS = 3000, 12


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    random = np.random.default_rng(11)
    level = random.integers(0, LEVELS, ROWS)
    x, trials = random.normal(size=ROWS), random.integers(1, 9, ROWS)
    eta = -0.5 + 0.15 * (level - 5) + 0.6 * x
    probability = scipy.special.expit(eta)
    far = (np.arange(ROWS) < 1000) & (random.random(ROWS) < 0.01)  # of the first file alone
    return pd.DataFrame(
        {
            "level": [f"l{each:02}" for each in level],
            "other": random.choice(["A", "B", "C"], ROWS),
            "x": np.round(x, 3),
            "late": ((random.random(ROWS) < probability) & (level != 3)).astype(int),
            "class": random.choice(["a", "b", "c"], ROWS),
            "events": random.binomial(trials, probability),
            "trials": trials,
            "count": random.poisson(np.exp(eta)),
            "amount": np.round(random.gamma(2, np.exp(eta) / 2) + 0.01, 3),
            "weight": np.round(random.gamma(3, 1, ROWS), 2),
            "shift": np.where(far, 3 * FARTHEST * random.choice([-1, 1], ROWS), np.round(random.normal(size=ROWS), 2)),
        }
    )


@pytest.fixture(scope="module")
def files(frame, tmp_path_factory):
    folder = tmp_path_factory.mktemp("binned")
    return [ingest_frame(frame[:1000], folder, "early"), ingest_frame(frame[1000:], folder, "late")]


FORMULA = "{} ~ level + other * x + I(x^2)"
CASES = {
    "logit, a level separated": ("late", "binomial", {}),
    "logit, far offset": ("late", "binomial", {"offset": "shift"}),
    "probit, weights": ("late", "binomial", {"link": "probit", "weights": "weight"}),
    "cloglog": ("late", "binomial", {"link": "cloglog"}),
    "trials": ("events", "binomial", {"trials": "trials"}),
    "poisson": ("count", "poisson", {"frequency": "trials"}),
    "negative binomial": ("count", "negative_binomial", {"theta": 2.0}),
    "gamma": ("amount", "gamma", {}),
    "inverse gaussian": ("amount", "inverse_gaussian", {"link": "log"}),
    "tweedie": ("amount", "tweedie", {"power": 1.5}),
    "gaussian, log": ("amount", "gaussian", {"link": "log"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_bins_have_the_averages_of_rows(name, files):
    response, family, settings = CASES[name]
    fit = fit_files(files, FORMULA.format(response), family, **settings)
    row_by_row, binned = (margins_of(fit, files, largest=Largest(one_by_one=limit)) for limit in (np.inf, 0.0))
    assert is_alone(fit[0], fit[0].categorical_by_name["level"])
    for of_rows, of_bins in ((row_by_row.effects, binned.effects), (row_by_row.means, binned.means)):
        numbers = of_rows.select_dtypes("number").columns
        pd.testing.assert_frame_equal(of_rows.drop(columns=numbers), of_bins.drop(columns=numbers))
        assert not of_rows[numbers].equals(of_bins[numbers])  # so these are two ways
        for number in numbers:
            scale = 1e-11 if number == "p_value" else 0.0
            assert of_bins[number].to_numpy(float) == pytest.approx(
                of_rows[number].to_numpy(float), rel=1e-10, abs=scale, nan_ok=True
            )


def margins_of(fit, files, **settings):
    design, model, _ = fit
    return margins(design, model, files, {}, 0.95, **settings)


@pytest.mark.slow
def test_each_average_is_that_of_rows_but_for_rounding_errors(files):
    design, model, _ = fit_files(files, FORMULA.format("count"), "poisson")
    level = design.categorical_by_name["level"]
    both = Together({kind: kind(design, level, model.coefficients) for kind in (LevelMeans, BinnedMeans)})
    (of_rows,), (of_bins,) = average(Workload(design, files, "train"), both, model.coefficients)[1].values()
    assert of_bins.mean == pytest.approx(of_rows.mean, rel=1e-13)
    assert of_bins.derivative == pytest.approx(of_rows.derivative, rel=1e-12, abs=1e-14)


NOT_ALONE = {
    "with another": ("late ~ level * x", "binomial", {}),
    "linear": ("x ~ level", "gaussian", {}),
    "singular": ("amount ~ level", "gamma", {"link": "inverse"}),
    "classes": ("class ~ level", "multinomial", {}),
}


@pytest.mark.parametrize("name", NOT_ALONE)
def test_what_bins_cannot_have_is_added_row_by_row(name, files):
    formula, family, settings = NOT_ALONE[name]
    design = fit_files(files, formula, family, **settings)[0]
    assert not is_alone(design, design.categorical_by_name["level"])


PIECES = {
    "binned": ("late ~ level + other + x", "binomial", {}, {"largest": Largest(one_by_one=0.0)}),
    "row by row": ("count ~ level * x + other", "poisson", {}, {}),
    "balanced": ("count ~ level + other + x", "poisson", {}, {"balanced": True}),
    "classes": ("class ~ level + x", "multinomial", {}, {}),
}


@pytest.mark.parametrize("name", PIECES)
def test_pieces_are_merged_in_their_order_whatever_the_threads(name, files, monkeypatch):
    formula, family, settings, how = PIECES[name]
    fit = fit_files(files, formula, family, **settings)
    whole = margins_of(fit, files, **how)
    monkeypatch.setattr(averages, "ROWS_OF_PIECE", 1)
    assert len(averages.pieces(Workload(fit[0], files, "train"))) == 2
    one, three = (margins_of(fit, files, threads=threads, **how) for threads in (1, 3))
    for table in ("effects", "means"):
        pd.testing.assert_frame_equal(getattr(one, table), getattr(three, table), check_exact=True)
        pd.testing.assert_frame_equal(getattr(one, table), getattr(whole, table), check_exact=False, rtol=1e-10)
