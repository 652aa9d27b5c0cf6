"""Event studies by `sunab()` and `i()`, against the same regressions with columns for all cells."""

import numpy as np
import pandas as pd
import pytest

import tfglm
from tfglm.errors import UserError
from tfglm.report.shapes import paths_in_words
from tfglm.results.event_study import AVERAGE, BEFORE, COHORT, PERIOD

FORMULA = "y ~ x + sunab(cohort, year) | unit + year"


@pytest.fixture(scope="module")
def panel():
    """90 units in 6 years, of which 30 are never treated, and 5 in the first year."""
    random = np.random.default_rng(7)
    unit, year = np.repeat(np.arange(95), 6), np.tile(np.arange(2001, 2007), 95)
    cohort = np.select([unit < 25, unit < 60, unit < 90], [2003.0, 2005.0, np.nan], 2001.0)
    since = year - cohort
    effect = np.where(since >= 0, (1 + since) * np.where(cohort == 2003, 1.0, -0.5), 0.0)
    frame = pd.DataFrame({"unit": unit, "year": year, "cohort": cohort, "x": random.normal(size=len(unit))})
    frame["y"] = np.nan_to_num(effect) + frame["x"] + random.normal(size=95)[unit] + random.normal(size=len(unit))
    return frame.assign(w=random.integers(1, 4, len(unit)) / 2)


def studied(frame, formula=FORMULA, **keys):
    return tfglm.fit(formula, frame, std_errors="cluster(unit)", tests="all", **keys).table("event_study")


def by_columns(frame, cells, weights):
    """Estimates and CR1 covariance of x and the cells, a column for each."""
    root = np.sqrt(weights)[:, None]
    columns = np.column_stack([frame["x"], *cells]).astype(float)
    factors = np.column_stack([pd.get_dummies(frame[name]).to_numpy(float) for name in ("unit", "year")])
    design, response = (
        root * (each - factors @ np.linalg.lstsq(root * factors, root * each, rcond=None)[0])
        for each in (columns, frame[["y"]].to_numpy())
    )
    estimates = np.linalg.lstsq(design, response[:, 0], rcond=None)[0]
    scores = design * (response[:, 0] - design @ estimates)[:, None]
    of_units = pd.DataFrame(scores).groupby(frame["unit"].to_numpy()).sum().to_numpy()
    inverse, units, rows = np.linalg.inv(design.T @ design), len(of_units), len(frame)
    factor = units / (units - 1) * (rows - 1) / (rows - columns.shape[1] - frame["year"].nunique())
    return estimates, factor * inverse @ of_units.T @ of_units @ inverse


def test_averages_and_their_errors_are_those_of_a_column_for_each_cell(panel):
    table = studied(panel, weights="w")
    kept = panel[panel["cohort"] != 2001].reset_index(drop=True)
    weights = kept["w"].to_numpy()
    names = [(cohort, since) for cohort in (2003, 2005) for since in range(2001 - cohort, 2007 - cohort) if since != -1]
    cells = [(kept["cohort"] == cohort) & (kept["year"] - cohort == since) for cohort, since in names]
    estimates, covariance = by_columns(kept, cells, weights)
    sums = np.array([0.0, *(weights[cell].sum() for cell in cells)])
    rows = []
    for row in table[table["about"] != BEFORE].itertuples():
        chosen = {
            PERIOD: lambda cohort, since, value=row.value: since == value,
            AVERAGE: lambda cohort, since: since >= 0,
            COHORT: lambda cohort, since, value=row.value: cohort == value and since >= 0,
        }[row.about]
        rows.append(sums * [False, *(chosen(*name) for name in names)])
        rows[-1] /= rows[-1].sum()
    rows = np.array(rows)
    assert list(table["value"][:7]) == [-4.0, -3.0, -2.0, 0.0, 1.0, 2.0, 3.0]
    np.testing.assert_allclose(table["estimate"][:-1], rows @ estimates, rtol=1e-9)
    np.testing.assert_allclose(table["std_error"][:-1], np.sqrt(np.diag(rows @ covariance @ rows.T)), rtol=1e-9)
    before = rows[:3]
    wald = (before @ estimates) @ np.linalg.solve(before @ covariance @ before.T, before @ estimates)
    joint = table.iloc[-1]
    assert (joint["about"], joint["df_numerator"]) == (BEFORE, 3)
    # F of AHT is the Wald statistic over 3, shrunk by the degrees of freedom.
    assert joint["F"] == pytest.approx(wald / 3 * joint["df"] / (joint["df"] + 2), rel=1e-9)


