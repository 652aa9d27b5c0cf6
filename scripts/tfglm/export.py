"""A fitted model for others: a SavedModel that needs none of our code, and a description in JSON.

`ExportedRegression` is a regression; `networks.export` has a network, which reads the same `Covariates`.
"""

import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow.experimental.numpy as tnp

from tfglm.data.kinds import EXACT_BELOW
from tfglm.design import transforms
from tfglm.design.design import Design
from tfglm.design.factors import Categorical, Numeric
from tfglm.design.parametrisation import standardised
from tfglm.engine.parts import looked_up_parts
from tfglm.engine.rows import UNSEEN_LEVEL, Multiplier
from tfglm.errors import UserError
from tfglm.inference.fitted import SEPARATED, Fitted
from tfglm.raw_columns import MISSING, RawColumns
from tfglm.results.estimates import Estimates
from tfglm.results.predict import left_out, without_estimate

sys.dont_write_bytecode = True  # as in networks/training.py: saving a model writes code too

MEANS = {
    "identity": tf.identity,
    "logit": tf.sigmoid,
    "log": tf.exp,
    "softmax": tf.nn.softmax,
    "probit": lambda eta: 0.5 * tf.math.erfc(-eta / 2.0**0.5),
    "cloglog": lambda eta: -tf.math.expm1(-tf.exp(eta)),
    # No mean, as in predictions, where the link has none.
    "inverse": lambda eta: tf.where(eta > 0, 1.0 / eta, float("nan")),
    "1/mu^2": lambda eta: tf.where(eta > 0, tf.math.rsqrt(eta), float("nan")),
}
"""The mean as a function of the linear predictor, by the name of the link."""


class Inputs(NamedTuple):
    """The inputs of a model, computed by its design for some rows."""

    groups: tf.Tensor
    """The group of each grouping, int64 [rows, groupings]; some group where there is none."""
    numbers: tf.Tensor
    """The distinct multipliers, on the scale of the fit, [rows, multipliers]."""
    offset: tf.Tensor
    """[rows]"""
    known: tf.Tensor
    """Whether a row has all of this, [rows]."""


