"""Several models side by side, as papers show them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from tfglm.design.design import Design
from tfglm.errors import UserError
from tfglm.families import LINKS
from tfglm.formula.response import response_text

STATISTICS = {
    "n": "rows_in_likelihood",
    "coefficients": "coefficients",
    "log-likelihood": "log_likelihood",
    "marginal log-likelihood": "marginal_log_likelihood",
    "deviance": "deviance",
    "AIC": "aic",
    "marginal AIC": "marginal_aic",
    "BIC": "bic",
    "R²": "r_squared",
    "marginal R²": "r_squared_marginal",
    "conditional R²": "r_squared_conditional",
    "pseudo-R² (share of the deviance explained)": "pseudo_r_squared",
}
"""What is printed below the estimates, and its key in fit.json."""

HELD_OUT = {
    "AUC (rows kept back)": "auc",
    "log loss (rows kept back)": "log_loss",
    "RMSE (rows kept back)": "rmse",
    "mean Poisson deviance (rows kept back)": "mean_poisson_deviance",
    "mean deviance of the family (rows kept back)": "mean_deviance",
}
"""The statistics of the held-out rows, and their keys in metrics.json."""


@dataclass(frozen=True)
class ComparedModel:
    """A fitted model: fit.json, metrics.json ({} without), the table of coefficients as texts (None for a network), and the
    design (None if it is not needed)."""

    fit: Mapping
    metrics: Mapping
    table: pd.DataFrame | None
    design: Design | None = None

    @property
    def family(self) -> str:
        return family_words(self.fit)

    @property
    def name(self) -> str:
        return self.fit["model"]


def refuse_other_rows(models: Sequence[ComparedModel]) -> None:
    """Raise UserError for models whose fits did not have the same rows."""
    first = models[0]
    for other in models[1:]:
        for what, of_fit in ROWS.items():
            mine, theirs = of_fit(first.fit), of_fit(other.fit)
            if mine == theirs:
                continue
            refusal = f"compare: `{first.name}` and `{other.name}` were not fitted on the same rows"
            if isinstance(mine, dict):
                key = next(key for key in {**mine, **theirs} if mine.get(key) != theirs.get(key))
                either = (
                    f"{in_words(mine.get(key))} for `{first.name}`, and {in_words(theirs.get(key))} for `{other.name}`"
                )
                raise UserError(f"{refusal}: `{key}` is {either}\n  fit both with the same `{key}`")
            raise UserError(
                f"{refusal}: {what} {mine} and {theirs}\n"
                f"  compare models of the same data and weights, or take one of them out of `compare`"
            )


def in_words(value: object) -> str:
    """The value of a key in words: conditions without the names that they have by default."""
    if isinstance(value, Mapping):
        return ", ".join(str(each) if key == each else f"{key}: {each}" for key, each in value.items()) or "not given"
    return str(value or "not given")


ROWS = {
    "inputs": lambda fit: [(file["file"], file["xxh128"]) for file in fit["provenance"]["inputs"]],
    # Before the numbers of rows, which they decide.
    "keys": lambda fit: {
        key: fit["provenance"]["model"].get(key) for key in ("subset", "weights", "frequency", "trials")
    },
    "selection": lambda fit: fit["provenance"]["data"],
    "training rows": lambda fit: f"{fit['rows']:,}",
}
"""What decides the rows of a fit, by what a message calls it; a mapping by its keys."""


NO_COEFFICIENTS = pd.MultiIndex.from_tuples([], names=["term", "level"])


def table(models: Sequence[ComparedModel]) -> pd.DataFrame:
    """A row for each coefficient of some model (`with_variances`), then one for each statistic: term, level, and for each model
    two columns, `<model>` and `<model> std_error` (`posterior_sd` of a penalised one)."""
    tables = []
    for model in models:
        if model.table is None:
            tables.append(pd.DataFrame(columns=["estimate", "std_error"], index=NO_COEFFICIENTS, dtype=float))
            continue
        error = "posterior_sd" if "posterior_sd" in model.table else "std_error"
        table = with_variances(model.table[["term", "level", "estimate", error]], model.fit).set_index(
            ["term", "level"]
        )
        tables.append(table[["estimate", error]].set_axis(["estimate", "std_error"], axis=1))
    order = list(dict.fromkeys(key for table in tables for key in table.index))
    index_of_all = pd.MultiIndex.from_tuples(order) if order else NO_COEFFICIENTS
    columns = {}
    for model, table in zip(models, tables, strict=True):
        estimates = table.reindex(index_of_all)
        below = statistics(model)
        columns[model.name] = [*estimates["estimate"], *below.values()]
        columns[f"{model.name} std_error"] = [*estimates["std_error"], *[None] * len(below)]
    names = [*order, *((name, "") for name in below)]
    index = pd.DataFrame(names, columns=["term", "level"])
    return pd.concat([index, pd.DataFrame(columns, dtype=float)], axis=1)


def with_variances(table: pd.DataFrame, fit: Mapping, limits: Sequence[str] = ()) -> pd.DataFrame:
    """A table of coefficients, with the standard deviations and correlations of random effects in the place of their levels. A
    pair of `limits` names columns for their intervals of 95 %."""
    lines = variances(fit)
    names = ["term", "level", "estimate", *limits]
    rows = pd.DataFrame([line[: len(names)] for line in lines], columns=names)
    others = table[~table["term"].isin({line[0] for line in lines})]
    return pd.concat([others, rows], ignore_index=True) if lines else table


def variances(fit: Mapping) -> list[tuple[str, str, float, float, float]]:
    """The standard deviations and correlations of the random effects of fit.json: the term, what it is, its value, and the limits
    of its interval of 95 %, missing without one."""
    found = []
    for smooth in fit.get("smooths", ()):
        pairs = smooth.get("correlations", ())
        for key, name, entry in [
            ("std_dev", "standard deviation", {"std_dev": 0.0} | smooth),
            *(("correlation", f"correlation with {pair['term']}", pair) for pair in pairs),
        ]:
            limits = (entry.get(f"{key}_{end}", math.nan) for end in ("lower", "upper"))
            if smooth["is_random"]:
                found.append((smooth["term"], name, float(entry[key]), *limits))
    return found


def statistics(model: ComparedModel) -> dict[str, float | None]:
    """Return what is printed below the estimates of a model, by name."""
    of_fit = {name: figure(model.fit, key) for name, key in STATISTICS.items()}
    return of_fit | {name: model.metrics.get(key) for name, key in HELD_OUT.items()}


def figure(fit: Mapping, key: str) -> float | None:
    """Return the value of a key of fit.json, None if absent. A network leaves no row out of its likelihood, so it counts
    all rows."""
    return fit.get(key, fit.get("rows") if key == STATISTICS["n"] else None)


def responses(models: Sequence[ComparedModel]) -> list[str]:
    """The different responses: of several, likelihoods cannot be compared; with several families and links they can."""
    return list(dict.fromkeys(response_of(model.fit) for model in models))


def family_words(fit: Mapping, noun: str = "") -> str:
    """The family of fit.json, a `noun` after it if there is one, and its link if that is not the default."""
    links = list(LINKS[fit["family"]])
    name, link = f"{fit['family'].replace('_', ' ')} {noun}".strip(), fit.get("link", links[0])
    return name if link == links[0] else f"{name} with link {link}"


def response_of(fit: Mapping) -> str:
    """Return the response as the formula of fit.json has it."""
    return response_text(fit["formula"])
