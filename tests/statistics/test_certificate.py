"""What a fit claims of its own accuracy, against the maximum of the likelihood found with 50 digits."""

import mpmath
import numpy as np
import pandas as pd
import pytest

from pools import fit_frame, table_of

ROWS = 150


@pytest.fixture(autouse=True)
def digits():
    with mpmath.workdps(50):
        yield


def table(shift: float = 0.0) -> pd.DataFrame:
    """Two numbers around `shift`, a factor with a rare level, one nested in it, and a response of each family."""
    random = np.random.default_rng(3)
    frame = pd.DataFrame(
        {"a": shift + random.normal(size=ROWS).round(3), "b": shift + random.normal(size=ROWS).round(3)}
    )
    frame["g"] = random.choice(list("pqr"), ROWS, p=[0.6, 0.3, 0.1])
    frame["inner"] = frame["g"] + random.integers(0, 2, ROWS).astype(str)
    frame["km"] = 1.609344 * frame["a"]
    frame["near"] = frame["a"] + (1e-4 * random.normal(size=ROWS)).round(9)
    eta = 0.3 * (frame["a"] - shift) - 0.4 * (frame["b"] - shift) + 0.5 * (frame["g"] == "q")
    frame["gaussian"] = (eta + random.normal(size=ROWS)).round(6)
    frame["far"] = frame["gaussian"] + 1e9
    frame["binomial"] = (random.random(ROWS) < 1 / (1 + np.exp(-eta))).astype(int)
    frame["poisson"] = random.poisson(np.exp(0.3 * eta + 1))
    frame["probit"] = (random.random(ROWS) < 1 / (1 + np.exp(-1.7 * eta))).astype(int)
    frame["cloglog"] = (random.random(ROWS) < 1 - np.exp(-np.exp(eta))).astype(int)
    frame["gamma"] = random.gamma(2, np.exp(0.3 * eta)).round(6) + 1e-6
    frame["inverse"] = random.gamma(20, 0.05 / (2 + 0.2 * np.tanh(eta))).round(6) + 1e-6
    frame["normal"] = (np.exp(1 + 0.2 * eta) + random.normal(size=ROWS)).round(6)
    return frame


def columns(frame: pd.DataFrame, names: list[tuple[str, str]]) -> list[list]:
    """The rows of the design matrix of these coefficients, without a rounding error."""
    matrix = []
    for term, level in names:
        product, levels = [mpmath.mpf(1)] * len(frame), iter(level.split(":"))
        for factor in term.split(":"):
            if factor in ("g", "inner"):
                values = (frame[factor] == next(levels)).astype(int)
            else:
                values = frame[factor] if factor != "Intercept" else np.ones(len(frame))
            product = [each * mpmath.mpf(float(value)) for each, value in zip(product, values, strict=True)]
        matrix.append(product)
    return list(map(list, zip(*matrix, strict=True)))


def logistic(eta):
    return 1 / (1 + mpmath.exp(-eta))


def probit_score(eta, y):
    density = mpmath.npdf(eta)
    return (1 - y) * density / mpmath.ncdf(-eta) - y * density / mpmath.ncdf(eta)


def cloglog_score(eta, y):
    hazard = mpmath.exp(eta)
    return (1 - y) * hazard - y * hazard / mpmath.expm1(hazard)


SCORES = {
    "gaussian": lambda eta, y: eta - y,
    "binomial": lambda eta, y: logistic(eta) - y,
    "poisson": lambda eta, y: mpmath.exp(eta) - y,
    "probit": probit_score,
    "cloglog": cloglog_score,
    "gamma": lambda eta, y: 1 - y * mpmath.exp(-eta),
    "inverse": lambda eta, y: y - 1 / eta,
    "normal": lambda eta, y: (mpmath.exp(eta) - y) * mpmath.exp(eta),
}
"""Derivatives of the loss by the linear predictor."""

MODELS = {
    "far": ("gaussian", {}),
    "probit": ("binomial", {"link": "probit"}),
    "cloglog": ("binomial", {"link": "cloglog"}),
    "inverse": ("gamma", {"link": "inverse"}),
    "normal": ("gaussian", {"link": "log"}),
}
"""Family and link of the responses that are not called after their family."""


