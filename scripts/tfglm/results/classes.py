"""Predictions and metrics for a response with several classes; one table of true and predicted classes and the sum of the
log loss determine all metrics."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from tfglm.data.shards import IngestedFile
from tfglm.design.design import Design
from tfglm.engine.workload import Workload
from tfglm.families.multinomial import Multinomial
from tfglm.results.measures import whole
from tfglm.results.predict import Scored, score, tables
from tfglm.solvers.fitted import Fitted

FAMILY = Multinomial()


def predicted(scored: Scored, classes: Sequence[str]) -> dict[str, pa.Array]:
    """The columns of predictions: `predicted`, the class with the largest probability, and `probability[<class>]` of each;
    missing where a row has no prediction."""
    known = scored.rows["flag"] >= 0
    probabilities = np.full((len(known), len(classes)), np.nan)
    probabilities[known] = FAMILY.mean(scored.rows["eta"][known].reshape(-1, len(classes)))
    largest = pa.array(probabilities.argmax(axis=1), mask=~known)
    return {
        "predicted": pa.array(classes, pa.string()).take(largest),
        **{
            f"probability[{name}]": pa.array(of_class, from_pandas=True)
            for name, of_class in zip(classes, probabilities.T, strict=True)
        },
    }


def predictions(
    design: Design, fitted: Fitted, file: IngestedFile, unseen: Mapping[str, int], identity: Sequence[str]
) -> Iterator[pa.Table]:
    """Predict the rows of the split `predict` of a file with a regression of classes: as `predict.predictions`, with the columns
    of `predicted`, which have no standard errors."""
    covariates = design.to_predict
    scored = score(Workload(covariates, [file], "predict", unseen=unseen), fitted)
    return tables(covariates, file, identity, scored, lambda rows: predicted(rows, design.class_labels))


class ClassTally:
    """The sums that determine the metrics of some rows; `confusion` [true classes, predicted classes] has sums of weights."""

    def __init__(self, classes: Sequence[str]) -> None:
        self.classes, self.rows = classes, 0
        self.confusion = np.zeros((len(classes), len(classes)))
        self.log_loss = 0.0

    def add(self, rows: Mapping[str, np.ndarray]) -> None:
        """Rows with `eta` [rows, classes], `response`, the number of the class, and `weight`."""
        eta, response, weight = rows["eta"].reshape(-1, len(self.classes)), rows["response"], rows["weight"]
        self.rows += len(response)
        self.log_loss += float(weight @ FAMILY.loss(eta, response))
        np.add.at(self.confusion, (response.astype(int), eta.argmax(axis=1)), weight)

    def metrics(self, brief: bool = False) -> dict:
        """All single numbers. The null accuracy is that of whoever always says the class that most of these rows have."""
        weight, true = self.confusion.sum(), self.confusion.sum(axis=1)
        return {
            "log_loss": self.log_loss / float(weight),
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
