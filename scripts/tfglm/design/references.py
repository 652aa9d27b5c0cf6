"""Check the levels that a config names in reference levels and contrasts against the levels of the design."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tfglm.config.comparisons import EQUALS
from tfglm.design import transforms
from tfglm.design.design import Design
from tfglm.design.factors import Numeric
from tfglm.errors import UserError, nearest
from tfglm.formula.names import coefficient_name

MANY_LEVELS = 1000
"""Number of levels from which on a message does not list them."""

MOST_COMPARED = 300
"""Most levels for pairwise comparisons: they make a table of 44,850 rows."""


def check_reference(design: Design, reference: dict[str, str]) -> None:
    """Raise UserError if a reference level asked for is not a level of a categorical factor of the model."""
    factors = [factor for factor in design.reported.categorical if factor.name != design.roles.response]
    levels = {factor.name: factor.levels for factor in factors}
    where = f"models.{design.model}.reference"
    for name, level in reference.items():
        if name not in levels:
            raise UserError(
                f"{where}: no categorical term `{name}`{nearest(name, levels)}\n  there are: {', '.join(levels)}"
            )
        if level not in levels[name]:
            raise UserError(
                f"{where}.{name}: no level `{level}` in the training rows{levels_in_words(level, levels[name])}"
            )


def check_contrasts(
    design: Design,
    contrasts: Mapping[str, Mapping[str, float]],
    section: str = "contrasts",
    besides: Sequence[str] = (),
) -> None:
    """Raise UserError that lists the coefficients of a contrast (or another section) which the design lacks; keys `besides`
    are no coefficients."""
    from tfglm.design.codings import table_names  # which takes SciPy, and the check of reference levels does not

    names = [coefficient_name(*names) for names in table_names(design.reported)] if contrasts else []
    check_coefficients(f"models.{design.model}.{section}", contrasts, names, besides)


def check_coefficients(
    where: str, combinations: Mapping[str, Iterable[str]], names: Sequence[str], besides: Sequence[str] = ()
) -> None:
    """Raise UserError that lists the coefficients of combinations which are not among these names, or `besides`."""
    known = {*names, *besides}
    unknown = [
        f"{where}.{combination}: no coefficient `{coefficient}`{nearest(coefficient, names)}"
        for combination, coefficients in combinations.items()
        for coefficient in coefficients
        if coefficient not in known
    ]
    if unknown:
        raise UserError("\n".join(unknown))


def check_hypotheses(design: Design, hypotheses: Mapping[str, Sequence[Mapping[str, float]]]) -> None:
    """Check all rows of hypotheses in the same way."""
    rows = {f"{name}.{place}": row for name, listed in hypotheses.items() for place, row in enumerate(listed, 1)}
    check_contrasts(design, rows, "hypotheses", [EQUALS])


def check_profile(design: Design) -> None:
    """Raise UserError with every coefficient of a profile that the design has not; those of coded factors are by level."""
    names = [coefficient_name(*names) for names in design.coefficients()] if design.inference.profile else []
    check_coefficients(
        f"models.{design.model}.profile", {name: dict(weights) for name, weights in design.inference.profile}, names
    )


def bounds_of(
    design: Design, bounds: Mapping[str, Sequence[float | None]]
) -> tuple[tuple[int, float | None, float | None], ...]:
    """The bounds of coefficients by place, from those by the name of a term or a coefficient. Raises UserError for a name that
    the design has not, for a coefficient that is bounded twice, and for one of contrasts."""
    where, found = f"models.{design.model}.bounds", dict[int, tuple[float | None, float | None]]()
    names = [(term, coefficient_name(term, level)) for term, level in design.coefficients()]
    spelled = [tuple("".join(name.split()) for name in both) for both in names]
    for text, (lower, upper) in bounds.items():
        places = [place for place, both in enumerate(spelled) if "".join(text.split()) in both]
        if not places:
            known = list(dict.fromkeys(name for both in names for name in both))
            listed = ", ".join(known[:12]) + ", ..." * (len(known) > 12)
            raise UserError(f"{where}: no term or coefficient `{text}`{nearest(text, known)}\n  there are: {listed}")
        term = next(term for term in design.terms if term.name == names[places[0]][0])
        if any(design.categorical_by_name[name].coding for name in term.categorical):
            raise UserError(
                f"{where}: `{text}` has contrasts, and bounds are for levels against a reference; write C()"
            )
        for place in places:
            if place in found:
                raise UserError(f"{where}: `{names[place][1]}` is bounded twice; keep one of the two")
            found[place] = lower, upper
    return tuple((place, *found[place]) for place in sorted(found))


def numbers_beside(design: Design, name: str) -> list[str]:
    """Return the columns of the numbers that multiply a factor: its levels differ by another amount at each of their values."""
    return list(dict.fromkeys(design.numeric_by_name[number].column for number in numbers_of_products(design, name)))


def numbers_of_products(design: Design, name: str) -> list[str]:
    """Return the numbers that multiply a factor."""
    return [number for term in design.terms if name in term.categorical for number in term.numeric]


def check_pairwise(design: Design, pairwise: Sequence[str], at: Mapping[str, Sequence[float]]) -> None:
    """Raise UserError for a factor that the model has not or has under two names, with too many levels, or whose levels differ
    by another amount at each value of a number that is not in `at`; and for a number in `at` that multiplies no factor, or
    values at which a function of the formula is not finite."""
    where = f"models.{design.model}.pairwise"
    factors = {
        name: each for name, each in design.reported.categorical_by_name.items() if name != design.roles.response
    }
    for name in pairwise:
        if name not in factors:
            raise UserError(
                f"{where}: no categorical term `{name}`{nearest(name, factors)}\n  there are: {', '.join(factors) or 'none'}"
            )
        levels = len(factors[name].levels)
        if levels > MOST_COMPARED:
            raise UserError(
                f"{where}: `{name}` has {levels:,} levels, and all pairs of {MOST_COMPARED} at most are compared; merge rare "
                "levels with data.rare, or write those of interest as `contrasts` with `adjust: holm`"
            )
        column = factors[name].column
        again = [factor.name for factor in factors.values() if factor.column == column and factor.name != name]
        if again:
            raise UserError(
                f"{where}: the levels of `{column}` are in the model as `{name}` and as `{again[0]}`, and differ by "
                "both\n"
                f"  write `{name}` in all terms, also instead of i()"
            )
        of_two = [factor for factor in design.numeric if len(factor.columns) > 1]
        if surface := next((factor for factor in of_two if factor.name in numbers_of_products(design, name)), None):
            raise UserError(
                f"{where}: the levels of `{name}` differ by an amount that depends on both columns of `{surface.name}`; take it "
                "out"
            )
        for column in numbers_beside(design, name):
            if column not in at:
                raise UserError(
                    f"{where}: the levels of `{name}` differ by an amount that depends on `{column}`\n"
                    f"  choose the values to compare them at, such as `pairwise_at: {{{column}: [0, 1]}}`"
                )
    beside = {column for name in pairwise for column in numbers_beside(design, name)}
    for column, values in at.items():
        if column not in beside:
            raise UserError(
                f"{where}_at: no number `{column}` multiplies a factor under `pairwise`{nearest(column, beside)}\n"
                f"  there are: {', '.join(sorted(beside)) or 'none'}"
            )
        for number in design.numeric:
            if number.column == column:
                check_finite(f"{where}_at.{column}", number, values)


def check_finite(where: str, number: Numeric, values: Sequence[float]) -> None:
    """Raise UserError if a function of the formula is not finite at one of these values of its column."""
    with np.errstate(all="ignore"):
        columns = transforms.apply(np, number.learnt, np.array(values, float))
    for value, finite in zip(values, np.isfinite(np.array(columns)).all(axis=0), strict=True):
        if not finite:
            raise UserError(f"{where}: `{number.name}` is not finite at {value:g}; choose another value")


def levels_in_words(name: str, levels: Sequence[str]) -> str:
    """Say in a message which levels exist, if a level does not."""
    if len(levels) > MANY_LEVELS:
        return f"\n  there are {len(levels):,}, from {levels[0]} to {levels[-1]}"
    return f"{nearest(name, levels)}\n  there are: {', '.join(levels)}"