class Covariates(tf.Module):
    """The columns that a prediction needs, in the form of the data: text as strings ('' if missing), numbers as float64 (NaN
    if missing), and images as uint8 [rows, height, width]. `substitutes` has the level that replaces unseen levels, by
    factor. The section, `models` or `networks`, is for messages."""

    def __init__(self, design: Design, substitutes: Mapping[str, int], section: str) -> None:
        super().__init__()
        self.design, self.substitutes = design.to_predict, substitutes
        self.kinds = kinds(self.design)
        self.shapes = {factor.column: factor.shape for factor in self.design.numeric if factor.shape}
        check_exact(self.design, section)
        self._multipliers, parts = looked_up_parts(self.design)
        self.parts = parts.tolist()
        texts = [factor for factor in self.design.categorical if factor.column_kind == "text"]
        self.tables = {factor.name: self._table(factor) for factor in texts}

    def _table(self, factor: Categorical) -> tf.lookup.StaticHashTable:
        known = {value: number for value, number in factor.numbers.items() if value is not None}
        entries = tf.lookup.KeyValueTensorInitializer(
            tf.constant(list(known), tf.string), tf.constant(list(known.values()), tf.int64)
        )
        return tf.lookup.StaticHashTable(entries, self.substitutes.get(factor.name, UNSEEN_LEVEL))

    def read(self, columns: Mapping[str, tf.Tensor]) -> Inputs:
        """Return the inputs that the design computes from rows, given by column."""
        design = self.design
        rows = tf.shape(next(iter(columns.values())))[0]
        levels = {factor.name: self._level(factor, columns[factor.column]) for factor in design.categorical}
        groups = beside([self._group(grouping, levels) for grouping in design.groupings], rows, tf.int64)
        of_factors = {factor.name: numbers_of(factor, columns) for factor in design.numeric}
        numbers = beside([self._number(multiplier, of_factors) for multiplier in self._multipliers], rows, tf.float64)
        offset = tf.zeros([rows], tf.float64)
        if design.roles.offset:
            offset += transforms.apply(tnp, design.roles.offset.learnt, columns[design.roles.offset.column])[0]
        known = tf.reduce_all(groups >= 0, axis=1) & tf.reduce_all(tf.math.is_finite(numbers), axis=1)
        return Inputs(tf.maximum(groups, 0), numbers, offset, known & tf.math.is_finite(offset))

    def _number(self, multiplier: Multiplier, of_factors: Mapping[str, Sequence[tf.Tensor]]) -> tf.Tensor:
        """The product of standardised numbers."""
        product = tf.constant(1.0, tf.float64)
        for number in multiplier.numbers:
            product *= standardised(self.design, number, multiplier.form, of_factors.__getitem__)
        return product

    def _level(self, factor: Categorical, column: tf.Tensor) -> tf.Tensor:
        """The number of the level of a factor, or UNSEEN_LEVEL."""
        substitute = tf.constant(self.substitutes.get(factor.name, UNSEEN_LEVEL), tf.int64)
        # A missing value in a column that must have one is no level that could be substituted.
        absent = factor.numbers.get(None, UNSEEN_LEVEL if factor.column in self.design.roles.required else substitute)
        absent = tf.cast(absent, tf.int64)
        if factor.column_kind == "text":
            return tf.where(tf.equal(column, ""), absent, self.tables[factor.name].lookup(column))
        known = sorted((float(value), number) for value, number in factor.numbers.items() if value is not None)
        values = tf.constant([value for value, _ in known], tf.float64)
        levels = tf.constant([number for _, number in known], tf.int64)
        place = tf.minimum(tf.searchsorted(values, column), len(known) - 1)
        level = tf.where(tf.equal(tf.gather(values, place), column), tf.gather(levels, place), substitute)
        return tf.where(tf.math.is_nan(column), absent, level)

    def _group(self, grouping: tuple[str, ...], levels: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """The group of a row, or a negative number where it has none."""
        if len(grouping) == 1:
            return levels[grouping[0]]
        sizes = [len(self.design.categorical_by_name[name].levels) for name in grouping]
        joint = sum(tf.maximum(levels[name], 0) * math.prod(sizes[place + 1 :]) for place, name in enumerate(grouping))
        known = tf.constant(self.design.combinations[grouping], tf.int64)
        place = tf.minimum(tf.searchsorted(known, joint, out_type=tf.int64), known.shape[0] - 1)
        least = tf.reduce_min(tf.stack([levels[name] for name in grouping]), 0)
        return tf.where(
            (least >= 0) & tf.equal(tf.gather(known, place), joint), place, tf.constant(UNSEEN_LEVEL, tf.int64)
        )


class ExportedRegression(tf.Module):
    """A regression as a function of `Covariates`, whose rows have NaN where they have no prediction."""

    def __init__(self, design: Design, fitted: Fitted, substitutes: Mapping[str, int]) -> None:
        super().__init__()
        self.covariates = Covariates(design, substitutes, "models")
        without_value = (fitted.status == SEPARATED) | without_estimate(design, fitted)
        coefficients = np.where(without_value, np.nan, fitted.coefficients)
        self._coefficients = tf.constant(coefficients, tf.float64)
        self._left_out = [tf.constant(direction, tf.float64) for direction in left_out(fitted)]

    @property
    def kinds(self) -> dict[str, str]:
        """The columns that it takes, each with its kind."""
        return self.covariates.kinds

    @tf.function(autograph=False)
    def predict(self, **columns: tf.Tensor) -> dict[str, tf.Tensor]:
        """The `outputs` of rows, given by column."""
        return outputs(self.covariates.design, self.linear_predictor(columns))

    def linear_predictor(self, columns: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Return the linear predictor of rows, given by column, [rows]."""
        inputs = self.covariates.read(columns)
        eta = inputs.offset + linear_predictor(self._coefficients, self.covariates.parts, inputs.groups, inputs.numbers)
        known = inputs.known & tf.math.is_finite(eta)
        for direction in self._left_out:
            known &= tf.abs(linear_predictor(direction, self.covariates.parts, inputs.groups, inputs.numbers)) <= 1
        return tf.where(known, eta, tf.constant(np.nan, tf.float64))


class Served(tf.Module):
    """An exported model that takes the columns of a file."""

    def __init__(self, model: tf.Module, raw: RawColumns) -> None:
        super().__init__()
        self._model, self._raw = model, raw

    @tf.function(autograph=False)
    def predict(self, **columns: tf.Tensor) -> dict[str, tf.Tensor]:
        """The `outputs` of rows, given by the columns of their file."""
        return self._model.predict(**self._raw.columns(columns))


def numbers_of(factor: Numeric, columns: Mapping[str, tf.Tensor]) -> Sequence[tf.Tensor]:
    """The numbers of a factor, given its columns, [rows] each."""
    first, *others = (columns[name] for name in factor.columns)
    if factor.shape:
        return tf.unstack(tf.reshape(tf.cast(first, tf.float64), [-1, factor.width]), axis=1)
    return transforms.apply(tnp, factor.learnt, (first, *others) if others else first)


def save(
    model: tf.Module, columns: Mapping[str, str], folder: Path, shapes: Mapping[str, tuple[int, ...]] | None = None
) -> None:
    """Write a module with a function `predict` as a SavedModel with the signature `serving_default`; `columns` are its inputs,
    as `kinds` has them, and `shapes` the heights and widths of images."""
    types = {"text": tf.string, "number": tf.float64, "image": tf.uint8}
    specs = {
        name: tf.TensorSpec([None, *(shapes or {}).get(name, ())], types[kind], name) for name, kind in columns.items()
    }
    tf.saved_model.save(model, str(folder), signatures=model.predict.get_concrete_function(**specs))


def outputs(design: Design, eta: tf.Tensor) -> dict[str, tf.Tensor]:
    """What an exported model returns, given its linear predictor: that, and `probability` or `mean`, [rows], of a response with
    classes [rows, classes]."""
    family = design.distribution
    return {"linear_predictor": eta, family.predicted: MEANS[family.link_name](eta)}


def linear_predictor(
    coefficients: tf.Tensor, parts: Sequence[tuple[int, int, int]], groups: tf.Tensor, numbers: tf.Tensor
) -> tf.Tensor:
    """Return the linear predictor without the offset, [rows], or [rows, classes] for coefficients [coefficients, classes];
    the counterpart of `engine.kernels.add_linear_predictor` for tensors. `parts` have the first coefficient, grouping and
    multiplier of each, -1 for none. `groups` and `numbers` are [rows, groupings] and [rows, multipliers]."""
    rows, classes = tf.shape(groups)[0], coefficients.shape[1:].as_list()
    eta = tf.zeros([rows, *classes], coefficients.dtype)
    for first, grouping, number in parts:
        place = tf.fill([rows], first) if grouping < 0 else first + groups[:, grouping]
        share = tf.gather(coefficients, place)
        if number >= 0:
            share *= numbers[:, number, None] if classes else numbers[:, number]
        eta += share
    return eta


def beside(columns: Sequence[tf.Tensor], rows: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Stack columns [rows] to [rows, columns]; there may be no column."""
    return tf.stack(columns, axis=1) if columns else tf.zeros([rows, 0], dtype)


def check_exact(design: Design, section: str) -> None:
    """Raise UserError for integers that the numbers which the exported function takes cannot tell apart."""
    for factor in design.categorical:
        values = (value for value in factor.numbers if value is not None) if factor.column_kind == "integer" else ()
        if any(abs(int(value)) > EXACT_BELOW for value in values):
            raise UserError(
                f"{section}.{design.model}.export: `{factor.name}` has levels beyond 2^53, which float64, the type of numbers in "
                f"an exported model, cannot tell apart\n  read `{factor.column}` as text, with `type: string` in the layout"
            )


def kinds(design: Design) -> dict[str, str]:
    """The columns that a prediction needs, each with what it holds: `text`, `number` or `image`."""
    special = {factor.column: "text" for factor in design.categorical if factor.column_kind == "text"}
    special |= {factor.column: "image" for factor in design.numeric if factor.shape}
    return {name: special.get(name, "number") for name in design.to_predict.columns}


def description(design: Design, estimated: Estimates, fit: Mapping[str, Any], derived: Mapping[str, str]) -> dict:
    """Describe a regression for readers without tfglm: linear predictor = offset + sum over coefficients of the product of
    the term's numbers, less the `mean` of a coefficient that has one, in the rows that have the coefficient's level. `derived`
    has the SQL expressions of columns that are in no file."""
    return {
        **described(design, kinds(design), derived),
        "coefficients": named(design, estimated.values),
        "reference_levels": estimated.levels,
        "converged": fit["converged"],
        "rows": fit["rows"],
    }


def described(design: Design, columns: Mapping[str, str], derived: Mapping[str, str]) -> dict:
    """Describe the columns and outputs of a model. `columns` are those that it reads, with types from `kinds`."""
    read = [
        {
            "name": name,
            "type": kind,
            "missing": MISSING[kind],
            **({"derived_as": derived[name]} if name in derived else {}),
        }
        for name, kind in columns.items()
    ]
    return {
        "model": design.model,
        "formula": design.formula,
        "family": design.likelihood.family,
        "link": design.distribution.link_name,
        "columns": read,
        "outputs": ["linear_predictor", design.distribution.predicted],
        "offset": design.roles.offset
        and {"column": design.roles.offset.column, "functions": list(design.roles.offset.learnt)},
        "numbers": [
            {"name": factor.name, "column": factor.column, "functions": list(factor.learnt)}
            for factor in design.numeric
        ],
        "levels": [
            {"name": factor.name, "column": factor.column, "levels": list(factor.levels), "rare": list(factor.rare)}
            for factor in design.categorical
        ],
    }


def named(design: Design, coefficients: np.ndarray) -> list[dict]:
    """Return coefficients [coefficients] by term and level, with the means that tensor products subtract; None for a coefficient
    that is not finite."""
    means = {
        place: {"mean": mean}
        for term in design.terms
        if term.means
        for place, mean in enumerate(term.means, design.slices[term.name].start)
    }
    return [
        {"term": term, "level": level, "estimate": value if math.isfinite(value) else None} | means.get(place, {})
        for place, ((term, level), value) in enumerate(zip(design.coefficients(), coefficients.tolist(), strict=True))
    ]
