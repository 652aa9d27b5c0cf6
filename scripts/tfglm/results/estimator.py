"""A regression as an estimator of scikit-learn, fitted or to be fitted: for partial dependence and permutation importance, and in
`cross_val_score`, `Pipeline` and `GridSearchCV`."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import Tags, check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

import tfglm
from tfglm.errors import UserError
from tfglm.families.binomial import Binomial
from tfglm.families.gaussian import Gaussian
from tfglm.formula.response import response_text
from tfglm.results import unseen as unseen_levels

FORBIDDEN = ("trials", "offset_from")
"""Keys with which a response has more than one column, or a model needs another."""


class FormulaEstimator(BaseEstimator):
    """The base of both estimators. scikit-learn's conventions name parameters and attributes.

    Parameters
    ----------
    formula
        As in `tfglm.fit`; None for all columns, each as a number or a factor.
    family
        A family of the config.
    keys
        Other keys of a model, as in `tfglm.fit`. `set_params(l2=0.1)` and the grid of a search set single ones too.
    unseen
        What to predict for a level that no training row has: `missing` refuses the rows.

    Attributes
    ----------
    model_
        The result of `tfglm.fit`.
    """

    model_: Any

    def __init__(
        self,
        formula: str | None = None,
        family: str = Gaussian.name,
        keys: Mapping[str, Any] | None = None,
        unseen: unseen_levels.Policy = "missing",
    ) -> None:
        self.formula, self.family, self.keys, self.unseen = formula, family, keys, unseen

    @classmethod
    def fitted(cls, model: Any, unseen: unseen_levels.Policy, columns: list[str]) -> "FormulaEstimator":
        """Return the estimator of a `model.Model`; its predictions read these columns."""
        said = model.fit["provenance"]["model"]
        # A subset is in what is derived, too: a frequency of 0 elsewhere.
        keys = {
            name: value for name, value in said.items() if name not in ("formula", "family", "subset", "instruments")
        }
        of_data = {name: model.fit["provenance"].get("data", {}).get(name) for name in ("order", "rare", "derive")}
        keys |= {name: value for name, value in of_data.items() if value}
        made = cls(model.fit["formula"], model.fit["family"], keys, unseen)
        made.model_, made.feature_names_in_, made.n_features_in_ = model, np.array(columns, object), len(columns)
        return made

    def set_params(self, **params: Any) -> "FormulaEstimator":
        """Set parameters by name. Other names belong to `keys`."""
        own = self._get_param_names()
        super().set_params(**{name: value for name, value in params.items() if name.partition("__")[0] in own})
        if keys := {name: value for name, value in params.items() if name.partition("__")[0] not in own}:
            self.keys = {**(self.keys or {}), **keys}
        return self

    def _fit(self, X: Any, y: np.ndarray) -> None:
        """Fit a frame or a checked array to a response."""
        formula, family, keys = self.formula, self.family, dict(self.keys or {})
        response = response_text(formula) if formula else "y"
        if not response.isidentifier() or any(keys.get(name) for name in FORBIDDEN):
            what = "has trials or an offset of another model" if response.isidentifier() else f"computes `{response}`"
            raise UserError(f"estimator: the model {what}, so y cannot be its response; fit it by `tfglm.fit`")
        frame = self._named(X)
        if "derive" in keys:
            keys["derive"] = {
                name: sql for name, sql in keys["derive"].items() if name not in frame and name != response
            }
        if not formula:
            while response in frame:
                response += "_"
            formula = f"{response} ~ {' + '.join(frame.columns)}"
        self.model_ = tfglm.fit(formula, frame.assign(**{response: y}), family, **keys)

    def _named(self, X: Any) -> pd.DataFrame:
        """The columns as a frame. Columns of an array are called x0, x1, ..., as scikit-learn does."""
        names = list(X.columns) if isinstance(X, pd.DataFrame) else [f"x{place}" for place in range(X.shape[1])]
        if not self.formula and not all(isinstance(name, str) and name.isidentifier() for name in names):
            names = [f"x{place}" for place in range(len(names))]
        return pd.DataFrame(X).set_axis(names, axis=1)

    def _checked(self, X: Any, y: Any) -> tuple[Any, np.ndarray]:
        """Check X and y by the rules of scikit-learn; a frame may have text."""
        if not isinstance(X, pd.DataFrame):
            return validate_data(self, X, y, ensure_min_samples=2)
        if y is None:
            raise ValueError("y cannot be None: this estimator needs the response")
        validate_data(self, X, skip_check_array=True)
        y = column_or_1d(y, warn=True)
        if len(X) != len(y):
            raise ValueError(f"Found input variables with inconsistent numbers of samples: {[len(X), len(y)]}")
        return X, y

    def _predicted(self, X: Any) -> pd.DataFrame:
        """Raises UserError for a row without a prediction: scikit-learn takes no missing values."""
        check_is_fitted(self, "model_")
        if self.formula and not isinstance(X, pd.DataFrame) and hasattr(self, "feature_names_in_"):
            raise UserError(f"give a pandas DataFrame, whose columns have names: {', '.join(self.feature_names_in_)}")
        if not self.formula or not isinstance(X, pd.DataFrame):
            X = validate_data(self, X, reset=False, skip_check_array=isinstance(X, pd.DataFrame))
            X = X if isinstance(X, pd.DataFrame) else check_array(X)
        table = self.model_.predict(self._named(X), unseen=self.unseen)
        if lacking := table["remark"].dropna().to_list():
            hint = '; with `unseen="reference"` they get one' if lacking[0].startswith("unseen") else "; leave them out"
            raise UserError(f"{len(lacking):,} rows have no prediction, the first: {lacking[0]}{hint}")
        return table


class FormulaRegressor(RegressorMixin, FormulaEstimator):
    """A model of a number, or of the share of events. `predict` returns its mean [rows]."""

    def fit(self, X: Any, y: Any = None) -> "FormulaRegressor":
        """Fit columns [rows, columns] to a response [rows]. Raises UserError for what `tfglm.fit` refuses."""
        X, y = self._checked(X, y)
        self._fit(X, np.asarray(y, float))
        return self

    def predict(self, X: Any) -> np.ndarray:
        table = self._predicted(X)
        return table["mean" if "mean" in table else "probability"].to_numpy()


class FormulaClassifier(ClassifierMixin, FormulaEstimator):
    """A model of two classes (binomial), or of several (multinomial, ordinal), in the order of `classes_`."""

    classes_: np.ndarray

    def __init__(
        self,
        formula: str | None = None,
        family: str = Binomial.name,
        keys: Mapping[str, Any] | None = None,
        unseen: unseen_levels.Policy = "missing",
    ) -> None:
        super().__init__(formula, family, keys, unseen)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self.family != Binomial.name
        return tags

    def fit(self, X: Any, y: Any = None) -> "FormulaClassifier":
        """Fit columns [rows, columns] to classes [rows]. The second of two classes is the event. Raises UserError for what
        `tfglm.fit` refuses."""
        X, y = self._checked(X, y)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) > 2 and self.family == Binomial.name:
            raise ValueError(
                f"Only binary classification is supported. The type of the target is {type_of_target(y)}: "
                "for several classes the family is `multinomial`"
            )
        if len(self.classes_) < 2:
            raise ValueError(f"y has 1 class, {self.classes_[0]}: a classifier needs rows of two or more")
        self._fit(X, codes if self.family == Binomial.name else self.classes_.astype(str)[codes])
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class [rows, classes]."""
        table = self._predicted(X)
        if "probability" in table:
            return np.column_stack([1 - table["probability"], table["probability"]])
        return table[[f"probability[{name}]" for name in self.classes_]].to_numpy()

    def predict(self, X: Any) -> np.ndarray:
        """The class with the largest probability [rows]."""
        shares = self.predict_proba(X)
        return self.classes_[shares.argmax(axis=1)]
