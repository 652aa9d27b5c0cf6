"""What a family of distributions has to say of itself."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np


class Terms(NamedTuple):
    """What rows contribute to the likelihood.

    `loss` and `pearson` (the sum of weight * (y - mean)^2 / variance) are sums over the rows; `score` [rows] is the derivative
    of the loss by the linear predictor, `weight` [rows] the weight of the row in the information matrix.
    """

    loss: float
    pearson: float
    score: np.ndarray
    weight: np.ndarray


class LikelihoodSums(NamedTuple):
    """What the likelihood at the estimate is made of, summed over the rows: `loss`, `saturated` and `base` of the family, the
    number of `rows` and their `weight_sum`."""

    loss: float
    saturated: float
    base: float
    rows: float
    weight_sum: float


@dataclass(frozen=True)
class Response:
    """What is known of the response in the training rows. `levels` are its values, if it is a factor."""

    name: str
    kind: str
    minimum: float
    maximum: float
    levels: list | None


class Family(ABC):
    """The mathematics of a family with its link, and the words for it.

    Functions of rows take the linear predictor eta and the response y, float arrays of shape [rows]. The loss of a row is minus
    its log-likelihood at weight and dispersion 1, less what depends on y alone. With a canonical link, as here unless a class
    says otherwise, `mean(eta) - y` is the first derivative of the loss by eta, and `variance(mean(eta))` the second, which is
    also the derivative of the mean. `families.linked` has the others.
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
    """The shape of a negative binomial."""
    power: float | None = None
    """Of the mean that the variance of a Tweedie distribution is in proportion to."""
    shape_is_known: bool = True
    """Whether it has neither, or is given it."""
    shape_name: ClassVar[str] = ""
    """What design and config call it."""
    shape_sums: ClassVar[tuple[str, ...]] = ()
    """What `of_shape` says of rows."""
    dispersion_known: ClassVar[bool] = True
    """Whether the variance of the response is known from its mean alone. If not, it is estimated."""
    quadratic: ClassVar[bool] = False
    """Whether the loss is quadratic in eta: the information matrix is the same everywhere, and one Newton step is enough."""
    smallest: ClassVar[float]
    largest: ClassVar[float]
    """The range of the response. A mean comes to a finite end of it only as eta goes to infinity."""
    counts_events: ClassVar[bool] = False
    """Whether the response is a share of events: a row may have trials, and of a row with one trial the loss is 0 at best."""
    of_classes: ClassVar[bool] = False
    """Whether the response is one of several classes, each with a linear predictor of its own."""
    incidental_bias: ClassVar[bool] = False
    """Whether many levels with few rows each bias the other coefficients (incidental parameters: Neyman & Scott 1948)."""

    regression: str
    """What a fit is called, before the name of the response."""
    effect: str
    """What a coefficient is."""
    ratio: str | None = None
    """What exp(coefficient) is, as a column of the table of coefficients; None if it is nothing of interest."""
    predicted: ClassVar[str] = "mean"
    """What the mean is called, as a column of predictions."""
    metrics: ClassVar[Literal["means", "counts", "events", "deviances", "classes"]]
    """The metrics by which predictions are judged (results.metrics)."""

    @abstractmethod
    def loss(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Loss of each row."""

    @abstractmethod
    def tensor_loss(self, tf: Any, eta: Any, y: Any) -> Any:
        """The same of tensors; `tf` is the module TensorFlow, which this room does not import."""

    @abstractmethod
    def mean(self, eta: np.ndarray) -> np.ndarray:
        """E(y)."""

    @abstractmethod
    def link(self, mean: float) -> float:
        """The linear predictor that belongs to a mean."""

    @abstractmethod
    def variance(self, mean: np.ndarray) -> np.ndarray:
        """Variance of y, divided by the dispersion."""

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

    def is_valid(self, eta: np.ndarray) -> np.ndarray:
        """Which linear predictors have a mean."""
        return np.ones(np.shape(eta), bool)

    def interval(self, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The means between those of two linear predictors, the smaller one first."""
        return self.mean(lower), self.mean(upper)

    def log_odds(self, eta: np.ndarray) -> np.ndarray:
        """Of the mean, where it is a probability."""
        return eta

    def in_range(self, y: np.ndarray) -> np.ndarray:
        """Which responses the family can have."""
        return (y >= self.smallest) & (y <= self.largest)

    @abstractmethod
    def saturated(self, y: np.ndarray) -> np.ndarray:
        """The least loss that any mean gives."""

    @abstractmethod
    def base(self, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """The part of each row's log-likelihood that is not -weight * loss."""

    @abstractmethod
    def refusal(self, response: Response, trials: bool, weights: bool) -> str | None:
        """Why the family cannot have this response, as the end of a sentence; None if it can. `trials` and `weights` say whether
        the model has a column of each."""

    def terms(self, eta: np.ndarray, y: np.ndarray, weight: np.ndarray, unit: bool) -> Terms:
        """What some rows contribute.

        Parameters
        ----------
        eta, y
            Linear predictor and response, [rows].
        weight
            Those of weight 0 take no part, [rows].
        unit
            Whether all others have weight 1.
        """
        kept, mean = weight > 0, self.mean(eta)
        # What takes no part may have any mean.
        score = np.where(kept, mean - y, 0.0) * weight
        information = np.where(kept, self.variance(mean) * weight, 0.0)
        loss = np.where(kept, self.loss(eta, y) * weight, 0.0)
        # A variance that rounds to 0 belongs to a residual that does.
        pearson = score * np.divide(score, information, out=np.zeros_like(score), where=information > 0)
        return Terms(float(loss.sum()), float(pearson.sum()), score, information)

    def of_shape(self, eta: np.ndarray, y: np.ndarray, weight: np.ndarray, shape: np.ndarray) -> dict[str, np.ndarray]:
        """What `shape_sums` names, of each row with prior weights, at a trial shape, from which that is estimated."""
        raise NotImplementedError(f"family {self.name} has no shape to estimate")

    @property
    def separates(self) -> bool:
        """Whether coefficients can be infinite, because responses are at an end of the range."""
        return bool(np.isfinite(self.smallest) or np.isfinite(self.largest))

    def load(self) -> None:  # noqa: B027
        """Load the loops of `terms`, or compile them, if there are any."""

    def at_an_end(self, response: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Whether groups have no finite estimate: their responses are all at one end of the range. `response` is the sum of
        weight * y in each group, `weight` that of the weights, [groups]."""
        ends = [end for end in (self.smallest, self.largest) if np.isfinite(end)]
        return np.logical_or.reduce([response == end * weight for end in ends])

    def log_likelihood(self, sums: LikelihoodSums) -> float | None:
        """Maximised log-likelihood; None if the family has none that can be told."""
        return -sums.loss + sums.base

    def dispersion(self, loss: float, pearson: float, df_residual: float) -> float:
        """Variance of the response in units of `variance`, if it is not known estimated from the sums of a pass."""
        return 1.0


def ranges(response: Response) -> str:
    """The range of a response that a family cannot have."""
    return f"but `{response.name}` runs from {response.minimum:g} to {response.maximum:g}"
