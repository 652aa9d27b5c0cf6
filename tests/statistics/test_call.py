"""`tfglm.fit` against statsmodels and the workflow, on every kind of table, and what it says to input that is wrong."""

import gc
import os
import pickle
import re
import subprocess
import sys
import threading
from pathlib import Path
from unittest.mock import Mock

import matplotlib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import statsmodels.formula.api as smf
from sklearn.base import clone
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import tfglm
from pools import estimates_of, fit_files, ingest_frame
from tfglm import console
from tfglm.call import rows as read_rows
from tfglm.call.fitted import OF_KEYS
from tfglm.config import load, load_layouts
from tfglm.config.files import read
from tfglm.errors import UserError
from tfglm.results import coefficients, csv_files
from tfglm.results.estimator import FormulaClassifier, FormulaRegressor

RANDOM = np.random.default_rng(5)
FRAME = pd.DataFrame(
    {
        "late": RANDOM.integers(0, 2, 400),
        "delay": RANDOM.normal(10, 4, 400),
        "distance": RANDOM.uniform(100, 900, 400),
        "carrier": RANDOM.choice(["AA", "UA", "DL"], 400),
        "day": RANDOM.integers(0, 40, 400),
    }
)
FORMULA = "delay ~ carrier * distance"


def test_a_frame_is_fitted_as_statsmodels_does():
    ours = tfglm.fit(FORMULA, FRAME, std_errors="HC1").tidy()
    theirs = smf.ols(FORMULA, FRAME).fit(cov_type="HC1")
    assert np.allclose(np.sort(ours["estimate"]), np.sort(theirs.params), rtol=1e-9)
    assert np.allclose(np.sort(ours["std.error"]), np.sort(theirs.bse), rtol=1e-9)


def test_a_file_gives_the_table_of_the_workflow_byte_for_byte(tmp_path):
    file = ingest_frame(FRAME[["late", "carrier", "distance"]], tmp_path, "flights")
    design, fitted, _ = fit_files([file], "late ~ carrier + distance", "binomial", std_errors="HC3")
    csv_files.write(coefficients.table(estimates_of(design, fitted), 0.95, True), tmp_path / "coefficients.csv")
    FRAME.to_csv(tmp_path / "all" / "flights.csv", index=False) if (tmp_path / "all").mkdir() is None else None
    ours = tfglm.fit("late ~ carrier + distance", tmp_path / "all" / "flights.csv", "binomial", std_errors="HC3")
    assert ours._result("coefficients.csv").read_bytes() == (tmp_path / "coefficients.csv").read_bytes()


TABLES = {
    "polars": pl.from_pandas,
    "arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "an index": lambda frame: frame.set_index(RANDOM.permutation(len(frame))),
    "nullable types": lambda frame: frame.convert_dtypes(),
    "categoricals": lambda frame: frame.astype({"carrier": pd.CategoricalDtype(["AA", "DL", "NK", "UA"])}),
    "a stream": lambda frame: Stream(pa.Table.from_pandas(frame)),
}


class Stream:
    """A table that says nothing of itself but its rows."""

    def __init__(self, table: pa.Table):
        self.__arrow_c_stream__ = table.__arrow_c_stream__


@pytest.mark.parametrize("made", TABLES.values(), ids=TABLES)
def test_every_kind_of_table_gives_the_same_bytes(made):
    expected, ours = (tfglm.fit(FORMULA, data)._result("coefficients.csv") for data in (FRAME, made(FRAME)))
    # The fits are gone, and with them their folders.
    assert not expected.exists() and not ours.exists()
    first, other = tfglm.fit(FORMULA, FRAME), tfglm.fit(FORMULA, made(FRAME))
    assert first._result("coefficients.csv").read_bytes() == other._result("coefficients.csv").read_bytes()


def test_files_of_the_name_of_a_table_give_its_bytes_and_parts_its_estimates(tmp_path):
    FRAME.to_parquet(tmp_path / "table.parquet")
    FRAME.to_csv(tmp_path / "table.csv", index=False)
    parts = [tmp_path / f"part_{number}.csv" for number in range(3)]
    for path, rows in zip(parts, np.array_split(np.arange(len(FRAME)), 3), strict=True):
        FRAME.iloc[rows].to_csv(path, index=False)
    expected = tfglm.fit(FORMULA, FRAME)
    for data in (tmp_path / "table.parquet", str(tmp_path / "table.csv")):
        fitted = tfglm.fit(FORMULA, data)
        assert (fitted.folder / "coefficients.csv").read_bytes() == (expected.folder / "coefficients.csv").read_bytes()
    # The name of a file, and where it ends, decide in which order rows are summed.
    for data in (parts, tmp_path / "part_*.csv"):
        assert np.allclose(tfglm.fit(FORMULA, data).tidy()["estimate"], expected.tidy()["estimate"], rtol=1e-11)


def test_workers_change_no_byte():
    frame = pd.concat([FRAME] * 200)
    for formula in ("delay ~ s(distance) + carrier", "late ~ C(day) * distance"):
        one, three = (tfglm.fit(formula, frame, workers=workers) for workers in (1, 3))
        assert (one.folder / "coefficients.csv").read_bytes() == (three.folder / "coefficients.csv").read_bytes()


@pytest.mark.filterwarnings("error")
def test_a_factor_of_the_clusters_gives_no_warning():
    assert len(tfglm.fit("late ~ distance + C(day)", FRAME, "binomial", std_errors="cluster(day)").terms) == 2


def test_a_categorical_orders_its_levels_as_in_r():
    frame = FRAME.astype({"carrier": pd.CategoricalDtype(["UA", "NK", "DL", "AA"])})
    assert tfglm.fit("delay ~ carrier", frame).tidy()["level"].tolist() == ["", "DL", "AA"]
    # A categorical that the model does not name changes nothing.
    lacking = frame.assign(carrier=frame["carrier"].mask(frame.index < 300))
    assert tfglm.fit("delay ~ day", lacking).fit["rows"] == len(frame)
    numbers = FRAME.assign(day=FRAME["day"].astype("category"))
    assert tfglm.fit("delay ~ C(day)", numbers).fit["coefficients"] == FRAME["day"].nunique()


def test_rows_that_are_left_out_are_counted():
    frame = FRAME.assign(distance=FRAME["distance"].mask(FRAME.index < 7))
    fitted = tfglm.fit("delay ~ distance", frame, where="carrier <> 'UA'")
    assert fitted.rows["splits"]["train"]["dropped"] == {"missing: distance": (frame["carrier"][:7] != "UA").sum()}
    assert fitted.fit["rows"] == ((frame["carrier"] != "UA") & frame["distance"].notna()).sum()


