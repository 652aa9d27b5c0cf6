"""Logistic regression."""

from typing import Any

import numpy as np

from tfglm.families.family import Family, Law, Response, Terms, ranges


class Binomial(Family):
    """P(event) = 1 / (1 + exp(-eta)); loss log(1 + exp(eta)) - y eta. The response is the share of events; a row weighs as much
    as it has trials."""

    name = "binomial"
    link_name = "logit"
    smallest = 0.0
    largest = 1.0
    counts_events = True
    incidental_bias = True
    regression = "logistic regression of the probability of"
    effect = "log odds ratio"
    ratio: str | None = "odds_ratio"
    predicted = "probability"
    metrics = "events"

    def loss(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        # log(1 + exp(eta)) in the form that neither overflows nor loses digits far from 0.
        return np.maximum(eta, 0.0) + np.log1p(np.exp(-np.abs(eta))) - y * eta

    def tensor_loss(self, tf: Any, eta: Any, y: Any) -> Any:
        return tf.nn.sigmoid_cross_entropy_with_logits(y, eta)

    def mean(self, eta: np.ndarray) -> np.ndarray:
        # The exponential that does not overflow. NumPy's is three times as fast as scipy.special.expit.
        small = np.exp(-np.abs(eta))
        return np.where(eta >= 0, 1.0, small) / (1.0 + small)

    def link(self, mean: float) -> float:
        return float(np.log(mean) - np.log1p(-mean))

    def variance(self, mean: np.ndarray) -> np.ndarray:
        return mean * (1.0 - mean)

    def latent_variance(self, mean: float, dispersion: float) -> float:
        return {"logit": np.pi**2 / 3, "probit": 1.0, "cloglog": np.pi**2 / 6}[self.link_name]

    def curvature(self, eta: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return mean * (1.0 - mean) * (1.0 - 2.0 * mean)

    def terms(self, eta: np.ndarray, y: np.ndarray, weight: np.ndarray, unit: bool) -> Terms:
        from tfglm.families import binomial_rows  # numba is slow to import, and only a pass over rows needs it

        score, information = np.empty((2, len(eta)), eta.dtype)
        small = np.abs(eta)
        np.exp(np.negative(small, out=small), out=small)  # NumPy's exponential is faster than numba's
        loss, pearson = binomial_rows.binomial_rows(eta, small, y, weight, unit, score, information)
        return Terms(loss, pearson, score, information)

    def load(self) -> None:
        nothing = np.zeros(1)
        Binomial.terms(self, nothing, nothing, nothing, True)

    def saturated(self, y: np.ndarray) -> np.ndarray:
        from scipy.special import xlogy  # slow to import, and only a fit needs it

        return -xlogy(y, y) - xlogy(1.0 - y, 1.0 - y)

    def base(self, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Logarithm of the binomial coefficient, `weight` the number of trials, as R's binomial()$aic."""
        from scipy.special import gammaln as log_factorial

        events = weight * y
        return log_factorial(weight + 1.0) - log_factorial(events + 1.0) - log_factorial(weight - events + 1.0)

    def law(self, y: np.ndarray, mean: np.ndarray, weight: np.ndarray, dispersion: float) -> Law | None:
        from scipy import stats  # slow to import, and only pictures of residuals need it

        if not np.all(weight == np.round(weight)):
            return None
        return Law(stats.binom(weight, mean), np.round(y * weight), steps=True)

    def refusal(self, response: Response, trials: bool, weights: bool) -> str | None:
        if trials:
            if response.minimum < 0 or response.kind != "integer":
                return f"with trials needs a response that counts events, {ranges(response)}"
            return None
        # With weights, the response is a share of so many trials, as in R.
        between = self.smallest <= response.minimum and response.maximum <= self.largest
        if between if weights else response.levels == [0.0, 1.0]:
            return None
        limit = (response.minimum + response.maximum) / 2
        others = "family: multinomial or ordinal" if len(response.levels or []) > 2 else "family: gaussian"
        return (
            f"needs a response of 0 and 1, {ranges(response)}\n"
            f"  derive one under data.derive, e.g. `high: {response.name} > {limit:.4g}`, give the number of `trials`, or use "
            f"{others}"
        )
