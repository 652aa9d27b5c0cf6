"""The section `path` of a model: many penalties, and the choice of one."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from tfglm.config.base import FROM_TEXT, Count, Name, Number, Section


class PathConfig(Section):
    """A fit for each of these penalties: `l1 = l1_ratio * penalty`, `l2 = (1 - l1_ratio) * penalty`."""

    penalties: list[Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False), FROM_TEXT]] | None = Field(
        default=None, min_length=1, max_length=1000
    )
    """The penalties, in any order. Default: `number` of them, evenly spaced on the logarithmic scale, from the smallest
    that leaves only the intercept down to `smallest` times that."""
    number: Count = Field(default=50, le=1000)
    """How many penalties, if they are not listed."""
    smallest: Number = Field(default=1e-3, ge=1e-9, lt=1)
    """The last penalty divided by the first."""
    l1_ratio: Number = Field(default=1.0, ge=0, le=1)
    """The share of the lasso: 1 is the lasso, 0 the ridge, in between the elastic net."""
    select: Literal["held_out", "aic", "cross_validation"] = "held_out"
    """Which fit of the path is reported: the fit with the least deviance on the `evaluate` rows, with the least AIC, or
    with the least deviance in a `cross_validation` of the training rows."""
    folds: Count = Field(default=10, ge=2, le=100)
    """Number of folds of a cross-validation: the parts into which the training rows are divided."""
    by: Name | None = None
    """A column for cross-validation, such as `date`: rows with the same value, which may be alike, stay in the same
    fold. Default: each row is assigned independently."""
    rule: Literal["min", "one_se"] = "min"
    """For cross-validation: the penalty with the least deviance, or the strongest penalty within one standard error of
    it."""

    @model_validator(mode="after")
    def _keys_of_cross_validation(self) -> "PathConfig":
        given = {"folds": self.folds != 10, "by": self.by is not None, "rule": self.rule != "min"}
        key = next((key for key, is_given in given.items() if is_given), None)
        if key and self.select != "cross_validation":
            raise ValueError(f"{key}: is of a cross-validation; add `select: cross_validation`, or remove the key")
        return self
