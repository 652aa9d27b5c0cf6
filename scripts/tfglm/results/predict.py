"""Predictions of single rows, shard by shard, with standard errors from the blocks of the covariance."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import scipy.sparse

from tfglm.data.shards import IngestedFile, Shard
from tfglm.design.design import Design
from tfglm.design.levels import levels_by_code
from tfglm.engine.evaluated import Evaluated, predictions_of, rows_of_design
from tfglm.engine.rows import MISSING_VALUE, NOT_FINITE, SEPARATED_LEVEL, UNSEEN_LEVEL, WITHOUT_ESTIMATE, WITHOUT_MEAN
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.inference.fitted import EMPTY, FREE, SEPARATED, Fitted
from tfglm.results.geometric import logarithm_of, with_geometric_means

WITHOUT_PREDICTION = {
    MISSING_VALUE: "missing value",
    UNSEEN_LEVEL: "unseen level",
    SEPARATED_LEVEL: "separated level",
    NOT_FINITE: "not finite",
    WITHOUT_ESTIMATE: "level without an estimate",
    WITHOUT_MEAN: "out of the range of the link",
}
"""Why a row has no prediction."""

MOVED_ABOVE = 1e-5
"""Times the largest entry of a direction: it moves a row, and not by rounding."""

OUTSIDE = "outside the range of a spline"


class Scored(NamedTuple):
    """The rows of a shard in order, [rows]: what `predictions_of` or `rows_of_design` says of them."""

    file: IngestedFile
    shard: Shard
    rows: dict[str, np.ndarray]


def score(
    workload: Workload, fitted: Fitted, values: Callable[[Evaluated], dict[str, np.ndarray]] = predictions_of
) -> Iterator[Scored]:
    """The rows of each shard of a workload, with their `values`."""
    workload = without_separated(workload, fitted)
    coefficients = workload.state(fitted.coefficients)
    for file, shard, signature, call in workload.shards_alone():
        yield Scored(file, shard, workload.passes(signature).rows(values, coefficients, call))


def without_separated(workload: Workload, fitted: Fitted) -> Workload:
    """The workload without the rows of separated levels, and those that terms separate together: their linear predictor is not
    finite, or not known. Nor is that of levels whose rows have no part in the fit."""
    design = workload.design
    separated, unknown = fitted.status == SEPARATED, without_estimate(design, fitted)
    of_separated: dict[tuple[str, ...], frozenset[int]] = {}
    of_unknown: dict[tuple[str, ...], frozenset[int]] = {}
    for part in design.parts:
        if not part.grouping:
            continue
        # An infinite slope concerns single rows, those along `left_out`.
        for which, groups in ((separated & (not part.multiplier), of_separated), (unknown, of_unknown)):
            numbers = np.flatnonzero(which[part.where]).tolist()
            groups[part.grouping] = groups.get(part.grouping, frozenset()).union(numbers)
    return workload.excluding(of_separated).without_estimates(of_unknown).along(left_out(fitted))


def without_estimate(design: Design, fitted: Fitted) -> np.ndarray:
    """Which coefficients are those of levels whose training rows have no part in the fit, as their weights are 0 or all of them
    were left out, [p]. A penalty gives them one, 0."""
    free = design.penalised_coefficients == 0 if design.penalty.given else True
    return (fitted.status == EMPTY) & free


def left_out(fitted: Fitted) -> np.ndarray:
    """Return directions that mark unpredictable rows: if terms separate rows together, the fit determines nothing about
    rows that move by more than 1 along one of them, [directions, p]."""
    if not fitted.separation:
        return np.zeros((0, len(fitted.coefficients)))
    first, *others = fitted.separation.directions
    return np.vstack([2 * first, *(other / (MOVED_ABOVE * np.abs(other).max()) for other in others)])


Estimate = Callable[[Scored], dict[str, pa.Array]]
"""The results of a model for the rows of a shard, by column."""


def predictions(
    design: Design,
    fitted: Fitted,
    file: IngestedFile,
    unseen: Mapping[str, int],
    identity: Sequence[str],
    confidence: float,
    smooths: Sequence[Mapping] = (),
    interval: str = "mean",
) -> Iterator[pa.Table]:
    """Predict the rows of the split `predict` of a file with a regression. A level that no training row has has the random
    effect 0, with the variance of random effects, or the number in `unseen`, by term. `smooths` are those of fit.json. With
    `interval` prediction there are intervals of new responses (`new_responses`), and rows need their trials and weights.

    Yields the `tables` with the columns `linear_predictor` and its `linear_predictor_std_error`; `probability` or `mean`,
    its `std_error` (by the delta method; for the mean, not for a single response), `ci_lower` and `ci_upper` (transformed by
    the link; with clusters also `effective_clusters`). In a penalised fit `posterior_sd` replaces the standard errors. For a
    fit without either, or with absorbed factors, they are empty. Predictions of a logarithm have geometric means too.
    """
    of_rows = design.to_predict
    if interval == "prediction":
        of_rows = of_rows.with_roles(trials=design.roles.trials, weights=design.roles.weights)
    # A level in whose place there is no effect.
    random = {part.grouping[0]: int(np.argmax(fitted.status[part.where] == FREE)) for part in design.random_parts}
    workload = Workload(of_rows, [file], "predict", unseen={**unseen, **random})
    variances = {smooth["term"]: smooth.get("std_dev_at_origin", smooth.get("std_dev", 0.0)) ** 2 for smooth in smooths}
    scored = (
        with_effects_of_new_levels(design, fitted, rows, variances) for rows in score(workload, fitted, rows_of_design)
    )
    return tables(design, file, identity, scored, lambda rows: estimated(design, fitted, rows, confidence, interval))


def with_effects_of_new_levels(
    design: Design, fitted: Fitted, scored: Scored, variances: Mapping[str, float]
) -> Scored:
    """The rows with the random effect 0 for levels that no training row has, and their `variance`, from that of each term."""
    rows = {**scored.rows, "eta": scored.rows["eta"].copy(), "multipliers": scored.rows["multipliers"].copy()}
    rows["variance"] = np.zeros(len(rows["eta"]))
    new = new_levels(design, scored)
    for part in design.random_parts:
        (name,), number = part.grouping, design.parts.index(part)
        multiplier = np.where(new[name], rows["multipliers"][:, number], 0.0)
        group = rows["groups"][:, design.groupings.index(part.grouping)]
        rows["eta"] -= multiplier * fitted.coefficients[part.where][np.where(new[name], group, 0)]
        scale = np.prod([design.numeric_by_name[factor].scale[place] for factor, place in part.multiplier])
        rows["variance"] += variances.get(part.term.name, 0.0) * (scale * multiplier) ** 2
        rows["multipliers"][new[name], number] = 0.0
    return scored._replace(rows=rows)


def new_levels(design: Design, scored: Scored) -> dict[str, np.ndarray]:
    """Which rows have a level that no training row has, for each factor."""
    found = {}
    for factor in design.categorical:
        column = scored.file.codes(factor.column).name
        (levels,) = levels_by_code(factor, [scored.file], UNSEEN_LEVEL)
        new = levels == UNSEEN_LEVEL
        new[0] &= factor.column not in design.roles.required  # else the row lacks a value
        found[factor.name] = new[stored_values(scored.file, scored.shard, column)]
    return found


def tables(
    design: Design, file: IngestedFile, identity: Sequence[str], scored: Iterator[Scored], estimate: Estimate
) -> Iterator[pa.Table]:
    """Yield the rows of the split `predict` of a file with the results of a model: an empty table, then one for each shard;
    together they have the rows in order.

    Columns: `file`, `row` (its number in the file, from 1), the columns of `identity`, the columns that `estimate` computes;
    `unseen`, the terms with a level that no training row has; `remark`, why there is no prediction, or that a number is
    OUTSIDE.
    """
    numbers = file.predicted_rows()
    first = 0
    for of_shard in chain([nothing(design, file)], scored):
        rows = of_shard.shard.rows
        columns = {"file": pa.array([file.manifest.source]).take(pa.array(np.zeros(rows, np.int32)))}
        columns["row"] = pa.array(numbers[first : first + rows])
        first += rows
        columns |= {name: decoded(file, of_shard.shard, name) for name in identity}
        yield pa.table(columns | estimate(of_shard) | remarks(design, of_shard))


def nothing(design: Design, file: IngestedFile) -> Scored:
    """No rows, for the columns of a table."""
    shapes = {"groups": (0, len(design.groupings)), "multipliers": (0, len(design.parts))}
    types = {
        "eta": float,
        "variance": float,
        "flag": np.int32,
        "outside": bool,
        "groups": np.int32,
        "multipliers": float,
        "weight": float,
    }
    rows = {name: np.zeros(shapes.get(name, 0), dtype) for name, dtype in types.items()}
    return Scored(file, Shard("", "predict", 0), rows)


def check_identity(where: str, file: IngestedFile, identity: Sequence[str]) -> None:
    """Raise UserError, which names the model's section `where`, for a column that the file was not read with."""
    there = [column.name for column in file.manifest.columns]
    for name in identity:
        if name in there and file.column(name).kind == "image":
            raise UserError(f"{where}.identity: `{name}` is an image, which no table can hold; take it out")
        if name not in there:
            raise UserError(f"{where}.identity: {file.manifest.source} was read without `{name}`")


