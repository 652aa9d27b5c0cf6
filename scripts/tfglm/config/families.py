"""The names of families and links. What they mean is in `tfglm.families`; a test compares the two."""

from typing import Literal

FamilyName = Literal["gaussian", "binomial", "poisson", "gamma", "inverse_gaussian", "multinomial"]
RegressionFamily = Literal["gaussian", "binomial", "poisson", "gamma", "inverse_gaussian"]
NetworkFamily = Literal["gaussian", "binomial", "poisson", "multinomial"]
LinkName = Literal["identity", "log", "logit", "probit", "cloglog", "inverse", "1/mu^2"]

LINKS: dict[str, tuple[str, ...]] = {
    "gaussian": ("identity", "log"),
    "binomial": ("logit", "probit", "cloglog"),
    "poisson": ("log",),
    "gamma": ("log", "inverse"),
    "inverse_gaussian": ("log", "1/mu^2"),
    "multinomial": ("softmax",),
}
"""Of each family, the default first."""

CANONICAL = (("gaussian", "identity"), ("binomial", "logit"), ("poisson", "log"))
"""Families and links that factors can be absorbed from."""

DISPERSION_ESTIMATED = ("gaussian", "gamma", "inverse_gaussian")
"""Families whose classical standard errors have an estimated dispersion in them."""

POSITIVE_PREDICTOR = ("inverse", "1/mu^2")
"""Links of which only linear predictors above 0 have a mean."""
