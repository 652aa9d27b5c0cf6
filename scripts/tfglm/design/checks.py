"""What is refused before training for its values: a response that the family cannot take, too many levels, a matrix too large
to hold. What is refused for the kind of a column is in `kinds`."""

import math
from collections.abc import Sequence

from tfglm.config import DesignConfig
from tfglm.config.std_errors import BY_LEVERAGE
from tfglm.data.dictionary import Column, Dictionary
from tfglm.data.limits import MOST_CODES, MOST_LEVELS
from tfglm.data.shards import IngestedFile
from tfglm.design.design import Design
from tfglm.errors import UserError
from tfglm.families import family_of
from tfglm.families.family import Response

LARGEST_INFORMATION = 4e9
"""Bytes of the dense part of the information matrix and its coupling to the eliminated term, from which on a model is refused:
the chief holds several of such size, each worker at least two."""

LARGEST_COUPLING = 5e8
"""Bytes of a number for each coefficient and absorbed level, from which on a model is refused: the chief holds about six of such
size, each worker two."""

LARGEST_SCORES = 2e9
"""Bytes of a number for each cluster and coefficient, from which on a model is refused: the chief holds a few of such size, each
worker one or two, and TensorFlow sends no more than 2^31 at once."""


MOST_CLASSES = 100
"""Of a response: of each row that is evaluated there is a number for every class in memory, a shard at a time."""


def check_rows(dictionary: Dictionary) -> None:
    """Raise UserError if nothing is left to train on."""
    if not dictionary.rows["train"]:
        raise UserError(
            "no training rows are left; data/rows.json in the folder of results tells which conditions dropped them\n"
            "  widen data.where or data.split.train, or take columns that are mostly missing out of data.columns"
        )


def check_classes(column: Column, where: str) -> None:
    """Raise UserError unless the values of a response can be classes."""
    name = f"{where}: the response `{column.name}`"
    if column.distinct is None or column.distinct > MOST_CLASSES:
        number = "too many" if column.distinct is None else f"{column.distinct:,}"
        raise UserError(
            f"{name} has {number} different values in the training rows, and {MOST_CLASSES} classes are the most; derive a "
            f"coarser column under data.derive"
        )
    if len(column.labels) < 2:
        raise UserError(
            f"{name} has only the class `{column.labels[0]}` in the training rows, so there is nothing to learn"
        )


def check_response(column: Column, settings: DesignConfig, where: str) -> None:
    """Raise UserError unless the family can take this response and it varies."""
    minimum, maximum = column.limits
    if minimum == maximum and not settings.trials:
        raise UserError(
            f"{where}: the response `{column.name}` is {minimum:g} in all training rows, so there is nothing to "
            f"fit\n  check its definition in data.derive and the conditions in data.where"
        )
    response = Response(column.name, column.kind, minimum, maximum, column.levels)
    family = family_of(settings.family, settings.link)
    refusal = family.refusal(response, bool(settings.trials), bool(settings.weights))
    if refusal:
        raise UserError(f"{where}: family {settings.family} {refusal}")


def multiplicity_problem(column: Column) -> str | None:
    """Why the numbers of a column cannot say how often a row counts, if they cannot."""
    minimum, maximum = column.limits
    if minimum < 0:
        return f"has the negative value {minimum:g}"
    return "is 0 in all training rows" if maximum == 0 else None


def check_levels(name: str, column: Column, where: str) -> int:
    """How many values the column has. Raises UserError if they cannot be told apart."""
    if column.distinct is not None:
        return column.distinct
    if column.kind == "number":
        raise UserError(
            f"{where}: `{name}`: `{column.name}` is a number with more than {MOST_CODES - 1:,} distinct values in one file; use "
            f"it as a number, without C()\n"
            f"  if it is an identifier, read it as one, with `type: integer` or `string` in the layout"
        )
    raise UserError(
        f"{where}: `{name}`: `{column.name}` has more than {MOST_LEVELS:,} distinct values in one file, too many to tell apart"
        f"\n  use it as a number, without C(), or derive a coarser column under data.derive"
    )


