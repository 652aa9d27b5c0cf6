"""The interface of a family of distributions."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np


class Terms(NamedTuple):
    """What rows contribute to the likelihood. `loss` and `pearson` (the sum of weight * (y - mean)^2 / variance) are sums
    over the rows; `score` [rows] is the derivative of the loss by the linear predictor, `weight` [rows] the weight of the
    row in the information matrix."""

    loss: float
    pearson: float
    score: np.ndarray
    weight: np.ndarray

    @classmethod
    def from_rows(cls, loss: np.ndarray, score: np.ndarray, weight: np.ndarray) -> "Terms":
        # A variance that rounds to 0 belongs to a residual that does.
        pearson = score * np.divide(score, weight, out=np.zeros_like(score), where=weight > 0)
        return cls(float(loss.sum()), float(pearson.sum()), score, weight)


class LikelihoodSums(NamedTuple):
    """The sums over the rows that determine the likelihood at the estimate: `loss`, `saturated` and `base` of the family,
    the number of `rows` and their `weight_sum`."""

    loss: float
    saturated: float
    base: float
    rows: float
    weight_sum: float


class Dispersed(NamedTuple):
    """The part of minus the log-likelihood that depends on log phi alone, and its derivatives."""

    value: float
    slope: float
    curvature: float


class Law(NamedTuple):
    """The distributions of rows: one of scipy.stats, and the `value` of the response in its unit. `steps` says whether its
    distribution function has steps, at whole numbers."""

    distribution: Any
    value: np.ndarray
    steps: bool


@dataclass(frozen=True)
class Response:
    """Facts about the response in the training rows. `levels` are its values, if it is a factor."""

    name: str
    kind: str
    minimum: float
    maximum: float
    levels: list | None


class Family(ABC):
    """The mathematics of a family with its link, and its words for pages and tables.

    Functions of rows take the linear predictor eta and the response y, float arrays of shape [rows]. The loss of a row is
    minus its log-likelihood at weight and dispersion 1, without the terms that depend on y alone. The link is canonical,
    unless a class says otherwise. Then the first derivative of the loss by eta is `mean(eta) - y`, and the second is
    `variance(mean(eta))`, which is also the derivative of the mean. `families.linked` has the other links.
    """

    name: ClassVar[str]
    link_name: str
    canonical: bool = True
    """Whether the second derivative of the loss is known without the response: the observed information is the expected one."""
    positive_predictor: bool = False
    """Whether only linear predictors above 0 have a mean."""
    constant_information: bool = False
    """Whether the information matrix is the same everywhere, though the loss is not quadratic."""
    in_networks: ClassVar[bool] = True
    """Whether networks can have it."""
    theta: float | None = None
    """The shape of a negative binomial, or the precision of a beta distribution."""
    power: float | None = None
    """The power of the mean that the variance of a Tweedie distribution is proportional to."""
    shape_is_known: bool = True
    """Whether it has neither, or is given it."""
    shape_name: ClassVar[str] = ""
    """The name of the shape in design and config."""
    shape_sums: ClassVar[tuple[str, ...]] = ()
    """The sums that `shape_terms` returns."""
    shape_is_apart: ClassVar[bool] = True
    """Whether errors of the shape move no coefficient. Else the fit estimates both together, with a joint covariance."""
    has_observed_errors: ClassVar[bool] = False
    """Whether standard errors come from the observed information, rather than the expected one."""
    dispersion_known: ClassVar[bool] = True
    """Whether the variance of the response is known from its mean alone. If not, it is estimated."""
    quadratic: ClassVar[bool] = False
    """Whether the loss is quadratic in eta: the information matrix is the same everywhere, and one Newton step is enough."""
    smallest: ClassVar[float] = 0.0
    largest: ClassVar[float] = np.inf
    """The range of the response. A mean comes to a finite end of it only as eta goes to infinity."""
    is_movable: bool = False
    """Whether a fit measures responses far from 0 from their mean (solvers.origin)."""
    counts_events: ClassVar[bool] = False
    """Whether the response is a share of events: a row may have trials, and of a row with one trial the loss is 0 at best."""
    of_counts: ClassVar[bool] = False
    """Whether the likelihood is one of whole numbers."""
    of_classes: ClassVar[bool] = False
    """Whether the response is one of several classes."""
    is_ordered: ClassVar[bool] = False
    """Whether the classes have an order, and thresholds on one linear predictor."""
    incidental_bias: ClassVar[bool] = False
    """Whether many levels with few rows each bias the other coefficients (incidental parameters: Neyman & Scott 1948)."""

    regression: str
    """The name of a fit, before the name of the response."""
    effect: str
    """What a coefficient is."""
    ratio: str | None = None
    """The name of exp(coefficient), as a column of the table of coefficients; None if it is of no interest."""
    predicted: ClassVar[str] = "mean"
    """The name of the mean, as a column of predictions."""
    metrics: ClassVar[Literal["means", "counts", "events", "deviances", "classes"]]
    """The metrics that evaluate predictions (results.metrics)."""

    @abstractmethod
    def loss(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Loss of each row."""

    def tensor_loss(self, tf: Any, eta: Any, y: Any) -> Any:
        """Return the loss of tensors; `tf` is the module TensorFlow, which this package does not import."""
        raise NotImplementedError(f"networks have no family {self.name}")

    @abstractmethod
    def mean(self, eta: np.ndarray) -> np.ndarray:
        """E(y)."""

    @abstractmethod
    def link(self, mean: float) -> float:
        """The linear predictor that belongs to a mean."""

    @abstractmethod
    def variance(self, mean: np.ndarray) -> np.ndarray:
        """Variance of y, divided by the dispersion."""

    def latent_variance(self, mean: float, dispersion: float) -> float | None:
        """The variance of a row on the scale of the linear predictor (Nakagawa, Johnson and Schielzeth, Journal of the Royal
        Society Interface 14, 2017), for a log link that of a lognormal distribution; None if it is not known."""
        if self.quadratic:
            return dispersion
        share = dispersion * float(self.variance(np.array(mean))) / mean**2 if self.link_name == "log" else None
        return None if share is None else float(np.log1p(share))

    def slope(self, eta: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """The derivative of the mean by eta; `mean` is that of eta."""
        return self.variance(mean)

    @abstractmethod
    def curvature(self, eta: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """The second derivative of the mean by eta."""

    def information(self, eta: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """The expected second derivative of the loss by eta, as Fisher scoring and standard errors have it."""
        return self.variance(mean)

    def observed(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The second derivative of the loss by eta."""
        return self.variance(self.mean(eta))

    def observed_slope(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The third derivative of the loss by eta."""
        return self.curvature(eta, self.mean(eta))

    def about(self, origin: float) -> Self:
        """The family of responses, and linear predictors, that are measured from this mean and its linear predictor."""
        return self

    def is_valid(self, eta: np.ndarray) -> np.ndarray:
        """Return which linear predictors have a mean."""
        return np.ones(np.shape(eta), bool)

    def interval(self, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The means between those of two linear predictors, the smaller one first."""
        return self.mean(lower), self.mean(upper)

    def log_odds(self, eta: np.ndarray) -> np.ndarray:
        """The logarithm of the odds of the mean, if the mean is a probability."""
        return eta

    def in_range(self, y: np.ndarray) -> np.ndarray:
        """Return which responses the family allows."""
        return (y >= self.smallest) & (y <= self.largest)

    def saturated(self, y: np.ndarray) -> np.ndarray:
        """The least loss that any mean gives."""
        return np.zeros_like(y)

    def base(self, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """The part of each row's log-likelihood that is not -weight * loss."""
        return np.zeros_like(y)

    def refusal(self, response: Response, trials: bool, weights: bool) -> str | None:
        """Why the family cannot have this response, as the end of a sentence; None if it can. `trials` and `weights` say whether
        the model has a column of each."""
        if self.of_classes or not response.minimum < self.smallest:
            return None
        return f"needs a response of {self.smallest:g} or more, {ranges(response)}"

    def law(self, y: np.ndarray, mean: np.ndarray, weight: np.ndarray, dispersion: float) -> Law | None:
        """The distributions of rows with these means and prior weights; None if their distribution functions are not known."""
        return None

    def derivatives(self, eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The derivative of the loss by eta, and the weight of a row in the information matrix, at weight 1."""
        mean = self.mean(eta)
        return mean - y, self.variance(mean)

    def terms(self, eta: np.ndarray, y: np.ndarray, weight: np.ndarray, unit: bool) -> Terms:
        """What some rows contribute, from their linear predictor and response, [rows]. Rows of weight 0 take no part; with
        `unit` all others have weight 1."""
        # A row that takes no part may have any mean.
        values = (self.loss(eta, y), *self.derivatives(eta, y))
        return Terms.from_rows(*(np.where(weight > 0, value, 0.0) * weight for value in values))

    def shape_terms(
        self, eta: np.ndarray, y: np.ndarray, weight: np.ndarray, shape: np.ndarray
    ) -> dict[str, np.ndarray]:
        """Return the values named in `shape_sums` for each row with prior weights, at a trial shape. The shape is estimated
        from their sums."""
        raise NotImplementedError(f"family {self.name} has no shape to estimate")

    def slopes_by_shape(self, eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The derivatives by the logarithm of the shape of the first and of the second derivative of the loss by eta, [rows]
        each."""
        raise NotImplementedError(f"family {self.name} has no shape to estimate beside smooth terms")

    @property
    def separates(self) -> bool:
        """Whether coefficients can be infinite, because responses are at an end of the range."""
        return bool(np.isfinite(self.smallest) or np.isfinite(self.largest))

    def load(self) -> None:  # noqa: B027
        """Load the loops of `terms`, or compile them, if there are any."""

    def at_an_end(self, response: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Return whether groups have no finite estimate, because all their responses are at the same end of the range.
        `response` is the sum of weight * y in each group, `weight` the sum of the weights, [groups]."""
        ends = [end for end in (self.smallest, self.largest) if np.isfinite(end)]
        return np.logical_or.reduce([response == end * weight for end in ends])

    def log_likelihood(self, sums: LikelihoodSums) -> float | None:
        """Return the maximised log-likelihood; None if it cannot be computed for the family."""
        return -sums.loss + sums.base

    def dispersed(self, log_phi: float, sums: LikelihoodSums) -> Dispersed:
        """Return the part of minus the log-likelihood that depends on log phi alone: without loss / phi."""
        raise NotImplementedError(f"family {self.name} has no likelihood with an unknown dispersion")

    def dispersion(self, loss: float, pearson: float, df_residual: float) -> float:
        """Variance of the response in units of `variance`, if it is not known estimated from the sums of a pass."""
        return 1.0


def ranges(response: Response) -> str:
    """The range of a response that a family cannot have."""
    return f"but `{response.name}` runs from {response.minimum:g} to {response.maximum:g}"
