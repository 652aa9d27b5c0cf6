"""One model of data that say the same in other words: another unit or origin of a number, another order, other names of levels,
rows instead of their number. What theory says of each reported number is compared with what is reported."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from pools import CR1, estimates_of, fit_files, ingest_frame, margins, predicted, table_of, to_predict
from tfglm.results.hypotheses import hypotheses
from tfglm.results.joint import joint_tests

PRECISION, OF_ERRORS = 1e-9, 1e-7
"""Of estimates, in standard errors or relative; and of standard errors and what rests on them, where weights depend on the
estimates: a fit may end with an information matrix that is off by that much (solvers.descent.FRESH)."""

NUMBERS = {"x": {"x": 1}, "z": {"z": 1}, "I(x^2)": {"x": 2}, "I(z^2)": {"z": 2}, "I(x^3)": {"x": 3}}
"""Factors of terms, and the powers of columns in them."""

NO_ROWS = pd.DataFrame(index=pd.MultiIndex.from_arrays([[], []], names=["term", "level"]))

RESPONSES = {"gaussian": "amount", "binomial": "late", "poisson": "bags", "gamma": "cost"}
ERRORS = ["classical", "classical", "quasi", "HC0", "HC1", "HC3", "cluster(date)"]


def table(rows: int, random: np.random.Generator) -> pd.DataFrame:
    frame = pd.DataFrame(
        {
            "x": np.round(random.gamma(3, 2, rows), 2),
            "z": np.round(random.normal(3, 4, rows), 2),
            "g": random.choice(["a", "b", "c", "d"], rows, p=[0.4, 0.3, 0.2, 0.1]),
            "h": random.choice(["p", "q", "r"], rows),
            "shop": random.choice([f"s{number:02}" for number in range(20)], rows),
            "date": random.integers(0, 45, rows),
            "times": random.integers(1, 4, rows),
            "precision": random.integers(1, 9, rows) / 4,
        }
    )
    eta = -0.3 + 0.05 * frame["x"] - 0.03 * frame["z"] + 0.4 * (frame["g"] == "b") - 0.3 * (frame["h"] == "q")
    frame["amount"] = np.round(3 * eta + random.normal(size=rows), 3)
    frame["late"] = (random.random(rows) < 1 / (1 + np.exp(-eta))).astype(int)
    frame["bags"] = random.poisson(np.exp(eta + 1))
    frame["cost"] = np.round(np.exp(eta) * random.gamma(4, 0.25, rows), 4).clip(0.001)
    return frame


@dataclass(frozen=True)
class Model:
    """A formula, as terms of factors and powers of numbers, and what else is asked for."""

    family: str
    terms: tuple[tuple[str, ...], ...]
    settings: dict = field(default_factory=dict)

    @classmethod
    def drawn(cls, random: np.random.Generator) -> "Model":
        family = str(random.choice(list(RESPONSES)))
        numbers = [str(name) for name in random.choice(["x", "z"], random.integers(1, 3), replace=False)]
        terms: list[tuple[str, ...]] = [(name,) for name in numbers]
        terms += [(str(name),) for name in random.choice(["g", "h"], random.integers(0, 3), replace=False)]
        terms += [pair for pair in combinations([term[0] for term in terms], 2) if random.random() < 0.4]
        if {("x",), ("g",), ("h",)} <= set(terms) and random.random() < 0.5:
            terms += [pair for pair in combinations([term[0] for term in terms[:4]], 2) if "z" not in pair]
            terms.append(("x", "g", "h"))
        for name in numbers:
            if random.random() < 0.4:
                terms.append((f"I({name}^2)",))
                if name == "x" and random.random() < 0.5:
                    terms.append(("I(x^3)",))
        settings: dict = {"std_errors": str(random.choice(ERRORS))}
        if family in ("gaussian", "gamma") and settings["std_errors"] == "quasi":
            settings["std_errors"] = "classical"
        choice = random.random()
        if choice < 0.15:
            settings["absorb"] = ["shop"]
            settings["std_errors"] = str(random.choice(["classical", "HC1", "cluster(date)"]))
        elif choice < 0.3 and family in ("binomial", "poisson"):
            settings = {"firth": True}
        elif choice < 0.5 and family != "binomial":
            settings["weights"] = "precision"
        return cls(family, tuple(dict.fromkeys(terms)), settings)

    @property
    def formula(self) -> str:
        return f"{RESPONSES[self.family]} ~ {' + '.join(':'.join(term) for term in self.terms)}"

    def power(self, term: str, column: str) -> int:
        """Of a column in a term."""
        return sum(NUMBERS.get(factor, {}).get(column, 0) for factor in term.split(":"))

    def moves_with(self, term: str, column: str) -> bool:
        """Whether the coefficients of a term are others if the column has another origin: a term has what it has, and more of the
        column."""

        def rest(name: str) -> dict[str, int]:
            factors = [] if name == "Intercept" else name.split(":")
            powers: dict[str, int] = {}
            for factor in factors:
                for key, power in NUMBERS.get(factor, {factor: 1}).items():
                    powers[key] = powers.get(key, 0) + power
            powers.pop(column, None)
            return powers

        mine, power = rest(term), self.power(term, column)
        return any(
            self.power(":".join(other), column) > power
            and all(rest(":".join(other)).get(key, 0) >= value for key, value in mine.items())
            for other in self.terms
        )


@dataclass(frozen=True)
class Reported:
    """What a reader gets of a model."""

    coefficients: pd.DataFrame
    joint: pd.DataFrame
    hypothesis: pd.DataFrame
    effects: pd.DataFrame
    means: pd.DataFrame
    predictions: pd.DataFrame
    summary: dict


def reported(
    model: Model,
    frame: pd.DataFrame,
    folder: Path,
    reference: Mapping[str, str],
    seen: pd.DataFrame | None = None,
    tested: Mapping[str, float] | None = None,
    cr2: bool = False,
    **settings,
) -> Reported:
    """Fit, and make all tables. `seen` are the rows to predict, by default those of the fit; `tested` are coefficients by name,
    of which a hypothesis says that their products with these numbers are 0."""
    file = ingest_frame(frame, folder)
    new = to_predict(frame if seen is None else seen, folder, "new")
    asked = model.settings | settings
    design, fitted, _ = fit_files([file], model.formula, model.family, limits=None if cr2 else CR1, **asked)
    estimates = estimates_of(design, fitted, dict(reference))
    effects = means = NO_ROWS
    if not design.absorbed:
        of_columns = margins(design, fitted, [file], dict(reference), 0.95)
        effects, means = (each.set_index(["term", "level"]) for each in (of_columns.effects, of_columns.means))
    rows = [{name: weight} for name, weight in (tested or {}).items()]
    return Reported(
        table_of(design, fitted, dict(reference)),
        joint_tests(estimates, fitted.summary["likelihood_ratio_tests"]).set_index("term"),
        hypotheses(estimates, {"all": rows}) if rows else pd.DataFrame(),
        effects,
        means,
        predicted(design, fitted, new),
        fitted.summary,
    )


def weights_of(table: pd.DataFrame) -> dict[str, float]:
    """Coefficients of a table for a hypothesis, by name."""
    kept = table[(table["status"] == "") & np.isfinite(table["std_error"]) & (table["std_error"] > 0)]
    return {f"{term}[{level}]" if level else term: 1.0 for term, level in kept.index if term != "Intercept"}


OF_COEFFICIENT = ("estimate", "std_error", "classical_std_error", "ci_lower", "ci_upper")
FREE_OF_UNITS = ("t", "z", "df", "chi_squared", "F", "df_denominator", "mean", "linear_predictor")


class Differences:
    """Collects where two tables differ by more than rounding errors."""

    def __init__(self, precision: float, of_errors: float):
        self.precision, self.of_errors = precision, of_errors
        self.found: list[str] = []

    def check(self, what: str, ours: np.ndarray, other: np.ndarray, unit: np.ndarray) -> None:
        """Compare numbers, with what a difference is a share of."""
        is_estimate = what.endswith((".estimate", ".linear_predictor")) or "." not in what
        precision = self.precision if is_estimate else max(self.of_errors, self.precision)
        ours, other = np.asarray(ours, float), np.asarray(other, float)
        same = (ours == other) | (np.isnan(ours) & np.isnan(other))
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.where(same, 0.0, np.abs(ours - other) / np.maximum(np.abs(ours), unit))
        bad = ~(share <= precision)
        if bad.any():
            self.found.append(f"{what}: {ours[bad][:3]} and {other[bad][:3]}, off by {np.nanmax(share):.3g}")

    def tables(
        self, what: str, ours: pd.DataFrame, other: pd.DataFrame, factor: Callable[[object], float] = lambda index: 1.0
    ) -> None:
        """Compare tables row by row. Numbers with a unit are `factor` (of the row's index) times as large in the other."""
        if list(ours.index) != list(other.index):
            self.found.append(f"{what}: rows {list(ours.index)} and {list(other.index)}")
            return
        factors = np.array([factor(index) for index in ours.index])
        for error in ("std_error", "linear_predictor_std_error"):
            if error in ours:
                unit = ours[error].fillna(0.0).to_numpy(float)
        for name in ours:
            if name not in other:
                self.found.append(f"{what}: no {name}")
            elif name in ("status", "note", "level", "term", "remark"):
                if list(ours[name].fillna("")) != list(other[name].fillna("")):
                    self.found.append(f"{what}.{name}: {list(ours[name])} and {list(other[name])}")
            elif name in OF_COEFFICIENT:
                self.check(f"{what}.{name}", ours[name], other[name] / factors, unit)
            elif name == "neg_log10_p":
                size = np.nan_to_num(ours[name].to_numpy(float))
                self.check(f"{what}.{name}", ours[name], other[name], 1 + 10 * size)
            elif name in FREE_OF_UNITS:
                self.check(f"{what}.{name}", ours[name], other[name], np.ones(len(ours)))

    def summaries(self, ours: Mapping, other: Mapping, names: tuple[str, ...]) -> None:
        for name in names:
            if (ours[name] is None) != (other[name] is None):
                self.found.append(f"{name}: {ours[name]} and {other[name]}")
            elif ours[name] is not None:
                self.check(name, np.array([ours[name]]), np.array([other[name]]), np.ones(1))


FIGURES = (
    "log_likelihood",
    "deviance",
    "aic",
    "bic",
    "df_residual",
    "coefficients",
    "coefficients_aliased",
    "dispersion",
)


def compare(
    ours: Reported,
    other: Reported,
    factor: Callable[[object], float] = lambda index: 1.0,
    of_effect: Callable[[object], float] = lambda index: 1.0,
    keep: Callable[[str], bool] = lambda term: True,
    figures: tuple[str, ...] = FIGURES,
    precision: float = PRECISION,
    of_errors: float = PRECISION,
) -> list[str]:
    """Where two reports contradict each other. Coefficients are `factor` times as large in the other, effects `of_effect`; of the
    terms not to `keep` coefficients and tests are others."""
    differences = Differences(precision, of_errors)

    def kept(frame: pd.DataFrame) -> pd.DataFrame:
        return frame[[keep(term) for term in frame.index.get_level_values("term")]]

    differences.tables("coefficients", kept(ours.coefficients), kept(other.coefficients), factor)
    differences.tables("joint", kept(ours.joint), kept(other.joint))
    differences.tables("hypothesis", ours.hypothesis, other.hypothesis)
    differences.tables("effects", ours.effects, other.effects, of_effect)
    differences.tables("means", ours.means, other.means)
    differences.tables("predictions", ours.predictions, other.predictions)
    differences.summaries(ours.summary, other.summary, tuple(name for name in figures if name in ours.summary))
    return differences.found
