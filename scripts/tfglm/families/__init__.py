"""The families: how the response varies around its mean, and how the mean follows from the linear predictor.

A family with its link is one class in one file, with its mathematics and its words; nothing else in the package decides by a
family's name. May import: nothing.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache, partial

from tfglm.families.beta import Beta
from tfglm.families.binomial import Binomial
from tfglm.families.binomial_link import BinomialLink
from tfglm.families.family import Family, LikelihoodSums, Terms
from tfglm.families.gamma import Gamma
from tfglm.families.gaussian import Gaussian
from tfglm.families.gaussian_log import GaussianLog
from tfglm.families.inverse_gaussian import InverseGaussian
from tfglm.families.multinomial import Multinomial
from tfglm.families.negative_binomial import NegativeBinomial
from tfglm.families.ordinal import Ordinal
from tfglm.families.poisson import Poisson
from tfglm.families.truncated import TruncatedNegativeBinomial, TruncatedPoisson
from tfglm.families.tweedie import Tweedie

__all__ = [
    "FAMILIES",
    "LINKS",
    "Binomial",
    "Family",
    "Gaussian",
    "LikelihoodSums",
    "Multinomial",
    "Poisson",
    "Terms",
    "family_of",
    "family_of_fit",
]

LINKS: dict[str, dict[str, Callable[..., Family]]] = {
    "gaussian": {"identity": Gaussian, "log": partial(GaussianLog, "log")},
    "binomial": {
        "logit": Binomial,
        "probit": partial(BinomialLink, "probit"),
        "cloglog": partial(BinomialLink, "cloglog"),
    },
    "beta": {"logit": Beta},
    "poisson": {"log": Poisson},
    "gamma": {"log": partial(Gamma, "log"), "inverse": partial(Gamma, "inverse")},
    "inverse_gaussian": {"log": partial(InverseGaussian, "log"), "1/mu^2": partial(InverseGaussian, "1/mu^2")},
    "negative_binomial": {"log": NegativeBinomial},
    "truncated_poisson": {"log": TruncatedPoisson},
    "truncated_negative_binomial": {"log": TruncatedNegativeBinomial},
    "tweedie": {"log": Tweedie},
    "multinomial": {"softmax": Multinomial},
    "ordinal": {link: partial(Ordinal, link) for link in ("logit", "probit", "cloglog")},
}
"""The classes of the families, by the config's names of family and link, the default link first."""


@lru_cache(maxsize=256)
def family_of(
    name: str, link: str | None = None, theta: float | None = None, power: float | None = None, origin: float = 0.0
) -> Family:
    """Return the family of that name with a link (by default its first), and with the shape `theta` or `power`, if it is
    known. Responses and linear predictors are measured from a mean `origin`, if it is not 0 (`Family.about`).

    >>> logistic = family_of("binomial")
    >>> logistic.mean(np.array([0.0, np.log(3)])).round(9)
    array([0.5 , 0.75])
    >>> logistic.loss(np.array([0.0]), np.array([1.0])) == np.log(2)
    array([ True])
    >>> family_of("negative_binomial", theta=2.0).variance(np.array([4.0]))  # mean + mean^2 / theta
    array([12.])
    """
    links = LINKS[name]
    make = links[link or next(iter(links))]
    shape = {name: value for name, value in (("theta", theta), ("power", power)) if value is not None}
    family = make(**shape)
    return family.about(origin) if origin else family


def family_of_fit(fit: Mapping) -> Family:
    """That of fit.json."""
    return family_of(fit["family"], fit.get("link"), fit.get("theta"), fit.get("power"))


FAMILIES: dict[str, Family] = {name: family_of(name) for name in LINKS}
"""The families by their names in the config, each with its default link."""
