"""Fits of one design to the rows of one file, read once, for responses that are drawn again and again."""

from dataclasses import replace

import numpy as np
import pandas as pd

from pools import design_of, estimates_of, ingest_frame
from tfglm.config import SolverConfig
from tfglm.data.dictionary import merge
from tfglm.distribute.local import LocalExecutor
from tfglm.engine.workload import Workload, padded
from tfglm.results.coefficients import Estimates
from tfglm.solvers import estimate
from tfglm.solvers.reporter import Reporter


class Drawn(Workload):
    """Training rows of one file whose response is `response` [rows] of the number that the column `row` has."""

    response = np.zeros(0)

    def answering(self, response: np.ndarray) -> "Drawn":
        """The same rows with other responses."""
        other = self._changed(self.excluded, self.share)
        other.response = response
        return other

    def _changed(self, excluded, share) -> "Drawn":
        other = Drawn(self.design, self.files, self.split, excluded, self.unseen, share)
        other._passes, other.response = self._passes, self.response
        return other

    def table(self, file, signature, key):
        made = super().table(file, signature, key)
        return padded([np.nan, *self.response], len(made), np.float64) if key == "number/row" else made


class Replicates:
    """The response column of the file is the number of the row; a replicate says what response each number stands for."""

    def __init__(self, frame: pd.DataFrame, formula: str, family: str, folder, **settings):
        frame = frame.assign(row=np.arange(len(frame)), y=np.arange(len(frame)) % 2)
        file = ingest_frame(frame, folder)
        # A response of 0 and 1 passes the checks; it gives way to the row's number.
        self.design = replace(design_of(f"y ~ {formula}", family, merge([file]), [file], **settings), response="row")
        self.workload = Drawn(self.design, [file], "train")
        self.executor = LocalExecutor()

    def estimates(self, response: np.ndarray) -> Estimates:
        """Those of a fit to these responses of the rows."""
        fitted = estimate.fit(self.workload.answering(response), self.executor, SolverConfig(), Reporter())
        return estimates_of(self.design, fitted)

    def fit(self, response: np.ndarray) -> np.ndarray:
        """Estimates, standard errors and classical ones, [3, coefficients]."""
        found = self.estimates(response)
        variances = found.fitted.variances(found.transform)
        return np.stack([found.values, np.sqrt(variances.chosen), np.sqrt(variances.classical)])[:, found.kept]