def estimated(
    design: Design, fitted: Fitted, scored: Scored, confidence: float, interval: str = "mean"
) -> dict[str, pa.Array]:
    """Predictions and their errors."""
    known = scored.rows["flag"] >= 0
    eta = np.where(known, scored.rows["eta"], np.nan)
    error, quantile = np.full((2, len(eta)), np.nan)
    if fitted.covariance.is_known and not design.absorbed:
        rows = design_rows(design, scored.rows, known)
        error[known] = np.sqrt(
            np.maximum(fitted.covariance.variances(rows).chosen + scored.rows["variance"][known], 0.0)
        )
        reference = fitted.covariance.reference(rows, exactly=False)
        error[known] = np.where(reference.unseen, np.nan, error[known])
        quantile[known] = reference.quantile(confidence)
    family = design.distribution
    # Far from the training rows a mean may be infinite.
    with np.errstate(over="ignore"):
        mean = family.mean(eta)
        derivative = np.abs(family.slope(eta, mean))
        lower, upper = family.interval(eta - quantile * error, eta + quantile * error)
    name = "posterior_sd" if design.penalty.given else "std_error"
    columns = {
        "linear_predictor": eta,
        f"linear_predictor_{name}": error,
        family.predicted: mean,
        name: derivative * error,
        "ci_lower": lower,
        "ci_upper": upper,
    }
    if interval == "prediction":
        limits = np.full((2, len(eta)), np.nan)
        some = np.isfinite(error) & np.isfinite(mean) & (scored.rows["weight"] > 0)
        weight = scored.rows["weight"][some]
        limits[:, some] = new_responses(design, fitted, eta[some], error[some], weight, quantile[some], confidence)
        columns |= {"prediction_lower": limits[0], "prediction_upper": limits[1]}
    columns = with_geometric_means(
        columns, logarithm_of(design.formula, design.likelihood.family, design.likelihood.link)
    )
    return {key: pa.array(values, from_pandas=True) for key, values in columns.items()}


