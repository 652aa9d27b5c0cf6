"""Functions of numbers in formulas against R and formulaic, through fit, prediction, effects, curves and export."""

import itertools
import json
import random
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
from formulaic import model_matrix
from scipy.special import expit

from pools import estimates_of, fit_files, ingest_frame, margins, predicted, table_of
from tfglm import export
from tfglm.design.transforms import apply, derivative, is_outside, learn
from tfglm.formula.parse import parse
from tfglm.results import effects, predict

GOLDEN = Path(__file__).parents[1] / "golden"
CC = "cc(hour, knots=[-1, 0, 0.5, 2], lower_bound=-4, upper_bound=4)"
FITS = {
    "arithmetic": ("late ~ hour + I(hour^2) + I((wind - 1) / 2) + log(day + 1)", "binomial"),
    "ns": ("late ~ carrier * ns(hour, df=3)", "binomial"),
    "cc": (f"delay ~ carrier + {CC}", "gaussian"),
}


@pytest.fixture(scope="module")
def golden() -> dict:
    return json.loads((GOLDEN / "formulas.json").read_text())


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return pd.read_csv(GOLDEN / "clustered.csv")


def learnt_of(term: str, column: pd.Series) -> tuple[list[dict], np.ndarray]:
    """What a term has learnt, and its columns of the rows."""
    factor = parse(f"y ~ {term}", "f").terms[0].factors[0]
    values, rows = np.unique(column, return_counts=True)
    learnt, columns = learn(factor.calls, values, rows, "f")
    return learnt, np.repeat(columns, rows, axis=0)


def test_natural_splines_are_those_of_r_within_their_knots_and_beyond(golden, frame):
    at = np.array(golden["at"])
    for term, expected in golden["splines"].items():
        learnt, _ = learnt_of(term, frame["hour"])
        np.testing.assert_allclose(learnt[0]["knots"], expected["knots"], atol=1e-12)
        values = np.stack(apply(np, learnt, at), axis=1)
        np.testing.assert_allclose(values, np.array(expected["values"]), rtol=0, atol=1e-12)
        inside = (at >= learnt[0]["low"]) & (at <= learnt[0]["high"])
        assert (is_outside(np, learnt, at) == ~inside).all()


def test_periodic_splines_are_those_of_mgcv_and_formulaic_and_go_on_where_they_began(golden, frame):
    expected = golden["periodic"]
    learnt, _ = learnt_of(CC.replace(")", ", include_intercept=True)"), frame["hour"])
    at = np.array(expected["at"])
    values = np.stack(apply(np, learnt, at), axis=1)
    np.testing.assert_allclose(values, np.array(expected["values"]), rtol=0, atol=1e-12)
    np.testing.assert_allclose(np.stack(apply(np, learnt, at + 16), axis=1), values, rtol=0, atol=1e-12)
    assert not is_outside(np, learnt, at + 16).any()
    for term in ("cc(hour, df=5, lower_bound=-4, upper_bound=4)", CC):
        centred = term.replace(")", ", constraints='center')")
        matrix = model_matrix(f"0 + {centred}", frame.sort_values("hour")).to_numpy(float)
        np.testing.assert_allclose(learnt_of(term, frame["hour"])[1], matrix, rtol=0, atol=1e-13)
        np.testing.assert_allclose(matrix.mean(0), 0, atol=1e-14)


@pytest.mark.parametrize("name", FITS)
def test_fits_are_those_of_r(name, golden, frame, tmp_path):
    expected = golden["fits"][name]
    formula, family = FITS[name]
    design, fitted, _ = fit_files([ingest_frame(frame, tmp_path)], formula, family)
    table = table_of(design, fitted)
    assert fitted.summary["deviance"] == pytest.approx(expected["deviance"], rel=1e-10)
    if name == "cc":
        return  # the same splines, of which R leaves one out, and we the mean
    ours = dict(zip((named(*names) for names in table.index), table[["estimate", "std_error"]].to_numpy(), strict=True))
    for place, theirs in enumerate(expected["names"]):
        mine = ours[theirs.replace(" ", "")]
        assert mine[0] == pytest.approx(expected["coefficients"][place], rel=1e-6, abs=1e-6 * mine[1])
        assert mine[1] == pytest.approx(expected["std_errors"][place], rel=1e-5)


