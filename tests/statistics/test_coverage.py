"""Do 95 % intervals cover the truth 95 % of the time? By fitting the same rows to responses drawn again and again."""

import numpy as np
import pandas as pd
import pytest
import scipy.special

from replicates import Replicates

ROWS = 2000


def covariates() -> pd.DataFrame:
    random = np.random.default_rng(1)
    carrier = random.choice(["AA", "B6", "DL", "UA"], ROWS, p=[0.4, 0.3, 0.2, 0.1])
    date = random.integers(0, 100, ROWS)
    weather = random.normal(size=100)
    return pd.DataFrame({"carrier": carrier, "hour": random.normal(size=ROWS), "date": date, "wind": weather[date]})


def linear_predictor(frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Of each row, and the coefficients behind it in the order of the table without the reference level."""
    effect = {"AA": 0.0, "B6": 0.4, "DL": -0.3, "UA": 0.6}
    eta = -0.4 + frame["carrier"].map(effect) + 0.5 * frame["hour"] - 0.2 * frame["wind"]
    return eta.to_numpy(), np.array([-0.4, 0.4, -0.3, 0.6, 0.5, -0.2])


@pytest.mark.slow
def test_intervals_cover_the_truth_as_often_as_they_say(tmp_path):
    frame = covariates()
    eta, truth = linear_predictor(frame)
    replicates = Replicates(frame, "carrier + hour + wind", "binomial", tmp_path)
    random = np.random.default_rng(2)
    mean = scipy.special.expit(eta)
    fits = [replicates.fit((random.random(ROWS) < mean).astype(float)) for _ in range(1000)]
    z = np.stack([(fit[0] - truth) / fit[1] for fit in fits])
    covered, spread = (np.abs(z) <= 1.959964).mean(0), z.std(0)
    assert np.all((covered >= 0.935) & (covered <= 0.965)), covered
    assert np.all((spread >= 0.95) & (spread <= 1.05)), spread