def test_a_subset_is_the_fit_of_its_rows():
    """As if others were not there: no cluster, knot or mean of theirs counts."""
    formula, some = "delay ~ carrier + ns(distance, df=3) + scale(day)", FRAME["day"] % 3 > 0
    subset = tfglm.fit(formula, FRAME, subset="day % 3 > 0 & !is.na(day)", std_errors="cluster(day)")
    alone = tfglm.fit(formula, FRAME, where="day % 3 > 0", std_errors="cluster(day)")
    for column in ("estimate", "std_error", "df", "p_value", "rows"):
        assert np.allclose(subset.coefficients[column], alone.coefficients[column], rtol=1e-9, equal_nan=True), column
    assert subset.fit["aic"] == pytest.approx(alone.fit["aic"], rel=1e-12)
    train = subset.rows["splits"]["train"]
    assert train == {"rows": len(FRAME), "dropped": {"not in the subset": (~some).sum()}, "used": some.sum()}
    assert subset.fit["rows"] == some.sum() and "subset_model" not in subset.rows["columns"]
    counted = tfglm.fit("delay ~ distance", FRAME, subset="carrier = 'AA'", frequency="late")
    assert counted.fit["rows"] == FRAME.loc[FRAME["carrier"] == "AA", "late"].sum()


@pytest.mark.parametrize(
    ("values", "number"),
    [
        (pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(len(FRAME)) % 90, "D"), "CAST(x AS BIGINT)"),
        ([f"{number % 90 / 4:.2f} cm" for number in range(len(FRAME))], "CAST(REPLACE(x, ' cm', '') AS DOUBLE)"),
    ],
)
def test_a_text_with_many_levels_has_a_remark_that_names_its_number(values, number):
    frame = FRAME.assign(x=values)
    (remark,) = (text for text in tfglm.fit("delay ~ x", frame).fit["warnings"] if text.startswith("x: 90 levels"))
    assert remark.endswith(f'for 400 rows; use a number, as by derive={{"number": "{number}"}}, or (1 | x)')
    fitted = tfglm.fit("delay ~ number", frame, derive={"number": number})
    assert len(fitted.coefficients) == 2 and not fitted.fit["warnings"]
    assert not any("levels" in text for text in tfglm.fit("delay ~ day | x", frame).fit["warnings"])