NODES, SHARES = np.polynomial.hermite_e.hermegauss(7)
"""Normal deviates and their weights, for means over the normal distribution."""


def new_responses(
    design: Design,
    fitted: Fitted,
    eta: np.ndarray,
    error: np.ndarray,
    weight: np.ndarray,
    quantile: np.ndarray,
    confidence: float,
) -> np.ndarray:
    """The limits of intervals that contain new responses with at least this probability, [2, rows], from linear predictors, their
    errors, the weights and the quantiles of t, [rows] each. With trials they are numbers of events.

    In linear regression they are mean -/+ t sqrt(dispersion / weight + error^2). Others are quantiles of the distribution of
    the family averaged over the normal distribution of the linear predictor; they take the dispersion or theta for known.
    Raises UserError if the family has no such distribution.
    """
    family, dispersion = design.distribution, fitted.covariance.dispersion
    if family.quadratic:
        half = quantile * np.sqrt(dispersion / weight + error**2)
        return np.stack([eta - half, eta + half])
    means = [family.mean(eta + node * error) for node in NODES]
    laws = [law for mean in means if (law := family.law(np.zeros_like(eta), mean, weight, dispersion))]
    if not laws or design.inference.std_errors == "quasi":
        raise UserError(
            f"models.{design.model}.interval: there are no intervals of new responses with family tweedie, a quasi-likelihood "
            "or weights of counts, which name no distribution; ask for intervals of the mean"
        )

    def below(at: np.ndarray) -> np.ndarray:
        shares = [share * law.distribution.cdf(at) for share, law in zip(SHARES, laws, strict=True)]
        return np.sum(shares, axis=0) / SHARES.sum()

    mean, steps, tails = family.mean(eta), laws[0].steps, ((1 - confidence) / 2, (1 + confidence) / 2)
    spread = np.maximum(np.sqrt(dispersion * family.variance(mean) / weight), 1e-200)
    middle, scale = (mean * weight, weight) if family.counts_events else (mean, np.ones_like(mean))
    reach = np.maximum(spread * scale, 1.0) if steps else spread
    while np.any(is_short := (below(middle - reach) >= tails[0]) | (below(middle + reach) < tails[1])):
        reach = np.where(is_short, 2 * reach, reach)
    limits = []
    for tail in tails:
        # The smallest value with this share at or below it.
        low, high = middle - reach, middle + reach
        low, high = (np.floor(low), np.ceil(high)) if steps else (low, high)
        while np.any(high - low > np.maximum(1.0 if steps else 1e-12 * reach, 1e-15 * np.abs(high))):
            between = np.floor((low + high) / 2) if steps else (low + high) / 2
            is_low = below(between) < tail
            low, high = np.where(is_low, between, low), np.where(is_low, high, between)
        limits.append(high if design.roles.trials else high / scale)
    return np.stack(limits)


