"""A model of `family: multinomial`: what goes together with it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfglm.config.models import ModelConfig

DESCRIPTION = (
    "Of `multinomial`: the class of the response that the others are compared with. Default: the first in sorted order."
)

NO_THRESHOLD = "of several classes the one with the largest probability is predicted"

NO_ERRORS = ("quasi", "HC2", "HC3")
"""Kinds of standard errors that need one variance or one leverage of a row."""


def check_model(model: "ModelConfig") -> None:
    """Raise ValueError for what cannot be fitted where each class has a linear predictor, or be made of such a fit."""
    if model.family != "multinomial":
        if model.reference_class is not None:
            raise ValueError(
                f"reference_class: family {model.family} has no classes; `reference` chooses the reference level of a term"
            )
        return
    for key in ("absorb", "offset"):
        if getattr(model, key):
            raise ValueError(f"{key}: family multinomial has none; remove the key")
    if model.errors.kind in NO_ERRORS:
        raise ValueError(
            f"std_errors: family multinomial has no `{model.std_errors}`, as a row has a variance for each class; use `HC0`, "
            "`HC1`, or `cluster(column)`"
        )
    if model.online_solver:
        raise ValueError(
            f"solver: `{model.online_solver}` learns one linear predictor; use `newton`, or write the model under `networks`"
        )
    if model.tests != "wald":
        raise ValueError("tests: a regression of classes has Wald tests alone; remove the key")
    if model.adjusted_means == "balanced":
        raise ValueError(
            "adjusted_means: a regression of classes has those of the `observed` rows alone; remove the key"
        )
    for key in ("leverage", "export", "profile"):
        if getattr(model, key):
            raise ValueError(f"{key}: a regression of classes has none; remove the key")
    if "threshold" in model.model_fields_set:
        raise ValueError(f"threshold: {NO_THRESHOLD}; remove the key")
