"""Models put together at random, and what they must come to: the seams between formulas, families, weights and errors.

Compared are linear predictors and their standard errors, row by row, as these do not depend on how a formula is coded. The other
side knows nothing of coding either: the columns that each term spans, made orthonormal, fitted by statsmodels, with sandwiches of
NumPy.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.interpolate
import statsmodels.api as sm
from statsmodels.genmod.families import links

from pools import CR1, fit_files, ingest_frame, predicted, to_predict

KNOTS = [400.0, 900.0, 1500.0]
"""Of splines of the distance; the first and last value of natural ones lie outside."""

RANGE = (50.0, 4000.0)


def table(rows: int, random: np.random.Generator) -> pd.DataFrame:
    """Rows with a response for each family."""
    frame = pd.DataFrame(
        {
            "carrier": random.choice(["AA", "B6", "DL", "UA", "WN"], rows, p=[0.3, 0.25, 0.2, 0.15, 0.1]),
            "origin": random.choice(["EWR", "JFK", "LGA"], rows),
            "month": random.integers(1, 6, rows),
            "hour": np.round(random.uniform(0, 24, rows), 1),
            "distance": np.round(random.gamma(4, 200, rows), 1).clip(60, 3900),
            "temperature": np.round(random.normal(15, 8, rows), 1),
            "seats": random.integers(50, 300, rows),
            "precision": np.round(random.uniform(0.5, 3, rows), 2),
            "times": random.integers(0, 4, rows),
            "flights": random.integers(1, 9, rows),
            "date": random.integers(0, 40, rows),
        }
    )
    eta = -0.3 + 0.3 * (frame["carrier"] == "B6") - 0.2 * (frame["origin"] == "JFK") + 0.3 * np.sin(frame["hour"] / 4)
    eta += 0.2 * np.sin(frame["distance"] / 300) + 0.01 * frame["temperature"] + 0.1 * (frame["month"] == 2)
    probability = 1 / (1 + np.exp(-eta))
    frame["late"] = (random.random(rows) < probability).astype(int)
    frame["late_flights"] = random.binomial(frame["flights"], probability)
    frame["delay"] = np.round(12 * eta + 10 * random.normal(size=rows), 1)
    frame["bags"] = random.poisson(np.exp(eta + 1))
    # Overdispersed counts, costs above 0, and costs of which many are 0.
    frame["complaints"] = random.poisson(np.exp(eta) * random.gamma(2, 0.5, rows))
    frame["fuel"] = np.round(np.exp(0.3 * eta) * random.gamma(4, 0.5, rows), 4).clip(0.01)
    frame["damage"] = np.where(random.random(rows) < 0.5, 0.0, frame["fuel"])
    return frame


# ----------------------------------------------------------------------------------------------- the columns of a term


def indicators(column: str) -> Callable[[pd.DataFrame], np.ndarray]:
    return lambda frame: pd.get_dummies(frame[column]).to_numpy(float)


def numbers(*functions: Callable[[pd.DataFrame], np.ndarray]) -> Callable[[pd.DataFrame], np.ndarray]:
    return lambda frame: np.column_stack([np.asarray(function(frame), float) for function in functions])


def natural_spline(frame: pd.DataFrame) -> np.ndarray:
    """Natural cubic splines of the distance: through 1 at one knot and 0 at the others, with straight ends."""
    knots = np.array([RANGE[0], *KNOTS, RANGE[1]])
    spline = scipy.interpolate.CubicSpline(knots, np.eye(len(knots)), bc_type="natural")
    return spline(frame["distance"].to_numpy())


def periodic_spline(frame: pd.DataFrame) -> np.ndarray:
    """Periodic cubic splines of the hour with knots every six hours."""
    knots, values = np.arange(0, 25, 6.0), np.vstack([np.eye(4), np.eye(4)[0]])
    return scipy.interpolate.CubicSpline(knots, values, bc_type="periodic")(frame["hour"].to_numpy())


def cubic_spline(frame: pd.DataFrame) -> np.ndarray:
    """Cubic splines of the distance: powers, and cubes of what is above each knot."""
    x = frame["distance"].to_numpy() / 1000
    return np.column_stack([x, x**2, x**3, *(np.maximum(x - knot / 1000, 0) ** 3 for knot in KNOTS)])


FACTORS = {
    "carrier": indicators("carrier"),
    "origin": indicators("origin"),
    "C(month)": indicators("month"),
    "C(carrier, contr.sum)": indicators("carrier"),
    "C(origin, contr.helmert)": indicators("origin"),
    "C(month, contr.poly)": indicators("month"),
    "i(month, ref=2)": indicators("month"),
}
NUMBERS = {
    "hour": numbers(lambda frame: frame["hour"]),
    "temperature": numbers(lambda frame: frame["temperature"]),
    "log(distance)": numbers(lambda frame: np.log(frame["distance"])),
    "I(temperature^2)": numbers(lambda frame: frame["temperature"] ** 2),
    "I(distance / 100)": numbers(lambda frame: frame["distance"]),
    "poly(temperature, 2)": numbers(lambda frame: frame["temperature"], lambda frame: frame["temperature"] ** 2),
    f"bs(distance, knots={KNOTS}, lower_bound=50, upper_bound=4000)": cubic_spline,
    f"ns(distance, knots={KNOTS}, lower_bound=50, upper_bound=4000)": natural_spline,
    "cc(hour, knots=[6, 12, 18], lower_bound=0, upper_bound=24)": periodic_spline,
}
TERMS = FACTORS | NUMBERS


def column_of(term: str) -> str:
    """The column that a term is about."""
    return next(name for name in ("carrier", "origin", "month", "hour", "distance", "temperature") if name in term)


# ----------------------------------------------------------------------------------------------- a model

FAMILIES = {
    "gaussian": ("delay", sm.families.Gaussian(), {}),
    "binomial": ("late", sm.families.Binomial(), {}),
    "probit": ("late", sm.families.Binomial(links.Probit()), {"family": "binomial", "link": "probit"}),
    "cloglog": ("late", sm.families.Binomial(links.CLogLog()), {"family": "binomial", "link": "cloglog"}),
    "trials": ("late_flights", sm.families.Binomial(), {"family": "binomial", "trials": "flights"}),
    "poisson": ("bags", sm.families.Poisson(), {}),
    "gamma": ("fuel", sm.families.Gamma(links.Log()), {}),
    "inverse_gaussian": ("fuel", sm.families.InverseGaussian(links.Log()), {}),
    "negative_binomial": ("complaints", sm.families.NegativeBinomial(alpha=0.5), {"theta": 2.0}),
    "gaussian log": ("fuel", sm.families.Gaussian(links.Log()), {"family": "gaussian", "link": "log"}),
}
ERRORS = ["classical", "HC0", "HC1", "HC3", "cluster(date)"]


@dataclass
class Model:
    """A model put together from a seed."""

    name: str
    formula: str
    terms: list[tuple[str, ...]]
    settings: dict = field(default_factory=dict)

    @classmethod
    def drawn(cls, random: np.random.Generator) -> "Model":
        name = str(random.choice(list(FAMILIES)))
        count = int(random.integers(1, 5))
        drawn = [str(term) for term in random.permutation(list(TERMS))]
        single: list[str] = []
        for term in drawn:
            if len(single) < count and column_of(term) not in map(column_of, single):
                single.append(term)
        terms: list[tuple[str, ...]] = [(term,) for term in single]
        pairs = [pair for pair in combinations(single, 2) if any(term in FACTORS for term in pair)]
        if pairs and random.random() < 0.5:
            terms.append(pairs[int(random.integers(len(pairs)))])
        response, _, keys = FAMILIES[name]
        settings = {"family": name} | keys | {"std_errors": str(random.choice(ERRORS))}
        choice = random.random()
        if choice < 0.25:
            settings["frequency"] = "times"
        elif choice < 0.5 and settings["family"] != "binomial":
            settings["weights"] = "precision"
        if random.random() < 0.25:
            settings["offset"] = "log(seats)" if name in ("poisson", "gaussian") else "I(temperature / 50)"
        formula = f"{response} ~ {' + '.join(':'.join(term) for term in terms)}"
        return cls(name, formula, terms, settings)

    def columns(self, frame: pd.DataFrame) -> np.ndarray:
        """What the formula spans, by orthonormal columns, [rows, rank]."""
        spanned = [np.ones((len(frame), 1))]
        for term in self.terms:
            product = np.ones((len(frame), 1))
            for factor in term:
                other = TERMS[factor](frame)
                product = (product[:, :, None] * other[:, None, :]).reshape(len(frame), -1)
            spanned.append(product)
        matrix = np.column_stack(spanned)
        matrix = matrix / np.linalg.norm(matrix, axis=0).clip(1e-300)
        left, values, _ = np.linalg.svd(matrix, full_matrices=False)
        return left[:, values > 1e-9 * values[0]]

    def offset(self, frame: pd.DataFrame) -> np.ndarray:
        texts = {"log(seats)": np.log(frame["seats"]), "I(temperature / 50)": frame["temperature"] / 50}
        return np.asarray(texts.get(self.settings.get("offset", ""), np.zeros(len(frame))), float)


# ----------------------------------------------------------------------------------------------- the two answers


def ours(model: Model, frame: pd.DataFrame, folder: Path) -> tuple[pd.DataFrame, dict]:
    """Linear predictor, its standard error and the remark of each row, and the summary of the fit."""
    file, new = ingest_frame(frame, folder), to_predict(frame, folder, "new")
    settings = {key: value for key, value in model.settings.items() if key != "family"}
    design, fitted, _ = fit_files([file], model.formula, model.settings["family"], limits=CR1, **settings)
    return predicted(design, fitted, new)[["linear_predictor", "linear_predictor_std_error", "remark"]], fitted.summary


def theirs(model: Model, frame: pd.DataFrame, kept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Linear predictor and its standard error of the rows `kept`, to which the model is fitted."""
    rows = frame[kept]
    times = rows["times"].to_numpy() if model.settings.get("frequency") else np.ones(len(rows), int)
    weights = rows["precision"].to_numpy() if model.settings.get("weights") else np.ones(len(rows))
    response, family, _ = FAMILIES[model.name]
    y, trials = rows[response].to_numpy(float), np.ones(len(rows))
    if "trials" in model.settings:
        trials = rows["flights"].to_numpy(float)
        y = y / trials
    x, offset = model.columns(rows), model.offset(rows)
    # Rows that stand for several are as many rows.
    repeated = np.repeat(np.arange(len(rows)), times)
    weight = (weights * trials)[repeated]
    x_all, y_all, offset_all = x[repeated], y[repeated], offset[repeated]
    fit = sm.GLM(y_all, x_all, family, offset=offset_all, var_weights=weight).fit(
        maxiter=200, tol=1e-14, tol_criterion="params"
    )
    eta = x_all @ fit.params + offset_all
    mu = family.link.inverse(eta)
    slope = 1 / family.link.deriv(mu)
    variance = family.variance(mu)
    working = weight * slope**2 / variance
    bread = np.linalg.inv(x_all.T @ (x_all * working[:, None]))
    score = weight * (y_all - mu) * slope / variance
    n, p = x_all.shape
    kind = model.settings["std_errors"]
    if kind == "classical":
        known = model.settings["family"] in ("binomial", "poisson", "negative_binomial")
        dispersion = 1.0 if known else float(np.sum(weight * (y_all - mu) ** 2 / variance)) / (n - p)
        covariance = dispersion * bread
    elif kind == "cluster(date)":
        dates, groups = np.unique(rows["date"].to_numpy()[repeated], return_inverse=True)
        sums = np.zeros((len(dates), p))
        np.add.at(sums, groups, x_all * score[:, None])
        factor = len(dates) / (len(dates) - 1) * (n - 1) / (n - p)
        covariance = factor * bread @ sums.T @ sums @ bread
    else:
        leverage = working * np.einsum("ij,jk,ik->i", x_all, bread, x_all)
        factor = {"HC0": 1.0, "HC1": n / (n - p), "HC3": (1 - leverage) ** -2.0}[kind]
        covariance = bread @ (x_all.T @ (x_all * (factor * score**2)[:, None])) @ bread
    # A variance of 0 may be negative by rounding.
    return x @ fit.params + offset, np.sqrt(np.einsum("ij,jk,ik->i", x, covariance, x).clip(0))
