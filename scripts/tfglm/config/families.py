"""The names of families and links, and their properties that matter in a config. `tfglm.families` implements them; a test
compares the two."""

from typing import Annotated, Any, Literal

from pydantic import Field

from tfglm.config.base import FROM_TEXT, Section

FamilyName = Literal[
    "gaussian",
    "binomial",
    "beta",
    "poisson",
    "gamma",
    "inverse_gaussian",
    "negative_binomial",
    "truncated_poisson",
    "truncated_negative_binomial",
    "tweedie",
    "multinomial",
    "ordinal",
]
NetworkFamily = Literal["gaussian", "binomial", "poisson", "multinomial"]
LinkName = Literal["identity", "log", "logit", "probit", "cloglog", "inverse", "1/mu^2"]

LINKS: dict[str, tuple[str, ...]] = {
    "gaussian": ("identity", "log"),
    "binomial": ("logit", "probit", "cloglog"),
    "beta": ("logit",),
    "poisson": ("log",),
    "gamma": ("log", "inverse"),
    "inverse_gaussian": ("log", "1/mu^2"),
    "negative_binomial": ("log",),
    "truncated_poisson": ("log",),
    "truncated_negative_binomial": ("log",),
    "tweedie": ("log",),
    "multinomial": ("softmax",),
    "ordinal": ("logit", "probit", "cloglog"),
}
"""The links of each family, the default first."""

NOT_CONVEX = (("gaussian", "log"), ("inverse_gaussian", "log"))
"""Families and links whose loss is not convex in the linear predictor, so that the observed information may not be positive
definite. Conjugate gradients, which solve for absorbed factors, need a positive definite matrix."""

WITH_FIRTH = {"binomial": "logit", "poisson": "log"}
"""Families that Firth's penalty is for, each with the link that it needs."""

DISPERSION_ESTIMATED = ("gaussian", "gamma", "inverse_gaussian", "tweedie")
"""Families whose classical standard errors have an estimated dispersion in them."""

SHAPES: dict[str, tuple[str, ...]] = {
    "theta": ("negative_binomial", "truncated_negative_binomial", "beta"),
    "power": ("tweedie",),
}
"""Keys that give the shape of a family, and which families have it."""

NOT_APART = ("beta", "truncated_negative_binomial")
"""Families whose shape and coefficients depend on each other, so that the fit estimates both together."""

ESTIMATE = "estimate"
"""The value of such a key for a shape that is to be estimated."""

Shape = Literal["estimate"]

POSITIVE_PREDICTOR = ("inverse", "1/mu^2")
"""Links that define a mean only for linear predictors above 0."""


def compares_classes(family: str) -> bool:
    """Whether each class of the response has coefficients of its own."""
    return family == "multinomial"


class LinkConfig(Section):
    """The keys of a model that say more of its family."""

    link: LinkName | None = None
    """How the mean follows from the linear predictor. `gaussian`: `identity` (the default) or `log`. `binomial`,
    `ordinal`: `logit` (the default), `probit` or `cloglog`. `beta`: `logit`. `gamma`: `log` (the default) or `inverse`.
    `inverse_gaussian`: `log` (the default) or `1/mu^2`. Others: `log`."""
    theta: Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False), FROM_TEXT] | Shape | None = None
    """For families `negative_binomial` and `truncated_negative_binomial`: the variance of a count is mean + mean^2 / theta,
    before truncation. For `beta`: the variance of a proportion is mean (1 - mean) / (1 + theta). A number, or `estimate` (the
    default)."""

    power: Annotated[float, Field(gt=1, lt=2, allow_inf_nan=False), FROM_TEXT] | Shape | None = None
    """For family `tweedie`: the variance is proportional to mean^power. A number between 1 and 2, or `estimate` (the
    default), which needs many passes over the data."""

    @property
    def shape(self) -> dict[str, float | None]:
        """The shapes that families have, by name; None if they are to be estimated."""
        given = {key: getattr(self, key) for key in SHAPES}
        return {key: None if value == ESTIMATE else value for key, value in given.items()}


def estimated_shape(model: Any) -> str | None:
    """The key of the shape that the fit is to estimate, if there is one."""
    return next(
        (key for key, families in SHAPES.items() if model.family in families and model.shape[key] is None), None
    )


def check(model: Any) -> None:
    """Raise ValueError for a link or a shape that the family of a model has not."""
    if model.link and model.family != "multinomial" and model.link not in LINKS[model.family]:
        links = " or ".join(f"`{link}`" for link in LINKS[model.family])
        raise ValueError(f"link: family {model.family} has no link `{model.link}`; use {links}")
    for key, families in SHAPES.items():
        if getattr(model, key) is not None and model.family not in families:
            raise ValueError(f"{key}: only family {' or '.join(families)} has it, not {model.family}; remove the key")