def named(term: str, level: str) -> str:
    """As R names it, without blanks."""
    if term == "Intercept":
        return "(Intercept)"
    factors, levels = term.split(":"), level.split(":") if level else []
    parts = [
        factor + (levels.pop(0) if levels and (factor == "carrier" or "ns(" in factor) else "") for factor in factors
    ]
    return ":".join(parts).replace(" ", "")


def served(exported: export.ExportedRegression, carrier: list[str], columns: dict[str, np.ndarray]) -> np.ndarray:
    """The linear predictor of an exported model."""
    numbers = {name: tf.constant(values, tf.float64) for name, values in columns.items()}
    return exported.predict(carrier=tf.constant(carrier), **numbers)["linear_predictor"].numpy()


SEAM = "late ~ carrier + ns(hour, df=3) + cc(wind, df=3, lower_bound=-3, upper_bound=4) + I(day^2) + log(2 * day + 1)"


@pytest.mark.slow
def test_predictions_of_tables_and_of_a_saved_model_agree_beyond_the_range(frame, tmp_path):
    train = frame.assign(row="train")
    new = frame.head(40).assign(row="predict", hour=np.linspace(-9, 9, 40), wind=np.linspace(-30, 30, 40))
    split = {"train": "\"row\" = 'train'", "predict": "\"row\" = 'predict'"}
    columns = ["late", "carrier", "hour", "wind", "day"]
    files = [ingest_frame(pd.concat([train, new]), tmp_path, split=split, columns=columns)]
    design, fitted, _ = fit_files(files, SEAM, "binomial")
    rows = predicted(design, fitted, files[0]).tail(40)
    beyond = (new["hour"] < frame["hour"].min()) | (new["hour"] > frame["hour"].max())
    assert (rows["remark"] == predict.OUTSIDE).to_numpy().tolist() == beyond.tolist()
    # Beyond its range a natural spline is a straight line.
    inputs = {name: new[name].astype(float).to_numpy() for name in ("hour", "wind", "day")}
    exported = export.ExportedRegression(design, fitted, {})
    carriers = new["carrier"].tolist()
    eta = served(exported, carriers, inputs)
    assert eta == pytest.approx(rows["linear_predictor"].to_numpy(), rel=1e-11)
    ends = {**inputs, "hour": np.linspace(5, 10, 40)} | {"wind": np.zeros(40), "day": np.ones(40)}
    np.testing.assert_allclose(np.diff(served(exported, carriers[:1] * 40, ends), 2), 0, atol=1e-12)
    # A period later it is the same.
    assert served(exported, carriers, {**inputs, "wind": inputs["wind"] + 7}) == pytest.approx(eta, rel=1e-9)


@pytest.mark.slow
def test_effects_and_curves_are_those_of_predictions_of_changed_rows(frame, tmp_path):
    files = [ingest_frame(frame, tmp_path)]
    design, fitted, dictionary = fit_files(files, SEAM, "binomial", std_errors="cluster(day)")
    exported = export.ExportedRegression(design, fitted, {})

    def mean(**changed: float) -> float:
        inputs = {name: frame[name].to_numpy(float) + changed.get(name, 0.0) for name in ("hour", "wind", "day")}
        return float(expit(served(exported, frame["carrier"].tolist(), inputs)).mean())

    tables = margins(design, fitted, files, {}, 0.95)
    slopes = tables.effects.set_index("term")["estimate"]
    for column in ("hour", "wind", "day"):
        numerical = (mean(**{column: 1e-5}) - mean(**{column: -1e-5})) / 2e-5
        assert slopes[column] == pytest.approx(numerical, rel=1e-6), column
    curves = effects.curves(estimates_of(design, fitted), dictionary, 0.95)
    assert set(curves["term"]) >= {"ns(hour, df=3)", "cc(wind, df=3, lower_bound=-3, upper_bound=4)"}
    assert "I(day^2) + log(2 * day + 1)" in set(curves["term"])
    of_hour = curves[curves["column"] == "hour"]
    values = [*of_hour["value"], of_hour["reference"].iloc[0]]
    inputs = {"hour": np.array(values), "wind": np.zeros(len(values)), "day": np.ones(len(values))}
    eta = served(exported, ["AA"] * len(values), inputs)
    assert of_hour["effect"].to_numpy() == pytest.approx(eta[:-1] - eta[-1], abs=1e-10)
    assert of_hour["std_error"].notna().all()


