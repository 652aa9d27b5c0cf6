"""Do 95 % intervals cover the truth 95 % of the time? By fitting the same rows to responses drawn again and again."""

from dataclasses import replace

import numpy as np
import pandas as pd
import scipy.special

from pools import InProcessPool, design_of, estimates_of, ingest_frame
from tfglm.config import SolverConfig
from tfglm.data.dictionary import merge
from tfglm.fit import estimate
from tfglm.fit.reporter import Reporter
from tfglm.model.workload import Workload, padded, table_keys

ROWS = 2000


class Replicates:
    """Fits of one design to the rows of one file, read once.

    The response column of the file is the number of the row; a replicate says what response each number stands for.
    """

    def __init__(self, frame: pd.DataFrame, formula: str, family: str, folder, **settings):
        frame = frame.assign(row=np.arange(len(frame)), y=np.arange(len(frame)) % 2)
        file = ingest_frame(frame, folder)
        # A response of 0 and 1 passes the checks; it gives way to the row's number.
        self.design = replace(design_of(f"y ~ {formula}", family, merge([file]), [file], **settings), response="row")
        self.workload = Workload(self.design, [file], "train")
        ((self.signature, self.calls),) = self.workload.calls.items()
        self.place = 4 + table_keys(self.design, self.signature).index("number/row")
        self.shape = self.calls[0][self.place].shape
        self.pool = InProcessPool()

    def fit(self, response: np.ndarray) -> np.ndarray:
        """Estimates, standard errors and classical ones of a fit to these responses of the rows, [3, coefficients]."""
        table = np.broadcast_to(padded([np.nan, *response], self.shape[1], np.float64), self.shape)
        calls = [(*call[: self.place], table, *call[self.place + 1 :]) for call in self.calls]
        self.workload.__dict__["calls"] = {self.signature: calls}
        fitted = estimate.fit(self.workload, self.pool, SolverConfig(), Reporter())
        found = estimates_of(self.design, fitted)
        variances = fitted.variances(found.transform)
        return np.stack([found.values, np.sqrt(variances.chosen), np.sqrt(variances.classical)])[:, found.kept]


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


def coverage(fits: list[np.ndarray], truth: np.ndarray, which: int) -> tuple[np.ndarray, np.ndarray]:
    """The share of intervals of 1.96 errors that hold the truth, and the standard deviation of (estimate - truth) / error."""
    z = np.stack([(fit[0] - truth) / fit[which] for fit in fits])
    return (np.abs(z) <= 1.959964).mean(0), z.std(0)


def test_intervals_cover_the_truth_as_often_as_they_say(tmp_path):
    frame = covariates()
    eta, truth = linear_predictor(frame)
    replicates = Replicates(frame, "carrier + hour + wind", "binomial", tmp_path)
    random = np.random.default_rng(2)
    mean = scipy.special.expit(eta)
    fits = [replicates.fit((random.random(ROWS) < mean).astype(float)) for _ in range(2000)]
    covered, spread = coverage(fits, truth, 1)
    assert np.all((covered >= 0.935) & (covered <= 0.965)), covered
    assert np.all((spread >= 0.95) & (spread <= 1.05)), spread


def test_where_rows_of_a_day_are_alike_only_errors_by_cluster_hold_up(tmp_path):
    frame = covariates()
    eta, truth = linear_predictor(frame)
    replicates = Replicates(frame, "carrier + hour + wind", "gaussian", tmp_path, std_errors="cluster(date)")
    random = np.random.default_rng(3)
    date = frame["date"].to_numpy()
    fits = [replicates.fit(eta + random.normal(size=100)[date] + random.normal(size=ROWS)) for _ in range(500)]
    covered, _ = coverage(fits, truth, 1)
    assert np.all((covered >= 0.93) & (covered <= 0.97)), covered
    classical, _ = coverage(fits, truth, 2)
    # What is the same for all flights of a day: the wind, and the intercept.
    assert classical[-1] < 0.7 and classical[0] < 0.8, classical
