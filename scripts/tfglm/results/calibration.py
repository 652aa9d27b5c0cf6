"""How predicted probabilities order the events, and whether they are as large as the shares of events are."""

import numpy as np
from scipy.special import expit

from tfglm.results.histogram import Histogram


def ranking(scores: Histogram) -> dict:
    """Area under the ROC curve and average precision. Pairs of an event and another row that share a bin with several scores
    count half a pair, so the AUC is off by half their share at most."""
    from sklearn import metrics  # slow to import, and only rows with events need it

    weight, events = scores.sums[:, 0], scores.sums[:, 1]
    others = weight - events
    if not (events.sum() > 0 and others.sum() > 1e-9 * weight.sum()):
        return {"auc": None, "auc_bound": None, "average_precision": None}
    bins = np.tile(np.arange(len(weight)), 2)
    is_event = np.repeat([1, 0], len(weight))
    weights = np.concatenate([events, np.maximum(others, 0.0)])
    used = weights > 0
    arguments = {"y_true": is_event[used], "y_score": bins[used], "sample_weight": weights[used]}
    tied = float((events * others)[scores.mixed].sum() / 2 / (events.sum() * others.sum()))
    return {
        "auc": float(metrics.roc_auc_score(**arguments)),
        "auc_bound": tied,
        "average_precision": float(metrics.average_precision_score(**arguments)),
    }


def calibration(scores: Histogram) -> dict:
    """The slope of a logistic regression of the response on the linear predictor, 1 for a calibrated model; and calibration in
    the large, its intercept with the linear predictor as an offset, 0 for one (Cox, Biometrika 45, 1958)."""
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