def test_terms_of_one_column_are_one_curve(frame, tmp_path):
    formula = "late ~ carrier + hour + I(hour^2) + I(hour^3)"
    design, fitted, dictionary = fit_files([ingest_frame(frame, tmp_path)], formula, "binomial")
    curve = effects.curves(estimates_of(design, fitted), dictionary, 0.95)
    assert set(curve["term"]) == {"hour + I(hour^2) + I(hour^3)"}
    other = fit_files([ingest_frame(frame, tmp_path / "poly")], "late ~ carrier + poly(hour, 3)", "binomial")
    expected = effects.curves(estimates_of(*other[:2]), other[2], 0.95)
    for column in ("effect", "std_error", "ci_lower", "ci_upper"):
        np.testing.assert_allclose(curve[column], expected[column], rtol=1e-6, atol=1e-9)


OF_NUMBERS = {"log": np.log, "log2": np.log2, "log10": np.log10, "exp": np.exp, "sqrt": np.sqrt, "abs": np.abs}
POSITIONS = np.array([0.3, 0.7, 1.1, 1.9, 2.6, 3.4, 4.1, 5.3, 6.2])


class AsInR:
    """Arithmetic of one column by R's rules: `^` binds tighter than a sign before it, and from the right."""

    def __init__(self, text: str, x: np.ndarray):
        self.tokens, self.x = re.findall(r"[\d.]+|\w+|\S", text), x
        self.value = self.sum()
        assert not self.tokens

    def take(self, *wanted: str) -> str | None:
        return self.tokens.pop(0) if self.tokens and self.tokens[0] in wanted else None

    def sum(self):
        value = self.product()
        while sign := self.take("+", "-"):
            value = value + self.product() if sign == "+" else value - self.product()
        return value

    def product(self):
        value = self.signed()
        while sign := self.take("*", "/"):
            value = value * self.signed() if sign == "*" else value / self.signed()
        return value

    def signed(self):
        if sign := self.take("+", "-"):
            return -self.signed() if sign == "-" else self.signed()
        base = self.atom()
        return base ** self.signed() if self.take("^") else base

    def atom(self):
        token = self.tokens.pop(0)
        if token == "(" or token in OF_NUMBERS:
            assert token == "(" or self.take("(")
            value = self.sum()
            assert self.take(")")
            return value if token == "(" else OF_NUMBERS[token](value)
        return self.x if token == "x" else self.x.dtype.type(token)


def expression(draw: random.Random, depth: int) -> str:
    """Arithmetic of x, nested up to `depth` times."""
    shape = draw.choice("x1") if depth == 0 else draw.choice("++-*/^^^^(--fx1")
    if shape in "x1":
        return "x" if shape == "x" else draw.choice(["1", "2", "3", "10", "0.5", "1.25"])
    inner = expression(draw, depth - 1)
    if shape == "f":
        return f"{draw.choice(list(OF_NUMBERS))}({inner})"
    if shape == "(" or draw.random() < 0.4:
        inner = f"({inner})"
    if shape in "(-" and draw.random() < 0.5:
        return inner if shape == "(" else f"-{inner}"
    blank = draw.choice(["", " "])
    return inner + blank + shape.replace("(", "^") + blank + expression(draw, depth - 1)


@pytest.fixture(scope="module")
def arithmetic() -> dict[str, np.ndarray]:
    """2,000 expressions with their values at POSITIONS, which are different and could be computed to ten digits."""
    draw, kept = random.Random(5), {}
    while len(kept) < 2000:
        text = expression(draw, 5)
        try:
            with np.errstate(all="raise"):
                values, near = (AsInR(text, x).value + np.zeros(9) for x in (POSITIONS, POSITIONS * (1 + 1e-13)))
        except FloatingPointError:
            continue
        size, apart = np.abs(values), np.diff(np.sort(values)).min()
        if min(size.min(), apart) > 1e-6 and size.max() < 1e6 and (np.abs(near - values) < 1e-10 * size).all():
            kept[text] = values
    return kept


