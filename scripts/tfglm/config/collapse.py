"""What the fits of a model with `collapse` need to know about the rows, so that equal rows can be summed into one."""

from collections.abc import Sequence

from tfglm.config.base import Name, Section
from tfglm.config.models import ModelConfig


class CollapseConfig(Section):
    """The columns of collapsed rows."""

    columns: list[Name]
    """Rows that agree in these columns are summed."""
    frequencies: list[Name] = []
    """Columns to sum, besides the number of rows."""
    responses: list[Name] = []
    """Columns whose mean and standard deviation are kept."""
    folds: dict[Name, list[int]] = {}
    """By response, the numbers of folds for which the fold of each row is kept."""


def collapse_of(models: Sequence[ModelConfig]) -> CollapseConfig:
    """Return what the fits of these models need.

    A normal likelihood depends on the responses of rows with equal covariates only through their number, sum and sum of
    squares. Mean and standard deviation determine these, so such responses need not be equal.
    """
    columns: dict[str, None] = {}
    for model in models:
        columns |= dict.fromkeys(model.compared_columns)
    responses: dict[str, set[str]] = {}
    for model in models:
        responses.setdefault(model.response, set()).add(model.family)
    alike = len({model.frequency for model in models}) == 1
    normal = [name for name in responses if alike and responses[name] == {"gaussian"} and name not in columns]
    columns |= dict.fromkeys(name for name in responses if name not in normal)
    folds: dict[str, set[int]] = {}
    for model in models:
        if model.path and model.path.select == "cross_validation" and not model.path.by:
            folds.setdefault(model.response, set()).add(model.path.folds)
    return CollapseConfig(
        columns=sorted(columns),
        frequencies=sorted({model.frequency for model in models if model.frequency}),
        responses=sorted(normal),
        folds={name: sorted(folds[name]) for name in sorted(folds)},
    )