def test_parts_of_a_formula_are_absorbed_as_dummies():
    frame = FRAME.assign(week=FRAME["day"] // 14)
    fitted = tfglm.fit("delay ~ distance | carrier^week", frame)
    dummies = smf.ols("delay ~ distance + C(carrier):C(week)", frame).fit()
    assert fitted.tidy()["estimate"].tolist() == pytest.approx([dummies.params["distance"]], rel=1e-9)
    assert fitted.tidy()["std.error"].tolist() == pytest.approx([dummies.bse["distance"]], rel=1e-9)
    effects = fitted.margins()
    assert effects["std_error"].tolist() == pytest.approx([dummies.bse["distance"]], rel=1e-9)


def test_tables_are_made_when_they_are_asked_for():
    fitted = tfglm.fit("late ~ carrier + distance", FRAME, "binomial", contrasts={"c": {"carrier[UA]": 1}})
    effects = fitted.margins().set_index(["term", "level"])["estimate"]
    theirs = smf.logit("late ~ carrier + distance", FRAME).fit(disp=0)
    means = [theirs.predict(FRAME.assign(carrier=carrier)).mean() for carrier in ("UA", "AA")]
    assert np.isclose(effects["carrier", "UA"], means[0] - means[1], rtol=1e-6)
    assert fitted._result("contrasts.csv").is_file()
    predicted = fitted.predict(FRAME.head(5))["probability"]
    assert np.allclose(predicted, theirs.predict(FRAME.head(5)), rtol=1e-6)


def test_tidy_and_glance_are_those_of_broom(tmp_path):
    """Against R's `summary.lm` with `confint`, by the formulas that broom takes from there."""
    fitted = tfglm.fit("delay ~ carrier + distance", FRAME)
    theirs = smf.ols("delay ~ carrier + distance", FRAME).fit()
    tidy, glance = fitted.tidy(conf_level=0.9), fitted.glance().iloc[0]
    expected = {
        "estimate": theirs.params,
        "std.error": theirs.bse,
        "statistic": theirs.tvalues,
        "p.value": theirs.pvalues,
        "conf.low": theirs.conf_int(0.1)[0],
        "conf.high": theirs.conf_int(0.1)[1],
    }
    assert list(tidy) == ["term", "level", "estimate", "std.error", "statistic", "df", *list(expected)[3:]]
    for name, values in expected.items():
        assert np.allclose(tidy[name], values, rtol=1e-8), name
    assert list(fitted.tidy(conf_int=False))[-1] == "p.value"
    of_fit = {
        "r.squared": theirs.rsquared,
        "adj.r.squared": theirs.rsquared_adj,
        "statistic": theirs.fvalue,
        "p.value": theirs.f_pvalue,
        "df": theirs.df_model,
        "logLik": theirs.llf,
        "df.residual": theirs.df_resid,
        "deviance": theirs.ssr,
        "null.deviance": theirs.centered_tss,
        "sigma": theirs.mse_resid**0.5,
        "nobs": 400,
    }
    for name, value in of_fit.items():
        assert np.isclose(glance[name], value, rtol=1e-8), name
    ratios = tfglm.fit("late ~ distance", FRAME, "binomial")
    assert np.allclose(ratios.tidy(exponentiate=True)["estimate"], ratios.coefficients["odds_ratio"], rtol=1e-15)
    assert np.allclose(np.log(ratios.tidy(exponentiate=True)["conf.high"]), ratios.tidy()["conf.high"])
    with pytest.raises(UserError, match=r"^exponentiate: .* as the link is identity"):
        fitted.tidy(exponentiate=True)
    with pytest.raises(UserError, match=r"^conf_level: expected a number between 0 and 1"):
        fitted.tidy(conf_level=95)


def test_several_formulas_are_models_of_the_same_rows():
    data = FRAME.assign(distance=FRAME["distance"].where(FRAME.index > 5))
    first, second, *others = tfglm.fit("c(delay, late) ~ carrier + sw0(distance)", data, std_errors="HC1")
    assert [each.name for each in (first, second, *others)] == ["model_1", "model_2", "model_3", "model_4"]
    assert len(data) > first.fit["rows"] == second.fit["rows"] == others[0].fit["rows"]
    alone = tfglm.fit("delay ~ carrier + distance", data, std_errors="HC1")
    assert second.coefficients.equals(alone.coefficients)
    assert list(first.compare(second, *others).coefficients)[2::2] == ["model_1", "model_2", "model_3", "model_4"]
    with pytest.raises(UserError, match=r"^formula: `late ~ carrier:sw\(.* is a term of its own"):
        tfglm.fit("late ~ carrier:sw(distance, day)", data)


def test_fits_of_one_table_are_compared_and_of_other_rows_refused():
    small = tfglm.fit("late ~ carrier", FRAME, "binomial", name="small")
    large = tfglm.fit("late ~ carrier + distance", FRAME, "binomial", name="large")
    compared = small.compare(large)
    theirs = [smf.logit(model.fit["formula"], FRAME).fit(disp=0).llf for model in (small, large)]
    assert np.isclose(compared.tests["chi_squared"].item(), 2 * (theirs[1] - theirs[0]), rtol=1e-6)
    assert compared.tests["df"].item() == 1 and list(compared.coefficients)[2::2] == ["small", "large"]
    assert "Likelihood-ratio test of small within large" in repr(compared) and "<td>AIC</td>" in compared._repr_html_()
    assert list(small.compare(large, names=["(a)", "(b)"]).coefficients)[2::2] == ["(a)", "(b)"]
    lacking = FRAME["distance"].mask(FRAME["day"] == 3)
    for frame, message in (
        (FRAME.assign(late=1 - FRAME["late"]), "the column `late` differs"),
        (FRAME[1:], "400 rows.*399 rows"),
        (FRAME.assign(distance=lacking), "training rows 400 and"),
    ):
        other = tfglm.fit("late ~ carrier + distance", frame, "binomial", name="other")
        with pytest.raises(UserError, match=f"^compare: `small` and `other` were not .* same rows: .*{message}"):
            small.compare(other)
    both = FRAME.assign(a=FRAME["distance"].mask(FRAME.index == 1), b=FRAME["distance"].mask(FRAME.index == 2))
    with pytest.raises(UserError, match=r"`\(1\)` lacks the rows without a value of `a`.*\n.*a IS NOT NULL"):
        tfglm.fit("late ~ a", both, "binomial").compare(tfglm.fit("late ~ b", both, "binomial"))
    pair = [(f"late ~ {name}", {"name": f"of_{name}"}) for name in ("a", "b")]
    for key in ("subset", "where"):
        some = {key: "a IS NOT NULL AND b IS NOT NULL"}
        first, other = (tfglm.fit(formula, both, "binomial", **some, **keys) for formula, keys in pair)
        assert first.fit["rows"] == 398 and first.compare(other).tests["problem"].str.startswith("not nested: ").all()
        large = tfglm.fit("late ~ a + day", both, "binomial", **some, name="large")
        statistic = 2 * (large.fit["log_likelihood"] - first.fit["log_likelihood"])
        assert first.compare(large).tests["chi_squared"].item() == pytest.approx(statistic, rel=1e-9)
        message = rf"`{key}` is a IS NOT NULL.* for `of_a`, and not given for `of_b`\n  fit both with the same `{key}`$"
        with pytest.raises(UserError, match=message):
            first.compare(tfglm.fit("late ~ b", both, "binomial", name="of_b"))
    with pytest.raises(UserError, match=r"`of_a` lacks the rows without a value of `a`"):
        first, other = (tfglm.fit(formula, both, "binomial", subset="day >= 0", **keys) for formula, keys in pair)
        first.compare(other)
    with pytest.raises(UserError, match=r"^compare: expected models"):
        small.compare(FRAME)
    # A formula derives the column of combinations, which selects no rows.
    joint, apart = (tfglm.fit(f"distance ~ late | {factors}", FRAME) for factors in ("carrier^day", "carrier + day"))
    assert list(joint.compare(apart).tests["problem"].str.contains("absorb different factors")) == [True]


QUOTED = {
    "difference": (
        "delay ~ carrier",
        "gaussian",
        {},
        r"^delay is \S+ minutes (higher|lower) .* carrier UA than with AA;",
    ),
    "odds": ("late ~ carrier", "binomial", {}, r"^The odds of late are \d+ % .*UA than with AA, on average"),
    "probit": ("late ~ carrier", "binomial", {"link": "probit"}, "^The probability of late is on average .*points"),
    "product": ("delay ~ carrier * distance", "gaussian", {}, "^delay is on average .* carrier UA than with AA"),
    "logarithm": ("log(delay + 50) ~ carrier", "gaussian", {}, r"\(geometric mean\) is .* % .*carrier UA than with AA"),
}


@pytest.mark.parametrize(("formula", "family", "keys", "sentence"), QUOTED.values(), ids=QUOTED)
def test_an_effect_is_quoted_in_a_sentence(formula, family, keys, sentence):
    fitted = tfglm.fit(formula, FRAME, family, std_errors="robust", **keys)
    quoted = fitted.quote("carrier", "UA", units={"delay": "minutes"})
    assert re.search(sentence, quoted) and quoted.endswith("; 95 % confidence, robust standard errors.")


def test_a_quotation_has_the_numbers_of_the_table():
    fitted = tfglm.fit("delay ~ distance + carrier", FRAME)
    low, high = 100 * fitted.coefficients.loc[("distance", ""), ["ci_lower", "ci_upper"]]
    quoted = fitted.quote("distance", step=100, units={"distance": "miles"})
    assert "for each 100 miles more of distance" in quoted
    assert f"{abs(low):.2g} lower to" in quoted and f"{abs(high):.2g} higher" in quoted
    for term, level, message in (
        ("distanc", "", r"^term: the model has no `distanc`; did you mean `distance`\?"),
        ("carrier", "", "^level: `carrier` has no level ``"),
        ("carrier", "ZZ", "^level: `carrier` has no level `ZZ`\n  there are: AA, DL, UA"),
        ("carrier", "AA", "^level: others are compared with AA"),
    ):
        with pytest.raises(UserError, match=message):
            fitted.quote(term, level)
    with pytest.raises(UserError, match=r"^carrier: there is no sentence about it, as the fit has no tests of it"):
        tfglm.fit("delay ~ carrier", FRAME, l2=0.1).quote("carrier", "UA")


def test_a_notebook_shows_the_table_and_a_picture(monkeypatch):
    levels = pd.DataFrame({"y": RANDOM.normal(size=300), "g": np.arange(300) // 2})
    fitted, many = tfglm.fit("delay ~ carrier", FRAME), tfglm.fit("y ~ C(g)", levels)
    page = fitted._repr_html_()
    cells = re.findall("<td>([^<]*)</td>", page.replace("\N{MINUS SIGN}", "-"))
    assert set(cells) - {""} <= {*fitted.summary().split()}
    assert "<title>carrier UA: estimate " in page and "src=" not in page
    assert "and 130 more coefficients" in many._repr_html_() and "and 50 more coefficients" in many.summary()
    assert "<svg" not in tfglm.fit("delay ~ te(distance, day)", FRAME)._repr_html_()  # its coefficients mean nothing
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "<table>" in fitted._repr_html_() and "<svg" not in fitted._repr_html_()


def test_a_view_has_the_random_effects_of_many_levels():
    pytest.importorskip("matplotlib")
    group, x = np.divmod(np.arange(300), 5)
    frame = pd.DataFrame(
        {
            "g": [f"group {each}" for each in group],
            "x": x,
            "y": np.sin(7 * group) * (3 + x) + np.cos(9.0 * np.arange(300)),
        }
    )
    view = tfglm.fit("y ~ x + (1 + x | g)", frame)._repr_html_()
    assert "intercepts by g" in view and "slopes of x by g" in view and "36 others" in view


def test_pictures_and_tables_take_the_words_of_the_config():
    fitted, larger = tfglm.fit("delay ~ carrier", FRAME), tfglm.fit("delay ~ carrier + distance", FRAME)
    drawn = fitted.plot(title="Mine & <b>", labels={"UA": "United"}, size=(8, 4))
    assert {"Mine &amp; &lt;b&gt;", "United"} <= set(
        re.findall(r">([^<>]+)</text>", drawn)
    ) and 'width="576pt"' in drawn
    table = repr(fitted.compare(larger, digits=2, terms=["distance"]))
    assert "distance" in table and "carrier" not in table.partition("response")[0]
    with pytest.raises(UserError, match=r"^plot: levels: expected an integer >= 1"):
        fitted.plot(levels=0)
    with pytest.raises(UserError, match=r"^compare: terms: no formula has the term `dist`"):
        fitted.compare(larger, terms=["dist"])


def test_an_estimator_works_where_scikit_learn_fits_copies():
    covariates, formula = FRAME[["carrier", "distance"]], "late ~ carrier + distance"
    estimator = tfglm.fit(formula, FRAME, "binomial", l2=0.01).estimator()
    folds = KFold(3)
    losses = cross_val_score(estimator, covariates, FRAME["late"], cv=folds, scoring="neg_log_loss")
    for loss, (train, held_out) in zip(losses, folds.split(FRAME), strict=True):
        fold = tfglm.fit(formula, FRAME.iloc[train], "binomial", l2=0.01)
        probability = fold.predict(FRAME.iloc[held_out])["probability"]
        assert np.isclose(-loss, log_loss(FRAME["late"].iloc[held_out], probability), rtol=1e-12)
    search = GridSearchCV(estimator, {"l2": [0.001, 10.0]}, cv=2, scoring="neg_log_loss").fit(covariates, FRAME["late"])
    assert search.best_estimator_.keys["l2"] == search.best_params_["l2"] and estimator.keys["l2"] == 0.01
    scaled = make_pipeline(StandardScaler(), FormulaRegressor("delay ~ s(x0, k=5) + x1"))
    numbers = FRAME[["distance", "day"]]
    expected = tfglm.fit("delay ~ s(distance, k=5) + day", FRAME).predict(FRAME)["mean"]
    assert np.allclose(scaled.fit(numbers, FRAME["delay"]).predict(numbers), expected, rtol=1e-6)
    far = tfglm.fit("delay ~ far", FRAME, derive={"far": "distance > 500"})
    copy = clone(far.estimator()).fit(FRAME[["distance"]], FRAME["delay"])
    assert np.array_equal(copy.predict(FRAME[["distance"]]), far.predict(FRAME)["mean"])
    event = tfglm.fit("event ~ distance", FRAME, "binomial", derive={"event": "carrier = 'AA'"})
    copy = clone(event.estimator()).fit(FRAME[["distance"]], FRAME["carrier"] == "AA")
    assert np.array_equal(copy.predict_proba(FRAME[["distance"]])[:, 1], event.predict(FRAME)["probability"])
    texts = FormulaClassifier().fit(covariates, np.where(FRAME["late"] == 1, "yes", "no"))
    assert texts.classes_.tolist() == ["no", "yes"] and set(texts.predict(covariates)) <= {"no", "yes"}
    with pytest.raises(UserError, match=r'unseen level; with `unseen="reference"` they get one'):
        estimator.predict(covariates.assign(carrier="ZZ"))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_estimators_pass_the_checks_of_scikit_learn():
    """Rows of the checks are separable by class: without a penalty such a fit is refused."""
    check_estimator(FormulaClassifier(keys={"l2": 0.01}))


def test_maketables_reads_fits():
    """By the attributes that its `ETable` looks for."""
    fitted = tfglm.fit("delay ~ carrier * distance", FRAME, std_errors="HC1")
    table = fitted.__maketables_coef_table__
    products = ["carrier[DL]:distance", "carrier[UA]:distance"]
    assert table.index.tolist() == ["Intercept", "carrier[DL]", "carrier[UA]", "distance", *products]
    assert np.array_equal(table["se"], fitted.tidy()["std.error"])
    keys = fitted.__maketables_default_stat_keys__
    assert {key: fitted.__maketables_stat__(key) for key in keys}["se_type"] == "HC1" and keys[0] == "N"
    assert fitted.__maketables_stat__("r2_within") is None and fitted.__maketables_depvar__ == "delay"
    absorbed = tfglm.fit("delay ~ distance", FRAME, absorb=["day"])
    penalised = tfglm.fit("delay ~ distance", FRAME, l2=0.1)
    assert absorbed.__maketables_fixef_string__ == "day" and penalised.__maketables_coef_table__["p"].isna().all()
    maketables = pytest.importorskip("maketables", reason="readers who want its tables install maketables")
    shown = maketables.ETable([fitted, absorbed, penalised]).df.astype(str)
    assert f"{fitted.tidy()['estimate'][3]:.3f}" in shown.to_string()


def test_a_pickled_fit_keeps_its_tables_without_its_rows():
    fitted = tfglm.fit("late ~ carrier + distance", FRAME, "binomial")
    pickled = pickle.dumps(fitted)
    again = pickle.loads(pickled)
    assert again.folder != fitted.folder and again.summary() == fitted.summary()
    assert again.margins().equals(fitted.margins())
    assert again.predict(FRAME)["probability"].equals(fitted.predict(FRAME)["probability"])
    assert again.compare(fitted).tests["problem"].item() == "(1) and (2) say the same"
    with pytest.raises(UserError, match=r"^pages need the rows, and a pickled fit has none; .* or fit again$"):
        again.write_pages("page.html")
    assert len(pickle.dumps(tfglm.fit("delay ~ day", pd.concat([FRAME] * 100)))) < len(pickled) + 10_000


def test_rows_of_a_file_are_kept_in_a_cache_until_the_file_changes(tmp_path):
    path, cache = tmp_path / "flights.csv", tmp_path / "cache"
    FRAME.to_csv(path, index=False)
    first = tfglm.fit(FORMULA, path, cache=cache).tidy()["estimate"]
    kept = {file: file.stat().st_mtime_ns for file in cache.rglob("manifest.json")}
    assert tfglm.fit("delay ~ distance + carrier", path, cache=cache).fit["rows"] == 400
    assert {file: file.stat().st_mtime_ns for file in cache.rglob("manifest.json")} == kept and len(kept) == 1
    FRAME.assign(delay=2 * FRAME["delay"]).to_csv(path, index=False)
    assert np.allclose(tfglm.fit(FORMULA, path, cache=cache).tidy()["estimate"], 2 * first)


def forget_rows() -> None:
    read_rows.LATEST.clear()
    gc.collect()


def test_a_further_model_reads_only_what_has_changed(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(read_rows, "SETTLED", 0)
    path, read, ingest = tmp_path / "flights.csv", [], read_rows.ingest
    monkeypatch.setattr(read_rows, "ingest", lambda source, *others: read.append(source) or ingest(source, *others))
    FRAME.to_csv(path, index=False)
    frame = FRAME.copy()
    for data in (path, frame):
        forget_rows()
        first = tfglm.fit(FORMULA, data, where="day < 30")
        # No model is left that uses the rows of the next.
        for formula in ("delay ~ distance + carrier", "delay ~ log(distance) * carrier"):
            assert tfglm.fit(formula, data, where="day < 30", missing={"carrier": "level"}).fit["converged"]
        assert len(read) == 1
        tfglm.fit(FORMULA, data), tfglm.fit("delay ~ distance", data)
        assert len(read) == 3
        assert len(first.margins()) == 3 and len(read) == 3  # its rows are still there
        read.clear()
    before = tfglm.fit(FORMULA, frame).tidy()["estimate"]
    frame.loc[0, "delay"] += 1e-6
    assert not tfglm.fit(FORMULA, frame).tidy()["estimate"].equals(before)
    status = path.stat()
    before = tfglm.fit(FORMULA, path).tidy()["estimate"]
    path.write_text(path.read_text().replace("AA", "XX").replace("UA", "AA").replace("XX", "UA"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    after = tfglm.fit(FORMULA, path)
    assert path.stat().st_size == status.st_size and not after.tidy()["estimate"].equals(before)
    del first, after
    forget_rows()
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_file_that_has_just_been_written_has_no_identity(tmp_path):
    """A change within the tick of a file system's clock leaves size and times as they are."""
    (tmp_path / "a").touch()
    assert read_rows.identity_of(tmp_path / "a") != read_rows.identity_of(tmp_path / "a")


def test_names_are_those_of_the_data():
    frame = FRAME.rename(columns={"distance": "sq.ft"}).assign(**{"carrier x": 1.0, "carrier_x": FRAME["day"]})
    fitted = tfglm.fit("delay ~ sq_ft + carrier_x", frame)
    assert np.allclose(
        fitted.tidy()["estimate"], tfglm.fit("delay ~ distance + day", FRAME).tidy()["estimate"], rtol=1e-12
    )
    assert np.array_equal(
        fitted.predict(frame)["mean"], fitted.predict(frame.rename(columns={"sq.ft": "sq_ft"}))["mean"]
    )
    others = tfglm.fit("delay ~ sq.ft + `carrier x`", frame, where="`carrier x` < 2", subset="sq.ft > 0")
    assert others.tidy()["term"].tolist() == ["Intercept", "sq_ft", "carrier_x_2"]
    found = []
    for carrier, day in (("carrier", "day"), ("the carrier", "day (of 40)")):
        data = FRAME.rename(columns={"carrier": carrier, "day": day})
        keys = {"reference": {carrier: "UA"}, "std_errors": f"cluster(`{day}`)", "missing": {carrier: "level"}}
        keys |= {"pairwise": [carrier], "weights": day, "where": f"`{day}` > 0"}
        fitted = tfglm.fit(f"delay ~ `{carrier}`", data, **keys)
        found.append([*fitted.table("pairwise")["p_value"], *fitted.tidy()["std.error"]])
        assert "carrier AA than with UA" in fitted.quote(carrier, "AA", units={carrier: "letters"})
    assert len(found[0]) == 6 and found[0] == found[1]


def test_what_the_model_does_not_name_is_not_read():
    frame = FRAME.assign(note=["a", 1] * 200)
    assert tfglm.fit("delay ~ day", frame).fit["rows"] == 400
    # Line ends and tabs are no part of a name.
    assert tfglm.fit("delay ~ day", FRAME, where="day > 3 AND\ndistance\t< 500").fit["rows"] > 0


def test_a_text_of_a_table_is_what_it_says():
    frame = FRAME.replace({"carrier": {"DL": "NA"}})
    category = frame["carrier"].astype("category")
    for carrier in (frame["carrier"], category, category.cat.add_categories(" x ")):
        assert tfglm.fit("delay ~ carrier", frame.assign(carrier=carrier)).tidy()["level"].tolist() == ["", "NA", "UA"]


def test_categories_without_rows_are_no_mistake():
    frame = FRAME.astype({"carrier": pd.CategoricalDtype(["UA", "DL", "", "AA"])})
    assert tfglm.fit("delay ~ carrier", frame, where="carrier <> 'UA'").tidy()["level"].tolist() == ["", "AA"]
    lacking = frame.assign(day=frame["day"].mask(frame["carrier"] == "UA"))
    assert tfglm.fit("delay ~ carrier + day", lacking).tidy()["level"].tolist()[:2] == ["", "AA"]


def test_files_are_a_factor_and_rows_can_be_held_out(tmp_path):
    for name in ("a", "b"):
        FRAME.to_csv(tmp_path / f"{name}.csv", index=False)
    assert tfglm.fit("delay ~ C(file)", tmp_path / "*.csv").tidy()["level"].tolist() == ["", "b"]
    halves = {"train": "day < 20", "evaluate": "day >= 20"}
    chosen = tfglm.fit("delay ~ day + distance", FRAME, split=halves, path={"l1_ratio": 1, "number": 3})
    assert chosen.fit["rows"] == (FRAME["day"] < 20).sum()


def test_a_table_is_asked_for_by_name():
    fitted = tfglm.fit("delay ~ carrier", FRAME, pairwise=["carrier"], contrasts={"c": {"carrier[UA]": 1}})
    assert len(fitted.table("pairwise")) == 3 and len(fitted.table("contrasts")) == 1
    with pytest.raises(UserError, match=r"^there is no table `pairwize`; did you mean `pairwise`\?"):
        fitted.table("pairwize")
    for name in OF_KEYS.keys() - {"pairwise", "contrasts"}:
        with pytest.raises(
            UserError, match=rf"^table: the fit has no `{name}`; fit it with the key `{name}`, such as "
        ):
            fitted.table(name)
    instrumented = tfglm.fit("delay ~ distance | carrier | distance ~ day", FRAME)
    with pytest.raises(UserError, match=r"^there are no averages of two-stage least squares beside absorbed factors"):
        instrumented.margins()
    with pytest.raises(UserError, match=r"^metrics\.json: a call makes no such file"):
        _ = fitted.metrics


def test_a_plot_is_an_svg_and_leaves_the_style_of_the_user(tmp_path):
    with matplotlib.rc_context({"font.size": 17}):
        fitted = tfglm.fit("delay ~ s(distance) + carrier", FRAME)
        picture, curves = fitted.plot(file=tmp_path / "a.png"), fitted.plot("effects")
        assert matplotlib.rcParams["font.size"] == 17
    for each, text in ((picture, "carrier"), (curves, "distance")):
        assert each._repr_svg_().startswith("<?xml") and text in each
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(UserError, match=r"^picture: the model has no curves"):
        tfglm.fit("delay ~ carrier", FRAME).plot("effects")


@pytest.mark.processes
def test_two_processes_share_a_cache_and_a_child_deletes_nothing(tmp_path):
    FRAME.to_csv(tmp_path / "flights.csv", index=False)
    code = (
        "import os, sys, tfglm\n"
        "fitted = tfglm.fit('delay ~ carrier', 'flights.csv', cache='cache')\n"
        "child = os.fork()\n"
        "if not child: sys.exit()\n"
        "os.waitpid(child, 0)\n"
        "print(fitted.margins()['estimate'].tolist())\n"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2] / "scripts")}
    line = [sys.executable, "-W", "ignore", "-c", code]
    both = [subprocess.Popen(line, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    first, other = (process.communicate()[0] for process in both)
    assert first == other != "" and [process.returncode for process in both] == [0, 0]


READ_BEFORE = pa.Table.from_pandas(FRAME).to_reader()
READ_BEFORE.read_all()

WRONG = {
    "no column": ("delay ~ distanc", FRAME, {}, r"^formula: no column `distanc`; did you mean `distance`\?"),
    "no rows": ("delay ~ distance", FRAME[:0], {}, "^data: no row is left of the 0 that were read$"),
    "no row left": ("delay ~ distance", FRAME, {"where": "day > 90"}, r"dropped: where: day > 90 \(400\)$"),
    "no columns": ("delay ~ distance", pd.DataFrame(), {}, "^data: the table has no columns$"),
    "two of a name": (
        "delay ~ day",
        FRAME[["delay", "day", "day"]],
        {},
        "Duplicate column names.*\n  give each column",
    ),
    "mixed types": ("delay ~ day", FRAME.assign(day=["a", 1] * 200), {}, "^data: .*column day.*\n  give each column"),
    "infinite": ("delay ~ day", FRAME.assign(day=np.inf), {}, "^data, row 1: column `day` is infinite"),
    "no table": ("delay ~ day", (row for row in ()), {}, r"^data: a generator is no table\n  give a path, a list"),
    "a column": ("delay ~ day", FRAME["day"], {}, r"^data: a Series is no table\n.*pandas\.DataFrame\(data\)"),
    "a query": (
        "delay ~ day",
        pl.from_pandas(FRAME).lazy(),
        {},
        r"^data: a LazyFrame is no table\n.*data\.collect\(\)",
    ),
    "no paths": ("delay ~ day", [], {}, "^data: expected a path, or a list of paths, received none"),
    "a stream read before": ("delay ~ day", READ_BEFORE, {}, "^data: the stream has no rows, or was read before"),
    "an index": (
        "delay ~ day",
        FRAME.set_index("day"),
        {},
        r"the data have late, .*\n  `day` is the index.*reset_index",
    ),
    "a column without values": (
        "delay ~ day",
        FRAME.assign(day=None),
        {},
        "^data: the column `day`, of type null, has no",
    ),
    "complex": ("delay ~ day", FRAME.assign(day=1j), {}, r"complex128\n.*numbers, text, dates or booleans$"),
    "spans of time": (
        "delay ~ day",
        FRAME.assign(day=pd.Timedelta(1)),
        {},
        r"^data: the column `day`, of type duration.*\n.*\.astype\(str\)",
    ),
    "lists": (
        "delay ~ day",
        FRAME.assign(day=[[1]] * 400),
        {},
        "^data: the column `day`, of type list.* has no values",
    ),
    "data first": (FRAME, "delay ~ day", {}, "^formula: expected a text .* before the data, received a DataFrame"),
    "a name": ("delay ~ day", FRAME, {"name": "a b"}, "^name: expected letters, digits and _ after a letter"),
    "weights": (
        "delay ~ day",
        FRAME,
        {"weights": FRAME["day"]},
        "^weights: expected text, .* received a Series; values of rows",
    ),
    "a key of another package": (
        "delay ~ day",
        FRAME,
        {"cluster": "day"},
        r'^cluster: unknown key; here it is std_errors="cl',
    ),
    "a formula of lme4": (
        "delay ~ (distance | day) + (late | day)",
        FRAME,
        {},
        r"^formula: random effects of `day` are correlated in one",
    ),
    "tables in a list": (
        "delay ~ day",
        [FRAME, FRAME],
        {},
        "^data: a list of paths is expected, and this has a DataFrame",
    ),
    "no file": ("delay ~ day", "no_such.csv", {}, "^data: there is no file `no_such.csv`"),
    "an address": ("delay ~ day", "https://127.0.0.1/a.csv", {}, "^data: `https://127.0.0.1/a.csv` is an address"),
    "workers": ("delay ~ day", FRAME, {"workers": "all"}, "^workers: expected a number of threads, such as 4"),
    "a key": ("delay ~ day", FRAME, {"std_error": "HC1"}, "^std_error: unknown key; did you mean `std_errors`"),
    "a value": ("delay ~ day", FRAME, {"std_errors": "HC9"}, '^std_errors: expected .*received "HC9"'),
    "a formula": ("delay ~ day +", FRAME, {}, "^formula: "),
    "a key of runs": ("delay ~ day", FRAME, {"sweep": {"l2": [1, 2]}}, "^sweep: a call has no use for it"),
    "an empty subset": ("delay ~ day", FRAME, {"subset": "day > 90"}, "^subset: no training row meets `day > 90`"),
    "a subset of no column": ("delay ~ day", FRAME, {"subset": "dya > 9"}, "^subset: no column `dya` in `dya > 9`"),
    "a subset with a misspelt column": (
        "delay ~ day",
        FRAME,
        {"subset": "distanze > 9"},
        r"^subset: no column `distanze` in `distanze > 9`; did you mean `distance`\?\n  there are: (?!.*file)",
    ),
    "a misspelt column beside a subset": (
        "delay ~ dya",
        FRAME,
        {"subset": "day > 1"},
        "`day`\\? the data have (?!.*subset)",
    ),
    "a curve of a date": (
        "delay ~ s(flown)",
        FRAME.assign(flown=pd.Timestamp("2024-01-02")),
        {},
        r"alone, a factor, or name a number in derive=\{...\}: CAST\(flown AS BIGINT\) has the days of a date",
    ),
    "a date as text": (
        "delay ~ day",
        FRAME.assign(flown=pd.Timestamp("2024-01-02")),
        {"subset": "flown >= '2024-01-01'"},
        "^subset: .* has a text beside a date\n  write DATE '2024-01-01' for the date$",
    ),
    "a difference of dates": (
        "delay ~ age",
        FRAME.assign(flown=pd.Timestamp("2024-01-02")),
        {"derive": {"age": "flown - DATE '2024-01-01'"}},
        r"\n  write CAST\(later AS BIGINT\) - CAST\(earlier AS BIGINT\), in days, for a difference of dates",
    ),
    "a subset of all": (
        "delay ~ day",
        FRAME,
        {"subset": "day > AVG(day)"},
        "^subset: .* not a value computed from one row",
    ),
    "a response of text": ("carrier ~ day", FRAME, {}, "is text; derive .*`derive: {event: carrier = 'UA'}`"),
    "an answer of text": (
        "carrier ~ day",
        FRAME.replace({"carrier": {"DL": "Yes"}}),
        {},
        "`derive: {event: carrier = 'Yes'}`",
    ),
    "keys together": ("delay ~ C(day)", FRAME, {"absorb": ["day"]}, "^absorb: `day` is in the formula too"),
}


@pytest.mark.parametrize(("formula", "data", "keys", "message"), WRONG.values(), ids=WRONG)
def test_wrong_input_is_refused_and_leaves_nothing(formula, data, keys, message, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(UserError, match=message):
        tfglm.fit(formula, data, **keys)
    forget_rows()
    assert list(tmp_path.iterdir()) == []


def test_what_a_machine_refuses_is_said_and_an_interruption_leaves_nothing(tmp_path, monkeypatch):
    FRAME.to_csv(tmp_path / "flights.csv", index=False)
    with pytest.raises(UserError, match=r"^cache: .*flights\.csv cannot be written \(.*\); name another folder"):
        tfglm.fit("delay ~ day", tmp_path / "flights.csv", cache=tmp_path / "flights.csv")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    with pytest.raises(UserError, match=r"^no folder for temporary files can be written"):
        tfglm.fit("delay ~ day", FRAME)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for error, expected in (
        (MemoryError("Unable to allocate 9 TiB"), UserError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ):
        monkeypatch.setattr("tfglm.fitting.fit", Mock(side_effect=error))
        with pytest.raises(expected, match=r"^(the memory is too small: Unable to allocate 9 TiB\n  fit fewer.*)?$"):
            tfglm.fit("delay ~ day", FRAME)
        error.with_traceback(None)  # whose frames hold the rows
        forget_rows()
        assert [path.name for path in tmp_path.iterdir()] == ["flights.csv"]


def test_classes_of_numbers_and_other_odd_columns_are_read():
    cut = tfglm.fit("delay ~ distance", FRAME.assign(distance=pd.cut(FRAME["distance"], [0, 300, 600, 1000])))
    assert cut.tidy()["level"].tolist() == ["", "(300, 600]", "(600, 1000]"]
    hours = pd.date_range("2024-03-30", periods=400, freq="h", tz="Europe/Berlin")
    days = tfglm.fit("delay ~ C(t)", FRAME.assign(t=hours)).coefficients.index.get_level_values("level")
    assert days.tolist()[1:] == sorted({str(day) for day in hours.date})
    assert tfglm.fit("delay ~ . - late", FRAME, l2=np.float32(1), absorb=()).fit["coefficients"] == 6


def test_fits_in_threads_give_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found = {}

    def fit(number: int) -> None:
        found[number] = tfglm.fit(FORMULA, FRAME).tidy()["estimate"].tolist()

    threads = [threading.Thread(target=fit, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and all(each == found[0] for each in found.values())
    forget_rows()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.processes
def test_a_call_says_nothing_and_imports_neither_tensorflow_nor_snakemake_nor_matplotlib():
    code = (
        "import sys, pandas as pd, tfglm\n"
        "fitted = tfglm.fit('y ~ x', pd.DataFrame({'y': [1.0, 2, 4, 3], 'x': [1, 2, 3, 4]}))\n"
        "fitted.summary(), fitted.tidy(), fitted.margins(), fitted.predict(pd.DataFrame({'x': [5]}))\n"
        "print(*sorted({'tensorflow', 'keras', 'snakemake', 'matplotlib'} & set(sys.modules)))\n"
    )
    scripts = Path(__file__).parents[2] / "scripts"
    line = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(line, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(scripts)})
    assert (done.stdout, done.stderr, done.returncode) == ("\n", "", 0)


def test_the_command_prints_the_summary(tmp_path, capsys):
    FRAME.to_csv(tmp_path / "flights.csv", index=False)
    assert console.do(["fit", str(tmp_path / "flights.csv"), FORMULA, "--set", "std_errors=robust"]) == 0
    assert capsys.readouterr().out.strip() == str(
        tfglm.fit(FORMULA, tmp_path / "flights.csv", std_errors="robust").summary()
    )
    with pytest.raises(UserError, match="--set robust: expected KEY=VALUE"):
        console.do(["fit", "flights.csv", FORMULA, "--set", "robust"])


def test_the_command_writes_pages_and_the_config_of_the_same_fit(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    FRAME.rename(columns={"carrier": "the carrier"}).to_csv("few flights.csv", index=False)
    formula = "late ~ the_carrier + s(distance, k=5)"
    words = ["fit", "few flights.csv", formula, "--family", "binomial", "--set", "where={near: distance < 800}"]
    words += ["--set", "subset=distance > 300"]
    assert console.do([*words, "--html", "of us/page", "--config", "config/late.yaml"]) == 0
    assert capsys.readouterr().out.endswith("page_rows.html, config/late.yaml, config/late.layout.yaml\n")
    pages = sorted(Path("of us").iterdir())
    assert [page.name for page in pages] == [
        "page.html",
        *(f"page_{name}.html" for name in ("coefficients", "columns", "rows")),
    ]
    text = {page.name: page.read_text() for page in pages}
    linked = re.findall(r'(?:href|src)="([^"#]+)', "".join(text.values()))
    assert {address for address in linked if not address.startswith("data:")} == set(text)
    assert "tfglm fit &#39;few flights.csv&#39;" in text["page.html"] and "<title>distance " in text["page.html"]
    of_fit = FRAME.query("300 < distance < 800")["distance"]
    assert f"{len(of_fit):,} training rows" in text["page_columns.html"]
    assert f"mean {of_fit.mean():.4g}, standard deviation {of_fit.std(ddof=0):.4g}" in text["page_columns.html"]
    assert "subset: distance &gt; 300" in text["page.html"] and "subset_model" not in "".join(text.values())
    config = load(read(Path("config/late.yaml")), "config/late.yaml")
    (layout,) = load_layouts(config.data).values()
    keys = {"where": {"near": "distance < 800"}}
    fitted = tfglm.fit(formula, "few flights.csv", "binomial", **keys, subset="distance > 300")
    assert layout == fitted._layout and config.data.where == keys["where"] and config.data.split.train == "TRUE"
    assert config.models["model"].formula == formula
    with pytest.raises(UserError, match=r"config/late.yaml and config/late.layout.yaml would be overwritten"):
        fitted.write_config("config/late.yaml")
    with pytest.raises(UserError, match="these rows are a table"):
        tfglm.fit(FORMULA, FRAME).write_config("config/table.yaml")


def test_all_columns_of_a_file_and_the_user_tell_what_is_before_decimals(tmp_path):
    """As `init` does: 4.512 alone could be 4512, but not beside 161.0."""
    frame = pd.DataFrame({"y": [f"4.{part}" for part in range(512, 572)], "x": np.arange(60) % 7})
    frame.to_csv(tmp_path / "alone.csv", index=False)
    frame.assign(other="161.0").to_csv(tmp_path / "beside.csv", index=False)
    alone, beside = (tfglm.fit("y ~ x", tmp_path / f"{name}.csv") for name in ("alone", "beside"))
    assert "ask again with decimal=comma" in alone.summary() and not beside.fit["warnings"]
    comma = tfglm.fit("y ~ x", tmp_path / "alone.csv", decimal="comma")
    assert not comma.fit["warnings"]
    assert np.allclose(comma.tidy()["estimate"], 1000 * alone.tidy()["estimate"], rtol=1e-9)
    with pytest.raises(UserError, match="decimal: `dot` must be point or comma"):
        tfglm.fit("y ~ x", tmp_path / "alone.csv", decimal="dot")
    with pytest.raises(UserError, match="decimal: a table has numbers"):
        tfglm.fit("y ~ x", frame, decimal="comma")


def test_imputations_are_pooled_as_by_mice():
    """mice 3.15: summary(pool(as.mira(fits)), conf.int = TRUE), and pool(...)$pooled$fmi."""
    rows = pd.read_csv(Path(__file__).parents[1] / "golden" / "clustered.csv")
    is_missing = np.arange(len(rows)) % 4 == 0
    imputed = [rows.assign(wind=rows["wind"] + by * is_missing * rows["hour"]) for by in (-1, 0, 1)]
    fits = [tfglm.fit("late ~ wind + carrier", each, "binomial") for each in imputed]
    pooled = tfglm.pool(each for each in fits)
    expected = {
        "estimate": [-0.4951352506, -0.08291614353, -0.1042613789, 0.2218182392, -0.01387898634],
        "std_error": [0.2025263938, 0.0835106231, 0.2966409246, 0.2892413192, 0.283869031],
        "p_value": [0.01493714306, 0.3269185457, 0.7254216356, 0.443603469, 0.9610300302],
        "ci_lower": [-0.8933206024, -0.2518591499, -0.6874630732, -0.3468361315, -0.571970895],
    }
    estimated = pooled.drop(("carrier", "AA"))
    for name, values in expected.items():
        assert np.allclose(estimated[name], values, rtol=1e-6), name
    assert np.allclose(pooled.loc[("wind", ""), ["df", "fmi"]].astype(float), [38.80725978, 0.2499935622613], rtol=1e-7)
    assert pooled.loc[("carrier", "AA"), "estimate"] == 0
    for others, message in {
        "one": (fits[0], "give the fits of two or more"),
        "rows": ([fits[0], tfglm.fit("late ~ wind + carrier", rows[:300], "binomial")], "differ in rows: 400 and 300"),
        "learnt": ([tfglm.fit("late ~ poly(wind, 2)", each, "binomial") for each in imputed[:2]], "computed from the"),
    }.values():
        with pytest.raises(UserError, match=message):
            tfglm.pool(others)
