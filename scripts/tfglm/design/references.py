"""The levels that a config names, in reference levels and contrasts, against those of the design."""

from collections.abc import Mapping, Sequence

from tfglm.design.codings import table_names
from tfglm.design.design import Design
from tfglm.errors import UserError, nearest

MANY_LEVELS = 1000
"""From which on a message does not list them."""


def check_reference(design: Design, reference: dict[str, str]) -> None:
    """Raise UserError if a reference level asked for is not a level of a categorical factor of the model."""
    levels = {factor.name: factor.levels for factor in design.reported.categorical}
    where = f"models.{design.model}.reference"
    for name, level in reference.items():
        if name not in levels:
            raise UserError(
                f"{where}: no categorical term `{name}`{nearest(name, levels)}\n  there are: {', '.join(levels)}"
            )
        if level not in levels[name]:
            raise UserError(f"{where}.{name}: no level `{level}` in the training rows{there_are(level, levels[name])}")


def check_contrasts(design: Design, contrasts: Mapping[str, Mapping[str, float]]) -> None:
    """Raise UserError with every coefficient of a contrast that the design has not."""
    names = [coefficient_name(*names) for names in table_names(design.reported)] if contrasts else []
    known = set(names)
    unknown = [
        f"models.{design.model}.contrasts.{contrast}: no coefficient `{coefficient}`{nearest(coefficient, names)}"
        for contrast, weights in contrasts.items()
        for coefficient in weights
        if coefficient not in known
    ]
    if unknown:
        raise UserError("\n".join(unknown))


def coefficient_name(term: str, level: str) -> str:
    """How a config names a coefficient."""
    return f"{term}[{level}]" if level else term


def there_are(name: str, levels: Sequence[str]) -> str:
    """What a message says of the levels that there are, where one is not."""
    if len(levels) > MANY_LEVELS:
        return f"\n  there are {len(levels):,}, from {levels[0]} to {levels[-1]}"
    return f"{nearest(name, levels)}\n  there are: {', '.join(levels)}"
