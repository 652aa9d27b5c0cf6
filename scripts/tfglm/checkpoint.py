"""A fitted model as a TensorFlow checkpoint, `tf.train.load_checkpoint` of which has a variable for each of its arrays."""

from pathlib import Path
from typing import Any

import numpy as np

from tfglm import bundle, digests
from tfglm.design.design import Design
from tfglm.errors import UserError
from tfglm.solvers.fitted import Fitted

PREFIX, NETWORK = "fitted", "network"
"""The first part of the names of the files, for a regression and for a network."""

BY_TERM = ("coefficients", "status", "rows", "responses")
"""Attributes with a variable for each term: `coefficients/<term>` ..."""

COVARIANCE = (
    *("dense", "eliminated", "schur_inverse", "loadings", "diagonal", "null_vectors", "dispersion"),
    *("correction", "meat_dense", "meat_mixed", "meat_diagonal", "scores"),
    *("cluster_scores", "cluster_information", "cluster_design", "cluster_constant", "cluster_rho"),
    *("score_columns", "score_signs", "cluster_sums", "cluster_within", "cluster_sizes", "lags"),
    *("null_schur_inverse", "null_loadings", "null_diagonal", "of_lambda", "penalty", "cluster_penalty"),
    *("random_penalties", "variance_root"),
)
"""Blocks with a variable `covariance/<block>`."""

SEPARATION = ("separating", "separated_rows")
"""Attributes with a variable `separation/<name>`, if terms separate rows together."""

PATH = ("penalties", "coefficients")
"""Attributes with a variable `path/<name>`."""


def save(fitted: Fitted, design: Design, folder: Path) -> None:
    """Write a checkpoint into `folder`. Numbers keep their types: float64 and whole numbers."""
    values = {f"covariance/{name}": getattr(fitted, name) for name in COVARIANCE}
    values |= {f"path/{name}": getattr(fitted, f"path_{name}") for name in PATH}
    if len(fitted.separating):
        values |= {f"separation/{name}": getattr(fitted, name) for name in SEPARATION}
    for name in BY_TERM:
        values |= {f"{name}/{term}": getattr(fitted, name)[where] for term, where in design.slices.items()}
    bundle.write(values, folder / PREFIX)
    # The file named "checkpoint", by which tf.train.load_checkpoint(folder) finds the newest prefix.
    (folder / "checkpoint").write_text(
        f'model_checkpoint_path: "{PREFIX}"\nall_model_checkpoint_paths: "{PREFIX}"\n', encoding="utf-8"
    )


def load(design: Design, folder: Path) -> Fitted:
    """Read what `save` wrote. Raises UserError as `bundle.read` does, and for a checkpoint of another design."""
    arrays = bundle.read(folder / PREFIX)
    try:
        by_term: dict[str, Any] = {
            name: np.concatenate([arrays[f"{name}/{term}"] for term in design.slices]) for name in BY_TERM
        }
        of_path: dict[str, Any] = {f"path_{name}": arrays[f"path/{name}"] for name in PATH}
        covariance: dict[str, Any] = {name: arrays[f"covariance/{name}"] for name in COVARIANCE}
        separation: dict[str, Any] = {"separating": np.zeros((0, design.size))}
        if "separation/separating" in arrays:
            separation = {name: arrays[f"separation/{name}"] for name in SEPARATION}
        return Fitted(**by_term, **of_path, **covariance, **separation)
    except KeyError as error:
        raise UserError(f"{folder}: the checkpoint has no variable {error}\n  {digests.remedy(folder)}") from error
