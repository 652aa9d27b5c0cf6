"""Predictions and metrics for a response with several classes; one table of true and predicted classes and the sum of the
log loss determine all metrics."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from tfglm.data.shards import IngestedFile
from tfglm.design.design import Design
from tfglm.engine.evaluated import rows_of_design
from tfglm.engine.outcomes import outcomes_of, parts_of_equations
from tfglm.engine.workload import Workload
from tfglm.families import Family
from tfglm.families.multinomial import Multinomial
from tfglm.inference.fitted import Fitted
from tfglm.results.measures import whole
from tfglm.results.predict import Scored, design_rows, score, tables

FAMILY = Multinomial()


def predicted(scored: Scored, classes: Sequence[str], family: Family = FAMILY) -> dict[str, pa.Array]:
    """The columns of predictions: `predicted`, the class with the largest probability, and `probability[<class>]` of each;
    missing where a row has no prediction. Ordered classes have the `expected` class too, the mean of `values_of` them."""
    known = scored.rows["flag"] >= 0
    probabilities = np.full((len(known), len(classes)), np.nan)
    probabilities[known] = family.mean(scored.rows["eta"][known].reshape(-1, len(classes)))
    expected = probabilities @ values_of(classes) if family.is_ordered else None
    largest = pa.array(probabilities.argmax(axis=1), mask=~known)
    return {
        "predicted": pa.array(classes, pa.string()).take(largest),
        **({"expected": pa.array(expected, from_pandas=True)} if expected is not None else {}),
        **{
            f"probability[{name}]": pa.array(of_class, from_pandas=True)
            for name, of_class in zip(classes, probabilities.T, strict=True)
        },
    }


def predictions(
    design: Design, fitted: Fitted, file: IngestedFile, unseen: Mapping[str, int], identity: Sequence[str]
) -> Iterator[pa.Table]:
    """Predict the rows of the split `predict` of a file with a regression of classes: as `predict.predictions`, with the columns
    of `predicted` and `errors_of_probabilities`."""
    covariates, family = design.to_predict, design.distribution
    scored = score(Workload(covariates, [file], "predict", unseen=unseen), fitted, rows_of_design)

    def estimate(rows: Scored) -> dict[str, pa.Array]:
        return predicted(rows, design.likelihood.class_labels, family) | errors_of_probabilities(design, fitted, rows)

    return tables(covariates, file, identity, scored, estimate)


def errors_of_probabilities(design: Design, fitted: Fitted, scored: Scored) -> dict[str, pa.Array]:
    """The columns `std_error[<class>]`: the standard error of the probability of each class, by the delta method; missing where
    a row has no prediction, and in a fit without standard errors."""
    known, labels = scored.rows["flag"] >= 0, design.likelihood.class_labels
    errors = np.full((len(labels), len(known)), np.nan)
    if fitted.covariance.is_known and not design.penalty.given and known.any():
        groups, multipliers = scored.rows["groups"][known], scored.rows["multipliers"][known]
        outcomes = outcomes_of(design.distribution, scored.rows["eta"][known], np.ones(len(groups)))
        equations, factors = parts_of_equations(design), np.empty(multipliers.shape)
        for number, error in enumerate(errors):
            for equation, parts in equations.items():
                factors[:, parts] = outcomes.slope(number, equation)[:, None]
            moved = {"groups": groups, "multipliers": multipliers * factors}
            rows = design_rows(design, moved, np.ones(len(groups), bool))
            unseen = fitted.covariance.reference(rows, exactly=False).unseen
            error[known] = np.where(unseen, np.nan, np.sqrt(np.maximum(fitted.covariance.variances(rows).chosen, 0.0)))
    return {f"std_error[{name}]": pa.array(error, from_pandas=True) for name, error in zip(labels, errors, strict=True)}


def values_of(classes: Sequence[str]) -> np.ndarray:
    """The numbers that ordered classes stand for, [classes]: themselves if they are whole numbers, else 1, 2, ..."""
    if all(name.removeprefix("-").isdecimal() for name in classes):
        return np.array([float(name) for name in classes])
    return np.arange(1.0, len(classes) + 1)


class ClassTally:
    """The sums that determine the metrics of some rows; `confusion` [true classes, predicted classes] has sums of weights."""

    def __init__(self, classes: Sequence[str], family: Family = FAMILY) -> None:
        self.classes, self.rows, self._family = classes, 0.0, family
        self.confusion = np.zeros((len(classes), len(classes)))
        self.log_loss = self.ranked = 0.0

    def add(self, rows: Mapping[str, np.ndarray]) -> None:
        """Rows with `eta` [rows, classes], `response`, the number of the class, and `weight`."""
        eta, response, weight = rows["eta"].reshape(-1, len(self.classes)), rows["response"], rows["weight"]
        self.rows += rows["frequency"].sum()
        self.log_loss += float(weight @ self._family.loss(eta, response))
        if not self._family.is_ordered:
            np.add.at(self.confusion, (response.astype(int), eta.argmax(axis=1)), weight)
            return
        probabilities = self._family.mean(eta)
        np.add.at(self.confusion, (response.astype(int), probabilities.argmax(axis=1)), weight)
        happened = response[:, None] <= np.arange(len(self.classes))
        distance = np.sum((np.cumsum(probabilities, axis=1) - happened)[:, :-1] ** 2, axis=1)
        self.ranked += float(weight @ distance) / (len(self.classes) - 1)

    def metrics(self, brief: bool = False) -> dict:
        """All single numbers. The null accuracy is that of whoever always says the class that most of these rows have."""
        weight, true = self.confusion.sum(), self.confusion.sum(axis=1)
        ranked = {"ranked_probability_score": self.ranked / float(weight)} if self._family.is_ordered else {}
        return {
            "log_loss": self.log_loss / float(weight),
            **ranked,
            "accuracy": float(np.trace(self.confusion) / weight),
            "null_accuracy": float(true.max() / weight),
        }

    def tables(self) -> dict:
        """The metrics of each class against all others, and the confusion matrix, a row a true class."""
        hits, support, called = np.diag(self.confusion), self.confusion.sum(axis=1), self.confusion.sum(axis=0)
        classes = [
            {
                "class": name,
                "support": whole(support[number]),
                "predicted": whole(called[number]),
                "precision": share(hits[number], called[number]),
                "recall": share(hits[number], support[number]),
                "f1": share(2 * hits[number], called[number] + support[number]),
            }
            for number, name in enumerate(self.classes)
        ]
        return {"classes": classes, "confusion": [[whole(cell) for cell in row] for row in self.confusion]}


def share(part: float, of: float) -> float | None:
    """None where there is nothing to have a share of."""
    return float(part / of) if of else None
