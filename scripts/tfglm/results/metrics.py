"""How well a fitted model predicts rows that it was not fitted on. The metrics are scikit-learn's."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import polars as pl
import tensorflow as tf
from scipy.special import expit
from sklearn import metrics

from tfglm.data.dictionary import ABSENT, label, used_levels
from tfglm.data.shards import IngestedFile
from tfglm.errors import UserError
from tfglm.model.design import Design
from tfglm.model.fitted import SEPARATED, Fitted
from tfglm.model.rows import DROPPED, NOT_FINITE, UNSEEN
from tfglm.model.rows import SEPARATED as SEPARATED_ROW
from tfglm.model.workload import Workload
from tfglm.results.coefficients import choose_references

SHOWN = 20
"""Unseen levels that are named."""


def predict(workload: Workload, fitted: Fitted) -> dict[str, np.ndarray]:
    """Of the rows that lack no value: linear predictor `eta`, `response`, `mass` (its weight), `outside` (whether a number lies
    outside the range of a spline) and `flag` (0, or why there is no prediction)."""
    design = workload.design
    separated = {
        part.coding: frozenset(np.flatnonzero(fitted.status[part.where] == SEPARATED).tolist())
        for part in design.parts
        if part.coding and not part.multiplier
    }
    workload = workload.without(separated)
    coefficients = {term: tf.constant(value) for term, value in design.by_term(fitted.coefficients).items()}
    parts = []
    for signature, calls in workload.calls.items():
        for call in calls:
            part = workload.passes(signature).predictions(coefficients, 0, *map(tf.constant, call))
            used = part["flag"].numpy() != DROPPED
            parts.append({name: value.numpy()[used] for name, value in part.items()})
    nothing = {"eta": np.zeros(0), "response": np.zeros(0), "flag": np.zeros(0, np.int32), "mass": np.zeros(0)}
    nothing["outside"] = np.zeros(0, bool)
    return {name: np.concatenate([empty, *(part[name] for part in parts)]) for name, empty in nothing.items()}


def substitutes(
    design: Design, fitted: Fitted, policy: Literal["missing", "reference", "error"], reference: Mapping[str, str]
) -> dict[str, int]:
    """The level, by its number, that stands for levels which no training row has, for the terms where one does.

    With the policy `reference` it is the reference level of the table; with `missing` the level of missing values, if the
    term has one.
    """
    if policy == "reference":
        return choose_references(design, fitted, reference)
    if policy == "missing":
        return {factor.name: factor.numbers[None] for factor in design.categorical if factor.missing}
    return {}


def unseen_levels(design: Design, files: Sequence[IngestedFile], split: str) -> dict[str, dict]:
    """For each term the levels of a split that no training row has: in how many rows, how many, and the first ones by name.

    A missing value where rows may lack one is the level ABSENT.
    """
    tables = pl.concat([used_levels(file, design.required) for file in files]).filter(pl.col("split") == split)
    found = {}
    for term in design.categorical:
        known, rows = term.numbers, Counter()
        part = tables.filter(pl.col("column") == term.column)
        for text, number, count in part.select("text", "number", "rows").iter_rows():
            value = number if text is None else text
            level = None if value is None else label(value, term.column_kind)
            if level not in known:
                rows[ABSENT if level is None else level] += count
        if rows:
            found[term.name] = {"rows": rows.total(), "level_count": len(rows), "levels": sorted(rows)[:SHOWN]}
    return found


def refuse_unseen(design: Design, unseen: Mapping[str, dict]) -> None:
    """Raise UserError if there are levels that no training row has."""
    if unseen:
        lines = [
            f"  {term}: {', '.join(one['levels'])}{', ...' if one['level_count'] > SHOWN else ''} ({one['rows']:,} rows)"
            for term, one in unseen.items()
        ]
        raise UserError(
            f"models.{design.model}.unseen: evaluation rows have levels that no training row has:\n"
            + "\n".join(lines)
            + "\n  set the key to `missing` or `reference`, or train on rows that have them"
        )


def evaluate(design: Design, rows: dict[str, np.ndarray], threshold: float) -> dict:
    """The metrics of one model, and how many rows could not be predicted and why.

    Rows with a level that training has not seen and nothing stands for, or with a separated one, or for which a function of
    the formula is not finite, have no finite prediction and no part in the metrics. A number outside the range of a spline is
    taken for the end of it. A metric that the rows do not determine (AUC where all responses are alike) is None.
    """
    known = (rows["flag"] >= 0) & (rows["mass"] > 0)
    y, eta, mass = (rows[name][known] for name in ("response", "eta", "mass"))
    counts = {
        "rows": len(y),
        "rows_with_unseen_level": int(np.count_nonzero(rows["flag"] == UNSEEN)),
        "rows_with_separated_level": int(np.count_nonzero(rows["flag"] == SEPARATED_ROW)),
        "rows_without_finite_value": int(np.count_nonzero(rows["flag"] == NOT_FINITE)),
        "rows_outside_spline_range": int(np.count_nonzero(rows["outside"])),
    }
    measure = {"binomial": binomial, "poisson": poisson, "gaussian": gaussian}[design.family]
    return {"model": design.model, **counts, **(measure(y, eta, mass, threshold) if len(y) else {})}


def binomial(y: np.ndarray, eta: np.ndarray, mass: np.ndarray, threshold: float) -> dict:
    """Metrics of predicted probabilities; an event is predicted from `threshold` on. A row with trials counts as so many rows
    with an event and so many without."""
    if not np.isin(y, (0.0, 1.0)).all():
        y, eta, mass = np.repeat([1.0, 0.0], len(y)), np.tile(eta, 2), np.concatenate([mass * y, mass * (1 - y)])
        y, eta, mass = y[mass > 0], eta[mass > 0], mass[mass > 0]
    probability = expit(eta)
    predicted = probability >= threshold
    both = 0 < y.sum() < len(y)
    # Rows of equal covariates are ties, whatever the order in which their terms were added.
    rank = np.round(eta, 10)
    (true_negative, false_positive), (false_negative, true_positive) = metrics.confusion_matrix(
        y, predicted, labels=[0, 1], sample_weight=mass
    ).tolist()
    return {
        "events": whole(mass @ y),
        "auc": float(metrics.roc_auc_score(y, rank, sample_weight=mass)) if both else None,
        "average_precision": float(metrics.average_precision_score(y, rank, sample_weight=mass)) if both else None,
        # From eta: a probability that rounds to 0 or 1 would lose the digits that matter here.
        "log_loss": float(np.average(np.logaddexp(0.0, eta) - y * eta, weights=mass)),
        "brier": float(np.average((probability - y) ** 2, weights=mass)),
        "threshold": threshold,
        "accuracy": float(metrics.accuracy_score(y, predicted, sample_weight=mass)),
        "precision": float(metrics.precision_score(y, predicted, sample_weight=mass)) if predicted.any() else None,
        "recall": float(metrics.recall_score(y, predicted, sample_weight=mass)) if y.any() else None,
        "true_positive": whole(true_positive),
        "false_positive": whole(false_positive),
        "true_negative": whole(true_negative),
        "false_negative": whole(false_negative),
    }


def whole(value: float) -> int | float:
    """A count as a whole number, if it is one."""
    return int(value) if value == int(value) else float(value)


def gaussian(y: np.ndarray, eta: np.ndarray, mass: np.ndarray, threshold: float) -> dict:
    """Metrics of predicted means, in the units of the response."""
    return {
        "rmse": float(metrics.root_mean_squared_error(y, eta, sample_weight=mass)),
        "mae": float(metrics.mean_absolute_error(y, eta, sample_weight=mass)),
        "r_squared": float(metrics.r2_score(y, eta, sample_weight=mass)) if np.ptp(y) > 0 else None,
        "mean_response": float(np.average(y, weights=mass)),
    }


def poisson(y: np.ndarray, eta: np.ndarray, mass: np.ndarray, threshold: float) -> dict:
    """Metrics of predicted counts, and the share of the deviance that they explain."""
    mean = np.exp(eta)
    return {
        "mean_poisson_deviance": float(metrics.mean_poisson_deviance(y, mean, sample_weight=mass)),
        "d_squared": float(metrics.d2_tweedie_score(y, mean, sample_weight=mass, power=1)) if np.ptp(y) > 0 else None,
        **{name: value for name, value in gaussian(y, mean, mass, threshold).items() if name != "r_squared"},
    }
