"""Refuse models because of values in the data: impossible responses, too many levels, matrices that are too large.

`kinds` refuses columns of the wrong kind.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from tfglm.config import DesignConfig
from tfglm.config.std_errors import BY_LEVERAGE, OF_POSTERIOR
from tfglm.data.dictionary import Column, Dictionary, counted_levels, written, written_twice
from tfglm.data.kinds import EXACT_BELOW
from tfglm.data.limits import MOST_CODES, MOST_LEVELS
from tfglm.data.shards import IngestedFile
from tfglm.design.design import Design
from tfglm.errors import UserError
from tfglm.families import FAMILIES, family_of
from tfglm.families.family import Response

LARGEST_INFORMATION = 4e9
"""Largest size in bytes of the dense part of the information matrix and its coupling to the eliminated term. The chief
holds several arrays of this size, each worker at least two."""

LARGEST_COUPLING = 5e8
"""Largest size in bytes of one number for each pair of a coefficient and an absorbed level. The chief holds about six
arrays of this size, each worker two."""

MOST_FOR_LEVERAGE = 4_000
"""Absorbed levels, without those of the largest factor, for which a dense inverse is computed, in about 0.5 GB."""

LARGEST_SCORES = 2e9
"""Largest size in bytes of one number for each pair of a cluster and a coefficient. The chief holds a few arrays of this
size, each worker one or two; TensorFlow sends at most 2^31 bytes in one message."""


MOST_UNDER_DOT = 1_000
"""Most levels of a text column that a formula does not name itself."""

MOST_CLASSES = 100
"""Largest number of classes of a response. Evaluation keeps one number per row and class in memory, a shard at a time."""


SQUARED = 1e50
"""Largest size of a number, and of its inverse, whose powers and products a fit can add up in float64."""


def check_size(column: Column, where: str) -> None:
    """Raise UserError for a column of numbers whose squares are too large or too small for float64."""
    size = max(abs(limit) for limit in column.limits)
    if size > SQUARED or 0 < size < 1 / SQUARED:
        raise UserError(
            f"{where}: `{column.name}` has values as {'large' if size > 1 else 'small'} as {size:.3g}, and float64 cannot hold "
            f"sums of their squares\n  divide it under data.derive, or leave out with data.where values that are no measurements"
        )


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
            f"{name} has only the class `{column.labels[0]}` in the training rows, so there is nothing to learn\n"
            "  choose another response, or widen data.where or data.split.train"
        )


def classes_in_order(column: Column, order: Sequence[str], where: str) -> tuple[str, ...]:
    """The values of a response from the lowest class to the highest: in the `order` of the config, or that of numbers. Raises
    UserError if this is not the order of all classes in the training rows."""
    name = f"the response `{column.name}`"
    if column.rare:
        raise UserError(
            f"{where}: {name} has rare values that data.rare merges, which have no place in an order of classes; take it out of "
            "data.rare, or derive a coarser column under data.derive"
        )
    if not order:
        return tuple(column.labels)
    unknown = [label for label in order if label not in column.labels]
    left = [label for label in column.labels if label not in order]
    if unknown or left:
        lacks = f"{name} has no class {listed_in_words(unknown)} in the training rows" if unknown else ""
        misses = (
            f"{listed_in_words(left)} of {name} {'have' if len(left) > 1 else 'has'} no place in it" if left else ""
        )
        raise UserError(
            f"{where}.class_order: {'; '.join(filter(None, [lacks, misses]))}\n  name each class once, the lowest first"
        )
    return tuple(order)


def listed_in_words(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def check_dot(columns: Sequence[Column], where: str) -> None:
    """Raise UserError if one of the columns that `.` stands for is a factor with too many levels to have been meant."""
    for column in columns:
        if column.kind == "text" and (column.distinct is None or column.distinct > MOST_UNDER_DOT):
            number = "countless" if column.distinct is None else f"{column.distinct:,}"
            raise UserError(
                f"{where}: `.` includes the text column `{column.name}` with {number} levels, a coefficient each; "
                f"leave it out, `. - {column.name}`, or name it, `. + {column.name}`, if you want them"
            )


def check_response(column: Column, settings: DesignConfig, where: str) -> None:
    """Raise UserError unless the family can take this response and it varies."""
    check_size(column, f"{where}.formula")
    minimum, maximum = column.limits
    if minimum == maximum and not settings.trials:
        raise UserError(
            f"{where}: the response `{column.name}` is {minimum:g} in all training rows, so there is nothing to "
            f"fit\n  check its definition in data.derive and the conditions in data.where"
        )
    response = Response(column.name, column.kind, minimum, maximum, column.levels)
    family = family_of(settings.family, settings.link)
    refusal = family.refusal(response, bool(settings.trials), bool(settings.weights))
    # The limits are of all rows. A pass over the rows of the subset checks numbers again.
    if refusal and (not settings.subset or family.counts_events or family.of_classes):
        raise UserError(f"{where}: family {settings.family} {refusal}")


def on_counts(column: Column, settings: DesignConfig) -> Iterator[str]:
    """Yield a remark on a response that is no count, where the likelihood is one of counts."""
    parts = [1.0] if column.levels is None else [level for level in column.levels if level % 1]
    if FAMILIES[settings.family].of_counts and column.kind == "number" and parts:
        example = "" if column.levels is None else f", such as {parts[0]:g}"
        yield (
            f"the response `{column.name}` has values that are no whole numbers{example}: the estimates and robust errors are "
            "valid if the mean is right (quasi-likelihood), but the log-likelihood and AIC are those of counts"
        )


def multiplicity_problem(column: Column) -> str | None:
    """Why the numbers of a column cannot say how often a row counts, if they cannot."""
    minimum, maximum = column.limits
    if minimum < 0:
        return f"has the negative value {minimum:g}"
    return "is 0 in all training rows" if maximum == 0 else None


def check_levels(name: str, column: Column, where: str) -> int:
    """Return how many values the column has. Raises UserError if they cannot be told apart."""
    keeps = "give it `type: string` in the layout, which keeps each text apart"
    if column.twice:
        raise UserError(
            f"{where}: `{name}`: `{column.name}` is read as {column.kind}, so {column.twice} would be one level\n"
            f"  {keeps}, or write them alike"
        )
    if (
        column.kind == "number"
        and max(map(abs, filter(None, (column.minimum, column.maximum))), default=0) >= EXACT_BELOW
    ):
        raise UserError(
            f"{where}: `{name}`: `{column.name}` is read as numbers, and some are beyond 2^53, where different ones can become "
            f"one\n  {keeps}"
        )
    if column.distinct is not None:
        return column.distinct
    if column.kind == "number":
        raise UserError(
            f"{where}: `{name}`: `{column.name}` is a number with more than {MOST_CODES - 1:,} distinct values in "
            "one file; use it as a number, without C()\n"
            "  if it is an identifier, give it `type: integer` or `type: string` in the layout"
        )
    raise UserError(
        f"{where}: `{name}`: `{column.name}` has more than {MOST_LEVELS:,} distinct values in one file, too many to tell apart"
        f"\n  use it as a number, without C(), or derive a coarser column under data.derive"
    )


def information_size(design: Design) -> tuple[int, float]:
    """The number of eliminated coefficients, and the size of the other rows of the information matrix in bytes."""
    eliminated = sum(design.parts[k].size for k in design.eliminated_parts)
    return eliminated, 8.0 * (design.size - eliminated) * design.size


def crossed_terms(design: Design) -> tuple[str, ...]:
    """The random intercepts of a model whose information matrix only fits into memory if it is sparse (solvers.crossed); none of
    other models."""
    terms = tuple(part.term.name for part in design.random_parts if not part.multiplier)
    return terms if len(terms) > 1 and information_size(design)[1] > LARGEST_INFORMATION else ()


def check_information_size(design: Design, where: str) -> None:
    """Raise UserError if the information matrix would be too large to hold."""
    if design.absorbed:
        check_absorbed_size(design, where)
        return
    if crossed_terms(design):
        check_crossed(design, where)
        return
    eliminated, needed = information_size(design)
    if needed > LARGEST_INFORMATION:
        widest = max(design.parts, key=lambda part: part.size).term.name
        raise UserError(
            f"{where}.formula: the model has {design.size:,} coefficients, all dense except the {eliminated:,} of "
            f"`{widest}`: the information matrix needs {needed / 1e9:,.1f} GB; the limit is "
            f"{LARGEST_INFORMATION / 1e9:,.1f} GB (about {math.isqrt(int(LARGEST_INFORMATION / 8)):,} dense "
            "coefficients)\n"
            "  merge rare levels with data.rare, leave out an interaction, or absorb factors whose coefficients "
            "nobody wants to see (absorb)"
        )


def check_crossed(design: Design, where: str) -> None:
    """Raise UserError for what random effects of so many levels cannot have beside them (solvers.crossed)."""
    crossed, kind = crossed_terms(design), design.inference.std_errors
    columns = {name for part in design.parts if part.term.name in crossed for name in part.grouping}
    others = [part for part in design.parts if part.term.name not in crossed]
    beside = [
        part.term.name
        for part in others
        if part.term.kind.is_random or part.term.kind.is_smooth or columns & set(part.grouping)
    ]
    size = sum(part.size for part in others)
    remedy = "leave it out"
    if not design.distribution.quadratic:
        problem, remedy = "can only be fitted by linear regression", "use `family: gaussian`"
    elif kind not in OF_POSTERIOR:
        problem, remedy = f"have no errors of the kind `{kind}`", "use `std_errors: classical`"
    elif design.intercept is None:
        problem, remedy = "cannot be fitted without an intercept", "keep the intercept"
    elif beside:
        problem = f"cannot be fitted beside `{beside[0]}`, which is no fixed effect apart from them"
    elif 8.0 * size * (design.size - size) > LARGEST_COUPLING:
        problem, remedy = f"can only be fitted beside fewer than {size:,} other coefficients", "leave out terms"
    else:
        return
    raise UserError(
        f"{where}.formula: the {design.size - size:,} levels of {listed_in_words(crossed)} {problem}\n"
        f"  {remedy}, or merge rare levels with data.rare"
    )


def check_absorbed_size(design: Design, where: str) -> None:
    """Raise UserError if what couples the covariates to absorbed factors would be too large to hold."""
    dense = design.reported_size
    needed = 8.0 * dense * design.size
    if needed > LARGEST_COUPLING:
        raise UserError(
            f"{where}.formula: {dense:,} coefficients and {design.size - dense:,} absorbed levels need "
            f"{needed / 1e9:,.1f} GB; the limit is {LARGEST_COUPLING / 1e9:,.1f} GB\n"
            "  absorb also the factor of the formula that has the most levels, or leave out an interaction"
        )
    sizes = {design.parts[k].term.name: design.parts[k].size for k in design.absorbed_parts}
    widest = max(sizes, key=sizes.__getitem__)
    others, kind = sum(sizes.values()) - sizes[widest], design.inference.std_errors
    slopes = next((design.parts[k].term.name for k in design.absorbed_parts if design.parts[k].multiplier), None)
    if kind in BY_LEVERAGE and slopes:
        raise UserError(
            f"{where}.std_errors: there are no leverages beside absorbed slopes, as `{slopes}`; use `HC1` or `cluster(column)`"
        )
    if kind in BY_LEVERAGE and others > MOST_FOR_LEVERAGE:
        raise UserError(
            f"{where}.std_errors: {kind} needs the leverage of each row, and so the inverse of a dense matrix of the {others:,} "
            f"levels of all absorbed factors but `{widest}`; the limit is {MOST_FOR_LEVERAGE:,} levels\n  use `HC1`, or "
            f"`cluster(column)`"
        )


def check_scores_size(design: Design, where: str) -> None:
    """Raise UserError if the scores by cluster would be too large to hold."""
    if not design.inference.cluster:
        return
    count, size = sum(design.inference.cluster_counts), design.reported_size
    needed = 8.0 * count * size
    if needed > LARGEST_SCORES:
        columns = " + ".join(clusters.column for clusters in design.inference.clusters)
        raise UserError(
            f"{where}.std_errors: the scores of {count:,} clusters of `{columns}` times {size:,} coefficients need "
            f"{needed / 1e9:,.1f} GB; the limit is {LARGEST_SCORES / 1e9:,.1f} GB\n"
            "  cluster by a coarser column, or merge rare levels of the terms with data.rare"
        )


def check_leverages(design: Design, dictionary: Dictionary, files: Sequence[IngestedFile], where: str) -> None:
    """Raise UserError if standard errors divide by 1 - leverage and a row is the only one of its level. Families with
    infinite coefficients are not checked: such a row may leave the likelihood, which depends on its response."""
    if design.inference.std_errors not in BY_LEVERAGE or design.distribution.separates or design.roles.frequency:
        return
    for term in design.terms:
        if len(term.categorical) != 1 or term.numeric or term.name in design.absorbed:
            continue  # singletons of absorbed factors leave the likelihood
        column = dictionary.columns[design.categorical_by_name[term.categorical[0]].column]
        counted = counted_levels(column, files, dictionary.required).filter(pl.col("rows") >= column.fewest)
        alone = written(counted.filter(pl.col("rows") == 1)["value"]).to_list()
        if alone:
            raise UserError(
                f"{where}.std_errors: {design.inference.std_errors} divides by 1 - leverage of a row, which is 0 for the only "
                "training row of "
                f"`{term.name}[{alone[0]}]`{f' and of {len(alone) - 1:,} more levels' if alone[1:] else ''}\n"
                "  merge rare levels with data.rare, drop such rows with data.where, or use `std_errors: HC1`"
            )


def check_groups(where: str, files: Sequence[IngestedFile], by: Sequence[str]) -> None:
    """Raise UserError, which names the model's section `where`, for a column with too many values to group rows by."""
    for name in by:
        twice = written_twice(name, files)
        for file in files:
            if not file.column(name).coded:
                raise UserError(
                    f"{where}.by: `{name}` has more than 65,535 values in {file.manifest.source}, too many to group "
                    "rows by\n"
                    f"  derive a coarser column under data.derive, e.g. `floor({name} / 100)`, and use it instead"
                )
            is_number = file.column(name).kind == "number"
            largest = np.abs(file.values(name).to_numpy()).max(initial=0) if is_number else 0
            if twice or largest >= EXACT_BELOW:
                raise UserError(
                    f"{where}.by: `{name}` is read as numbers, which cannot tell all its values in {file.manifest.source} apart; "
                    "give it `type: string` in the layout"
                )
