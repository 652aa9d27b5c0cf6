"""Metrics, predictions and the exported model against scikit-learn and statsmodels on the same rows."""

import argparse
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import statsmodels.api as sm
from formulaic import model_matrix
from scipy.special import expit, logit
from scipy.stats import t
from sklearn import metrics as sklearn_metrics

import compare as compare_script
import predict as predict_script
from pools import CR1, estimates_of, fit_files, ingest_frame, write_fit
from tfglm import export
from tfglm.config import ResultsConfig
from tfglm.design.checks import check_groups
from tfglm.errors import UserError
from tfglm.families import family_of
from tfglm.results import compare, held_out, histogram, metrics, nested, tally
from tfglm.results.predict import Scored, predictions

# Metrics ----------------------------------------------------------------------------------------------------------------


class Named:
    """As much of a design as the metrics look at."""

    def __init__(self, family):
        self.family, self.model, self.distribution = family, "m", family_of(family)


def scored(eta, y, weight=None, parts=3):
    """The rows as a few shards."""
    weight = np.ones(len(y)) if weight is None else weight
    rows = {
        "eta": eta,
        "response": y,
        "weight": weight,
        "frequency": np.ones(len(y)),
        "flag": np.zeros(len(y), int),
        "outside": np.zeros(len(y), bool),
    }
    pieces = [
        dict(zip(rows, each, strict=True))
        for each in zip(*(np.array_split(v, parts) for v in rows.values()), strict=True)
    ]
    return [Scored(None, None, piece) for piece in pieces]


@pytest.fixture(scope="module")
def rated():
    random = np.random.default_rng(7)
    eta = np.round(random.normal(-1, 1.2, 5000), 2)  # with ties
    return eta, (random.random(5000) < expit(0.8 * eta + 0.3)).astype(float), random.integers(1, 5, 5000).astype(float)


@pytest.mark.parametrize("weighted", [False, True])
def test_binomial_metrics_are_those_of_scikit_learn_and_statsmodels(rated, weighted):
    eta, y, weights = rated
    weight = weights if weighted else np.ones(len(y))
    report = metrics.evaluate(Named("binomial"), scored(eta, y, weight), 0.3)
    p, guess = expit(eta), expit(eta) >= 0.3
    expected = {
        "auc": sklearn_metrics.roc_auc_score(y, eta, sample_weight=weight),
        "average_precision": sklearn_metrics.average_precision_score(y, eta, sample_weight=weight),
        "log_loss": sklearn_metrics.log_loss(y, p, sample_weight=weight),
        "brier": sklearn_metrics.brier_score_loss(y, p, sample_weight=weight),
        "accuracy": sklearn_metrics.accuracy_score(y, guess, sample_weight=weight),
        "precision": sklearn_metrics.precision_score(y, guess, sample_weight=weight),
        "recall": sklearn_metrics.recall_score(y, guess, sample_weight=weight),
        "f1": sklearn_metrics.f1_score(y, guess, sample_weight=weight),
    }
    assert {name: report[name] for name in expected} == pytest.approx(expected, rel=1e-12)
    assert report["auc_bound"] == 0
    matrix = sklearn_metrics.confusion_matrix(y, guess, sample_weight=weight).ravel().tolist()
    assert [
        report[f"{name}"] for name in ("true_negative", "false_positive", "false_negative", "true_positive")
    ] == matrix
    slope = sm.GLM(y, sm.add_constant(eta), sm.families.Binomial(), freq_weights=weight).fit(method="newton")
    large = sm.GLM(y, np.ones(len(y)), sm.families.Binomial(), offset=eta, freq_weights=weight).fit(method="newton")
    assert report["calibration_slope"] == pytest.approx(slope.params[1], rel=1e-8)
    assert report["calibration_slope_std_error"] == pytest.approx(slope.bse[1], rel=1e-6)
    assert report["calibration_in_the_large"] == pytest.approx(large.params[0], rel=1e-8)
    assert report["calibration_in_the_large_std_error"] == pytest.approx(large.bse[0], rel=1e-6)
    # Every point of the curve is one of scikit-learn's.
    rates, recalls, _ = sklearn_metrics.roc_curve(y, eta, sample_weight=weight, drop_intermediate=False)
    points = np.array([(each["false_positive_rate"], each["recall"]) for each in report["curve"]])
    distance = np.abs(points[:, None] - np.stack([rates, recalls], 1)[None]).max(2).min(1)
    assert distance.max() < 1e-12 and len(points) > 300
    assert points[-1] == pytest.approx([1, 1])


