"""The metrics of predictions of one kind: means, counts or probabilities of events."""

from typing import Any

import numpy as np
from scipy.special import expit, ndtri, xlogy

from tfglm.results.calibration import calibration, ranking
from tfglm.results.tally import Measure


class Means(Measure):
    """Metrics of predicted means, in the units of the response."""

    def sums(self, y, eta, mean, weight, threshold):
        residual = y - mean
        return {"squares": weight @ residual**2, "absolute": weight @ np.abs(residual), "predicted": weight @ mean}

    def metrics(self, tally):
        sums, weight = tally.sums, tally.weight_sum
        return {
            "rmse": float(np.sqrt(sums["squares"] / weight)),
            "mae": float(sums["absolute"] / weight),
            "r_squared": float(1 - sums["squares"] / tally.squares) if tally.squares > 0 else None,
            "mean_response": tally.mean,
            "mean_prediction": float(sums["predicted"] / weight),
        }


class Counts(Means):
    """Metrics of predicted counts, and the share of the deviance that they explain."""

    def sums(self, y, eta, mean, weight, threshold):
        deviance = 2 * weight @ (xlogy(y, y) - y * eta - y + mean)
        return {**super().sums(y, eta, mean, weight, threshold), "deviance": deviance, "y log y": weight @ xlogy(y, y)}

    def metrics(self, tally):
        of_means = super().metrics(tally)
        del of_means["r_squared"]
        null = 2 * (tally.sums["y log y"] - tally.weight_sum * float(xlogy(tally.mean, tally.mean)))
        deviance = tally.sums["deviance"]
        return {
            "mean_poisson_deviance": float(deviance / tally.weight_sum),
            "d_squared": float(1 - deviance / null) if null > 0 and tally.squares > 0 else None,
            **of_means,
        }


class Deviances(Means):
    """Metrics of predicted means, and the share of the family's deviance that they explain."""

    def sums(self, y, eta, mean, weight, threshold):
        deviance = 2 * weight @ (self.family.loss(eta, y) - self.family.saturated(y))
        saturated = weight @ self.family.saturated(y)
        return {**super().sums(y, eta, mean, weight, threshold), "deviance": deviance, "saturated": saturated}

    def metrics(self, tally):
        of_means = super().metrics(tally)
        del of_means["r_squared"]
        deviance, null = tally.sums["deviance"], 0.0
        if tally.mean > 0:
            # The loss is linear in the response.
            alone = float(self.family.loss(np.array(self.family.link(tally.mean)), np.array(tally.mean)))
            null = 2 * (alone * tally.weight_sum - tally.sums["saturated"])
        return {
            "mean_deviance": float(deviance / tally.weight_sum),
            "d_squared": float(1 - deviance / null) if null > 0 and tally.squares > 0 else None,
            **of_means,
        }


class Events(Measure):
    """Metrics of predicted probabilities; eta is the log odds. An event is predicted from the threshold on. A row with
    trials counts as its numbers of events and of non-events."""

    of_events = True
    of_all_rows = (
        "threshold",
        "calibration_slope",
        "calibration_slope_std_error",
        "calibration_in_the_large",
        "calibration_in_the_large_std_error",
    )

    def mean(self, eta):
        return expit(eta)

    def interval(self, observed, weight, rows, variance):
        return wilson(observed, weight)

    def sums(self, y, eta, mean, weight, threshold):
        predicted = mean >= threshold
        events, others = weight * y, weight * (1 - y)
        return {
            # Compute from eta: a probability that rounds to 0 or 1 would lose the digits that matter here.
            "log_loss": weight @ (np.logaddexp(0.0, eta) - y * eta),
            "brier": events @ (1 - mean) ** 2 + others @ mean**2,
            "predicted": weight @ mean,
            "true_positive": events[predicted].sum(),
            "false_positive": others[predicted].sum(),
            "true_negative": others[~predicted].sum(),
            "false_negative": events[~predicted].sum(),
        }

    def metrics(self, tally):
        sums, weight = tally.sums, tally.weight_sum
        hits, false_alarms = sums["true_positive"], sums["false_positive"]
        misses, rest = sums["false_negative"], sums["true_negative"]
        events = hits + misses
        return {
            "events": whole(events),
            "mean_response": tally.mean,
            "mean_prediction": float(sums["predicted"] / weight),
            **ranking(tally.scores),
            "log_loss": float(sums["log_loss"] / weight),
            "brier": float(sums["brier"] / weight),
            **calibration(tally.scores),
            "threshold": tally.threshold,
            "accuracy": float((hits + rest) / weight),
            "precision": float(hits / (hits + false_alarms)) if hits + false_alarms else None,
            "recall": float(hits / events) if events else None,
            "f1": float(2 * hits / (2 * hits + false_alarms + misses)) if hits + false_alarms + misses else None,
            "true_positive": whole(hits),
            "false_positive": whole(false_alarms),
            "true_negative": whole(rest),
            "false_negative": whole(misses),
        }


MEASURES: dict[str, type[Measure]] = {"means": Means, "counts": Counts, "events": Events, "deviances": Deviances}
"""The metrics by the names that families use (`Family.metrics`)."""


def wilson(share: Any, weight: Any) -> tuple[Any, Any]:
    """95 % intervals of shares of so many rows, or of rows with so much weight (Wilson 1927)."""
    z = ndtri(0.975)
    middle = (share + z**2 / (2 * weight)) / (1 + z**2 / weight)
    variance = np.maximum(share * (1 - share), 0.0) / weight
    margin = z / (1 + z**2 / weight) * np.sqrt(variance + z**2 / (4 * weight**2))
    return middle - margin, middle + margin


def whole(value: float) -> int | float:
    """A count as a whole number, if it is one."""
    return int(value) if value == int(value) else float(value)
