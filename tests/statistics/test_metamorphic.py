"""Data that say the same in other words come to the same numbers (metamorphic)."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

import metamorphic
from metamorphic import Model, compare, reported, weights_of
from pools import estimates_of, fit_files, fit_frame, ingest_frame, margins, table_of
from tfglm.design.parametrisation import hold
from tfglm.results import coefficients
from tfglm.results.hypotheses import hypotheses
from tfglm.results.joint import joint_tests
from tfglm.results.pairwise import pairwise

FEW, MANY = range(1, 5), range(1000, 1040)

REFERENCE = {"g": "a", "h": "p"}


def contradictions(seed: int, folder) -> list[str]:
    """What a model put together from a seed says otherwise of the same data in other words."""
    random = np.random.default_rng(seed)
    frame = metamorphic.table(int(random.integers(300, 900)), random)
    model = Model.drawn(random)
    reference = {name: level for name, level in REFERENCE.items() if any(name in term for term in model.terms)}
    cr2 = seed % 2 == 0
    first = reported(model, frame, folder / "first", reference, cr2=cr2)
    coefficients = weights_of(first.coefficients)
    if len(coefficients) < 12:
        first = reported(model, frame, folder / "first", reference, tested=coefficients, cr2=cr2)
    else:
        coefficients = {}
    told = f"seed {seed}: {model.formula} {model.family} {model.settings}"
    found: list[str] = []
    of_errors = metamorphic.PRECISION if model.family == "gaussian" else metamorphic.OF_ERRORS

    def check(what: str, **settings) -> None:
        found.extend(f"{told}: {what}: {text}" for text in compare(first, of_errors=of_errors, **settings))

    # Another unit.
    column = str(random.choice(["x", "z"]))
    power = int(random.integers(-12, 13))
    scale = 10.0**power
    scaled = frame.assign(**{column: frame[column] * scale})
    other = reported(model, scaled, folder / "scaled", reference, tested=coefficients, cr2=cr2)
    check(
        f"{column} times 1e{power}",
        other=other,
        factor=lambda index: scale ** -model.power(index[0], column),
        of_effect=lambda index: 1 / scale if index[0] == column else 1.0,
    )
    # Another origin: of whole numbers of hundredths, so that it is exact.
    shift = float(random.choice([-50, 3, 100]))
    moved = frame.assign(**{column: (frame[column] + shift).round(2)})
    other = reported(model, moved, folder / "moved", reference, cr2=cr2)
    check(
        f"{column} plus {shift:g}",
        other=replace(other, hypothesis=first.hypothesis),
        keep=lambda term: not model.moves_with(term, column),
        precision=1e-8,
    )
    # Another order of rows and columns.
    order = random.permutation(len(frame))
    mixed = frame.iloc[order][list(random.permutation(frame.columns))]
    other = reported(model, mixed, folder / "mixed", reference, frame, tested=coefficients, cr2=cr2)
    check("in another order", other=other)
    # Other names of levels.
    names = dict(zip("abcd", random.permutation(list("wxyz")), strict=True))
    named = frame.assign(g=frame["g"].map(names))
    of_names = {name: names[level] if name == "g" else level for name, level in reference.items()}
    other = reported(model, named, folder / "named", of_names, cr2=cr2)
    back = {new: old for old, new in names.items()}
    check("other names", other=renamed(other, back, first))
    # Rows as often as their number says.
    if "weights" not in model.settings:
        counted = reported(model, frame, folder / "counted", reference, cr2=cr2, frequency="times")
        repeated = frame.loc[frame.index.repeat(frame["times"])]
        rows = reported(model, repeated, folder / "rows", reference, frame, cr2=cr2)
        found += [f"{told}: repeated: {text}" for text in compare(counted, rows, of_errors=of_errors)]
    # A row in two parts, where they are no more rows than one.
    elif model.family == "poisson" and model.settings["std_errors"] == "classical":
        half = frame.assign(precision=frame["precision"] / 2)
        halves = reported(
            model, pd.concat([half, half]), folder / "halves", reference, frame, tested=coefficients, cr2=cr2
        )
        check("in two parts", other=halves, figures=("deviance", "coefficients"))
    return found


def renamed(report: metamorphic.Reported, back: dict[str, str], like: metamorphic.Reported) -> metamorphic.Reported:
    """A report with the levels of `g` as they were, in the order of another."""

    def table(frame: pd.DataFrame, order: pd.Index) -> pd.DataFrame:
        index = [(term, ":".join(back.get(text, text) for text in level.split(":"))) for term, level in frame.index]
        frame = frame.set_axis(pd.MultiIndex.from_tuples(index, names=["term", "level"]))
        return frame.loc[order] if set(order) == set(frame.index) else frame

    return replace(
        report,
        coefficients=table(report.coefficients, like.coefficients.index),
        effects=table(report.effects, like.effects.index),
        means=table(report.means, like.means.index),
        hypothesis=like.hypothesis,
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", FEW)
def test_a_few_models_in_other_words(seed, tmp_path):
    assert contradictions(seed, tmp_path) == []


@pytest.mark.drill
@pytest.mark.parametrize("seed", MANY)
def test_many_models_in_other_words(seed, tmp_path):
    assert contradictions(seed, tmp_path) == []


FAMILIES = {"negative_binomial": "bags", "binomial": "late", "gaussian": "amount", "multinomial": "kind"}
"""Families of the comparisons below, and the responses."""

TERMS = ["x", "z", "g", "h", "x:g", "g:h"]
NAMES = {"a": "w3", "b": "w1", "c": "w4", "d": "w2"}
"""Other names of the levels of g, in another order."""


def comparisons(
    frame: pd.DataFrame,
    folder,
    family: str,
    terms: list[str] = TERMS,
    unit: float = 1.0,
    names: dict[str, str] | None = None,
    **settings,
) -> pd.Series:
    """Contrasts, pairs of levels, tests of hypotheses and joint tests of a model: numbers without a unit, which do not depend on
    the `unit` of x, by what they are of."""
    names = names or dict(zip("abcd", "abcd", strict=True))
    frame = frame.assign(x=frame["x"] * unit, g=frame["g"].map(names))
    formula = f"{FAMILIES[family]} ~ {' + '.join(terms)}"
    design, fitted, _ = fit_files([ingest_frame(frame, folder)], formula, family, **settings)
    estimates = estimates_of(design, fitted, {"g": names["a"], "h": "p"})
    parts = [f"{equation}: " for equation in design.equations] or [""]
    g, tests = {old: f"g[{new}]" for old, new in names.items()}, []
    for part in parts:
        asked = {"b to c": {part + g["b"]: 1, part + g["c"]: -1}, "half of x": {f"{part}x": 0.5}}
        tests.append(coefficients.contrasts(estimates, asked, 0.95).set_index("contrast").add_prefix(part))
        rows = [{part + g["b"]: 1}, {part + g["c"]: 1}, {f"{part}x": 1 * unit}]
        tests.append(hypotheses(estimates, {"three": rows}).set_index("hypothesis").add_prefix(part))
    joint = joint_tests(estimates)
    index = ["class", "term"] if "class" in joint else ["term"]
    tests.append(joint.assign(term=joint["term"].map(lambda term: ":".join(sorted(term.split(":"))))).set_index(index))
    pairs = pairwise(estimates, ["h"], 0.95)
    tests.append(pairs.set_index([*(["class"] if "class" in pairs else []), "level", "against"]))
    kept = [test[[name for name in test if name.split(": ")[-1] in NUMBERS_OF_TESTS]] for test in tests]
    found = pd.concat([test.rename(columns=str).stack() for test in kept])
    found.index = [str(key) for key in found.index]
    return found.astype(float).sort_index()


NUMBERS_OF_TESTS = ("t", "z", "df", "chi_squared", "F", "p_tukey", "p_holm")


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_comparisons_say_the_same_in_other_words(family, tmp_path):
    random = np.random.default_rng(8)
    frame = metamorphic.table(700, random)
    frame["bags"] = random.poisson(frame["bags"] * random.gamma(2, 0.5, 700))
    frame["kind"] = np.where(frame["late"] == 1, "late", random.choice(["early", "on time"], 700))
    first = comparisons(frame, tmp_path / "first", family)
    counted = comparisons(frame, tmp_path / "counted", family, frequency="times")
    others = {
        "terms": comparisons(frame, tmp_path / "terms", family, ["h", "g", "z", "x", "g:x", "h:g"]),
        "unit": comparisons(frame, tmp_path / "unit", family, unit=1e7),
        "rows": comparisons(frame.sample(frac=1, random_state=2), tmp_path / "rows", family),
        "levels": comparisons(frame, tmp_path / "levels", family, names=NAMES),
        "repeated": comparisons(frame.loc[frame.index.repeat(frame["times"])], tmp_path / "repeated", family),
    }
    assert len(first) > 20 and np.isfinite(first).all()
    for name, other in others.items():
        expected = counted if name == "repeated" else first
        assert list(other.index) == list(expected.index), name
        assert other.to_numpy() == pytest.approx(expected.to_numpy(), rel=1e-6, abs=1e-6), name


def years() -> pd.DataFrame:
    """Delays that depend on the year by a polynomial of degree 3."""
    random = np.random.default_rng(7)
    year = random.integers(1987, 2009, 1500)
    t = (year - 1997.5) / 10
    frame = pd.DataFrame({"yr": year, "g": random.choice(["a", "b"], 1500), "t": year - 1990})
    frame["y"] = np.round(1 + t - t**2 + 0.5 * t**3 * (1 + (frame["g"] == "b")) + random.normal(size=1500), 3)
    frame["late"] = (frame["y"] > 1).astype(int)
    return frame


def exact_regression(
    columns: list[list[int]], y: list[Fraction], ridge: Fraction = Fraction(0)
) -> tuple[list[float], list[float], float]:
    """Estimates, standard errors and the residual sum of squares of a linear regression on whole numbers, in fractions.

    With a penalty, `ridge` / 2 times the squares of the coefficients of standardised columns, the errors have no meaning. The
    first column is constant.
    """
    size, rows = len(columns), len(y)
    matrix = [
        [sum((Fraction(a * b) for a, b in zip(columns[i], columns[j], strict=True)), Fraction(0)) for j in range(size)]
        + [sum((a * b for a, b in zip(columns[i], y, strict=True)), Fraction(0))]
        + [Fraction(int(i == j)) for j in range(size)]
        for i in range(size)
    ]
    for i in range(1, size):
        matrix[i][i] += ridge * (matrix[i][i] - Fraction(sum(columns[i])) ** 2 / rows)
    for i in range(size):
        matrix[i] = [value / matrix[i][i] for value in matrix[i]]
        for j in range(size):
            if j != i:
                matrix[j] = [a - matrix[j][i] * b for a, b in zip(matrix[j], matrix[i], strict=True)]
    b = [row[size] for row in matrix]
    residuals = (value - sum(b[k] * columns[k][i] for k in range(size)) for i, value in enumerate(y))
    rss = sum(residual * residual for residual in residuals)
    errors = [float(rss / (rows - size) * matrix[k][size + 1 + k]) ** 0.5 for k in range(size)]
    return [float(value) for value in b], errors, float(rss)


def test_powers_of_years_are_estimated_as_exactly_as_their_numbers_allow(tmp_path):
    frame = years()
    design, fitted = fit_frame(frame, "y ~ yr + I(yr^2) + I(yr^3)", "gaussian", tmp_path)
    table = table_of(design, fitted)
    columns = [[int(year) ** power for year in frame["yr"]] for power in range(4)]
    estimates, errors, rss = exact_regression(columns, [Fraction(str(y)) for y in frame["y"]])
    assert list(table["status"]) == [""] * 4
    assert table["estimate"].to_numpy() == pytest.approx(estimates, rel=1e-9)
    assert table["std_error"].to_numpy() == pytest.approx(errors, rel=1e-9)
    assert fitted.summary["deviance"] == pytest.approx(rss, rel=1e-10)
    # 1 - R^2 on all others is not below what squares can tell, but the fit has them apart.
    assert [each["term"] for each in fitted.summary["nearly_aliased"]] == ["I(yr^2)", "I(yr^3)"]
    rows = [{name: 1.0} for name in ("yr", "I(yr^2)", "I(yr^3)")]
    test = hypotheses(estimates_of(design, fitted), {"all": rows}).iloc[0]
    centred = smf.ols("y ~ t + I(t**2) + I(t**3)", frame).fit()
    assert test["df"] == 3 and test["F"] == pytest.approx(centred.fvalue, rel=1e-6)


@pytest.mark.parametrize("l2", [1e-6, 1e-10, 1e-13])
def test_powers_of_years_need_no_aliasing_under_a_penalty(l2, tmp_path):
    frame = years()[:400]
    design, fitted = fit_frame(frame, "y ~ yr + I(yr^2) + I(yr^3)", "gaussian", tmp_path, l2=l2)
    columns = [[int(year) ** power for year in frame["yr"]] for power in range(4)]
    estimates, *_ = exact_regression(columns, [Fraction(str(y)) for y in frame["y"]], Fraction(l2))
    assert fitted.summary["converged"]
    assert table_of(design, fitted)["estimate"].to_numpy() == pytest.approx(estimates, rel=1e-9)


@pytest.mark.parametrize("times", [10**3, 3 * 10**4, 10**5, 10**6])
def test_a_column_that_others_nearly_determine_is_estimated_down_to_the_stated_limit(times, tmp_path):
    random = np.random.default_rng(5)
    a, b, left = (random.integers(-span, span + 1, 200) for span in (20, 20, 3))
    frame = pd.DataFrame(
        {"a": a, "b": b, "c": times * (a + b) + left, "y": np.round(a - b + random.normal(size=200), 3)}
    )
    design, fitted = fit_frame(frame, "y ~ a + b + c", "gaussian", tmp_path)
    table, apart = table_of(design, fitted), float(np.var(left) / np.var(frame["c"]))
    assert (table["status"].iloc[-1] == "aliased") == (apart < 1e-12)
    if apart > 1e-12:
        columns = [[1] * 200, *([int(value) for value in frame[name]] for name in "abc")]
        estimates, errors, _ = exact_regression(columns, [Fraction(str(y)) for y in frame["y"]])
        assert (np.abs(table["estimate"] - estimates) <= 1e-8 * np.array(errors)).all()
        # The information matrix has squares, of which only so many digits are left.
        assert table["std_error"].to_numpy() == pytest.approx(errors, rel=1e-9 + 2.0**-51 / apart)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"std_errors": "HC3"}, {"tests": "likelihood_ratio"}], ids=str)
def test_powers_of_years_say_what_powers_of_centred_years_say(settings, tmp_path):
    frame = years()
    found = {}
    file = ingest_frame(frame, tmp_path)
    for name in ("yr", "t"):
        formula = f"late ~ {name}*g + I({name}^2)*g + I({name}^3)"
        design, fitted, _ = fit_files([file], formula, "binomial", **settings)
        tests = joint_tests(estimates_of(design, fitted), fitted.summary["likelihood_ratio_tests"]).iloc[[3, -1]]
        of_columns = margins(design, fitted, [file], {}, 0.95, balanced=True)
        numbers = [of_columns.effects[["estimate", "std_error"]], of_columns.means[["mean", "std_error"]]]
        found[name] = np.concatenate(
            [[fitted.summary["deviance"]], tests["chi_squared"], *(x.to_numpy().ravel() for x in numbers)]
        )
    assert found["yr"] == pytest.approx(found["t"], rel=1e-6, nan_ok=True)


def interaction() -> pd.DataFrame:
    random = np.random.default_rng(3)
    frame = pd.DataFrame({"gb": random.gamma(2, 3, 800).round(6), "region": random.choice(["n", "s"], 800)})
    frame["kind"] = random.choice(["p", "q", "r"], 800)
    frame["bytes"] = (frame["gb"] * 1e9).round()
    frame["stamp"] = (1.7e12 + frame["gb"] * 1e6).round()
    frame["twice"] = frame["gb"] * 1e8
    slope = np.where(frame["region"] == "s", 0.05, 0.2)
    frame["y"] = (1 + slope * frame["gb"] + random.normal(0, 0.3, 800)).round(4)
    return frame


@pytest.mark.parametrize("formula", ["y ~ gb*region", "y ~ gb*region*kind"])
@pytest.mark.parametrize(("column", "unit"), [("bytes", 1e9), ("stamp", 1e6)])
def test_the_unit_and_origin_of_a_number_change_no_interaction(formula, column, unit, tmp_path):
    frame = interaction()
    file = ingest_frame(frame, tmp_path)
    tables, tests = {}, {}
    for name in ("gb", column):
        design, fitted, _ = fit_files([file], formula.replace("gb", name), "gaussian")
        estimates = estimates_of(design, fitted)
        tables[name], tests[name] = table_of(design, fitted), joint_tests(estimates)
    ours, other = (table[table.index.get_level_values("term").str.contains(name)] for name, table in tables.items())
    assert list(ours["status"]) == list(other["status"])
    assert other["estimate"].to_numpy() * unit == pytest.approx(ours["estimate"].to_numpy(), rel=1e-7, abs=1e-9)
    assert other["std_error"].to_numpy() * unit == pytest.approx(ours["std_error"].to_numpy(), rel=1e-7, nan_ok=True)
    assert list(tests["gb"]["df"]) == list(tests[column]["df"])
    assert tests[column]["chi_squared"].iloc[-1] == pytest.approx(tests["gb"]["chi_squared"].iloc[-1], rel=1e-6)


@pytest.mark.slow
def test_a_column_in_another_unit_is_aliased_whatever_the_unit(tmp_path):
    for number, scale in enumerate((1e-12, 1e-8, 1.0, 1e8, 1e12)):
        frame = interaction().assign(twice=lambda frame: frame["gb"] * scale)  # noqa: B023
        table = table_of(*fit_frame(frame, "y ~ gb + twice", "gaussian", tmp_path / str(number)))
        assert list(table["status"]) == ["", "", "aliased"] and table["std_error"].iloc[1] > 0
        assert table["aliased_with"].iloc[2] == (f"{scale:.4g} gb" if scale != 1 else "gb")


def test_what_aliases_slopes_without_a_common_one_is_told_as_in_r(tmp_path):
    """Beside an intercept t:g with t = 1.7e12 + seconds has a column too much, which is that of no reference level."""
    frame = interaction().assign(stamp=lambda frame: 1.7e12 + (frame["gb"] * 1e3).round())
    table = table_of(*fit_frame(frame, "y ~ stamp:kind", "gaussian", tmp_path / "aliased"))
    assert list(table["status"]) == ["", "", "", "aliased"]
    assert table["aliased_with"].iloc[3] == "1.7e+12 Intercept - stamp:kind[p] - stamp:kind[q]"
    of_levels = smf.ols("y ~ C(kind, Treatment('r'))", frame).fit()
    unit = np.array([1.0, 1.7e12, 1.7e12])
    assert table["estimate"].to_numpy()[:3] * unit == pytest.approx(of_levels.params.to_numpy(), rel=1e-5)
    assert table["std_error"].to_numpy()[:3] * unit == pytest.approx(of_levels.bse.to_numpy(), rel=1e-5)
    # Each level has a slope, where the number can tell them apart; beside a common slope the reference level is 0.
    slopes = table_of(*fit_frame(frame, "y ~ gb:kind", "gaussian", tmp_path / "slopes"))
    assert (slopes["std_error"] > 0).all()
    beside = table_of(*fit_frame(frame, "y ~ gb + gb:kind", "gaussian", tmp_path / "beside"))
    assert list(beside["estimate"] == 0) == [False, False, True, False, False]


def test_coefficients_held_at_zero_do_not_depend_on_units():
    null = np.array([[1.0, -1.0, 0.0, 0.0], [0.0, 2.0, 1.0, -1.0]])
    held, basis = hold(null, np.array([3, 2, 1, 0]))
    for unit in (np.array([1e-12, 1e12, 1.0, 1e9]), np.array([1e10, 1.0, 1e-10, 1e-10])):
        of_units, other = hold(null * unit, np.array([3, 2, 1, 0]))
        assert list(of_units) == list(held) == [3, 1]
        assert other * unit[held][:, None] / unit == pytest.approx(basis, abs=1e-12)


CUBIC = ("{0}", "I({0}^2)", "I({0}^3)")
KINDS = {
    "firth": ("late", "binomial", " + g", {"firth": True}),
    "ridge": ("late", "binomial", " + g", {"l2": 0.01, "unpenalised": CUBIC}),
    "lasso": ("late", "binomial", " + g", {"l1": 0.01, "unpenalised": CUBIC}),
    "path": ("y", "gaussian", " + g", {"path": {"number": 4, "select": "aic"}, "unpenalised": CUBIC}),
    "classes": ("kind", "multinomial", " + g", {"l2": 0.01, "unpenalised": CUBIC}),
    "classes of a lasso": ("kind", "multinomial", " + g", {"l1": 0.01, "unpenalised": CUBIC}),
    "random effects": ("late", "binomial", " + s(h, bs=re)", {}),
    "smooth": ("late", "binomial", " + s(x)", {}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_fit_estimates_powers_of_years(kind, tmp_path):
    random, frame = np.random.default_rng(9), years()
    frame = frame.assign(x=random.normal(size=len(frame)).round(3), h=random.choice(list("pqrstuvw"), len(frame)))
    frame["kind"] = np.array(["low", "middle", "high"])[np.clip(np.round(frame["y"] / 3), -1, 1).astype(int) + 1]
    frame["late"] = (frame["y"] + 0.5 * frame["h"].isin(list("pqr")) + np.sin(2 * frame["x"]) > 1).astype(int)
    response, family, others, settings = KINDS[kind]
    file, found = ingest_frame(frame, tmp_path), {}
    for name in ("yr", "t"):
        cubic = [each.format(name) for each in CUBIC]
        keys = {key: cubic if key == "unpenalised" else value for key, value in settings.items()}
        design, fitted, _ = fit_files([file], f"{response} ~ {' + '.join(cubic)}{others}", family, **keys)
        table = table_of(design, fitted).reset_index()
        alike = table[~table["term"].str.contains("Intercept") & ~table["term"].isin(cubic[:2])]
        assert fitted.summary["converged"] and not (table["status"] == "aliased").any()
        found[name] = np.concatenate([[fitted.summary["deviance"]], *alike[["estimate", "std_error"]].to_numpy().T])
    assert len(found["t"]) >= 5
    # A coefficient of about 0 is compared with its error, if it has one.
    assert found["yr"] == pytest.approx(found["t"], rel=2e-6, abs=1e-7, nan_ok=True)