def test_lift_and_calibration_divide_the_rows_equally(rated):
    eta, y, _ = rated
    eta = eta + 1e-7 * np.arange(len(eta))  # no ties
    report = metrics.evaluate(Named("binomial"), scored(eta, y), 0.5)
    tenths = y[np.argsort(-eta)].reshape(10, 500)
    assert [each["observed"] for each in report["lift"]] == pytest.approx(tenths.mean(1))
    assert [each["lift"] for each in report["lift"]] == pytest.approx(tenths.mean(1) / y.mean())
    assert report["lift"][-1]["share_of_events"] == pytest.approx(1)
    parts = y[np.argsort(eta)].reshape(20, 250)
    means = expit(np.sort(eta)).reshape(20, 250).mean(1)
    assert [each["predicted"] for each in report["calibration"]] == pytest.approx(means)
    for each, of_part in zip(report["calibration"], parts, strict=True):
        interval = sm.stats.proportion_confint(of_part.sum(), 250, method="wilson")
        assert (each["observed"], each["lower"], each["upper"]) == pytest.approx((of_part.mean(), *interval))


def test_with_more_scores_than_bins_the_auc_is_within_its_bound(rated):
    eta, y, _ = rated
    eta = eta + np.random.default_rng(1).normal(0, 1e-3, len(eta))
    exact = sklearn_metrics.roc_auc_score(y, eta)
    # Most rows are not known when the bins are laid out.
    report = metrics.evaluate(Named("binomial"), scored(eta, y, parts=5), 0.5, sample_rows=1000, bins=200)
    assert 0 < abs(report["auc"] - exact) <= report["auc_bound"] < 0.01
    assert report["log_loss"] == pytest.approx(sklearn_metrics.log_loss(y, expit(eta)), rel=1e-12)


@pytest.mark.parametrize(("rows", "bins"), [(1000, 7), (1000, 999), (1000, 1000), (3, 1000), (0, 7)])
def test_bins_have_equal_shares_of_a_sample_and_ties_stay_together(rows, bins):
    sample = np.random.default_rng(3).normal(size=rows)
    upper = histogram.edges(np.repeat(sample, 2), bins)
    shares = np.bincount(np.searchsorted(upper, np.round(sample, histogram.DIGITS)), minlength=1)
    assert len(shares) == max(min(rows, bins), 1) and np.ptp(shares) <= 1


@pytest.mark.parametrize(
    "upper",
    [
        [],
        [0.3],
        np.random.default_rng(1).normal(size=999),
        np.random.default_rng(2).standard_cauchy(999) ** 3,
        np.random.default_rng(3).normal(size=999) * 1e-308,
        [-np.inf, -1, 2, np.inf],
        [0.5, np.nan],
    ],
)
def test_the_bin_of_a_score_is_that_of_a_binary_search(upper):
    upper = np.sort(np.array(upper, float))
    scores = np.concatenate([upper, np.nextafter(upper, 9), np.nextafter(upper, -9), np.linspace(-3, 3, 99)])
    scores = np.append(scores, [0.0, -0.0, 1e300, -1e300, np.inf, -np.inf, np.nan])
    assert np.array_equal(histogram.Search(upper)(scores), np.searchsorted(upper, scores))


def test_few_rows_are_added_to_the_bins_as_np_bincount_adds_them():
    random = np.random.default_rng(4)
    filled, expected = histogram.Histogram(np.arange(50.0), 2), np.zeros((51, 2))
    for rows in (200, 3, 0):
        scores, amounts = random.uniform(-1, 51, rows), random.normal(size=(2, rows))
        filled.add(scores, list(amounts))
        where = np.searchsorted(np.arange(50.0), scores)
        expected += np.stack([np.bincount(where, amount, 51) for amount in amounts], axis=1)
    assert np.array_equal(filled.sums, expected)


