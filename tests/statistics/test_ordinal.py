"""Regressions of ordered classes against R's MASS::polr (tests/golden/ordinal.R), and against a maximum in NumPy."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.optimize
import scipy.stats
from mpmath import mp
from pydantic import ValidationError

from oracles import flagged, model_matrix
from pools import estimates_of, fit_files, fit_frame, ingest_frame, margins, table_of, to_predict
from tfglm.config import ModelConfig
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.families.ordinal import CUMULATIVE
from tfglm.results import classes, coefficients, hypotheses, joint, metrics, predict
from tfglm.results.events import rare_events, share_outside
from tfglm.results.pairwise import pairwise

GOLDEN = Path(__file__).parents[1] / "golden"
LABELS = ["early", "punctual", "late", "stuck"]
LINKS = ["logit", "probit", "cloglog"]
DISTRIBUTIONS = {"logit": scipy.stats.logistic, "probit": scipy.stats.norm, "cloglog": scipy.stats.gumbel_l}
FORMULA = "delayed ~ carrier + hour + I(wind^2) + hour:wind"
each_link = pytest.mark.parametrize("link", LINKS)


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rows = pd.read_csv(GOLDEN / "clustered.csv")
    delayed = pd.cut(rows["delay"], [-np.inf, -0.5, 0.5, 1.5, np.inf], labels=LABELS).astype(str)
    return rows.assign(delayed=delayed, number=delayed.map(LABELS.index) * 5 - 1, times=rows["day"] % 3 + 1)


def fit(frame: pd.DataFrame, folder, formula: str = FORMULA, **settings):
    order = {} if formula.startswith("number") else {"class_order": LABELS}
    return fit_frame(frame, formula, "ordinal", folder, **order | settings)


def kept(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["std_error"].notna()]


def columns_of(frame: pd.DataFrame, formula: str) -> np.ndarray:
    """Those of the design, without an intercept."""
    return model_matrix(frame, formula.replace("^", "**")).drop(columns=[("Intercept", "")]).to_numpy(float)


class Oracle:
    """The likelihood as it is defined, with distributions of scipy.stats; b has the thresholds first."""

    def __init__(self, frame: pd.DataFrame, link: str, weight=1.0, formula: str = FORMULA):
        self.x = columns_of(frame, formula)
        self.y, self.weight = frame["delayed"].map(LABELS.index).to_numpy(), weight * np.ones(len(frame))
        self.law, self.offset = DISTRIBUTIONS[link], np.zeros((len(frame), 1))

    def probabilities(self, b: np.ndarray, x: np.ndarray | None = None) -> np.ndarray:
        below = self.law.cdf(b[:3] - ((self.x if x is None else x) @ b[3:])[:, None] - self.offset)
        return np.diff(below, axis=1, prepend=0.0, append=1.0)

    def scores(self, b: np.ndarray) -> np.ndarray:
        """The derivative of minus the log-likelihood of each row, [rows, p]."""
        values = np.column_stack([np.full(len(self.y), -np.inf), b[:3] - (self.x @ b[3:])[:, None] - self.offset])
        density = np.column_stack([np.where(np.isinf(values), 0.0, self.law.pdf(values)), np.zeros(len(self.y))])
        rows = np.arange(len(self.y))
        above, below = density[rows, self.y + 1], density[rows, self.y]
        by_threshold = np.zeros((len(rows), 5))
        by_threshold[rows, self.y + 1] += above
        by_threshold[rows, self.y] -= below
        share = self.probabilities(b)[rows, self.y, None]
        return -self.weight[:, None] * np.hstack([by_threshold[:, 1:4], -(above - below)[:, None] * self.x]) / share

    def hessian(self, b: np.ndarray) -> np.ndarray:
        step = 1e-6 * np.eye(len(b))
        columns = [(self.scores(b + each).sum(0) - self.scores(b - each).sum(0)) / 2e-6 for each in step]
        return (np.array(columns) + np.array(columns).T) / 2

    def maximum(self, b: np.ndarray, fixed: int | None = None) -> np.ndarray:
        """From a start near it; one coefficient may be fixed."""
        free = np.arange(len(b)) != fixed
        for _ in range(4 if fixed is None else 12):
            b = b.copy()
            b[free] -= np.linalg.solve(self.hessian(b)[np.ix_(free, free)], self.scores(b).sum(0)[free])
        return b

    def loss(self, b: np.ndarray) -> float:
        return -float(np.log(self.probabilities(b)[np.arange(len(self.y)), self.y]).sum())


@pytest.mark.slow
@each_link
@pytest.mark.parametrize("weights", [{}, {"weights": "times"}, {"frequency": "times"}])
def test_estimates_and_errors_are_those_of_polr_and_of_the_maximum(frame, link, weights, tmp_path):
    design, fitted = fit(frame, tmp_path, link=link, **weights)
    table = kept(table_of(design, fitted))
    theirs = json.loads((GOLDEN / "ordinal.json").read_text())[f"{link} weights" if weights else link]
    names = [f"{term}{level}" for term, level in table.index]
    names = [name.removeprefix("(Threshold)") for name in names]
    assert names[:3] == ["early|punctual", "punctual|late", "late|stuck"] and set(names) == set(theirs["coefficients"])
    errors = table["std_error"].to_numpy()
    # polr's search ends within 1e-6 errors, and its second derivatives are differences.
    assert np.all(np.abs(table["estimate"] - [theirs["coefficients"][name] for name in names]) < 1e-5 * errors)
    np.testing.assert_allclose(errors, [theirs["errors"][name] for name in names], rtol=2e-3)
    assert fitted.summary["log_likelihood"] == pytest.approx(theirs["log_likelihood"], rel=1e-11)
    oracle = Oracle(frame, link, frame["times"].to_numpy() if weights else 1.0)
    exact = oracle.maximum(table["estimate"].to_numpy())
    assert np.all(np.abs(table["estimate"] - exact) < 1e-7 * errors)
    np.testing.assert_allclose(errors, np.sqrt(np.diag(np.linalg.inv(oracle.hessian(exact)))), rtol=1e-6)
    summary = fitted.summary
    assert summary["converged"] and summary["certificate"]["within_standard_errors"] < 1e-8
    assert (summary["classes"], summary["ordered"], summary["coefficients"]) == (LABELS, True, 9)
    counts = frame["delayed"].value_counts() if not weights else frame.groupby("delayed")["times"].sum()
    assert summary["null_deviance"] == pytest.approx(-2 * np.sum(counts * np.log(counts / counts.sum())), rel=1e-12)
    if link == "logit":
        assert np.allclose(table["odds_ratio"], np.exp(table["estimate"]))
    else:
        assert "odds_ratio" not in table and "class" not in table


def test_an_offset_is_added_to_the_linear_predictor(frame, tmp_path):
    file = ingest_frame(frame, tmp_path)
    formula = "delayed ~ carrier + hour"
    design, fitted, _ = fit_files([file], formula, "ordinal", class_order=LABELS, offset="wind")
    table, theirs = kept(table_of(design, fitted)), json.loads((GOLDEN / "ordinal.json").read_text())["offset"]
    names = [f"{term}{level}".removeprefix("(Threshold)") for term, level in table.index]
    expected = [theirs["coefficients"][name] for name in names]
    assert np.all(np.abs(table["estimate"] - expected) < 1e-5 * table["std_error"])
    assert fitted.summary["log_likelihood"] == pytest.approx(theirs["log_likelihood"], rel=1e-10)
    assert fitted.summary["null_deviance"] == pytest.approx(theirs["null_deviance"], rel=1e-10)
    oracle = Oracle(frame, "logit", formula=formula)
    b, wind = table["estimate"].to_numpy(), frame["wind"].to_numpy()[:, None]
    # Of the column of the offset, and at one value of it.
    shares = []
    for oracle.offset in (wind + 1e-4, wind - 1e-4, 0 * wind + 2.0):
        shares.append(oracle.probabilities(b).mean(axis=0))
    effects = margins(design, fitted, [file], {}, 0.95).effects
    at_value = margins(design, fitted, [file], {}, 0.95, offset_at=2.0).means
    of_hour = effects[effects["term"] == "hour"]["estimate"].to_numpy()
    np.testing.assert_allclose(of_hour / b[-1], (shares[0] - shares[1]) / 2e-4, rtol=1e-6, atol=1e-9)
    by_level = at_value.pivot_table("mean", "level", "class")[LABELS]
    counts = frame["carrier"].value_counts()
    assert np.allclose(by_level.sum(axis=1), 1) and set(by_level.index) == set(counts.index)
    as_dl = columns_of(pd.concat([frame.assign(carrier="DL"), frame]), formula)[: len(frame)]
    with_dl = oracle.probabilities(b, as_dl).mean(axis=0)
    np.testing.assert_allclose(by_level.loc["DL"], with_dl, rtol=1e-9)


@pytest.mark.slow
@each_link
def test_robust_errors_and_those_by_cluster_are_sums_of_scores(frame, link, tmp_path):
    frame = frame.assign(day=np.arange(len(frame)) % 60)
    for number, kind in enumerate(["HC0", "HC1", "cluster(day)"]):
        design, fitted = fit(frame, tmp_path / str(number), link=link, std_errors=kind)
        table = kept(table_of(design, fitted))
        oracle = Oracle(frame, link)
        b, (n, p) = table["estimate"].to_numpy(), (len(frame), len(table))
        bread, scores = np.linalg.inv(oracle.hessian(b)), oracle.scores(b)
        sums = pd.DataFrame(scores).groupby(frame["day"].to_numpy()).sum().to_numpy() if "day" in kind else scores
        factor = {"HC0": 1.0, "HC1": n / (n - p)}.get(kind, 60 / 59 * (n - 1) / (n - p))
        errors = np.sqrt(np.diag(factor * bread @ sums.T @ sums @ bread))
        np.testing.assert_allclose(table["std_error"], errors, rtol=1e-6)
    assert ((table["df"] > 30) & (table["df"] < 60)).all() and table["p_value"].notna().any()
    assert share_outside(design, fitted) == pytest.approx(1 - frame["delayed"].value_counts(normalize=True).max())
    assert not rare_events(design, fitted).any()


def test_numbers_are_in_their_order_and_text_in_that_of_the_config(frame, tmp_path):
    design, fitted = fit(frame, tmp_path, "number ~ carrier + hour")
    assert design.likelihood.class_labels == ("-1", "4", "9", "14")
    ours, text = table_of(design, fitted), table_of(*fit(frame, tmp_path, "delayed ~ carrier + hour"))
    np.testing.assert_array_equal(ours["estimate"], text["estimate"])
    with pytest.raises(
        UserError, match="`delayed` is text, whose classes have no order of their own; write all of them"
    ):
        fit(frame, tmp_path, class_order=[])
    message = (
        r"class_order: the response `delayed` has no class `lost` in the training rows; `late`, `stuck` of the response "
        "`delayed` have no place"
    )
    with pytest.raises(UserError, match=message):
        fit(frame, tmp_path, class_order=["early", "punctual", "lost"])


@pytest.mark.slow
@each_link
def test_other_words_for_the_same_rows_give_the_same(frame, link, tmp_path):
    formula = "delayed ~ carrier*hour + I(wind^2) + wind"
    first = table_of(*fit(frame, tmp_path / "first", formula, link=link))
    error = first["std_error"]

    def check(other: pd.DataFrame, factor=1.0, rows=slice(None), precision=1e-9) -> None:
        difference = (other["estimate"] * factor - first["estimate"]).abs()[rows]
        assert np.all(difference[error.notna()[rows]] <= precision * error[rows][error.notna()[rows]])
        np.testing.assert_allclose(other["std_error"][rows], error[rows] / np.abs(factor), rtol=1e-6)

    scaled = frame.assign(wind=frame["wind"] * 1e6)
    powers = np.array([{"wind": 1e6, "I(wind^2)": 1e12}.get(term, 1.0) for term, _ in first.index])
    check(table_of(*fit(scaled, tmp_path / "scaled", formula, link=link)), powers)
    moved = table_of(*fit(frame.assign(hour=frame["hour"] + 100), tmp_path / "moved", formula, link=link))
    check(moved, rows=first.index.get_level_values("term").isin(["hour", "carrier:hour", "wind"]), precision=1e-8)
    thresholds = moved.loc["(Threshold)", "estimate"] - first.loc["(Threshold)", "estimate"]
    np.testing.assert_allclose(thresholds, 100 * first.loc[("hour", ""), "estimate"], rtol=1e-7)
    mixed = frame.sample(frac=1.0, random_state=1)[frame.columns[::-1]]
    check(table_of(*fit(mixed, tmp_path / "mixed", formula, link=link)))
    counted = table_of(*fit(frame, tmp_path / "counted", formula, link=link, frequency="times"))
    repeated = table_of(*fit(frame.loc[frame.index.repeat(frame["times"])], tmp_path / "rows", formula, link=link))
    assert np.all((counted["estimate"] - repeated["estimate"]).abs()[error.notna()] <= 1e-9 * error[error.notna()])
    np.testing.assert_allclose(counted["std_error"], repeated["std_error"], rtol=1e-7)
    if link != "cloglog":  # whose mirror image is the log-log link
        back = table_of(*fit(frame, tmp_path / "back", formula, link=link, class_order=LABELS[::-1]))
        np.testing.assert_allclose(back["estimate"][:3], -first["estimate"][2::-1], rtol=1e-9)
        np.testing.assert_allclose(back["estimate"][3:], -first["estimate"][3:], rtol=1e-8, atol=1e-12)


@each_link
def test_two_classes_are_the_events_of_a_binomial_regression(frame, link, tmp_path):
    """P(class <= 0) = F(zeta - eta): with link cloglog an event is the lower class."""
    frame = frame.assign(two=np.where(frame["delay"] > 0.5, "b", "a"), event=(frame["delay"] > 0.5).astype(int))
    frame["event"] = 1 - frame["event"] if link == "cloglog" else frame["event"]
    sign = -1.0 if link == "cloglog" else 1.0
    ours = table_of(*fit_frame(frame, "two ~ hour + wind", "ordinal", tmp_path, link=link, class_order=["a", "b"]))
    theirs = table_of(*fit_frame(frame, "event ~ hour + wind", "binomial", tmp_path, link=link))
    np.testing.assert_allclose(ours["estimate"], sign * np.array([-1, 1, 1]) * theirs["estimate"], rtol=1e-9)


@pytest.mark.slow
@each_link
def test_parallel_slopes_have_a_score_test_by_the_expected_information(frame, link, tmp_path):
    """By plain formulas: the information of a row is sum over classes of dp dp' / p."""
    design, fitted = fit(frame, tmp_path, link=link, frequency="times")
    oracle, weight = Oracle(frame, link, frame["times"].to_numpy()), frame["times"].to_numpy()
    b = oracle.maximum(kept(table_of(design, fitted))["estimate"].to_numpy())
    count, x = oracle.x.shape[1], oracle.x
    # By the coefficients of the fit and, for the second and the third threshold, by further slopes.
    edges = np.column_stack([np.full(len(x), -np.inf), b[:3] - (x @ b[3:])[:, None], np.full(len(x), np.inf)])
    inner = np.where(np.isinf(edges), 0.0, edges)
    density = np.where(np.isinf(edges), 0.0, oracle.law.pdf(inner))
    moves = np.zeros((len(x), 5, 3 + 3 * count))
    for k in range(3):
        moves[:, k + 1, k] = 1.0
        moves[:, k + 1, 3 : 3 + count] = -x
    for k in (1, 2):
        moves[:, k + 1, 3 + k * count : 3 + (k + 1) * count] = x
    by_class = np.diff(density[:, :, None] * moves, axis=1)
    shares = oracle.probabilities(b)
    score = (weight[:, None] * by_class[np.arange(len(x)), oracle.y] / shares[np.arange(len(x)), oracle.y, None]).sum(0)
    information = np.einsum("i,icp,icq->pq", weight, by_class / shares[:, :, None], by_class)
    first = np.arange(3 + count)

    def slopes(columns: list[int]) -> np.ndarray:
        return np.array([3 + k * count + column for k in (1, 2) for column in columns], int)

    def statistic(columns: list[int], inside: list[int]) -> float:
        tested, others = slopes(columns), np.append(first, slopes(inside))
        onto = np.linalg.solve(information[np.ix_(others, others)], information[np.ix_(others, tested)])
        left = information[np.ix_(tested, tested)] - information[np.ix_(tested, others)] @ onto
        remaining = score[tested] - onto.T @ score[others]
        return remaining @ np.linalg.solve(left, remaining)

    tests = {test["term"]: test for test in fitted.summary["parallel_slopes"]["tests"]}
    assert [test["df"] for test in tests.values()] == [12, 6, 2, 2, 2]
    terms = {"": range(count), "carrier": range(3), "hour": [3], "I(wind^2)": [4], "hour:wind": [5]}
    for term, columns in terms.items():
        expected = statistic(list(columns), [3] if term == "hour:wind" else [])
        assert tests[term]["chi_squared"] == pytest.approx(expected, rel=1e-6), term
        assert tests[term]["p_value"] == pytest.approx(scipy.stats.chi2.sf(expected, tests[term]["df"]), rel=1e-5)


