"""Codings of factors besides reference levels: sum, Helmert, polynomial and successive differences, as R's contrasts define
them.

A fit has a coefficient for each level; a coding describes the same model in other coordinates. For a factor with K levels
and contrasts C [K, K - 1], the coefficients g [K] of the table give the level coefficients b = [C, 1] g. The table leaves
out one entry of g, because its column of ones repeats the term without the factor. So this entry of g is held at zero, just
as b is zero at reference levels (design.parametrisation).

In an interaction every coded factor uses its contrasts, as in R, unless the formula lacks the term without this factor;
then the table has all its levels.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy.sparse

from tfglm.design.design import Design
from tfglm.design.factors import Categorical
from tfglm.design.terms import Part
from tfglm.errors import UserError
from tfglm.formula.terms import CODINGS

MOST_LEVELS = 500
"""Codings whose coefficients depend on all levels of the factor."""

MOST_LEVELS_OF_POLY = 95
"""As in R's contr.poly: with more levels, the contrasts are numerically indistinguishable."""

DEGREES = {1: ".L", 2: ".Q", 3: ".C"}
"""R's names of polynomial contrasts; from the fourth on `^4`."""


def contrasts(coding: str, size: int) -> np.ndarray:
    """R's contr.sum, contr.helmert and contr.poly, and MASS's contr.sdif, [levels, levels - 1].

    >>> contrasts("contr.sum", 3)
    array([[ 1.,  0.],
           [ 0.,  1.],
           [-1., -1.]])
    """
    number = np.arange(size)
    if coding == "contr.sum":
        return np.vstack([np.eye(size - 1), -np.ones(size - 1)])
    if coding == "contr.helmert":
        return np.triu(-np.ones((size, size)), 1)[:, 1:] + np.diag(number)[:, 1:]
    if coding == "contr.diff":
        return np.where(number[:, None] > number[:-1], number[1:] / size, number[1:] / size - 1)
    scores = number - number.mean()
    basis = np.full((size, 1), size**-0.5)
    for _ in number[1:]:
        # Orthogonal to all before, twice, which is as good as exactly (Giraud, Langou & Rozloznik 2005).
        column = scores * basis[:, -1]
        for _ in range(2):
            column = column - basis @ (basis.T @ column)
        basis = np.column_stack([basis, column / np.linalg.norm(column)])
    return basis[:, 1:]


def names_of(factor: Categorical) -> list[str]:
    """Return the name of the coefficient in the place of each level, as formulaic names it; polynomial contrasts have no
    levels."""
    if factor.coding == "contr.poly":
        return ["constant", *(DEGREES.get(degree, f"^{degree}") for degree in range(1, len(factor.levels)))]
    letter = {"contr.sum": "S", "contr.helmert": "H", "contr.diff": "D"}[str(factor.coding)]
    return [f"{letter}.{level}" for level in factor.levels]


def coded_factors(design: Design, part: Part) -> list[str]:
    """Return the factors of a part that are coded by contrasts. For such a factor, an earlier part with the same numbers has
    the levels of all other factors, or finer ones."""
    if not any(design.categorical_by_name[name].coding for name in part.grouping):
        return []
    earlier = [other for other in design.parts if other.where.start < part.where.start]
    before = [(other.grouping, other.multiplier) for other in earlier if other.term.equation == part.term.equation]
    before += [((), ())] if design.absorbs_constant else []  # in an absorbed factor
    return [
        name
        for name in part.grouping
        if design.categorical_by_name[name].coding
        and any(
            multiplier == part.multiplier and set(grouping) >= set(part.grouping) - {name}
            for grouping, multiplier in before
        )
    ]


def table_names(design: Design) -> list[tuple[str, str]]:
    """Term and level of each coefficient as a table has them: the level of a coded factor is what its contrast is called."""
    names = list(design.coefficients())
    if not any(factor.coding for factor in design.categorical):
        return names
    for part in design.parts:
        coded = coded_factors(design, part)
        if not coded:
            continue
        by_factor = [
            names_of(design.categorical_by_name[name]) if name in coded else design.categorical_by_name[name].levels
            for name in part.grouping
        ]
        numbers = [str(number + 1) for name, number in part.multiplier if design.numeric_by_name[name].width > 1]
        for place, group in enumerate(design.levels(part.grouping).tolist(), part.where.start):
            levels = [of_factor[number] for of_factor, number in zip(by_factor, group, strict=True)]
            names[place] = part.term.name, ":".join([*levels, *numbers])
    return names


@dataclass(frozen=True)
class Recoding:
    """How a table codes the factors of a model.

    `matrix` [p, p] converts coefficients of levels to coefficients of the table. `left_out` is, for each coded factor, the
    level whose place holds the coefficient that the table leaves out; `is_left_out` [p] marks these places.
    """

    matrix: scipy.sparse.csr_array
    left_out: dict[str, int]
    is_left_out: np.ndarray