def test_metrics_of_means_are_those_of_scikit_learn(rated):
    eta, _, weight = rated
    random = np.random.default_rng(2)
    y = 1e6 + eta + random.normal(0, 1, len(eta))
    report = metrics.evaluate(Named("gaussian"), scored(1e6 + eta, y, weight), 0.5)
    expected = {
        "rmse": sklearn_metrics.root_mean_squared_error(y, 1e6 + eta, sample_weight=weight),
        "mae": sklearn_metrics.mean_absolute_error(y, 1e6 + eta, sample_weight=weight),
        "r_squared": sklearn_metrics.r2_score(y, 1e6 + eta, sample_weight=weight),
    }
    assert {name: report[name] for name in expected} == pytest.approx(expected, rel=1e-9)
    residuals = np.repeat(y - (1e6 + eta), weight.astype(int))
    exact = np.quantile(residuals, tally.QUANTILES, method="inverted_cdf")
    assert list(report["residual_quantiles"].values()) == pytest.approx(exact, abs=1e-9)
    counts = random.poisson(np.exp(eta)).astype(float)
    report = metrics.evaluate(Named("poisson"), scored(eta, counts, weight), 0.5)
    expected = {
        "mean_poisson_deviance": sklearn_metrics.mean_poisson_deviance(counts, np.exp(eta), sample_weight=weight),
        "d_squared": sklearn_metrics.d2_tweedie_score(counts, np.exp(eta), sample_weight=weight, power=1),
        "rmse": sklearn_metrics.root_mean_squared_error(counts, np.exp(eta), sample_weight=weight),
    }
    assert {name: report[name] for name in expected} == pytest.approx(expected, rel=1e-10)


# Predictions ------------------------------------------------------------------------------------------------------------

FORMULA = "late ~ carrier + C(hour):origin + poly(distance, 2) + seats:origin"


def flights(rows: int, seed: int) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    frame = pd.DataFrame({"day": random.integers(0, 60, rows), "carrier": random.choice(list("ABCDEFGH"), rows)})
    frame["origin"] = random.choice(["EWR", "JFK", "LGA"], rows)
    frame["hour"] = random.choice([6, 12, 18], rows)
    frame["distance"] = random.choice([200.0, 500.0, 750.5, 1000.0, 2500.0], rows)
    frame["seats"] = random.integers(50, 300, rows)
    eta = -1 + 0.3 * (frame["carrier"] == "C") + 0.4 * (frame["hour"] == 18) + 2e-4 * frame["distance"]
    day = np.random.default_rng(0).normal(0, 0.5, 60)[frame["day"]]
    frame["late"] = (random.random(rows) < expit(eta + day)).astype(int)
    return frame


KINDS = {"cluster(day)": {"cov_type": "cluster"}, "robust": {"cov_type": "HC1"}, "classical": {}}


@pytest.fixture(scope="module")
def train():
    return flights(3000, 1)


