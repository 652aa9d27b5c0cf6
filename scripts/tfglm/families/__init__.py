"""The families: how the response varies around its mean, and how the mean follows from the linear predictor.

A family is one class in one file, with its mathematics and its words; nothing else in the package decides by a family's name.
May import: nothing.
"""

from tfglm.families.binomial import Binomial
from tfglm.families.family import Family, Terms
from tfglm.families.gaussian import Gaussian
from tfglm.families.multinomial import Multinomial
from tfglm.families.poisson import Poisson

__all__ = ["FAMILIES", "Binomial", "Family", "Gaussian", "Multinomial", "Poisson", "Terms"]

FAMILIES: dict[str, Family] = {family.name: family for family in (Gaussian(), Binomial(), Poisson(), Multinomial())}
"""By the names that the config has for them."""
