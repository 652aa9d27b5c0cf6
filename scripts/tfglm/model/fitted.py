"""A fitted model as a TensorFlow checkpoint: variables named after the terms, the covariance in block form."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import tensorflow as tf

from tfglm.model.design import Design

FREE, REFERENCE, ALIASED, SEPARATED, EMPTY = range(5)
"""What a coefficient is in the fit. REFERENCE and ALIASED are held at 0 there, SEPARATED has no finite estimate, EMPTY no
rows once the rows of separated levels have left the likelihood."""


@dataclass(frozen=True)
class Fitted:
    """Estimates and covariance on the scale of the fit (numeric terms centred and scaled as in the design).

    Shapes, with p coefficients, of which q dense and m eliminated ones are free:
    `coefficients`, `status`, `rows`, `responses` (sum of the response by level; 0 for terms without levels) [p];
    `dense` [q] and `eliminated` [m], positions of the free ones; `schur_inverse` [q, q]; `loadings` = B D^-1 [q, m];
    `diagonal` = D [m]; `null_vectors` [aliases, p]. The covariance is dispersion * the inverse information matrix.
    """

    coefficients: np.ndarray
    status: np.ndarray
    rows: np.ndarray
    responses: np.ndarray
    dense: np.ndarray
    eliminated: np.ndarray
    schur_inverse: np.ndarray
    loadings: np.ndarray
    diagonal: np.ndarray
    null_vectors: np.ndarray
    dispersion: float
    summary: dict = field(default_factory=dict)


_BY_TERM = ("coefficients", "status", "rows", "responses")
_COVARIANCE = ("dense", "eliminated", "schur_inverse", "loadings", "diagonal", "null_vectors", "dispersion")


def save(fitted: Fitted, design: Design, folder: Path) -> None:
    """Write a checkpoint into `folder`: `coefficients/<term>`, `rows/<term>` ..., `covariance/<block>`.

    SaveV2 gives the variables just these names; tf.train.Checkpoint would add the path of a Python object to each.
    """
    values = {f"covariance/{name}": getattr(fitted, name) for name in _COVARIANCE}
    for name in _BY_TERM:
        values |= {f"{name}/{term}": getattr(fitted, name)[where] for term, where in design.slices.items()}
    folder.mkdir(parents=True, exist_ok=True)
    tf.raw_ops.SaveV2(
        prefix=str(folder / "fitted"),
        tensor_names=list(values),
        shape_and_slices=[""] * len(values),
        tensors=[tf.constant(value) for value in values.values()],
    )
    # The file named "checkpoint", by which tf.train.load_checkpoint(folder) finds the newest prefix.
    (folder / "checkpoint").write_text('model_checkpoint_path: "fitted"\nall_model_checkpoint_paths: "fitted"\n')


def load(design: Design, folder: Path) -> Fitted:
    """Read what `save` wrote."""
    reader = tf.train.load_checkpoint(str(folder))
    by_term = {
        name: np.concatenate([reader.get_tensor(f"{name}/{term}") for term in design.slices]) for name in _BY_TERM
    }
    return Fitted(**by_term, **{name: reader.get_tensor(f"covariance/{name}") for name in _COVARIANCE})
