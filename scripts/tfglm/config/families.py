"""The names of families and links, and what goes together with them. What they mean is in `tfglm.families`; a test compares the
two."""

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from tfglm.config.base import FROM_TEXT, Section

if TYPE_CHECKING:
    from tfglm.config.models import DesignConfig, ModelConfig

FamilyName = Literal[
    "gaussian",
    "binomial",
    "poisson",
    "gamma",
    "inverse_gaussian",
    "negative_binomial",
    "tweedie",
    "multinomial",
]
RegressionFamily = Literal[
    "gaussian", "binomial", "poisson", "gamma", "inverse_gaussian", "negative_binomial", "tweedie", "multinomial"
]
NetworkFamily = Literal["gaussian", "binomial", "poisson", "multinomial"]
LinkName = Literal["identity", "log", "logit", "probit", "cloglog", "inverse", "1/mu^2"]

LINKS: dict[str, tuple[str, ...]] = {
    "gaussian": ("identity", "log"),
    "binomial": ("logit", "probit", "cloglog"),
    "poisson": ("log",),
    "gamma": ("log", "inverse"),
    "inverse_gaussian": ("log", "1/mu^2"),
    "negative_binomial": ("log",),
    "tweedie": ("log",),
    "multinomial": ("softmax",),
}
"""Of each family, the default first."""

CANONICAL = (("gaussian", "identity"), ("binomial", "logit"), ("poisson", "log"))
"""Families and links that factors can be absorbed from."""

WITH_FIRTH = {"binomial": "logit", "poisson": "log"}
"""Families that Firth's penalty is for, each with the link that it needs."""

DISPERSION_ESTIMATED = ("gaussian", "gamma", "inverse_gaussian", "tweedie")
"""Families whose classical standard errors have an estimated dispersion in them."""

SHAPES: dict[str, str] = {"theta": "negative_binomial", "power": "tweedie"}
"""Keys that give the shape of a family, and which family that is."""

ESTIMATE = "estimate"
"""The value of such a key for a shape that is to be estimated."""

Shape = Literal["estimate"]

POSITIVE_PREDICTOR = ("inverse", "1/mu^2")
"""Links of which only linear predictors above 0 have a mean."""


class LinkConfig(Section):
    """The keys of a model that say more of its family."""

    link: LinkName | None = Field(
        default=None,
        description="How the mean follows from the linear predictor. `gaussian`: `identity` (the default) or `log`. `binomial`: "
        "`logit` (the default), `probit` or `cloglog`. `poisson`, `negative_binomial`, `tweedie`: `log`. `gamma`: `log` (the "
        "default) or `inverse`. `inverse_gaussian`: `log` (the default) or `1/mu^2`.",
    )
    theta: Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False), FROM_TEXT] | Shape | None = Field(
        default=None,
        description="Of family `negative_binomial`: the variance of a count is mean + mean^2 / theta. A number, or "
        "`estimate` (the default).",
    )

    power: Annotated[float, Field(gt=1, lt=2, allow_inf_nan=False), FROM_TEXT] | Shape | None = Field(
        default=None,
        description="Of family `tweedie`: the variance is in proportion to mean^power. A number between 1 and 2, or `estimate` "
        "(the default), which needs many passes over the data.",
    )

    @property
    def shape(self) -> dict[str, float | None]:
        """The shapes that families have, by name; None if they are to be estimated."""
        given = {key: getattr(self, key) for key in SHAPES}
        return {key: None if value == ESTIMATE else value for key, value in given.items()}


def estimated_shape(model: "DesignConfig") -> str | None:
    """The key of the shape that the fit is to estimate, if there is one."""
    return next((key for key, family in SHAPES.items() if family == model.family and model.shape[key] is None), None)


def check_design(model: "DesignConfig") -> None:
    """Raise ValueError for keys that do not go together with the family."""
    if model.link and model.family == "multinomial":
        raise ValueError("link: family multinomial has none to choose; remove the key")
    if model.link and model.link not in LINKS[model.family]:
        links = " or ".join(f"`{link}`" for link in LINKS[model.family])
        raise ValueError(f"link: family {model.family} has no link `{model.link}`; use {links}")
    for key, family in SHAPES.items():
        if getattr(model, key) is not None and model.family != family:
            raise ValueError(f"{key}: only family {family} has it, not {model.family}; remove the key")
    shape = estimated_shape(model)
    if shape and (model.l1 or model.l2 or model.path):
        raise ValueError(f"{shape}: it is estimated by maximum likelihood, which no penalised fit has; give a number")
    if model.family == "tweedie" and model.path and model.path.select == "aic":
        raise ValueError(
            "path.select: family tweedie with a given power has no likelihood, and so no AIC; use `held_out` or "
            "`cross_validation`"
        )
    if model.family in DISPERSION_ESTIMATED and model.std_errors == "quasi":
        raise ValueError(
            f"std_errors: with family {model.family} `classical` estimates the dispersion already; use that"
        )


def check_model(model: "ModelConfig") -> None:
    """Raise ValueError for a family or link that the solver cannot fit."""
    if not model.online_solver:
        return
    if model.link in POSITIVE_PREDICTOR:
        raise ValueError(
            f"solver: steps of `{model.online_solver}` can leave the range of link `{model.link}`, where the linear predictor "
            f"has to be above 0; use `newton`, or link: log"
        )
    if shape := estimated_shape(model):
        raise ValueError(
            f"{shape}: only `newton` estimates it; give a number, or remove solver `{model.online_solver}`"
        )
