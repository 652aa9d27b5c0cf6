"""Average marginal effects and adjusted means: against averages of statsmodels' predictions with numerical derivatives, and
against the Python package marginaleffects."""

import ast
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.special
import statsmodels.api as sm
import statsmodels.formula.api as smf
from formulaic import model_matrix

from pools import CR1, fit_files, ingest_frame, margins, table_of
from tfglm.design.parametrisation import to_data_scale
from tfglm.design.transforms import TRANSFORMS, apply, derivative, learn
from tfglm.engine.averages import LevelMeans, average
from tfglm.engine.reductions import Together
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.formula.arithmetic import tree_of
from tfglm.formula.functions import FUNCTIONS
from tfglm.formula.terms import FunctionCall
from tfglm.results.marginal_tables import EMPTY_COMBINATION, NO_ERRORS, NO_SLOPE, PENALISED, Margins
from tfglm.results.margins import Largest

GOLDEN = Path(__file__).parents[1] / "golden"
ROWS = 1500


def flights() -> pd.DataFrame:
    random = np.random.default_rng(5)
    day = random.integers(0, 50, ROWS)
    frame = pd.DataFrame(
        {
            "carrier": random.choice(["AA", "B6", "DL", "UA"], ROWS, p=[0.4, 0.3, 0.2, 0.1]),
            "origin": random.choice(["EWR", "JFK", "LGA"], ROWS),
            "hour": random.choice([6, 12, 18], ROWS),
            "distance": np.round(random.gamma(4, 250, ROWS), 1),
            "seats": random.integers(20, 40, ROWS),
            "times": random.integers(1, 4, ROWS),
            "precision": np.round(random.gamma(3, 1, ROWS), 2),
            "day": day,
        }
    )
    eta = -1 + frame["carrier"].map({"AA": 0.0, "B6": 0.4, "DL": -0.3, "UA": 0.6}) + 0.05 * (frame["hour"] - 12)
    eta += 0.4 * (frame["origin"] == "JFK") * (frame["carrier"] == "B6") - 0.0004 * frame["distance"]
    frame["late"] = (random.random(ROWS) < scipy.special.expit(eta)).astype(int)
    frame["delay"] = np.round(10 * eta + 0.1 * frame["seats"] + 5 * random.normal(size=ROWS), 3)
    frame["changes"] = random.binomial(frame["seats"], scipy.special.expit(eta - 1))
    return frame


@pytest.fixture(scope="module")
def frame():
    return flights()


@pytest.fixture(scope="module")
def files(frame, tmp_path_factory):
    folder = tmp_path_factory.mktemp("margins")
    return [ingest_frame(frame[:1000], folder, "early"), ingest_frame(frame[1000:], folder, "late")]


def margins_of(fit, files, reference=None, **settings) -> Margins:
    design, model, _ = fit
    return margins(design, model, files, reference or {}, 0.95, **settings)


# Against statsmodels ----------------------------------------------------------------------------------------------------


@dataclass
class Case:
    """A model, and what each row weighs in the averages."""

    formula: str
    family: sm.families.Family
    settings: dict
    weight: str | None = None
    offset: bool = False


SPLINE = "bs(distance, df=5, lower_bound=0, upper_bound=9000)"
CASES = {
    "interactions": Case(f"late ~ carrier * origin + C(hour) + {SPLINE}", sm.families.Binomial(), {}),
    "slopes": Case(
        "late ~ carrier:seats + origin + hour*log(distance) + poly(distance, 2)", sm.families.Binomial(), {}
    ),
    "offset": Case(
        "changes ~ carrier * seats + log(distance)", sm.families.Poisson(), {"offset": "log(seats)"}, offset=True
    ),
    "frequency": Case("changes ~ carrier:origin + hour", sm.families.Poisson(), {"frequency": "times"}, "times"),
    "weights": Case(
        "delay ~ carrier * origin + np.sqrt(distance):origin + C(hour)",
        sm.families.Gaussian(),
        {"weights": "precision"},
        "precision",
    ),
    "trials": Case(f"changes ~ carrier + {SPLINE}:origin", sm.families.Binomial(), {"trials": "seats"}, "seats"),
    "by cluster": Case("late ~ carrier * hour + origin", sm.families.Binomial(), {"std_errors": "cluster(day)"}),
    "robust": Case("delay ~ carrier * distance + origin", sm.families.Gaussian(), {"std_errors": "robust"}),
}
STEP = 1e-2
"""Of numerical derivatives by a column, of numbers of 6 to 2,000."""


