"""A fitted model as an estimator of scikit-learn, for its tools that look at predictions: partial dependence, permutation
importance, calibration curves."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from tfglm.errors import UserError

Predict = Callable[[pd.DataFrame], pd.DataFrame]
"""`model.Model.predict`."""


class FittedEstimator(BaseEstimator):
    """What estimators of both kinds have: a function that predicts a frame, and the columns that it reads. scikit-learn's
    conventions name the attributes."""

    def __init__(self, predicting: Predict, columns: list[str]) -> None:
        self.predicting, self.columns = predicting, columns

    @property
    def feature_names_in_(self) -> np.ndarray:
        return np.array(self.columns, dtype=object)

    @property
    def n_features_in_(self) -> int:
        return len(self.columns)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, *_: Any, **__: Any) -> "FittedEstimator":
        """Raises UserError: the workflow fits."""
        raise UserError(
            "the workflow has fitted this model, and scikit-learn cannot fit it again; change the config instead"
        )

    def _predicted(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Raises UserError for a row without a prediction: scikit-learn takes no missing values."""
        if not isinstance(frame, pd.DataFrame):
            raise UserError(f"give a pandas DataFrame, whose columns have names: {', '.join(self.columns)}")
        table = self.predicting(frame)
        if lacking := table["remark"].dropna().to_list():
            raise UserError(f"{len(lacking):,} rows have no prediction, the first: {lacking[0]}; leave them out")
        return table


class FittedRegressor(RegressorMixin, FittedEstimator):
    """A model of a number, or of the share of events. `predict` returns its mean [rows]."""

    def predict(self, X: pd.DataFrame) -> np.ndarray:
        table = self._predicted(X)
        return table["mean" if "mean" in table else "probability"].to_numpy()


class FittedClassifier(ClassifierMixin, FittedEstimator):
    """A model of 0 and 1, or of several classes, in the order of `classes_`."""

    def __init__(self, predicting: Predict, columns: list[str], classes: list[Any]) -> None:
        super().__init__(predicting, columns)
        self.classes = classes

    @property
    def classes_(self) -> np.ndarray:
        return np.array(self.classes)

    def predict_proba(self, X: pd.DataFrame) -> np.ndarray:
        """The probability of each class [rows, classes]."""
        table = self._predicted(X)
        if "probability" in table:
            return np.column_stack([1 - table["probability"], table["probability"]])
        return table[[f"probability[{name}]" for name in self.classes]].to_numpy()

    def predict(self, X: pd.DataFrame) -> np.ndarray:
        """The class with the largest probability [rows]."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]
