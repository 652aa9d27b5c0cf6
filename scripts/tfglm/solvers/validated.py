"""What a cross-validation has found: a deviance for each penalty, with its error, and the penalty that a rule chooses."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class CrossValidation:
    """`by_fold` [folds, penalties] is the mean deviance of a row of each fold, `weights` [folds] those of their rows, `rows`
    [folds] how many they are; `not_converged` counts the points whose fit has not."""

    by_fold: np.ndarray
    weights: np.ndarray
    rows: np.ndarray
    not_converged: int

    @property
    def mean(self) -> np.ndarray:
        """[penalties]"""
        return np.average(self.by_fold, axis=0, weights=self.weights)

    @property
    def std_error(self) -> np.ndarray:
        """[penalties]"""
        squares = np.average((self.by_fold - self.mean) ** 2, axis=0, weights=self.weights)
        return np.sqrt(squares / (len(self.weights) - 1))

    def chosen(self, rule: str) -> int:
        """The number of the penalty, of which the first is the strongest: that with the least deviance, or the strongest whose
        deviance is within one standard error of it."""
        mean = self.mean
        best = int(np.argmin(mean))
        return int(np.argmax(mean <= mean[best] + self.std_error[best])) if rule == "one_se" else best