class Oracle:
    """A fit by statsmodels, whose predictions of changed rows are averaged."""

    def __init__(self, case: Case, frame: pd.DataFrame):
        self.case, self.frame = case, frame
        response, right = case.formula.split(" ~ ")
        self.matrix = model_matrix(right, frame)
        self.weight = np.ones(len(frame)) if case.weight is None else frame[case.weight].to_numpy(float)
        y = frame[response] / frame["seats"] if "trials" in case.settings else frame[response]
        key = {"precision": "var_weights", "seats": "var_weights", "times": "freq_weights"}.get(case.weight)
        options = {key: self.weight} if key else {}
        if case.offset:
            options["offset"] = np.log(frame["seats"])
        model = sm.GLM(y, self.matrix.to_numpy(), case.family, **options)
        kind = {"cluster(day)": {"cov_type": "cluster", "cov_kwds": {"groups": frame["day"].to_numpy()}}}
        kind["robust"] = {"cov_type": "HC1"}
        self.fit = model.fit(tol=1e-14, maxiter=200, **kind.get(case.settings.get("std_errors"), {}))
        self.covariance = np.asarray(self.fit.cov_params())
        if case.settings.get("std_errors") == "robust":
            # HC1 of a GLM lacks the factor n / (n - p) that a linear regression has.
            self.covariance = self.covariance * len(frame) / (len(frame) - self.matrix.shape[1])

    def mean(self, **change) -> Callable[[np.ndarray], float]:
        """The mean prediction with some columns changed, as a function of the coefficients."""
        rows = self.frame.assign(**change)
        matrix = self.matrix.model_spec.get_model_matrix(rows).to_numpy()
        offset = np.log(rows["seats"].to_numpy()) if self.case.offset else 0.0
        inverse_link = self.case.family.link.inverse
        return lambda b: float(np.average(inverse_link(matrix @ b + offset), weights=self.weight))

    def estimate(self, function) -> tuple[float, float]:
        """A function of the coefficients with its standard error by the delta method."""
        best = np.asarray(self.fit.params)
        steps = 1e-3 * np.sqrt(np.diag(self.covariance))
        slopes = [(function(best + step) - function(best - step)) / (2 * step.max()) for step in np.diag(steps)]
        return function(best), float(np.sqrt(slopes @ self.covariance @ slopes))

    def difference(self, column: str, new, old, divisor: float = 1.0) -> tuple[float, float]:
        """Of the mean prediction with a column at one and at another value in all rows."""
        of_new, of_old = self.mean(**{column: new}), self.mean(**{column: old})
        return self.estimate(lambda b: (of_new(b) - of_old(b)) / divisor)

    def slope(self, column: str) -> tuple[float, float]:
        return self.difference(column, self.frame[column] + STEP, self.frame[column] - STEP, 2 * STEP)


def column_of(term: str) -> str:
    return term.removeprefix("C(").removesuffix(")")


def value_of(frame: pd.DataFrame, row) -> tuple[str, object]:
    """The column of a row of our tables, and its level as the data have it."""
    column = column_of(row.term)
    return column, frame[column].dtype.type(row.level) if column == "hour" else row.level


