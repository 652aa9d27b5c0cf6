"""A fitted model as a TensorFlow checkpoint, `tf.train.load_checkpoint` of which has a variable for each of its arrays."""

from pathlib import Path
from typing import Any

import numpy as np

from tfglm import bundle, digests
from tfglm.design.design import Design
from tfglm.errors import UserError
from tfglm.inference.fitted import Fitted, FittedPath, SeparatedRows
from tfglm.inference.stored import arrays, covariance_arrays, covariance_from, inside, restored

PREFIX, NETWORK = "fitted", "network"
"""The first part of the names of the files, for a regression and for a network."""

BY_TERM = ("coefficients", "status", "rows", "responses")
"""Attributes with a variable for each term: `coefficients/<term>` ..."""


def save(fitted: Fitted, design: Design, folder: Path) -> None:
    """Write a checkpoint into `folder`. Numbers keep their types: float64 and whole numbers."""
    values = {"null_vectors": fitted.null_vectors}
    values |= {f"covariance/{name}": value for name, value in covariance_arrays(fitted.covariance).items()}
    for name, part in (("separation", fitted.separation), ("path", fitted.path)):
        values |= {f"{name}/{each}": value for each, value in arrays(part).items()} if part else {}
    for name in BY_TERM:
        values |= {f"{name}/{term}": getattr(fitted, name)[where] for term, where in design.slices.items()}
    bundle.write(values, folder / PREFIX)
    # The file named "checkpoint", by which tf.train.load_checkpoint(folder) finds the newest prefix.
    (folder / "checkpoint").write_text(
        f'model_checkpoint_path: "{PREFIX}"\nall_model_checkpoint_paths: "{PREFIX}"\n', encoding="utf-8"
    )


def load(design: Design, folder: Path) -> Fitted:
    """Read what `save` wrote. Raises UserError as `bundle.read` does, and for a checkpoint of another design."""
    stored = bundle.read(folder / PREFIX)
    try:
        by_term: dict[str, Any] = {
            name: np.concatenate([stored[f"{name}/{term}"] for term in design.slices]) for name in BY_TERM
        }
        separation, path = inside(stored, "separation"), inside(stored, "path")
        return Fitted(
            **by_term,
            null_vectors=stored["null_vectors"],
            covariance=covariance_from(inside(stored, "covariance")),
            separation=restored(SeparatedRows, separation) if separation else None,
            path=restored(FittedPath, path) if path else None,
        )
    except KeyError as error:
        raise UserError(f"{folder}: the checkpoint has no variable {error}\n  {digests.remedy(folder)}") from error