@pytest.mark.slow
def test_parallel_slopes_of_interactions_depend_on_no_names_of_levels(frame, tmp_path):
    tests = {}
    for name, renamed in {"first": {}, "other": {"AA": "ZZ", "DL": "AB"}}.items():
        changed = frame.assign(
            carrier=frame["carrier"].replace(renamed), half=np.where(frame["wind"] > frame["wind"].median(), *"pq")
        )
        changed["half"] = changed["half"].replace({"p": "z"} if renamed else {})
        _, fitted = fit(changed, tmp_path / name, "delayed ~ carrier*half + carrier:hour + hour")
        found = fitted.summary["parallel_slopes"]["tests"]
        tests[name] = {test["term"]: test["chi_squared"] for test in found}
    assert len(tests["first"]) == 6
    assert tests["other"] == pytest.approx(tests["first"], rel=1e-6)


def test_parallel_slopes_are_tested_where_they_can_be(frame, tmp_path):
    few = frame.assign(level=np.where(np.arange(len(frame)) < 12, "rare", "usual"))
    few["delayed"] = few["delayed"].where(few["level"] == "usual", np.resize(["early", "stuck"], len(frame)))
    cases = {
        "clusters": ({"std_errors": "cluster(day)"}, "with `std_errors: classical` only"),
        "no terms": ({"formula": "delayed ~ 1"}, "no slopes at several thresholds"),
    }
    for name, (settings, note) in cases.items():
        assert note in fit(frame, tmp_path / name, **settings)[1].summary["parallel_slopes"]["note"]
    assert "parallel_slopes" not in fit(frame, tmp_path / "ridge", l2=0.1)[1].summary
    (every, *_) = fit(few, tmp_path / "rare", "delayed ~ level + hour")[1].summary["parallel_slopes"]["tests"]
    assert every["chi_squared"] > 12 and every["p_value"] < 0.05