@pytest.fixture(scope="module", params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def fitted(train, kind, tmp_path_factory):
    file = ingest_frame(train, tmp_path_factory.mktemp("train"))
    return fit_files([file], FORMULA, "binomial", offset="log(seats)", std_errors=kind, limits=CR1)


@pytest.fixture(scope="module")
def exact(train, kind):
    """The same fit, and its prediction of other rows."""
    matrix = model_matrix(FORMULA.partition("~")[2], train)
    model = sm.GLM(train["late"], matrix.to_numpy(), sm.families.Binomial(), offset=np.log(train["seats"]))
    options = KINDS[kind]
    if "cluster" in kind:
        options = options | {"cov_kwds": {"groups": train["day"].to_numpy()}}
    done = model.fit(method="newton", tol=1e-14, maxiter=100, **options)

    def predicted(rows):
        matrix_of_rows = matrix.model_spec.get_model_matrix(rows).to_numpy()
        return done.get_prediction(matrix_of_rows, offset=np.log(rows["seats"])).summary_frame(alpha=0.05)

    return predicted


NEW = ["carrier", "origin", "hour", "distance", "seats", "day"]


@pytest.fixture(scope="module")
def new(tmp_path_factory):
    """Rows without a response, of which some cannot be predicted."""
    rows = flights(500, 2)[NEW].astype({"distance": object})
    rows.loc[3, "carrier"], rows.loc[7, "carrier"], rows.loc[8, "distance"] = "ZZ", None, None
    file = ingest_frame(
        rows.astype({"distance": float}),
        tmp_path_factory.mktemp("new"),
        "new",
        split={"train": "FALSE", "predict": "day > 0"},
        columns=NEW[:5],
    )
    return rows.astype({"distance": float}), file


def table_of(fitted, file, identity=()):
    design, model, _ = fitted
    tables = list(predictions(design, model, file, {}, list(identity), 0.95))
    assert tables[0].num_rows == 0
    return pd.concat([each.to_pandas() for each in tables[1:]], ignore_index=True)


def test_predictions_and_their_errors_are_those_of_statsmodels(fitted, exact, new, kind):
    rows, file = new
    actual = table_of(fitted, file, ["carrier", "distance"])
    kept = rows[rows["day"] > 0]
    assert actual["row"].tolist() == (kept.index + 1).tolist()  # in order, each with its number in the file
    assert actual["carrier"].fillna("").tolist() == kept["carrier"].fillna("").tolist()
    assert actual["distance"].fillna(0).tolist() == kept["distance"].fillna(0).tolist()
    assert actual["file"].str.endswith("new.csv").all()
    remarks = dict(zip(actual["row"], actual["remark"], strict=True))
    assert [remarks[row] for row in (4, 8, 9)] == ["unseen level", "missing value", "missing value"]
    assert actual.set_index("row").loc[4, "unseen"] == "carrier"
    good = actual["remark"].isna()
    assert good.sum() == len(actual) - 3 and actual.loc[~good, "probability"].isna().all()
    expected = exact(kept[good.to_numpy()])
    assert actual.loc[good, "probability"].to_numpy() == pytest.approx(expected["mean"].to_numpy(), rel=1e-8)
    if kind == "robust":
        # statsmodels' HC1 of a GLM lacks the factor n / (n - p) that its linear regression has.
        model = fitted[1]
        factor = np.sqrt(3000 / (3000 - model.summary["coefficients"]))
        assert actual.loc[good, "std_error"].to_numpy() == pytest.approx(
            factor * expected["mean_se"].to_numpy(), rel=1e-5
        )
        return
    if kind != "classical":
        assert actual.loc[good, "std_error"].to_numpy() == pytest.approx(expected["mean_se"].to_numpy(), rel=1e-5)
        # By t with as many degrees of freedom as there are effective clusters by the scores, where 40 are by the design.
        tested = actual[good & actual["ci_upper"].notna()]
        assert len(tested) > 0.5 * good.sum()
        quantile = (logit(tested["ci_upper"]) - tested["linear_predictor"]) / tested["linear_predictor_std_error"]
        fewest, most = t([59, 10]).ppf(0.975)
        assert quantile.between(fewest - 1e-9, most + 1e-9).all()
        return
    for mine, theirs in (("std_error", "mean_se"), ("ci_lower", "mean_ci_lower"), ("ci_upper", "mean_ci_upper")):
        assert actual.loc[good, mine].to_numpy() == pytest.approx(expected[theirs].to_numpy(), rel=1e-5), mine


@pytest.mark.parametrize("kind", ["classical"], indirect=True)
def test_the_script_writes_every_row_and_refuses_unseen_levels_if_told_to(fitted, new, tmp_path):
    design, model, _ = fitted
    _, file = new
    design.write(tmp_path / "design.json")
    write_fit(model, design, tmp_path)
    arguments = argparse.Namespace(
        design=tmp_path / "design.json",
        checkpoint=tmp_path / "checkpoint",
        fit=tmp_path / "fit.json",
        manifest=file.folder / "manifest.json",
        settings=ResultsConfig(),
        reference=None,
        split="predict",
        output=tmp_path / "made.parquet",
    )
    predict_script.main(arguments)
    predicted = pq.read_table(arguments.output)
    assert predicted.num_rows == sum(shard.rows for shard in file.manifest.shards)
    arguments.settings, arguments.output = ResultsConfig(unseen="error"), tmp_path / "none.parquet"
    with pytest.raises(UserError, match=r"models.m.unseen: .*\n  carrier: ZZ \(1 row\)"):
        predict_script.main(arguments)
    assert not arguments.output.exists()


LOAD = """
import json, sys
import tensorflow as tf
served = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
rows = json.load(open(sys.argv[2]))
columns = {n: tf.constant(v, tf.string if isinstance(v[0], str) else tf.float64) for n, v in rows.items()}
print(json.dumps(served(**columns)["probability"].numpy().tolist()))
"""


@pytest.mark.processes
@pytest.mark.parametrize("kind", ["classical"], indirect=True)
def test_the_saved_model_predicts_the_same_in_a_process_without_our_code(fitted, new, tmp_path):
    design, model, _ = fitted
    rows, file = new
    exported = export.ExportedRegression(design, model, {})
    export.save(exported, exported.kinds, tmp_path / "saved_model")
    kept = rows[rows["day"] > 0]
    columns = {name: kept[name].fillna("").tolist() for name in ("carrier", "origin")}
    columns |= {name: kept[name].astype(float).tolist() for name in ("hour", "distance", "seats")}
    (tmp_path / "rows.json").write_text(json.dumps(columns))
    arguments = [sys.executable, "-c", LOAD, str(tmp_path / "saved_model"), str(tmp_path / "rows.json")]
    done = subprocess.run(arguments, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    actual = np.array(json.loads(done.stdout.strip().splitlines()[-1]), float)
    assert actual == pytest.approx(table_of(fitted, file)["probability"].to_numpy(), rel=1e-12, nan_ok=True)
    assert np.isnan(actual).sum() == 3
    description = export.description(
        design, estimates_of(design, model), {"converged": True, "rows": 3000}, {"hour": "x / 100"}
    )
    assert {each["name"]: each["type"] for each in description["columns"]} == {
        **dict.fromkeys(("carrier", "origin"), "text"),
        **dict.fromkeys(("hour", "distance", "seats"), "number"),
    }
    assert [each.get("derived_as") for each in description["columns"] if each["name"] == "hour"] == ["x / 100"]
    assert len(description["coefficients"]) == design.size
    json.dumps(description, allow_nan=False)


# Models side by side ----------------------------------------------------------------------------------------------------


def model_of(name, rows=100, formula="late ~ a", xxh128="0", family="binomial", **metrics):
    fit = {"model": name, "formula": formula, "family": family, "rows": rows, "coefficients": 2}
    fit |= {"log_likelihood": -50.5, "deviance": 101.0, "aic": 105.0, "bic": 110.0}
    fit |= {"provenance": {"inputs": [{"file": "f", "xxh128": xxh128}], "model": {}, "data": {}}}
    table = pd.DataFrame({"term": ["Intercept", "a"], "level": "", "estimate": [1.0, 2.0], "std_error": [0.1, np.inf]})
    return compare.ComparedModel(fit, metrics, table.assign(reference="", status=""))


def test_groups_of_too_many_values_are_refused_with_a_remedy(tmp_path):
    frame = pd.DataFrame({"late": np.arange(70_000) % 2, "seconds": np.arange(70_000) + 0.5})
    file = ingest_frame(frame, tmp_path)
    with pytest.raises(UserError, match=r"models.m.by: `seconds` has more than 65,535 values .*\n  derive a coarser"):
        check_groups("models.m", [file], ["late", "seconds"])


def test_models_stand_side_by_side_and_other_rows_are_refused():
    second = model_of("second", auc=0.7)
    second.table["term"] = ["Intercept", "b"]
    table = compare.table([model_of("first"), second]).set_index(["term", "level"])
    assert table.loc[("a", ""), "first"] == 2 and np.isnan(table.loc[("a", ""), "second"])
    assert table.loc[("b", ""), "second"] == 2 and table.loc[("Intercept", ""), "first std_error"] == 0.1
    assert table.loc[("AUC (rows kept back)", ""), "second"] == 0.7
    assert table.loc[("n", ""), "first"] == 100
    models = [model_of("first"), second]
    second.table.loc[2] = ["b", "low", 0.0, np.nan, "low", ""]
    tests = nested.likelihood_ratio_tests(models)
    page = compare_script.page(models, held_out.differences(models), tests)
    assert "<tr><td>b</td><td>low</td><td></td><td>reference</td></tr>" in page
    assert "<td>1.000<br>(0.100)</td>" in page and "<td>0.7000</td>" in page
    for other in (model_of("other", rows=99), model_of("other", xxh128="1")):
        with pytest.raises(UserError, match="compare: `first` and `other` were not fitted on the same rows"):
            compare.refuse_other_rows([model_of("first"), other])
    delay = model_of("delay", formula="delay ~ a")
    compare.refuse_other_rows([model_of("first"), delay])
    models = [model_of("first"), delay]
    of_two_responses = compare_script.page(models, held_out.differences(models), tests)
    assert "cannot be compared: late, delay." in of_two_responses and "cannot be compared" not in page
    models[1] = model_of("poisson", family="poisson")
    of_two_families = compare_script.page(models, held_out.differences(models), tests)
    assert " of different families cannot be compared; " in of_two_families
    assert 'class="warning"' not in of_two_families