def maximum(rows: list[list], response: pd.Series, family: str, start: list[float]) -> list:
    """The maximum likelihood estimate, by Newton steps until they no longer change 35 digits."""
    b, y = [mpmath.mpf(each) for each in start], [mpmath.mpf(float(each)) for each in response]
    size = len(b)
    for _ in range(20):
        information, gradient = mpmath.zeros(size), mpmath.zeros(size, 1)
        for row, of_row in zip(rows, y, strict=True):
            eta = mpmath.fdot(row, b)
            score = SCORES[family](eta, of_row)
            # Steps need no more than some digits of the second derivative.
            h = mpmath.mpf(10) ** -15
            weight = (SCORES[family](eta + h, of_row) - SCORES[family](eta - h, of_row)) / (2 * h)
            for j in range(size):
                if row[j]:
                    gradient[j] += score * row[j]
                    for k in range(size):
                        information[j, k] += weight * row[j] * row[k]
        step = mpmath.lu_solve(information, gradient)
        b = [each - step[j] for j, each in enumerate(b)]
        if all(abs(step[j]) <= mpmath.mpf(10) ** -35 * (1 + abs(each)) for j, each in enumerate(b)):
            return b
    raise AssertionError("the oracle did not converge")


CASES = {
    "gaussian": ("gaussian ~ a + b + g", 0.0),
    "binomial": ("binomial ~ a + b + g", 0.0),
    "poisson": ("poisson ~ a + b + g", 0.0),
    "numbers far from 0": ("binomial ~ a + b + g", 1e6),
    "a response far from 0": ("far ~ a + b + g", 0.0),
    "a product of numbers far from 0": ("gaussian ~ a:b", 3e4),
    "such a product, binomial": ("binomial ~ a:b", 3e4),
    "such a product, poisson": ("poisson ~ a:b", 1e4),
    "such a product, with its factors": ("binomial ~ a + b + a:b", 3e4),
    "no intercept": ("poisson ~ a + b - 1", 1e3),
    "nearly determined": ("binomial ~ a + near + g", 0.0),
    "probit": ("probit ~ a + b + g", 0.0),
    "probit, numbers far from 0": ("probit ~ a + b + g", 1e6),
    "cloglog": ("cloglog ~ a + b + g", 0.0),
    "gamma": ("gamma ~ a + b + g", 0.0),
    "gamma, a product far from 0": ("gamma ~ a:b", 1e4),
    "gamma with an inverse link": ("inverse ~ a + b + g", 0.0),
    "gaussian with a log link": ("normal ~ a + b + g", 0.0),
    "a nested factor": ("poisson ~ a + g + km + inner", 50.0),
    "nested slopes": ("gaussian ~ inner + a + g + g:a + inner:a", 50.0),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_no_estimate_is_further_from_the_maximum_than_is_claimed(case, tmp_path):
    formula, shift = CASES[case]
    frame, response = table(shift), formula.split()[0]
    family, link = MODELS.get(response, (response, {}))
    design, fitted = fit_frame(frame, formula, family, tmp_path, **link)
    actual = table_of(design, fitted)
    kept = actual[(actual["status"] == "") & actual["std_error"].notna()]
    exact = maximum(
        columns(frame, list(kept.index)),
        frame[response],
        "gaussian" if response == "far" else response,
        kept["estimate"].tolist(),
    )
    off = [
        abs(mpmath.mpf(row.estimate) - each) / mpmath.mpf(row.std_error)
        for row, each in zip(kept.itertuples(), exact, strict=True)
    ]
    certificate = fitted.summary["certificate"]
    claimed = certificate["within_standard_errors"]
    assert fitted.summary["converged"]
    # What the gradient alone says, and never less than the rounding of a float64.
    assert max(float(max(off)), certificate["lambda_squared"] ** 0.5, 2.0**-53) <= claimed
    # It says something: more digits than a table has.
    assert claimed <= (1e-4 if case == "a response far from 0" else 1e-6)
