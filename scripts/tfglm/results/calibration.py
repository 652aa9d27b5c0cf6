"""How predicted probabilities order the events, and whether they equal the shares of events."""

import numpy as np
from scipy.special import expit

from tfglm.results.histogram import Histogram


def ranking(scores: Histogram) -> dict:
    """Area under the ROC curve and average precision. Pairs of an event and another row that share a bin with several scores
    count half a pair, so the AUC is off by half their share at most."""
    weight, events = scores.sums[:, 0], scores.sums[:, 1]
    others = weight - events
    if not (events.sum() > 0 and others.sum() > 1e-9 * weight.sum()):
        return {"auc": None, "auc_bound": None, "average_precision": None}
    tied = float((events * others)[scores.mixed].sum() / 2 / (events.sum() * others.sum()))
    found, false = curve(np.maximum(events, 0.0), np.maximum(others, 0.0))
    return {"auc": area(found, false), "auc_bound": tied, "average_precision": average_precision(found, false)}


# The same arithmetic as in `sklearn.metrics`, whose import takes a second of a processor.


def curve(events: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The weight of the events, and of the other rows, at and above the score of each bin with rows, from the highest on."""
    filled = (events > 0) | (others > 0)
    return np.cumsum(events[filled][::-1]), np.cumsum(others[filled][::-1])


def area(found: np.ndarray, false: np.ndarray) -> float:
    """The area under the ROC curve, from the corners of the curve."""
    corners = np.ones(len(found), bool)
    corners[1:-1] = (np.diff(false, 2) != 0) | (np.diff(found, 2) != 0)
    recall = np.concatenate([[0.0], found[corners]]) / found[-1]
    false_share = np.concatenate([[0.0], false[corners]]) / false[-1]
    return float(np.trapezoid(recall, false_share))


def average_precision(found: np.ndarray, false: np.ndarray) -> float:
    """The mean precision at the scores of the events, weighted by the gain of recall."""
    precision, recall = found / (found + false), found / found[-1]
    gains = np.diff(np.concatenate([[0.0], recall]))
    return float(np.sum(gains[::-1] * precision[::-1]))


def calibration(scores: Histogram) -> dict:
    """Return the calibration slope and the calibration in the large (Cox, Biometrika 45, 1958).

    The slope is that of a logistic regression of the response on the linear predictor, 1 for a calibrated model.
    Calibration in the large is the intercept with the linear predictor as an offset, 0 for a calibrated model.
    """
    filled = scores.sums[:, 0] > 0
    weight, events, _, linear = scores.sums[filled, :4].T
    eta = linear / weight
    ones = np.ones_like(eta)
    slope = logistic(np.stack([ones, eta], 1), np.zeros_like(eta), weight, events)
    large = logistic(ones[:, None], eta, weight, events)
    return {
        "calibration_slope": slope and slope[0][1],
        "calibration_slope_std_error": slope and slope[1][1],
        "calibration_in_the_large": large and large[0][0],
        "calibration_in_the_large_std_error": large and large[1][0],
    }


def logistic(
    x: np.ndarray, offset: np.ndarray, weight: np.ndarray, events: np.ndarray
) -> tuple[list[float], list[float]] | None:
    """Coefficients and standard errors of a small logistic regression by Newton's method; None if it has no finite solution."""
    coefficients = np.zeros(x.shape[1])
    for _ in range(50):
        mean = expit(offset + x @ coefficients)
        information = x.T @ ((weight * mean * (1 - mean))[:, None] * x)
        try:
            step = np.linalg.solve(information, x.T @ (events - weight * mean))
        except np.linalg.LinAlgError:
            return None
        coefficients = coefficients + step
        if not np.all(np.isfinite(coefficients)) or np.abs(coefficients).max() > 1e3:
            return None
        if np.abs(step).max() < 1e-12 * max(1.0, np.abs(coefficients).max()):
            return coefficients.tolist(), np.sqrt(np.diag(np.linalg.inv(information))).tolist()
    return None