def test_with_all_periods_before_as_references_effects_are_imputed(panel):
    """In a balanced panel: Borusyak, Jaravel and Spiess predict treated rows from units and years of the untreated ones."""
    table = studied(panel, "y ~ sunab(cohort, year, ref.p=before) | unit + year")
    written_out = studied(panel, "y ~ sunab(cohort, year, ref.p=[-1, -2, -3, -4]) | unit + year")
    assert table.drop(columns="term").equals(written_out.drop(columns="term"))
    kept = panel[panel["cohort"] != 2001].assign(since=lambda frame: frame["year"] - frame["cohort"])
    factors = np.column_stack([pd.get_dummies(kept[name]).to_numpy(float) for name in ("unit", "year")])
    treated = (kept["since"] >= 0).to_numpy()
    untreated = np.linalg.lstsq(factors[~treated], kept["y"].to_numpy()[~treated], rcond=None)[0]
    effects = kept.assign(effect=kept["y"] - factors @ untreated)[treated]
    expected = [
        *effects.groupby("since").effect.mean(),
        effects.effect.mean(),
        *effects.groupby("cohort").effect.mean(),
    ]
    np.testing.assert_allclose(table["estimate"], expected, rtol=1e-9)


def test_an_event_study_does_not_depend_on_how_it_is_written(panel):
    expected = studied(panel)
    since = panel.assign(cohort=panel["cohort"].fillna(9999), since=(panel["year"] - panel["cohort"]).fillna(-1000))
    for frame, formula in (
        (since.sample(frac=1.0, random_state=1), FORMULA),
        (since, "y ~ x + sunab(cohort, since) | unit + year"),
        (panel[panel["cohort"] != 2001], FORMULA),
    ):
        table = studied(frame, formula)
        for name in ("about", "value", "rows"):
            assert list(table[name].fillna(0)) == list(expected[name].fillna(0))
        np.testing.assert_allclose(table[["estimate", "std_error"]], expected[["estimate", "std_error"]], rtol=1e-9)


def test_rows_that_count_otherwise_are_remarked(panel):
    fit = tfglm.fit(FORMULA, panel.assign(cohort=np.where(panel["unit"] == 89, 1990, panel["cohort"])))
    assert fit.fit["rows"] == 540
    assert [text.partition("`: ")[2] for text in fit.fit["warnings"]] == [
        "174 training rows have no `cohort`, so they are controls",
        "6 training rows have a `cohort` before the first `year`, so they are controls; leave them out if they are treated",
        "30 training rows have no period before their treatment, so they take no part",
    ]
    path = fit.table("effects").query("term != 'x'")
    assert list(path["effect"][path["value"] == -1]) == [0.0]


@pytest.mark.parametrize(
    ("change", "formula", "said"),
    [
        (
            lambda frame: frame.dropna(),
            FORMULA,
            "last cohort, 2005, which is then the control, as in `where: year < 2005`",
        ),
        (lambda frame: frame.assign(cohort=1.5), FORMULA, "no cohort has rows before and after"),
        (lambda frame: frame.assign(cohort="a"), FORMULA, "`cohort` has the value `a`, and sunab\\(\\) takes numbers"),
        (
            lambda frame: frame.query("year != 2004"),
            FORMULA,
            "no rows in the reference period -1 in cohort 2005\n.*\\(all have -2\\)",
        ),
        (
            lambda frame: frame,
            FORMULA.replace("year)", "year, ref.p=-9)"),
            "no rows in the reference period -9 in cohort 2003, 2005",
        ),
        (lambda frame: frame, FORMULA.replace("year)", "year, att=TRUE)"), "there is no `att`"),
        (lambda frame: frame, FORMULA.replace("year)", "year, ref.p=after)"), "as ref.p whole numbers of periods"),
        (lambda frame: frame, FORMULA.replace("x +", "x *"), "sunab\\(\\) has no interactions; fit a model for each"),
        (
            lambda frame: frame,
            FORMULA.replace("x +", "i(year, w, ref=2001) +"),
            "no absorbed factor determines `w`; add",
        ),
        (lambda frame: frame, FORMULA.replace("x +", "C(year) +"), "`year` is in the formula too"),
        (lambda frame: frame, "y ~ sunab(cohort, nix) | unit", "no column `nix` in `sunab\\(cohort, nix\\)`"),
        (lambda frame: frame, "y ~ x | unit | w ~ sunab(cohort, year)", "sunab\\(\\) is neither instrument nor"),
    ],
)
def test_what_makes_no_event_study_is_refused(panel, change, formula, said):
    with pytest.raises(UserError, match=said):
        tfglm.fit(formula, change(panel))


