"""Means and effects in scenarios (`margins_at`): against averages of statsmodels' predictions of changed rows with numerical
derivatives, and against the Python package marginaleffects."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.special
import statsmodels.api as sm
import test_margins
from scipy.stats import norm
from test_margins import CASES, STEP, Oracle, column_of, files, frame  # noqa: F401

from pools import CR1, average_rows, estimates_of, fit_files, ingest_frame
from tfglm.design.scenarios import check_scenarios
from tfglm.errors import UserError
from tfglm.results import coefficients
from tfglm.results.marginal_tables import EMPTY_COMBINATION, NO_MEAN, Averaged, marginal_tables
from tfglm.results.scenario_table import NO_DIFFERENCE, scenario_table

GOLDEN = Path(__file__).parents[1] / "golden"

SCENARIOS = {
    "interactions": {
        "early": {"hour": "6", "origin": "JFK"},
        "late": {"hour": "18", "origin": "JFK"},
        "far": {"distance": "2000"},
    },
    "slopes": {
        "near": {"distance": "200.5", "hour": "6"},
        "far": {"distance": "2000"},
        "B6": {"carrier": "B6", "hour": "7.5"},
    },
    "offset": {"few": {"seats": "20"}, "many": {"seats": "39", "carrier": "UA"}},
    "frequency": {"JFK": {"origin": "JFK"}, "UA": {"carrier": "UA", "hour": "12"}},
    "weights": {"early": {"hour": "6"}, "late": {"hour": "18", "carrier": "UA"}},
    "trials": {"near": {"distance": "500"}, "far": {"distance": "1500", "origin": "LGA"}},
    "by cluster": {"early": {"hour": "6"}, "late": {"hour": "18"}},
    "robust": {"near": {"distance": "500"}, "UA": {"carrier": "UA"}},
}
"""For each of CASES."""


def table_of(fit, files, margins_at, contrasts=None, reference=None, **settings) -> pd.DataFrame:  # noqa: F811
    design, fitted, _ = fit
    averaged = average_rows(design, fitted, files, margins_at=margins_at, **settings)
    return scenario_table(design, fitted, averaged, reference or {}, 0.95, contrasts)


class Changed(Oracle):
    """Averages in scenarios."""

    def values(self, scenario: dict) -> dict:
        return {name: value if self.frame[name].dtype.kind == "O" else float(value) for name, value in scenario.items()}

    def effect(self, scenario: dict, row):
        """The effect of a row of our table in a scenario, as a function of the coefficients."""
        values = self.values(scenario)
        if not row.term:
            return self.mean(**values)
        column = column_of(row.term)
        if row.level:
            higher, lower = (self.mean(**values | self.values({column: level})) for level in (row.level, row.reference))
            return lambda b: higher(b) - lower(b)
        at = values.get(column, self.frame[column])
        higher, lower = (self.mean(**values | {column: at + step}) for step in (STEP, -STEP))
        return lambda b: (higher(b) - lower(b)) / (2 * STEP)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_scenarios_are_averages_of_predictions_of_changed_rows(name, frame, files):  # noqa: F811
    case, scenarios = CASES[name], SCENARIOS[name]
    oracle = Changed(case, frame)
    family = type(case.family).__name__.lower()
    fit = fit_files(files, case.formula, family, limits=CR1, **case.settings)
    table = table_of(fit, files, scenarios)
    assert set(table["at"]) == set(scenarios)
    for row in table.itertuples():
        effect, against = (oracle.effect(scenarios[each], row) if each else None for each in (row.at, row.against))
        exact = oracle.estimate(effect if against is None else lambda b, e=effect, a=against: e(b) - a(b))
        if row.std_error > 1e-9:
            assert row.estimate == pytest.approx(exact[0], rel=1e-5, abs=1e-8)
            # Of differences of averages the oracle has fewer digits.
            assert row.std_error == pytest.approx(exact[1], rel=1e-4), row
        else:
            assert row.status == NO_DIFFERENCE and row.estimate == 0
            assert exact == pytest.approx((0, 0), abs=1e-6)
        assert np.isnan(row.p_value) == (bool(row.status) or not (row.term or row.against))


OF_PACKAGE = {name: case for name, case in test_margins.OF_PACKAGE.items() if name != "frequency"}
HOURS = {"first": {"hour": "-1.5"}, "second": {"hour": "0.25"}}
"""As in golden/margins.py."""


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_PACKAGE)
def test_scenarios_and_second_differences_are_those_of_marginaleffects(name, tmp_path):
    golden = json.loads((GOLDEN / "margins.json").read_text())[name]["scenarios"]
    formula, family, settings = OF_PACKAGE[name]
    files = [ingest_frame(pd.read_csv(GOLDEN / "clustered.csv"), tmp_path)]  # noqa: F811
    table = table_of(fit_files(files, formula, family, limits=CR1, **settings), files, HOURS)
    rows = table.set_index(["at", "against", "term", "level"])[["estimate", "std_error"]]
    effects = {"mean": ("", ""), "UA - AA": ("carrier", "UA"), "wind": ("wind", "")}
    for effect, key in effects.items():
        in_each = [rows.loc[("first", "", *key)].tolist(), rows.loc[("second", "", *key)].tolist()]
        difference = rows.loc[("second", "first", *key)].tolist()
        for mine, theirs in zip(
            [*in_each, difference], golden["in each"][effect] + golden["differences"][effect], strict=True
        ):
            if abs(theirs[0]) > 1e-9:  # not where the model is without the interaction
                assert mine == pytest.approx(theirs, rel=1e-4), effect


@pytest.mark.slow
@pytest.mark.parametrize("family", ["multinomial", "ordinal"])
def test_classes_have_errors_by_the_delta_method(family, frame, tmp_path):  # noqa: F811
    """The interaction effect of Ai and Norton, of each class, by a contrast of four scenarios."""
    labels = ["low", "middle", "high"]
    frame = frame.assign(size=pd.qcut(frame["delay"], 3, labels=labels).astype(str))
    given = {"class_order": labels} if family == "ordinal" else {"reference_class": "low"}
    files = [ingest_frame(frame, tmp_path)]  # noqa: F811
    design, fitted, _ = fit = fit_files(files, "size ~ hour * origin + distance", family, std_errors="HC0", **given)
    corners = {
        f"{hour} {origin}": {"hour": hour, "origin": origin} for hour in ("6", "18") for origin in ("EWR", "JFK")
    }
    contrasts = {"interaction": {"18 JFK": 1.0, "6 JFK": -1.0, "18 EWR": -1.0, "6 EWR": 1.0}}
    table = table_of(fit, files, corners, contrasts)
    estimated = estimates_of(design, fitted)
    vcov = coefficients.covariance_table(estimated)
    named = coefficients.table(estimated, 0.95)
    b = named.loc[named["std_error"].notna(), "estimate"].to_numpy()

    def probabilities(b: np.ndarray, hour, origins: dict) -> np.ndarray:
        """The mean probability of each class."""
        hour, jfk, lga = (np.broadcast_to(each, len(frame)) for each in (hour, origins["JFK"], origins["LGA"]))
        columns = [hour, jfk, lga, frame["distance"], hour * jfk, hour * lga]
        if family == "ordinal":
            order = ["hour", "origin[JFK]", "origin[LGA]", "distance", "hour:origin[JFK]", "hour:origin[LGA]"]
            x = np.column_stack([columns[order.index(name)] for name in vcov.columns[2:]])
            below = scipy.special.expit(b[:2] - (x @ b[2:])[:, None])
            return np.diff(below, axis=1, prepend=0.0, append=1.0).mean(0)
        order = ["Intercept", "hour", "origin[JFK]", "origin[LGA]", "distance", "hour:origin[JFK]", "hour:origin[LGA]"]
        names = [name.partition(": ")[2] for name in vcov.columns[: len(b) // 2]]
        x = np.column_stack([[np.ones(len(frame)), *columns][order.index(name)] for name in names])
        classes = list(dict.fromkeys(name.partition(": ")[0] for name in vcov.columns))
        eta = dict(zip(classes, (x @ b.reshape(2, -1).T).T, strict=True)) | {"low": np.zeros(len(frame))}
        odds = np.exp(np.column_stack([eta[label] for label in labels]))
        return (odds / odds.sum(axis=1, keepdims=True)).mean(0)

    def corner(b: np.ndarray, name: str) -> np.ndarray:
        hour, origin = name.split()
        return probabilities(b, float(hour), {each: float(each == origin) for each in ("JFK", "LGA")})

    def interaction(b: np.ndarray) -> np.ndarray:
        return sum(weight * corner(b, name) for name, weight in contrasts["interaction"].items())

    def slope(b: np.ndarray) -> np.ndarray:
        at = {"JFK": 1.0, "LGA": 0.0}
        return (probabilities(b, 6 + 1e-4, at) - probabilities(b, 6 - 1e-4, at)) / 2e-4

    rows = table.set_index(["at", "term", "class"])
    assert set(rows["against"]) == {""}
    cases = {("interaction", ""): interaction, ("6 JFK", "hour"): slope, ("18 EWR", ""): lambda b: corner(b, "18 EWR")}
    for key, value in cases.items():
        steps = 1e-5 * np.eye(len(b)) * np.maximum(np.abs(b), 1e-3)
        slopes = np.array([(value(b + step) - value(b - step)) / (2 * step.max()) for step in steps])
        errors = np.sqrt(np.einsum("ic,ij,jc->c", slopes, vcov.to_numpy(), slopes))
        for place, label in enumerate(labels):
            mine = rows.loc[(*key, label)]
            assert mine["estimate"] == pytest.approx(value(b)[place], rel=1e-5, abs=1e-9)
            assert mine["std_error"] == pytest.approx(errors[place], rel=1e-3)
    sums = table.groupby(["at", "term", "level"])["estimate"].sum()
    assert np.allclose(sums, [float(not term and at != "interaction") for at, term, _ in sums.index], atol=1e-12)


def test_what_has_no_estimate_says_why_and_files_keep_it_all(frame, tmp_path):  # noqa: F811
    frame = frame[(frame["carrier"] != "UA") | (frame["origin"] != "JFK")]
    frame = frame.assign(late=frame["late"].where(frame["carrier"] != "DL", 0))
    files = [ingest_frame(frame, tmp_path)]  # noqa: F811
    design, fitted, _ = fit_files(files, "late ~ carrier * origin + hour", "binomial")
    given = {"UA": {"carrier": "UA"}, "DL": {"carrier": "DL"}, "early": {"hour": "6"}, "late": {"hour": "20"}}
    averaged = average_rows(design, fitted, files, margins_at=given)
    table = scenario_table(design, fitted, averaged, {}, 0.95)
    of_means = table[table["term"] == ""].set_index(["at", "against"])["status"]
    assert of_means.loc[("UA", "")] == EMPTY_COMBINATION and of_means.loc[("DL", "")] == "separated"
    assert of_means.loc[("late", "early")] == "" and of_means.loc[("early", "UA")] == EMPTY_COMBINATION
    assert table.loc[table["status"] != "", ["std_error", "p_value", "ci_lower"]].isna().all(axis=None)
    assert table.loc[table["status"] == EMPTY_COMBINATION, "estimate"].isna().all()
    # Slopes are there at a value of their own number too, and no level of a factor that is set.
    assert set(table.query("at == 'early' and against == ''")["term"]) == {"", "carrier", "origin", "hour"}
    assert set(table.query("at == 'UA' and against == ''")["term"]) == {"", "origin", "hour"}
    fit, path = tmp_path / "fit.json", tmp_path / "averages.npz"
    fit.write_text("{}")
    averaged.write(path, fit)
    again = scenario_table(design, fitted, Averaged.read(path, fit), {}, 0.95)
    pd.testing.assert_frame_equal(table, again, check_exact=True)


REFUSED = {
    "column": (
        {"a": {"carier": "UA"}},
        {},
        "margins_at.a: `carier` is no covariate of the model; did you mean `carrier`",
    ),
    "response": ({"a": {"changes": "1"}}, {}, "`changes` is no covariate of the model"),
    "level": ({"a": {"carrier": "U A"}}, {}, "margins_at.a.carrier: no level `U A` in the training rows"),
    "number": ({"a": {"hour": "noon"}}, {}, "`hour` is a number in the formula, and `noon` is none"),
    "infinite": ({"a": {"hour": "inf"}}, {}, "and `inf` is none"),
    "function": ({"a": {"seats": "0"}}, {}, "margins_at.a.seats: `log(seats)` is not finite at 0"),
    "range": ({"a": {"distance": "1e6"}}, {}, "1e+06 is outside the range of the training rows"),
    "offset": ({"a": {"seats": "30"}}, {"offset_at": 20.0}, "`offset_at` sets `seats` already"),
    "contrast": ({"a": {"hour": "6"}}, {"contrasts": {"c": {"b": 1}}}, "margins_contrasts.c: no scenario `b`"),
    "name": (
        {"a": {"hour": "6"}},
        {"contrasts": {"a": {"a": 1}}},
        "margins_contrasts.a: a scenario under `margins_at` has",
    ),
}


@pytest.fixture(scope="module")
def with_offset(files):  # noqa: F811
    return fit_files(files, "changes ~ carrier + hour + bs(distance, df=4)", "poisson", offset="log(seats)")


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_row_can_be_set_to_is_refused(name, with_offset):
    wanted, given, message = REFUSED[name]
    with pytest.raises(UserError) as refusal:
        check_scenarios(with_offset[0], wanted, given.get("contrasts", {}), given.get("offset_at"))
    assert message in str(refusal.value)


def test_a_scenario_out_of_the_range_of_the_link_has_no_numbers(frame, tmp_path):  # noqa: F811
    frame = frame.assign(cost=1.0 / (0.5 + 0.02 * frame["hour"]) * np.random.default_rng(1).gamma(9, 1 / 9, len(frame)))
    files = [ingest_frame(frame, tmp_path)]  # noqa: F811
    fit = fit_files(files, "cost ~ hour + carrier", "gamma", link="inverse")
    table = table_of(fit, files, {"within": {"hour": "12"}, "outside": {"hour": "-500"}})
    outside = (table["at"] == "outside") | (table["against"] == "outside")
    assert (table["status"] == np.where(outside, NO_MEAN, "")).all()
    assert table.loc[outside, ["estimate", "std_error", "p_value"]].isna().all(axis=None)
    assert table.loc[~outside, "std_error"].notna().all()


def test_a_scenario_sets_the_column_of_the_offset(with_offset, files):  # noqa: F811
    table = table_of(with_offset, files, {"ten": {"seats": "10"}, "twenty": {"seats": "20"}})
    means = table[table["term"] == ""].set_index(["at", "against"])["estimate"]
    assert means["twenty", ""] == pytest.approx(2 * means["ten", ""], rel=1e-12)
    fixed = table_of(with_offset, files, {"late": {"hour": "18"}}, offset_at=10.0)
    both = table_of(with_offset, files, {"late": {"hour": "18", "seats": "10"}})
    assert fixed["estimate"].to_numpy() == pytest.approx(both["estimate"].to_numpy(), rel=1e-10)


def test_ratios_of_means_and_ratios_of_ratios_have_errors_by_the_delta_method(tmp_path):
    random = np.random.default_rng(3)
    rows = pd.DataFrame({"x": random.normal(size=300), "g": random.choice(["a", "b"], 300)})
    rows["y"] = (random.random(300) < 1 / (1 + np.exp(0.5 * (rows["g"] == "b") - 0.8 * rows["x"]))).astype(int)
    design, fitted, _ = fit_files([ingest_frame(rows, tmp_path)], "y ~ x * g", "binomial")

    def columns(x, g):
        x, g = np.broadcast_to(x, 300), np.broadcast_to(g, 300).astype(float)
        return np.column_stack([np.ones(300), x, g, x * g])

    exact = sm.GLM(rows["y"], columns(rows["x"], rows["g"] == "b"), sm.families.Binomial()).fit(tol=1e-14)

    def log_mean(x, g):
        """The logarithm of the mean response, and its gradient."""
        at = columns(x, g)
        mean = exact.predict(at)
        return np.log(mean.mean()), (mean * (1 - mean)) @ at / 300 / mean.mean()

    def expected(value, gradient):
        error = np.sqrt(gradient @ exact.cov_params() @ gradient)
        limits = np.exp(value + error * norm.ppf([0.025, 0.975]))
        return [np.exp(value), np.exp(value) * error, 2 * norm.sf(abs(value / error)), *limits]

    def difference(one, other):
        return tuple(mine - theirs for mine, theirs in zip(one, other, strict=True))

    scenarios = {"low": {"x": "0"}, "high": {"x": "1"}}
    averaged = average_rows(design, fitted, [ingest_frame(rows, tmp_path / "again")], margins_at=scenarios)
    names = [f"mean_ratio{end}" for end in ("", "_std_error", "_p_value", "_ci_lower", "_ci_upper")]
    effects = marginal_tables(design, fitted, averaged, {}, 0.95, None, "ratio").effects.set_index("term")
    of_g = expected(*difference(log_mean(rows["x"], 1), log_mean(rows["x"], 0)))
    np.testing.assert_allclose(effects.loc["g", names].astype(float), of_g, rtol=1e-7)
    assert effects.loc["x", names].isna().all()
    table = scenario_table(design, fitted, averaged, {}, 0.95, None, None, "ratio").set_index(["at", "against", "term"])
    ratios = [difference(log_mean(x, 1), log_mean(x, 0)) for x in (0.0, 1.0)]
    of_ratios = table.loc[("high", "low", "g"), names].astype(float)
    np.testing.assert_allclose(of_ratios, expected(*difference(*ratios[::-1])), rtol=1e-7)
    assert table.loc[("high", "", ""), names].isna().all()