def design_rows(design: Design, rows: Mapping[str, np.ndarray], used: np.ndarray) -> scipy.sparse.csr_array:
    """Rows of the design matrix on the scale of the fit, [rows, p]."""
    groups, multipliers = rows["groups"][used], rows["multipliers"][used]
    columns = [
        part.where.start
        + (groups[:, design.groupings.index(part.grouping)] if part.grouping else np.zeros(len(groups), int))
        for part in design.parts
    ]
    starts = np.arange(len(groups) + 1) * len(design.parts)
    shape = (len(groups), design.size)
    return scipy.sparse.csr_array((multipliers.ravel(), np.stack(columns, 1).ravel(), starts), shape=shape)


def remarks(design: Design, scored: Scored) -> dict[str, pa.Array]:
    """The columns `unseen` and `remark`; missing where there is nothing to say."""
    unseen, terms_of = np.full(scored.shard.rows, "", object), dict[str, list[str]]()
    for part in design.random_parts:
        terms_of.setdefault(part.grouping[0], []).append(part.term.name)
    for factor, is_new in new_levels(design, scored).items():
        named = ", ".join(terms_of.get(factor, [factor]))
        unseen[is_new] = [f"{terms}, {named}" if terms else named for terms in unseen[is_new]]
    remark = np.full(scored.shard.rows, "", object)
    remark[scored.rows["outside"]] = OUTSIDE
    for flag, reason in WITHOUT_PREDICTION.items():
        remark[scored.rows["flag"] == flag] = reason
    return {
        name: pa.array([text or None for text in texts], pa.string())
        for name, texts in (("unseen", unseen), ("remark", remark))
    }


def decoded(file: IngestedFile, shard: Shard, name: str) -> pa.Array:
    """Return the values of a column of a shard in the form of the data: text or numbers, including missing values."""
    column = file.codes(name) if file.has_codes(name) else file.column(name)
    stored = stored_values(file, shard, column.name)
    if not column.coded:
        return pa.array(stored.astype(float), from_pandas=True)
    types = {"text": pa.string(), "integer": pa.int64(), "number": pa.float64()}
    return pa.array([None, *file.values(column.name)], types[column.kind]).take(pa.array(stored.astype(np.int32)))


def stored_values(file: IngestedFile, shard: Shard, name: str) -> np.ndarray:
    return file.stored(shard, name) if shard.rows else np.zeros(0, file.column(name).dtype)
