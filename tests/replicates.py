"""Fits of one design to the same rows, read once, for responses that are drawn again and again."""

from dataclasses import replace

import numpy as np
import pandas as pd

from pools import design_of, estimates_of, ingest_frame
from tfglm.data.dictionary import merge
from tfglm.distribute.local import LocalExecutor
from tfglm.engine.rows import MISSING_VALUE
from tfglm.engine.workload import Workload
from tfglm.results.estimates import Estimates
from tfglm.solvers.fit import fit
from tfglm.solvers.run import Limits, Run

ROWS_OF_A_FILE = 60_000


class Drawn(Workload):
    """Training rows whose response is `response` [rows] of the number that the column `row` has."""

    response = np.zeros(0)

    def answering(self, response: np.ndarray) -> "Drawn":
        """The same rows with other responses."""
        other = self._changed()
        other.response = response
        return other

    def _changed(self, **changes) -> "Drawn":
        other = super()._changed(**changes)
        other.response = self.response
        return other

    def _classes(self, numbers: np.ndarray) -> np.ndarray:
        """The number of the class of each code, whose row `numbers` has."""
        rows = np.where(np.isfinite(numbers), numbers, 0).astype(int)
        return np.where(np.isfinite(numbers), self.response[rows], MISSING_VALUE).astype(np.int32)

    def table(self, file, signature, key):
        if key == "level/y":
            return self._classes(super().table(file, signature, "number/row"))
        table = super().table(file, signature, key)
        if key != "number/row":
            return table
        numbered = np.isfinite(table)
        table[numbered] = self.response[table[numbered].astype(int)]
        return table


class Replicates:
    """The response column of the file is the number of the row; a replicate says what response each number stands for, of
    `classes` the number of the class."""

    def __init__(
        self,
        frame: pd.DataFrame,
        formula: str,
        family: str,
        folder,
        classes: int = 0,
        limits: Limits | None = None,
        **settings,
    ):
        drawn = [f"class {number % classes}" for number in range(len(frame))] if classes else np.arange(len(frame)) % 2
        frame = frame.assign(row=np.arange(len(frame)), y=drawn)
        # A file with more different numbers would not store them as codes, for which a table says what they stand for.
        pieces = [frame[first : first + ROWS_OF_A_FILE] for first in range(0, len(frame), ROWS_OF_A_FILE)]
        files = [ingest_frame(piece, folder, f"rows_{number}") for number, piece in enumerate(pieces)]
        design = design_of(f"y ~ {formula}", family, merge(files), files, **settings)
        # A response of 0 and 1, or of classes, passes the checks; it gives way to the row's number.
        categorical = tuple(
            replace(factor, column="row") if factor.name == "y" else factor for factor in design.categorical
        )
        self.design = replace(design, categorical=categorical).with_roles(response="y" if classes else "row")
        self.workload = Drawn(self.design, files, "train")
        self.run = Run(LocalExecutor(), limits=limits or Limits())

    def estimates(self, response: np.ndarray) -> Estimates:
        """Those of a fit to these responses of the rows."""
        fitted = fit(self.workload.answering(response), self.run)
        return estimates_of(self.design, fitted)

    def fit(self, response: np.ndarray) -> np.ndarray:
        """Estimates, standard errors and classical ones, [3, coefficients]."""
        estimates = self.estimates(response)
        variances = estimates.fitted.covariance.variances(estimates.transform)
        return np.stack([estimates.values, np.sqrt(variances.chosen), np.sqrt(variances.classical)])[:, estimates.kept]