def check_information_size(design: Design, where: str) -> None:
    """Raise UserError if the information matrix would be too large to hold."""
    if design.absorbed:
        check_absorbed_size(design, where)
        return
    sizes = [part.size for part in design.parts]
    eliminated = max(sizes)
    dense = sum(sizes) - eliminated
    needed = 8.0 * dense * (dense + eliminated)
    if needed > LARGEST_INFORMATION:
        widest = max(design.parts, key=lambda part: part.size).term.name
        raise UserError(
            f"{where}.formula: {design.size:,} coefficients, of which all but the {eliminated:,} of `{widest}` are "
            f"dense: the information matrix needs {needed / 1e9:,.1f} GB, and {LARGEST_INFORMATION / 1e9:,.1f} GB "
            f"are the limit (about {math.isqrt(int(LARGEST_INFORMATION / 8)):,} dense coefficients)\n"
            "  merge rare levels with data.rare, leave out an interaction, or absorb factors whose coefficients nobody wants "
            "to see (absorb)"
        )


def check_absorbed_size(design: Design, where: str) -> None:
    """Raise UserError if what couples the covariates to absorbed factors would be too large to hold."""
    dense = design.reported_size
    needed = 8.0 * dense * design.size
    if needed > LARGEST_COUPLING:
        raise UserError(
            f"{where}.formula: {dense:,} coefficients beside {design.size - dense:,} levels that are absorbed: they need "
            f"{needed / 1e9:,.1f} GB, and {LARGEST_COUPLING / 1e9:,.1f} GB are the limit\n"
            f"  absorb the factor with the most levels in the formula too, or leave out an interaction"
        )


def check_scores_size(design: Design, where: str) -> None:
    """Raise UserError if the scores by cluster would be too large to hold."""
    if not design.cluster:
        return
    count, size = sum(design.cluster_counts), design.reported_size
    needed = 8.0 * count * size
    if needed > LARGEST_SCORES:
        columns = " + ".join(clusters.column for clusters in design.clusters)
        raise UserError(
            f"{where}.std_errors: {count:,} clusters of `{columns}` times "
            f"{size:,} coefficients are {needed / 1e9:,.1f} GB of scores, and {LARGEST_SCORES / 1e9:,.1f} GB "
            "are the limit\n"
            "  cluster by a coarser column, or merge rare levels of the terms with data.rare"
        )


def check_leverages(design: Design, dictionary: Dictionary, where: str) -> None:
    """Raise UserError if standard errors divide by 1 less the leverage of a row that alone has a level. (Of a family whose
    coefficients may be infinite such a row can leave the likelihood, which only its response tells.)"""
    if design.std_errors not in BY_LEVERAGE or design.distribution.separates or design.frequency:
        return
    for term in design.terms:
        if len(term.categorical) != 1 or term.numeric:
            continue
        column = dictionary.columns[design.categorical_by_name[term.categorical[0]].column]
        rows = [count for count in column.train_rows or () if count >= column.fewest]
        alone = [column.labels[place] for place, count in enumerate(rows) if count == 1]
        if alone:
            raise UserError(
                f"{where}.std_errors: {design.std_errors} divides by 1 less the leverage of a row, and that is 0 for the one "
                f"training row of `{term.name}[{alone[0]}]`{f' and of {len(alone) - 1:,} more levels' if alone[1:] else ''}\n"
                "  merge rare levels with data.rare, leave such rows out in data.where, or use `std_errors: HC1`"
            )


def check_groups(where: str, files: Sequence[IngestedFile], by: Sequence[str]) -> None:
    """Raise UserError, which names the model's section `where`, for a column with too many values to group rows by."""
    for name in by:
        for file in files:
            if not file.column(name).coded:
                raise UserError(
                    f"{where}.by: `{name}` has more than 65,535 values in {file.manifest.source}, too many to "
                    f"group rows by\n  derive a coarser column under data.derive, e.g. `floor({name} / 100)`, and name that one"
                )