def recoding(design: Design, known: np.ndarray, asked: Mapping[str, str]) -> Recoding:
    """How a table codes the factors of a model. `known` [p] says which coefficients of levels are finite; `asked` has
    reference levels by factor or, with `contr.sum`, the level whose coefficient is left out (by default the last).

    Contrasts ignore levels whose coefficient is not finite: they equal the contrasts of a fit without the rows of these
    levels. Raises UserError if the contrasts of a factor need a level that has no finite coefficient.
    """
    left_out: dict[str, int] = {}
    of_factor: dict[str, scipy.sparse.csr_array] = {}
    blocks, is_left_out = [], np.zeros(design.size, bool)
    present = {}
    for factor in design.categorical:
        if factor.coding:
            present[factor.name] = np.flatnonzero(design.by_level(factor.name, known.astype(float)) > 0)
            left_out[factor.name] = left_out_level(design, factor, present[factor.name], asked)
            of_factor[factor.name] = coding_of_levels(factor, present[factor.name], left_out[factor.name])
    for part in design.parts:
        coded, block = coded_factors(design, part), scipy.sparse.eye_array(1, format="csr")
        if not coded:
            blocks.append(scipy.sparse.eye_array(part.size, format="csr"))
            continue
        groups = design.levels(part.grouping)
        for place, name in enumerate(part.grouping):
            levels = len(design.categorical_by_name[name].levels)
            own = of_factor[name] if name in coded else scipy.sparse.eye_array(levels, format="csr")
            block = scipy.sparse.kron(block, own, format="csr")
            if name in coded:
                is_left_out[part.where] |= groups[:, place] == left_out[name]
        check_complete(design, part, known, {name: present[name] for name in coded})
        blocks.append(block)
    return Recoding(scipy.sparse.block_diag(blocks, format="csr"), left_out, is_left_out)


def coding_of_levels(factor: Categorical, present: np.ndarray, left_out: int) -> scipy.sparse.csr_array:
    """Return [C, 1]^-1 of a factor, [levels, levels]. The coefficient of the ones takes the place of the level left out.
    Levels that are not `present` stay unchanged."""
    size = len(factor.levels)
    coded = contrasts(str(factor.coding), len(present))
    places = present[present != left_out]
    levels = np.append(places, left_out) if factor.coding == "contr.sum" else present
    forward = np.eye(size)
    forward[np.ix_(levels, places)] = coded
    forward[levels, left_out] = 1.0
    return scipy.sparse.csr_array(np.linalg.inv(forward))


def left_out_level(design: Design, factor: Categorical, present: np.ndarray, asked: Mapping[str, str]) -> int:
    """Return the level whose place holds the coefficient that the table leaves out. Raises UserError if this level is
    impossible, or if a level without a finite coefficient makes polynomial contrasts impossible."""
    where = f"models.{design.model}.formula: `{factor.name}`"
    if factor.coding == "contr.poly" and len(present) < len(factor.levels):
        missing = np.setdiff1d(np.arange(len(factor.levels)), present)
        raise UserError(
            f"{where}: the level `{factor.levels[missing[0]]}` has no finite coefficient, so there is no polynomial of the "
            f"levels\n  leave its rows out with a condition in data.where, or write C({factor.column})"
        )
    if factor.name not in asked:
        return int(present[-1] if factor.coding == "contr.sum" else present[0])
    level = factor.levels.index(asked[factor.name])
    if level not in present:
        raise UserError(
            f"{where}: the level `{asked[factor.name]}` has no finite coefficient; choose another reference"
        )
    return level


def check_complete(design: Design, part: Part, known: np.ndarray, present: Mapping[str, np.ndarray]) -> None:
    """Raise UserError if the contrasts need a combination of levels that has no finite coefficient."""
    if part.multiplier or len(part.grouping) < 2:
        return
    groups = design.levels(part.grouping)
    needed = np.ones(part.size, bool)
    for name, levels in present.items():
        needed &= np.isin(groups[:, part.grouping.index(name)], levels)
    lacking = np.flatnonzero(needed & ~known[part.where])
    if len(lacking):
        combination = list(design.coefficients())[part.where.start + lacking[0]][1]
        raise UserError(
            f"models.{design.model}.formula: `{part.term.name}`: the combination {combination} has no finite coefficient, and "
            f"the contrasts of its factors need all\n  write C({design.categorical_by_name[next(iter(present))].column}) instead"
        )


def check_codings(design: Design, where: str) -> None:
    """Raise UserError for a coding that a model cannot have, as far as its levels tell."""
    for factor in (factor for factor in design.categorical if factor.coding):
        size, most = len(factor.levels), MOST_LEVELS_OF_POLY if factor.coding == "contr.poly" else MOST_LEVELS
        if size > most:
            raise UserError(
                f"{where}.formula: `{factor.name}` has {size:,} levels, and {factor.coding} takes {most} at most; write "
                f"C({factor.column})"
            )
        if factor.coding != "contr.sum" and (factor.rare or factor.missing):
            raise UserError(
                f"{where}.formula: `{factor.name}`: {factor.coding} compares levels in their order, and levels for "
                "rare or missing values have no place in this order\n"
                f"  take `{factor.column}` out of data.rare and data.missing, or write C({factor.column}, contr.sum)"
            )
    for part in design.parts:
        sizes = [len(design.categorical_by_name[name].levels) for name in part.grouping]
        if coded_factors(design, part) and part.size < np.prod(sizes):
            raise UserError(
                f"{where}.formula: `{part.term.name}`: {np.prod(sizes) - part.size:,} of {np.prod(sizes):,} combinations of "
                f"levels have no training rows, and the contrasts of {', '.join(CODINGS)} need all\n  write C() without contrasts"
            )