@pytest.mark.parametrize("name", CASES)
def test_averages_and_their_errors_are_those_of_predictions_of_changed_rows(name, frame, files):
    case = CASES[name]
    oracle = Oracle(case, frame)
    family = type(case.family).__name__.lower()
    fit = fit_files(files, case.formula, family, limits=CR1, **case.settings)
    tables = margins_of(fit, files, {"carrier": "B6"})
    effects, means = tables.effects, tables.means
    if "by cluster" not in name:
        assert set(effects["status"]) == set(means["status"]) == {""}
    for row in means.itertuples():
        column, level = value_of(frame, row)
        assert (row.mean, row.std_error) == pytest.approx(oracle.estimate(oracle.mean(**{column: level})), rel=1e-6)
        counts = frame["times"] if "frequency" in case.settings else np.ones(ROWS)
        assert row.rows == counts[frame[column] == level].sum()
    first = means.drop_duplicates("term").set_index("term")["level"].to_dict()
    for row in effects.itertuples():
        if row.level:
            column, level = value_of(frame, row)
            _, reference = value_of(frame, row._replace(level=row.reference))
            exact = oracle.difference(column, level, reference)
            assert row.reference == ("B6" if row.term == "carrier" else first[row.term])
        else:
            exact = oracle.slope(row.term)
        assert (row.estimate, row.std_error) == pytest.approx(exact, rel=1e-5), row.term
        assert row.statistic == pytest.approx(row.estimate / row.std_error)


# Against marginaleffects ------------------------------------------------------------------------------------------------

OF_PACKAGE = {
    "binomial": ("late ~ carrier * hour + wind", "binomial", {}),
    "gaussian": ("delay ~ carrier * wind + hour", "gaussian", {}),
    "poisson by cluster": ("late ~ carrier + hour * wind", "poisson", {"std_errors": "cluster(day)"}),
    "frequency": ("late ~ carrier * hour", "binomial", {"frequency": "day"}),
}


@pytest.mark.parametrize("name", OF_PACKAGE)
def test_averages_and_their_errors_are_those_of_marginaleffects(name, tmp_path):
    golden = json.loads((GOLDEN / "margins.json").read_text())[name]
    formula, family, settings = OF_PACKAGE[name]
    files = [ingest_frame(pd.read_csv(GOLDEN / "clustered.csv"), tmp_path)]
    tables = margins_of(fit_files(files, formula, family, limits=CR1, **settings), files)
    actual = tables.effects.set_index(["term", "level"])[["estimate", "std_error"]]
    for contrast, *expected in golden["comparisons"]:
        assert actual.loc["carrier", contrast.removesuffix(" - AA")].tolist() == pytest.approx(expected, rel=1e-5)
    for column, *expected in golden["slopes"]:
        assert actual.loc[column, ""].tolist() == pytest.approx(expected, rel=1e-5)
    means = tables.means.set_index("level")
    for level, mean, error, low, high in golden["means"]:
        row = means.loc[level]
        assert [row["mean"], row["std_error"]] == pytest.approx([mean, error], rel=1e-5)
        if family == "binomial":  # by z there as here
            assert [row["ci_lower"], row["ci_upper"]] == pytest.approx([low, high], rel=1e-5)


# What else holds --------------------------------------------------------------------------------------------------------


def test_of_a_linear_regression_they_are_its_coefficients(files):
    fit = fit_files(files, "delay ~ carrier + origin + distance", "gaussian", std_errors="cluster(day)")
    effects = margins_of(fit, files).effects.set_index(["term", "level"])
    expected = table_of(*fit[:2]).query("term != 'Intercept' and std_error > 0")
    assert effects.index.tolist() == expected.index.tolist()
    for name in ("estimate", "std_error", "df", "p_value", "ci_lower", "ci_upper", "rows"):
        assert effects[name].to_numpy(float) == pytest.approx(expected[name].to_numpy(float), rel=1e-8), name


@pytest.mark.slow
def test_the_same_rows_give_the_same_bytes_and_other_blocks_nearly_the_same(files):
    fit = fit_files(files, "late ~ carrier * origin + hour", "binomial")
    once, again = margins_of(fit, files), margins_of(fit, files)
    pd.testing.assert_frame_equal(once.effects, again.effects, check_exact=True)
    pd.testing.assert_frame_equal(once.means, again.means, check_exact=True)
    coefficients = fit[1].coefficients
    carrier = fit[0].categorical_by_name["carrier"]
    both = Together({cells: LevelMeans(fit[0], carrier, coefficients, cells_at_once=cells) for cells in (10, 2**15)})
    (few,), (many,) = average(Workload(fit[0], files, "train"), both, coefficients)[1].values()
    assert few.mean == pytest.approx(many.mean, rel=1e-13)
    assert few.derivative == pytest.approx(many.derivative, rel=1e-10, abs=1e-15)


