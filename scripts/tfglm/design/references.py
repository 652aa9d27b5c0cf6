"""The reference levels that a config asks for, against those of the design."""

from collections.abc import Sequence

from tfglm.design.design import Design
from tfglm.errors import UserError, nearest

MANY_LEVELS = 1000
"""From which on a message does not list them."""


def check_reference(design: Design, reference: dict[str, str]) -> None:
    """Raise UserError if a reference level asked for is not a level of a categorical factor of the model."""
    levels = {factor.name: factor.levels for factor in design.categorical}
    where = f"models.{design.model}.reference"
    for name, level in reference.items():
        if name not in levels:
            raise UserError(
                f"{where}: no categorical term `{name}`{nearest(name, levels)}\n  there are: {', '.join(levels)}"
            )
        if level not in levels[name]:
            raise UserError(f"{where}.{name}: no level `{level}` in the training rows{there_are(level, levels[name])}")


def there_are(name: str, levels: Sequence[str]) -> str:
    """What a message says of the levels that there are, where one is not."""
    if len(levels) > MANY_LEVELS:
        return f"\n  there are {len(levels):,}, from {levels[0]} to {levels[-1]}"
    return f"{nearest(name, levels)}\n  there are: {', '.join(levels)}"
