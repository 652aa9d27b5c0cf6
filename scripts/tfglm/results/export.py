"""A fitted model for others: a SavedModel that needs none of our code, and a description in JSON."""

import math
from collections.abc import Mapping

import numpy as np
import tensorflow as tf
import tensorflow.experimental.numpy as tnp

from tfglm.data.encoding import EXACT_BELOW
from tfglm.design import transforms
from tfglm.design.design import Design
from tfglm.design.factors import Categorical
from tfglm.design.parametrisation import is_centred
from tfglm.engine.rows import UNSEEN_LEVEL
from tfglm.errors import UserError
from tfglm.families import FAMILIES
from tfglm.results.estimates import Estimates
from tfglm.solvers.fitted import SEPARATED, Fitted

MEANS = {"identity": tf.identity, "logit": tf.sigmoid, "log": tf.exp}
"""The mean as a function of the linear predictor, by the name of the link."""


class Exported(tf.Module):
    """A model as a function of columns, as they are in the data: text as strings, '' where it is missing, and numbers as float64,
    NaN where they are. `substitutes` are the levels that stand for unseen ones.

    Returns `linear_predictor` and `probability` or `mean`, [rows]; NaN where a row has no prediction.
    """

    def __init__(self, design: Design, fitted: Fitted, substitutes: Mapping[str, int]):
        super().__init__()
        self.design, self.substitutes = design.to_predict, substitutes
        self.kinds = kinds(self.design)
        check_exact(self.design)
        coefficients = np.where(fitted.status == SEPARATED, np.nan, fitted.coefficients)
        self.coefficients = tf.constant(coefficients, tf.float64)
        texts = [factor for factor in self.design.categorical if factor.column_kind == "text"]
        self.tables = {factor.name: self._table(factor) for factor in texts}

    def _table(self, factor: Categorical) -> tf.lookup.StaticHashTable:
        known = {value: number for value, number in factor.numbers.items() if value is not None}
        entries = tf.lookup.KeyValueTensorInitializer(
            tf.constant(list(known), tf.string), tf.constant(list(known.values()), tf.int64)
        )
        return tf.lookup.StaticHashTable(entries, self.substitutes.get(factor.name, UNSEEN_LEVEL))

    def save(self, folder: str) -> None:
        """Write the SavedModel with the signature `serving_default`."""
        specs = {
            name: tf.TensorSpec([None], tf.string if kind == "text" else tf.float64, name)
            for name, kind in self.kinds.items()
        }
        tf.saved_model.save(self, folder, signatures=self.predict.get_concrete_function(**specs))

    @tf.function(autograph=False)
    def predict(self, **columns: tf.Tensor) -> dict[str, tf.Tensor]:
        design = self.design
        levels = {factor.name: self._level(factor, columns[factor.column]) for factor in design.categorical}
        numbers = {
            factor.name: transforms.apply(tnp, factor.learnt, columns[factor.column]) for factor in design.numeric
        }
        some = next(iter(columns.values()))
        eta = tf.zeros(tf.shape(some), tf.float64)
        if design.offset:
            eta += transforms.apply(tnp, design.offset.learnt, columns[design.offset.column])[0]
        for part in design.parts:
            group = self._group(part.grouping, levels)
            share = tf.gather(self.coefficients, part.where.start + tf.maximum(group, 0))
            share = tf.where(group < 0, tf.constant(np.nan, tf.float64), share)
            for name, number in part.multiplier:
                factor = design.numeric_by_name[name]
                center = factor.center[number] if is_centred(design, part) else 0.0
                share *= (numbers[name][number] - center) / factor.scale[number]
            eta += share
        eta = tf.where(tf.math.is_finite(eta), eta, tf.constant(np.nan, tf.float64))
        family = FAMILIES[design.family]
        return {"linear_predictor": eta, family.predicted: MEANS[family.link_name](eta)}

    def _level(self, factor: Categorical, column: tf.Tensor) -> tf.Tensor:
        """The number of the level of a factor, or UNSEEN_LEVEL."""
        substitute = tf.constant(self.substitutes.get(factor.name, UNSEEN_LEVEL), tf.int64)
        # A missing value in a column that must have one is no level that could be substituted.
        absent = factor.numbers.get(None, UNSEEN_LEVEL if factor.column in self.design.required else substitute)
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
        if not grouping:
            return tf.constant(0, tf.int64)
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


def check_exact(design: Design) -> None:
    """Raise UserError for integers that the numbers which the exported function takes cannot tell apart."""
    for factor in design.categorical:
        values = (value for value in factor.numbers if value is not None) if factor.column_kind == "integer" else ()
        if any(abs(int(value)) > EXACT_BELOW for value in values):
            raise UserError(
                f"models.{design.model}.export: `{factor.name}` has levels beyond 2^53, which float64, the type of numbers in an "
                f"exported model, cannot tell apart\n  read `{factor.column}` as text, with `type: string` in the layout"
            )


def kinds(design: Design) -> dict[str, str]:
    """The columns that a prediction needs, each with what it holds: `text` or `number`."""
    text = {factor.column for factor in design.categorical if factor.column_kind == "text"}
    return {name: "text" if name in text else "number" for name in design.to_predict.columns}


def description(design: Design, estimated: Estimates, fit: Mapping, derived: Mapping[str, str]) -> dict:
    """What the model is, for readers without tfglm: linear predictor = offset + sum over coefficients of the product of the
    term's numbers where the row has the coefficient's level. `derived` has the SQL expressions of columns that are in no file."""
    inputs = [
        {
            "name": name,
            "type": kind,
            "missing": "" if kind == "text" else "NaN",
            **({"derived_as": derived[name]} if name in derived else {}),
        }
        for name, kind in kinds(design).items()
    ]
    coefficients = zip(design.coefficients(), estimated.values.tolist(), strict=True)
    return {
        "model": design.model,
        "formula": design.formula,
        "family": design.family,
        "link": FAMILIES[design.family].link_name,
        "inputs": inputs,
        "outputs": ["linear_predictor", FAMILIES[design.family].predicted],
        "offset": design.offset and {"column": design.offset.column, "functions": list(design.offset.learnt)},
        "numbers": [
            {"name": factor.name, "column": factor.column, "functions": list(factor.learnt)}
            for factor in design.numeric
        ],
        "levels": [
            {"name": factor.name, "column": factor.column, "levels": list(factor.levels), "rare": list(factor.rare)}
            for factor in design.categorical
        ],
        "coefficients": [
            {"term": term, "level": level, "estimate": value if math.isfinite(value) else None}
            for (term, level), value in coefficients
        ],
        "reference_levels": estimated.levels,
        "converged": fit["converged"],
        "rows": fit["rows"],
    }
