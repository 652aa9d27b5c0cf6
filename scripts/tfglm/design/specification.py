"""What a model is fitted with, beside its terms: the roles of columns, the likelihood, the inference and the penalty."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tfglm.config import PathConfig
from tfglm.design.factors import Categorical, ClusterIntersections, Clusters, Numeric
from tfglm.design.terms import DesignTerm
from tfglm.families import Family, family_of


@dataclass(frozen=True)
class Roles:
    """The columns that are no covariates. A row without a value in a `required` column is not used."""

    response: str | None
    weights: str | None = None
    frequency: str | None = None
    trials: str | None = None
    offset: Numeric | None = None
    required: tuple[str, ...] = ()

    @property
    def multiplicities(self) -> tuple[str, ...]:
        """The columns that say how often a row counts."""
        return tuple(filter(None, (self.weights, self.frequency, self.trials)))


@dataclass(frozen=True)
class Likelihood:
    """The distribution of the response. `firth` says that the likelihood has Jeffreys' prior."""

    family: str
    link: str | None = None
    """None for the family's default."""
    theta: float | None = None
    """The shape of a negative binomial; None if the fit is to estimate it."""
    power: float | None = None
    """The power of a Tweedie distribution; None if the fit is to estimate it."""
    class_labels: tuple[str, ...] = ()
    """All classes of a response: of a multinomial one each is compared with the `reference_class`, ordinal ones are in order."""
    reference_class: str | None = None
    origin: float = 0.0
    """The number that passes subtract from the response (solvers.origin)."""
    firth: bool = False
    method: str = "reml"
    """How the smoothing parameters are estimated: reml or ml."""

    @cached_property
    def distribution(self) -> Family:
        """The family with its link and shape."""
        return family_of(self.family, self.link, self.theta, self.power, self.origin)

    @property
    def origin_reach(self) -> float:
        """The size of the linear predictor of the origin times the root of its weight in the information matrix."""
        family, eta = self.distribution, np.zeros(1)
        if not self.origin or family.quadratic:
            return abs(self.origin)
        return abs(float(np.log(self.origin))) * float(np.sqrt(family.information(eta, family.mean(eta))[0]))

    @property
    def is_ordered(self) -> bool:
        return self.distribution.is_ordered and bool(self.class_labels)


@dataclass(frozen=True)
class Instruments:
    """The names of `endogenous` terms, and the terms that are their instruments, with the factors that no other term has."""

    endogenous: tuple[str, ...]
    terms: tuple[DesignTerm, ...]
    categorical: tuple[Categorical, ...]
    numeric: tuple[Numeric, ...]


@dataclass(frozen=True)
class Inference:
    """How uncertain the estimates are. `std_errors` is a kind of config.std_errors. Clusters of several columns are `cluster` and
    `crossed`, with the `cells` of each two of them or more; those of a survey are its sampling units and strata. `lags` are those
    of errors that allow for serial correlation, None for the default. `fractions` are the shares of the sampling units of each
    stratum that were sampled, none if no unit is known to be. `tests` of terms are wald or likelihood_ratio; combinations of
    coefficients, by name, have a `profile` likelihood interval."""

    std_errors: str = "classical"
    cluster: Clusters | None = None
    crossed: tuple[Clusters, ...] = ()
    cells: tuple[ClusterIntersections, ...] = ()
    lags: int | None = None
    fractions: tuple[float, ...] = ()
    tests: str = "wald"
    profile: tuple[tuple[str, tuple[tuple[str, float], ...]], ...] = ()
    profile_confidence: float = 0.95

    @cached_property
    def clusters(self) -> tuple[Clusters, ...]:
        """Those of each column."""
        return (self.cluster, *self.crossed) if self.cluster else ()

    @cached_property
    def cluster_counts(self) -> tuple[int, ...]:
        """The numbers of clusters: of each column, then of rows that agree in several columns (`cells`)."""
        return (*(clusters.count for clusters in self.clusters), *(len(cells.joint) for cells in self.cells))


@dataclass(frozen=True)
class GivenPenalty:
    """The penalties that the config gives: of one fit, or of each on a `path`. `factors` multiply those of a term."""

    l1: float = 0.0
    l2: float = 0.0
    path: PathConfig | None = None
    factors: tuple[tuple[str, float], ...] = ()

    @property
    def given(self) -> bool:
        """Whether there is any."""
        return bool(self.l1 or self.l2 or self.path)