FUNCTIONS = {
    "I": ("I(2 * (", ")^2)", lambda values: 2 * values**2),
    "log": ("log(1 + (", ")^2)", lambda values: np.log(1 + values**2)),
    "exp": ("exp(-(", ")^2)", lambda values: np.exp(-(values**2))),
    "sqrt": ("sqrt((", ")^2)", np.abs),
    "scale": ("scale(", ")", None),
    "center": ("center(", ")", None),
    "poly": ("poly(", ", 2)", None),
    "bs": ("bs(", ", df=4)", None),
    "ns": ("ns(", ", df=2)", None),
    "cc": ("cc(", ", knots=[1.5, 2], lower_bound=-4, upper_bound=4)", None),
}
"""What stands before and after what each is applied to, and its values, unless it learns from them."""


@np.errstate(all="ignore")  # where a function has no derivative
@pytest.mark.slow
def test_powers_next_to_parentheses_are_those_of_r_in_every_function(arithmetic):
    without_slope = 0
    rows, step, precise = np.arange(1, 10), np.longdouble(1e-7), POSITIONS.astype(np.longdouble)
    of_column = {
        name: parse(f"y ~ {before}x{after}", "f").terms[0].factors[0].calls
        for name, (before, after, known) in FUNCTIONS.items()
        if not known
    }
    for (text, values), name in zip(arithmetic.items(), itertools.cycle(FUNCTIONS), strict=False):
        before, after, known = FUNCTIONS[name]
        inner, outer = parse(f"y ~ I({text}) + {before}{text}{after}", "f").terms
        learnt, columns = learn(inner.factors[0].calls, POSITIONS, rows, "f")
        np.testing.assert_allclose(columns[:, 0], values, rtol=1e-9, err_msg=text)
        # The label is the same arithmetic, and so is the slope.
        np.testing.assert_allclose(
            AsInR(inner.name.removeprefix("I"), POSITIONS).value, values, rtol=1e-9, err_msg=text
        )
        numerical = (AsInR(text, precise + step).value - AsInR(text, precise - step).value) / (2 * step)
        (slopes,) = derivative(learnt, POSITIONS)
        if np.isfinite(slopes).all():
            np.testing.assert_allclose(slopes, numerical.astype(float), rtol=1e-6, atol=1e-6, err_msg=text)
        else:
            # A negative base, of which the exponent is a whole number by rounding alone.
            without_slope += 1
        columns = learn(outer.factors[0].calls, POSITIONS, rows, "f")[1]
        if known:
            expected = known(values)[:, None]
        else:
            # As of a column that has these values.
            order = np.argsort(values)
            expected = learn(of_column[name], values[order], rows[order], "f")[1][np.argsort(order)]
        np.testing.assert_allclose(columns, expected, rtol=1e-9, atol=1e-9, err_msg=f"{before}{text}{after}")
    assert without_slope < 5


POWERS = "y ~ I(x^(1/3)) + I((x - 10)^2) + log((x + 1)^2) + I(2^(x/10)) + scale((x - 5)^2)"


def test_estimates_and_effects_of_powers_next_to_parentheses_are_those_of_their_columns(tmp_path):
    draw = np.random.default_rng(7)
    x = draw.uniform(0.1, 30, 200)
    square = (x - 5) ** 2
    columns = [np.ones(200), np.cbrt(x), (x - 10) ** 2, 2 * np.log(x + 1), 2 ** (x / 10)]
    matrix = np.column_stack([*columns, (square - square.mean()) / square.std(ddof=1)])
    slopes = [
        0 * x,
        x ** (-2 / 3) / 3,
        2 * (x - 10),
        2 / (x + 1),
        np.log(2) / 10 * 2 ** (x / 10),
        2 * (x - 5) / square.std(ddof=1),
    ]
    y = matrix @ [1, 2, 0.01, -1, 0.5, 0.3] + draw.normal(size=200)
    files = [ingest_frame(pd.DataFrame({"y": y, "x": x}), tmp_path)]
    design, fitted, _ = fit_files(files, POWERS, "gaussian")
    exact = np.linalg.lstsq(matrix, y, rcond=None)[0]
    table = table_of(design, fitted)
    np.testing.assert_allclose(table["estimate"], exact, rtol=1e-6)
    assert table.index.get_level_values(0).tolist() == ["Intercept", *(term.name for term in design.terms[1:])]
    effects = margins(design, fitted, files, {}, 0.95).effects
    assert effects["estimate"].tolist() == pytest.approx([np.mean(np.column_stack(slopes) @ exact)], rel=1e-6)
