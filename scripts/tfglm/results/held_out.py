"""Which of two models predicts the held-out rows better, and with what uncertainty: the bootstrap of groups of rows."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from tfglm.results.compare import ComparedModel, responses

LOSSES = {
    "log_loss": ("log loss", 1),
    "mean_poisson_deviance": ("mean Poisson deviance", 1),
    "rmse": ("mean squared error", 2),
}
"""Metrics for comparing models: their names in the table, and the power that makes them a mean over rows."""

RESAMPLES = 10_000
SEED = 1
"""Seed of the bootstrap: the same metrics give the same interval."""

FEWEST_GROUPS = 20
"""With fewer the interval of the bootstrap is too short (Cameron, Gelbach & Miller 2008)."""

COLUMNS = ("model", "against", "metric", "resampled_by", "groups", "difference", "ci_lower", "ci_upper")


def differences(models: Sequence[ComparedModel]) -> pd.DataFrame:
    """Return by how much the mean loss of each model exceeds that of the first; below 0 it predicts better. The models have
    the metrics of the same rows, by the same columns (`by`).

    A row for each other model and each column in both of their `by`, with COLUMNS. The 95 % interval has percentiles of the
    paired bootstrap. It draws whole groups of rows with the same value of the column, because rows of a date are alike
    (Davison & Hinkley 1997, 3.8). It is empty with fewer than FEWEST_GROUPS groups. The table has no rows for a model of
    another response, or if the models have weights or trials, because the metrics do not contain the weights of groups.
    """
    first, *others = models
    lines: list[tuple] = []
    weighted = any(first.fit["provenance"]["model"].get(key) for key in ("weights", "frequency", "trials"))
    for other in () if weighted else others:
        if len(responses([first, other])) > 1:
            continue
        metric = next((key for key in LOSSES if key in first.metrics and key in other.metrics), "")
        for column in first.metrics.get("by", {}) if metric else ():
            if column in other.metrics.get("by", {}):
                names = other.name, first.name, LOSSES[metric][0], column
                lines.extend((*names, *line) for line in _compared(first.metrics, other.metrics, metric, column))
    return pd.DataFrame(lines, columns=list(COLUMNS))


def _compared(base: Mapping, other: Mapping, metric: str, column: str) -> Iterator[tuple]:
    """Number of groups, difference and interval, if both models have the same rows."""
    (rows, mine), (of_other, theirs) = (_losses(metrics["by"][column], metric) for metrics in (base, other))
    if not np.array_equal(rows, of_other) or base["rows"] != other["rows"]:
        return
    difference = theirs - mine
    lower, upper = interval(rows, difference) if len(rows) >= FEWEST_GROUPS else (np.nan, np.nan)
    yield len(rows), float(difference.sum() / rows.sum()), lower, upper


def _losses(groups: Sequence[Mapping], metric: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows, and the sum of the loss, of each group, [groups]."""
    rows = np.array([group["rows"] for group in groups], float)
    _, power = LOSSES[metric]
    return rows, rows * np.array([group[metric] for group in groups], float) ** power


def interval(rows: np.ndarray, sums: np.ndarray, resamples: int = RESAMPLES) -> tuple[float, float]:
    """The 95 % interval of sum(sums) / sum(rows), [groups] each."""
    random = np.random.default_rng(SEED)
    drawn = random.multinomial(len(rows), np.full(len(rows), 1 / len(rows)), size=resamples)
    lower, upper = np.quantile((drawn @ sums) / (drawn @ rows), [0.025, 0.975])
    return float(lower), float(upper)