def test_a_separated_level_has_the_limit_of_its_mean_and_others_are_as_without_its_rows(frame, tmp_path):
    frame = frame.assign(late=frame["late"].where(frame["carrier"] != "UA", 0))
    formula = "late ~ carrier + carrier:hour + origin"
    for part, name in ((frame, "all"), (frame[frame["carrier"] != "UA"], "without")):
        files = [ingest_frame(part, tmp_path, name)]
        tables = margins_of(fit_files(files, formula, "binomial"), files)
        if name == "all":
            limits = tables
    means = limits.means.set_index(["term", "level"])
    assert means.loc[("carrier", "UA"), ["mean", "status"]].tolist() == [0.0, "separated"]
    assert np.isnan(means.loc[("carrier", "UA"), "std_error"])
    separated = limits.effects.query("status == 'separated'")
    assert separated["estimate"].tolist() == [-means.loc[("carrier", "AA"), "mean"]]
    for whole, without in ((limits.effects, tables.effects), (limits.means, tables.means)):
        kept = whole[whole["status"] == ""]
        assert kept["level"].tolist() == without["level"].tolist()
        for name in ("std_error", "ci_lower", "ci_upper"):
            assert kept[name].to_numpy() == pytest.approx(without[name].to_numpy(), rel=1e-6)


def test_what_the_rows_do_not_tell_has_no_estimate(frame, tmp_path):
    frame = frame.assign(state=np.where(frame["origin"] == "EWR", "NJ", "NY"))
    files = [ingest_frame(frame, tmp_path, "aliased")]
    tables = margins_of(fit_files(files, "late ~ carrier + origin + state + hour", "binomial"), files)
    for table in (tables.effects, tables.means):
        aliased = table["term"].isin(["origin", "state"])
        assert (table["status"] == np.where(aliased, "aliased", "")).all()
        assert table.filter(["estimate", "mean", "std_error"]).isna().all(axis=1).equals(aliased)
    frame = frame[(frame["carrier"] != "UA") | (frame["origin"] != "JFK")]
    files = [ingest_frame(frame, tmp_path, "combinations")]
    tables = margins_of(fit_files(files, "delay ~ carrier * origin + C(hour)", "gaussian"), files)
    empty = tables.means.query("status != ''")
    assert empty["level"].tolist() == ["UA", "JFK"] and set(empty["status"]) == {EMPTY_COMBINATION}
    assert empty["mean"].isna().all() and tables.means["mean"].notna().sum() == len(tables.means) - 2


LEFT_OUT = {
    "levels": ("late ~ carrier + hour", "carrier", {"levels": 3}, "left out: 4 levels, of 3 at most"),
    "predictions": ("late ~ carrier + hour", "carrier", {"predictions": 100}, "4 levels of 1,500 rows, of 100 in all"),
    "derivatives": (
        "late ~ carrier + hour",
        "carrier",
        {"derivatives": 10},
        "4 levels by 6 coefficients, of 10 at most",
    ),
    "another way": (
        "late ~ C(hour) + carrier:hour",
        "C(hour)",
        {},
        "`hour` is in the model by its levels and in another",
    ),
    "steps": ("late ~ carrier + bs(distance, df=3, degree=0)", "distance", {}, "changes in steps"),
    "no derivative": ("late ~ carrier + sqrt(late)", "late", {}, NO_SLOPE),
}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_is_left_out_has_a_row_that_says_why(name, files):
    formula, term, largest, reason = LEFT_OUT[name]
    formula = formula.replace("late ~", "delay ~") if name == "no derivative" else formula
    fit = fit_files(files, formula, "gaussian" if name == "no derivative" else "binomial")
    tables = margins_of(fit, files, largest=Largest(**largest))
    (row,) = tables.effects.query("term == @term").itertuples()
    assert reason in row.status and np.isnan(row.estimate) and row.level == ""
    assert ("carrier" in set(tables.effects.query("status == ''")["term"])) == (term != "carrier")
    assert tables.means["term"].tolist().count(term) == (term in ("carrier", "C(hour)"))


