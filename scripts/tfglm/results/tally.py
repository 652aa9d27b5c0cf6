"""The sums over some rows that determine their metrics, by score and in total."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from scipy.special import expit, ndtri

from tfglm.families import Family
from tfglm.results.histogram import DIGITS, Histogram, digits_of, edges

DECILES, CALIBRATION_PARTS, CURVE_POINTS = 10, 20, 400

QUANTILES = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)


class Measure:
    """The metrics of predictions of one kind, by a model of `family`."""

    of_all_rows: tuple[str, ...] = ()
    """Metrics that are not reported by group."""

    of_events = False
    """Whether the response is an event or none."""

    def __init__(self, family: Family):
        self.family = family

    def mean(self, eta: np.ndarray) -> np.ndarray:
        return self.family.mean(eta)

    def sums(
        self, y: np.ndarray, eta: np.ndarray, mean: np.ndarray, weight: np.ndarray, threshold: float
    ) -> dict[str, float]:
        """Return the sums over rows, from values of [rows] each."""
        raise NotImplementedError

    def metrics(self, tally: "Tally") -> dict:
        raise NotImplementedError

    def interval(self, observed: float, weight: float, rows: float, variance: float) -> tuple[float, float]:
        """A 95 % interval of the mean response of some rows."""
        margin = ndtri(0.975) * float(np.sqrt(max(variance, 0.0) / rows))
        return observed - margin, observed + margin


class Tally:
    """The sums of some rows that their metrics are computed from; with `residuals` these are counted by size too."""

    def __init__(
        self,
        measure: Measure,
        threshold: float,
        upper: np.ndarray,
        residuals: "Residuals | None" = None,
        digits: int = DIGITS,
    ):
        self.measure, self.threshold, self.residuals = measure, threshold, residuals
        # Weight, response, mean, linear predictor, rows; squares of the response. The response is counted from `origin`.
        self.scores = Histogram(upper, 6, digits)
        self.origin: float | None = 0.0 if measure.of_events else None
        self.rows = 0.0
        self.sums: Counter = Counter()
        self.mean, self.squares, self.weight_sum = 0.0, 0.0, 0.0

    def add(self, rows: Mapping[str, np.ndarray]) -> None:
        y, eta, weight, frequency = rows["response"], rows["eta"], rows["weight"], rows["frequency"]
        if not len(y):
            return
        mean = self.measure.mean(eta)
        self.rows += frequency.sum()
        if self.origin is None:
            self.origin = float(np.average(y, weights=weight))
        moved = y - self.origin
        self.scores.add(eta, [weight, weight * moved, weight * mean, weight * eta, frequency, weight * moved**2])
        self.sums.update(self.measure.sums(y, eta, mean, weight, self.threshold))
        # Chan, Golub & LeVeque 1983: the sum of squares about the mean, of parts.
        total, mean_y = weight.sum(), float(np.average(y, weights=weight))
        shift = mean_y - self.mean
        joint = self.weight_sum + total
        self.squares += float(weight @ (y - mean_y) ** 2) + shift**2 * self.weight_sum * total / joint
        self.mean += shift * total / joint
        self.weight_sum = joint
        if self.residuals:
            self.residuals.add(rows)

    def metrics(self, brief: bool = False) -> dict:
        """All single numbers; of a group, those that say something of it."""
        metrics = self.measure.metrics(self)
        if brief:
            return {name: value for name, value in metrics.items() if name not in self.measure.of_all_rows}
        return metrics

    def tables(self) -> dict:
        """The data of the pictures."""
        tables = {"calibration": self.calibration()}
        if self.measure.of_events and 0 < self.mean < 1:
            tables |= {"lift": self.lift(), "curve": self.curve()}
        return tables | (self.residuals.quantiles() if self.residuals else {})

    def calibration(self) -> list[dict]:
        """Rows in equal shares by their prediction: mean prediction and mean response, with a 95 % interval (Wilson's for a
        share, else the normal one)."""
        parts = []
        for weight, response, mean, _, rows, squares in self.scores.shares(self.scores.sums[:, 0], CALIBRATION_PARTS):
            if weight <= 0:
                continue
            moved = response / weight
            observed = moved + (self.origin or 0.0)
            lower, upper = self.measure.interval(observed, weight, rows, squares / weight - moved**2)
            parts.append(
                {
                    "rows": round(rows, 6),
                    "predicted": mean / weight,
                    "observed": observed,
                    "lower": lower,
                    "upper": upper,
                }
            )
        return parts

    def lift(self) -> list[dict]:
        """Tenths of the rows, the largest probabilities first."""
        share = self.scores.shares(self.scores.sums[:, 0], DECILES)[::-1]
        events = np.cumsum(share[:, 1]) / share[:, 1].sum()
        return [
            {
                "decile": number + 1,
                "rows": round(rows, 6),
                "predicted": mean / weight,
                "observed": response / weight,
                "lift": response / weight / self.mean,
                "share_of_events": float(events[number]),
            }
            for number, (weight, response, mean, _, rows, _) in enumerate(share)
        ]

    def curve(self) -> list[dict]:
        """Points of the ROC and the precision-recall curve, at most CURVE_POINTS: an event is predicted from `threshold` on."""
        weight, events = self.scores.sums[::-1, 0], self.scores.sums[::-1, 1]
        predicted, hits = np.cumsum(weight), np.cumsum(events)
        alarms, score = predicted - hits, self.scores.score[::-1]
        occupied = np.flatnonzero(weight > 0)
        chosen = np.unique(occupied[np.linspace(0, len(occupied) - 1, min(CURVE_POINTS, len(occupied))).astype(int)])
        return [
            {
                "threshold": float(expit(score[place])),
                "false_positive_rate": float(alarms[place] / alarms[-1]),
                "recall": float(hits[place] / hits[-1]),
                "precision": float(hits[place] / predicted[place]),
            }
            for place in chosen
        ]


class Residuals:
    """Response minus mean by size, but of events."""

    def __init__(self, measure: Measure, sample: Sequence[Mapping[str, np.ndarray]], bins: int):
        self.measure = measure
        residuals = np.concatenate([np.zeros(0), *map(self.of, sample)])
        digits = digits_of(residuals)
        self.histogram = Histogram(edges(residuals, bins, digits), 1, digits)

    def of(self, rows: Mapping[str, np.ndarray]) -> np.ndarray:
        return np.zeros(0) if self.measure.of_events else rows["response"] - self.measure.mean(rows["eta"])

    def add(self, rows: Mapping[str, np.ndarray]) -> None:
        residuals = self.of(rows)
        self.histogram.add(residuals, [rows["weight"][: len(residuals)]])

    def quantiles(self) -> dict:
        """Return the smallest residual such that at least this share of the weight is at or below it."""
        weight = self.histogram.sums[:, 0]
        if not weight.any():
            return {}
        places = np.searchsorted(np.cumsum(weight) / weight.sum(), np.array(QUANTILES) - 1e-12)
        return {
            "residual_quantiles": {
                f"{share:g}": float(self.histogram.score[place]) for share, place in zip(QUANTILES, places, strict=True)
            }
        }
