"""Which of two models predicts the rows kept back better, and how surely: the bootstrap of groups of rows."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from tfglm.results.compare import Model, responses

LOSSES = {
    "log_loss": ("log loss", 1),
    "mean_poisson_deviance": ("mean Poisson deviance", 1),
    "rmse": ("mean squared error", 2),
}
"""Metrics of which one judges a model: what the table calls them, and the power that makes them a mean over rows."""

RESAMPLES = 10_000
SEED = 1
"""The same metrics give the same interval."""

FEWEST_GROUPS = 20
"""With fewer the interval of the bootstrap is too short (Cameron, Gelbach & Miller 2008)."""

COLUMNS = ("model", "against", "metric", "resampled_by", "groups", "difference", "ci_lower", "ci_upper")


def differences(models: Sequence[Model]) -> pd.DataFrame:
    """How much larger the mean loss of each model is than that of the first, less than 0 where it predicts better.

    Parameters
    ----------
    models
        With the metrics of the same rows, by the same columns (`by`).

    Returns
    -------
    A row for each other model and each column in both of their `by`, with COLUMNS. The 95 % interval is of percentiles of the
    paired bootstrap, which draws whole groups of rows, those with the same value of the column (Davison & Hinkley 1997, 3.8):
    rows of a date are alike. It is empty with less than FEWEST_GROUPS groups. There are no rows for a model of another
    response, nor if the models have weights or trials, as the metrics do not say what a group weighs.
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
