"""A fitted model as a TensorFlow checkpoint, `tf.train.load_checkpoint` of which has a variable for each of its arrays."""

from pathlib import Path

import numpy as np

from tfglm import bundle, digests
from tfglm.design.design import Design
from tfglm.errors import UserError
from tfglm.inference.fitted import Fitted
from tfglm.inference.stored import arrays, restored

PREFIX, NETWORK = "fitted", "network"
"""The first part of the names of the files, for a regression and for a network."""

BY_TERM = ("coefficients", "status", "rows", "responses")
"""Attributes with a variable for each term: `coefficients/<term>` ..."""


def save(fitted: Fitted, design: Design, folder: Path) -> None:
    """Write a checkpoint into `folder`. Numbers keep their types: float64 and whole numbers."""
    values = arrays(fitted)
    for name in BY_TERM:
        whole = values.pop(name)
        values |= {f"{name}/{term}": whole[where] for term, where in design.slices.items()}
    bundle.write(values, folder / PREFIX)
    # The file named "checkpoint", by which tf.train.load_checkpoint(folder) finds the newest prefix.
    (folder / "checkpoint").write_text(
        f'model_checkpoint_path: "{PREFIX}"\nall_model_checkpoint_paths: "{PREFIX}"\n', encoding="utf-8"
    )


def load(design: Design, folder: Path) -> Fitted:
    """Read what `save` wrote. Raises UserError as `bundle.read` does, and for a checkpoint of another design."""
    stored = bundle.read(folder / PREFIX)
    try:
        by_term = {name: np.concatenate([stored[f"{name}/{term}"] for term in design.slices]) for name in BY_TERM}
        return restored(Fitted, stored | by_term)
    except KeyError as error:
        raise UserError(f"{folder}: the checkpoint has no variable {error}\n  {digests.remedy(folder)}") from error