@pytest.mark.slow
@each_link
def test_effects_and_means_have_errors_by_the_delta_method(frame, link, tmp_path):
    formula = "delayed ~ carrier*hour + I(wind^2)"
    file = ingest_frame(frame, tmp_path)
    design, fitted, _ = fit_files([file], formula, "ordinal", link=link, class_order=LABELS, frequency="times")
    ours = margins(design, fitted, [file], {}, 0.95)
    estimated, oracle = estimates_of(design, fitted), Oracle(frame, link, formula=formula)
    vcov = coefficients.covariance_table(estimated).to_numpy()
    b = kept(coefficients.table(estimated, 0.95))["estimate"].to_numpy()

    def averaged(b: np.ndarray, changed: pd.DataFrame) -> np.ndarray:
        # All levels have to be there, so that each has a column.
        x = columns_of(pd.concat([changed, frame]), formula)[: len(frame)]
        return np.average(oracle.probabilities(b, x), axis=0, weights=frame["times"])

    def check(rows: pd.DataFrame, name: str, value) -> None:
        steps = 1e-5 * np.eye(len(b))
        slopes = np.array([value(b + each) - value(b - each) for each in steps]) / 2e-5
        np.testing.assert_allclose(rows[name], value(b), rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(
            rows["std_error"], np.sqrt(np.einsum("ic,ij,jc->c", slopes, vcov, slopes)), rtol=1e-4
        )

    means, effects = (table.set_index(["term", "level"]) for table in (ours.means, ours.effects))
    check(means.loc[("carrier", "DL")], "mean", lambda b: averaged(b, frame.assign(carrier="DL")))
    at = {sign: frame.assign(wind=frame["wind"] + sign * 1e-4) for sign in (1, -1)}
    check(effects.loc[("wind", "")], "estimate", lambda b: (averaged(b, at[1]) - averaged(b, at[-1])) / 2e-4)
    assert list(effects.loc[("wind", ""), "class"]) == LABELS
    assert np.allclose(ours.means.groupby("level")["mean"].sum(), 1, atol=1e-13)


@each_link
def test_rows_have_a_probability_of_each_class_and_metrics(frame, link, tmp_path):
    split = {"train": "day <= 40", "evaluate": "day > 40 AND day <= 50", "predict": "day > 50"}
    frame = frame.assign(day=np.arange(len(frame)) % 60)
    file = ingest_frame(frame, tmp_path, split=split)
    design, fitted, _ = fit_files([file], FORMULA, "ordinal", link=link, class_order=LABELS)
    b = kept(table_of(design, fitted))["estimate"].to_numpy()
    later = frame[frame["day"] > 50]
    new = to_predict(later.drop(columns="delayed"), tmp_path / "new")
    ours = pa.concat_tables(classes.predictions(design, fitted, new, {}, [])).to_pandas()
    expected = Oracle(later, link).probabilities(b)
    np.testing.assert_allclose(ours[[f"probability[{label}]" for label in LABELS]], expected, atol=1e-12)
    np.testing.assert_allclose(ours["expected"], expected @ [1, 2, 3, 4], atol=1e-12)
    assert ours["predicted"].tolist() == [LABELS[place] for place in expected.argmax(axis=1)]
    vcov, of_later = coefficients.covariance_table(estimates_of(design, fitted)).to_numpy(), Oracle(later, link)
    steps = 1e-5 * np.eye(len(b))
    slopes = np.array([of_later.probabilities(b + step) - of_later.probabilities(b - step) for step in steps]) / 2e-5
    errors = np.sqrt(np.einsum("pic,pq,qic->ic", slopes, vcov, slopes))
    np.testing.assert_allclose(ours[[f"std_error[{label}]" for label in LABELS]], errors, rtol=1e-5)
    evaluated = frame[frame["day"].between(41, 50)]
    p, y = Oracle(evaluated, link).probabilities(b), evaluated["delayed"].map(LABELS.index).to_numpy()
    report = metrics.evaluate(design, predict.score(Workload(design, [file], "evaluate"), fitted), 0.5, ["carrier"])
    assert report["log_loss"] == pytest.approx(-np.log(p[np.arange(len(y)), y]).mean(), rel=1e-10)
    happened = y[:, None] <= np.arange(3)
    ranked = np.mean((p.cumsum(axis=1)[:, :3] - happened) ** 2)
    assert report["ranked_probability_score"] == pytest.approx(ranked, rel=1e-10)
    assert report["accuracy"] == pytest.approx((p.argmax(axis=1) == y).mean())
    assert [each["class"] for each in report["classes"]] == LABELS
    assert classes.values_of(("-1", "4", "9")).tolist() == [-1, 4, 9]


def test_terms_are_tested_and_coefficients_are_combined(frame, tmp_path):
    design, fitted = fit(frame, tmp_path, tests="likelihood_ratio")
    estimated = estimates_of(design, fitted)
    tests = joint.joint_tests(estimated, fitted.summary["likelihood_ratio_tests"]).set_index("term")
    assert list(tests.index) == ["carrier", "hour", "I(wind^2)", "hour:wind"]
    theirs = json.loads((GOLDEN / "ordinal.json").read_text())["carrier"]
    assert tests.loc["carrier", "df"] == 3 and tests.loc["carrier", "chi_squared"] == pytest.approx(theirs, rel=1e-8)
    vcov, table = coefficients.covariance_table(estimated), table_of(design, fitted)
    first, last = "(Threshold)[early|punctual]", "(Threshold)[late|stuck]"
    (row,) = coefficients.contrasts(estimated, {"between": {last: 1.0, first: -1.0}}, 0.95).to_dict("records")
    thresholds = table.loc["(Threshold)", "estimate"]
    assert row["estimate"] == pytest.approx(thresholds["late|stuck"] - thresholds["early|punctual"], rel=1e-12)
    variance = vcov.loc[first, first] + vcov.loc[last, last] - 2 * vcov.loc[first, last]
    assert row["std_error"] == pytest.approx(np.sqrt(variance), rel=1e-10)
    names = [name for name in vcov if name.startswith("carrier")]
    b, of_carrier = table["estimate"], vcov.loc[names, names].to_numpy()
    values = np.array([b["carrier", name[8:-1]] for name in names])
    wald = hypotheses.hypotheses(estimated, {"carrier": [{name: 1.0} for name in names]})
    assert wald["chi_squared"][0] == pytest.approx(values @ np.linalg.solve(of_carrier, values), rel=1e-9)
    pairs = pairwise(estimated, ["carrier"], 0.95)
    assert len(pairs) == 6 and "class" not in pairs
    assert pairs["estimate"][0] == pytest.approx(b["carrier", pairs["level"][0]] - b["carrier", pairs["against"][0]])


@each_link
def test_profile_intervals_end_where_the_likelihood_has_fallen(frame, link, tmp_path):
    formula = "delayed ~ hour + wind"
    named = {"late": {"(Threshold)[late|stuck]": 1}, "wind": {"wind": 1}}
    design, fitted = fit(frame, tmp_path, formula, link=link, profile=named)
    oracle, b = Oracle(frame, link, formula=formula), kept(table_of(design, fitted))["estimate"].to_numpy()
    for place, interval in zip((2, 4), fitted.summary["profile"], strict=True):
        assert interval["estimate"] == pytest.approx(b[place], rel=1e-12)
        for end in ("ci_lower", "ci_upper"):
            start = b.copy()
            start[place] = interval[end]
            fallen = 2 * (oracle.loss(oracle.maximum(start, place)) - oracle.loss(b))
            assert fallen == pytest.approx(scipy.stats.chi2.ppf(0.95, 1), rel=1e-6)
    with pytest.raises(UserError, match=r"profile\.late: its value depends on reference levels"):
        fit(frame, tmp_path, "delayed ~ carrier", profile={"late": named["late"]})


@each_link
def test_penalised_fits_are_at_the_minimum(frame, link, tmp_path):
    """Of the mean loss and the penalty on all levels and standardised numbers; thresholds have none."""
    l1, l2 = 0.02, 0.02
    formula, oracle = "delayed ~ carrier + hour + wind", Oracle(frame, link)
    carriers = np.column_stack([frame["carrier"] == level for level in sorted(frame["carrier"].unique())]).astype(float)
    numbers = frame[["hour", "wind"]].to_numpy()
    oracle.x = np.hstack([carriers, (numbers - numbers.mean(0)) / numbers.std(0)])

    def slope(table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """The coefficients without those of thresholds, and the derivative of the mean loss by all."""
        b = table["estimate"].to_numpy().copy()
        b[:3] -= b[-2:] @ numbers.mean(0)
        b[-2:] *= numbers.std(0)
        return b[3:], oracle.scores(b).mean(0)

    b, gradient = slope(table_of(*fit(frame, tmp_path / "ridge", formula, link=link, l2=l2)))
    assert np.abs(gradient[:3]).max() < 1e-9 and np.abs(gradient[3:] + l2 * b).max() < 1e-9
    b, gradient = slope(table_of(*fit(frame, tmp_path / "net", formula, link=link, l1=l1, l2=l2)))
    assert np.abs(gradient[:3]).max() < 1e-8 and 0 < np.count_nonzero(b) < len(b)
    smooth = gradient[3:] + l2 * b
    assert np.abs((smooth + l1 * np.sign(b))[b != 0]).max() < 1e-7 and np.abs(smooth[b == 0]).max() < l1 + 1e-7
    stuck = frame.assign(delayed=frame["delayed"].where(frame["carrier"] != "DL", "stuck"))
    table = table_of(*fit(stuck, tmp_path / "stuck", formula, link=link, l2=l2))
    assert np.isfinite(table["estimate"]).all() and "posterior_sd" in table


@pytest.mark.slow
def test_what_has_no_finite_estimate_is_refused_by_name(frame, tmp_path):
    aliased = frame.assign(twice=2 * frame["hour"])
    table = table_of(*fit(aliased, tmp_path, "delayed ~ hour + twice"))
    assert flagged(table) == {("twice", ""): "aliased"}
    stuck = frame.assign(delayed=frame["delayed"].where(frame["carrier"] != "DL", "stuck"))
    with pytest.raises(
        UserError, match="levels have one class at an end: all rows of carrier DL are of class stuck, the highest"
    ):
        fit(stuck, tmp_path)
    table = table_of(*fit(frame.assign(delayed=frame["delayed"].where(frame["carrier"] != "DL", "late")), tmp_path))
    assert np.isfinite(table["estimate"]).all()  # in the middle it is finite
    apart = frame.assign(delayed=pd.cut(frame["hour"], [-9, -1, 0, 1, 9], labels=LABELS).astype(str))
    with pytest.raises(UserError, match=r"run off to infinity: the terms .*`hour`.* separate classes\n"):
        fit(apart, tmp_path)
    absent = frame.assign(times=(frame["delayed"] != "late").astype(int))
    with pytest.raises(UserError, match="no training row of class late of `delayed` has a weight above 0"):
        fit(absent, tmp_path, frequency="times")
    with pytest.raises(
        UserError, match=r"m\.formula: ordered classes have a threshold between each two .*; remove `- 1`"
    ):
        fit(frame, tmp_path, "delayed ~ 0 + hour")


@each_link
def test_losses_keep_their_digits_at_the_ends_and_between_near_thresholds(link):
    """Against mpmath: of classes with a probability near 0 and near 1, and of thresholds that nearly meet."""
    law = {"logit": lambda x: 1 / (1 + mp.exp(-x)), "probit": mp.ncdf, "cloglog": lambda x: -mp.expm1(-mp.exp(x))}[link]
    ends = [(0.5, -0.3), (3.0, 2.999), (-8.0, -8.001), (2.5, 1.5), (1.5, -30.0), (-20.0, -21.0)]
    upper, lower = np.array([*ends, (-15.0, -np.inf), (np.inf, 3.0), (np.inf, -30.0)]).T
    with np.errstate(all="ignore"):
        ours = CUMULATIVE[link].interval(upper, lower)
    with mp.workdps(60):

        def loss(up, low):
            return -mp.log((mp.mpf(1) if up == mp.inf else law(up)) - (mp.mpf(0) if low == -mp.inf else law(low)))

        h = mp.mpf(10) ** -15
        for place, (up, low) in enumerate(zip(map(mp.mpf, upper), map(mp.mpf, lower), strict=True)):
            slopes = (
                (loss(up + h, low) - loss(up - h, low)) / (2 * h),
                (loss(up, low + h) - loss(up, low - h)) / (2 * h),
            )
            second = (loss(up + h, low) - 2 * loss(up, low) + loss(up - h, low)) / h**2
            theirs = loss(up, low), *slopes, second
            for value, exact in zip((each[place] for each in ours), map(float, theirs), strict=False):
                assert value == pytest.approx(exact, rel=2e-9, abs=1e-40)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"link": "log"}, "link: family ordinal has no link `log`; use `logit` or `probit` or `cloglog`"),
        ({"class_order": ["a", "b", "a"]}, "class_order: it has a class twice"),
    ],
)
def test_what_does_not_go_together_is_refused(keys, message):
    with pytest.raises(ValidationError, match=message):
        ModelConfig.model_validate({"formula": "y ~ x", "family": "ordinal"} | keys)