def test_i_of_an_absorbed_factor_leaves_its_reference_out(panel):
    frame = panel.assign(treated=(panel["unit"] < 25).astype(int), cohort=0)
    table = tfglm.fit("y ~ x + i(year, treated, 2002) | unit + year", frame, std_errors="cluster(unit)", tests="all")
    cells = [(frame["year"] == year) * frame["treated"] for year in range(2001, 2007) if year != 2002]
    estimates, covariance = by_columns(frame, cells, np.ones(len(frame)))
    with pytest.raises(UserError, match="the formula has no sunab"):
        table.table("event_study")
    found = table.coefficients.drop(("C(year):treated", "2002"))
    np.testing.assert_allclose(found["estimate"], estimates, rtol=1e-9)
    np.testing.assert_allclose(found["std_error"], np.sqrt(np.diag(covariance)), rtol=1e-9)
    levels = tfglm.fit("y ~ i(year, i.treated, 2002) | unit + year", frame).coefficients
    same = tfglm.fit("y ~ i(year, treated, 2002) | unit + year", frame).coefficients
    np.testing.assert_allclose(levels["estimate"][1::2], same["estimate"], rtol=1e-9, atol=1e-12)


def test_an_absorbed_factor_may_have_slopes_of_a_number(panel):
    frame = panel.assign(cohort=panel["unit"] // 3, t=panel["year"] - 2000)
    found = tfglm.fit("y ~ x + C(cohort):t | cohort + year", frame, std_errors="classical").coefficients.iloc[0]
    factors = [pd.get_dummies(frame[name]).to_numpy(float) for name in ("cohort", "year")]
    columns = np.column_stack([frame["x"], *factors, factors[0] * frame[["t"]].to_numpy()])
    estimates, _, rank, _ = np.linalg.lstsq(columns, frame["y"], rcond=None)
    squares = np.sum((frame["y"] - columns @ estimates) ** 2)
    variance = squares / (len(frame) - rank) * np.linalg.pinv(columns.T @ columns)[0, 0]
    np.testing.assert_allclose(found[["estimate", "std_error"]].astype(float), [estimates[0], variance**0.5], rtol=1e-8)
    absorbed = tfglm.fit("y ~ x | cohort[t] + year", frame, std_errors="classical").coefficients.iloc[0]
    np.testing.assert_allclose(
        *(each[["estimate", "std_error"]].astype(float) for each in (absorbed, found)), rtol=1e-9
    )


def test_a_path_in_words():
    rows = [
        ("sunab(g, t)", AVERAGE, 0.5, 0.1, 0.9, 0.01, ""),
        ("sunab(g, t)", BEFORE, *[np.nan] * 4, "too few clusters"),
    ]
    table = pd.DataFrame(rows, columns=["term", "about", "estimate", "ci_lower", "ci_upper", "p_value", "note"])
    assert paths_in_words(table, "the mean of y", False) == [
        "sunab(g, t): average since the treatment, effect on the mean of y 0.50 (0.10 to 0.90); joint test that all periods "
        "before it have the effect 0: too few clusters."
    ]
    (sentence,) = paths_in_words(table.assign(p_value=0.25), "the rate of y", True)
    assert "the rate of y times 1.65 (1.11 to 2.46)" in sentence and sentence.endswith("p = 0.2500.")