@pytest.mark.parametrize(
    ("settings", "reason"), [({"l2": 0.001}, PENALISED), ({"l1": 0.001}, PENALISED), ({}, NO_ERRORS)]
)
def test_a_fit_without_standard_errors_gives_estimates_only(settings, reason, frame, files):
    design, fitted, dictionary = fit_files(files, "late ~ carrier + hour", "binomial", **settings)
    fitted = fitted.without_errors() if reason == NO_ERRORS else fitted  # as of an online solver
    tables = margins_of((design, fitted, dictionary), files)
    of_data = to_data_scale(design) @ fitted.coefficients
    eta = of_data[0] + of_data[1:5] + of_data[5] * frame["hour"].to_numpy()[:, None]
    assert tables.means["mean"].to_numpy() == pytest.approx(scipy.special.expit(eta).mean(0))
    assert tables.effects["estimate"].notna().all()
    for table in (tables.effects, tables.means):
        assert set(table["status"]) == {reason} and table["std_error"].isna().all()


def test_every_function_of_a_formula_has_its_derivative():
    x = np.linspace(0.5, 9.5, 41)
    assert set(FUNCTIONS) == set(TRANSFORMS)
    options = {"poly": [{"degree": 4}, {"degree": 3, "raw": True}], "bs": [{"df": 6}, {"knots": [0.5, 1], "degree": 2}]}
    period = {"lower_bound": 0, "upper_bound": 1.5}
    options |= {"ns": [{"df": 4}], "cc": [{"df": 4, **period}], "I": [{"expression": ("^", "x", 2.0)}]}
    options["I"] += [{"expression": tree_of(ast.parse("1 / x - 2 ** x * log(x) + x ** x", mode="eval").body)[0]}]
    for function in TRANSFORMS:
        for each in options.get(function, [{}]):
            learnt, _ = learn(
                [FunctionCall("scale", {"center": False}), FunctionCall(function, each)], x, np.ones(41), "f"
            )
            inside = x[1:-1] + 0.01
            higher, lower = (apply(np, learnt, inside + step) for step in (1e-6, -1e-6))
            numerical = (np.array(higher) - np.array(lower)) / 2e-6
            np.testing.assert_allclose(derivative(learnt, inside), numerical, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("balanced", [False, True])
def test_means_at_an_exposure_are_those_of_rows_that_have_it(frame, files, tmp_path, balanced):
    settings = {"offset": "log(seats)", "std_errors": "HC1"}
    fit = fit_files(files, "changes ~ carrier + hour + distance", "poisson", **settings)
    means = margins_of(fit, files, balanced=balanced, offset_at=30.0).means.set_index("level")
    model = smf.glm(
        "changes ~ carrier + hour + distance", frame, family=sm.families.Poisson(), offset=np.log(frame["seats"])
    ).fit(tol=1e-14)
    rows = frame.assign(hour=frame["hour"].mean(), distance=frame["distance"].mean()) if balanced else frame
    for level in ("AA", "UA"):
        expected = model.predict(rows.assign(carrier=level), offset=np.full(len(rows), np.log(30.0))).mean()
        assert means.loc[level, "mean"] == pytest.approx(expected, rel=1e-7)
    # The offset of a row with 60 seats is log(2) larger, and so is each mean twice as large, with its error.
    twice = margins_of(fit, files, balanced=balanced, offset_at=60.0)
    assert twice.means["mean"].to_numpy() == pytest.approx(2 * means["mean"].to_numpy(), rel=1e-10)
    assert twice.means["std_error"].to_numpy() == pytest.approx(2 * means["std_error"].to_numpy(), rel=1e-8)
    with pytest.raises(UserError, match=r"models.m.offset_at: `log\(seats\)` is not finite at 0"):
        margins_of(fit, files, offset_at=0.0)
    without = fit_files(files, "changes ~ hour - 1", "poisson", **settings)
    with pytest.raises(UserError, match=r"models\.m\.offset_at: the model has no intercept"):
        margins_of(without, files, offset_at=1.0)
