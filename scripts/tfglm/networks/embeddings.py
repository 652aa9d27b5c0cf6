"""The embeddings of a trained network by the names of the levels; TensorFlow is not needed to read them."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import polars as pl

from tfglm.data.dictionary import used_levels
from tfglm.data.shards import IngestedFile
from tfglm.design.design import Design
from tfglm.design.factors import Categorical
from tfglm.design.levels import levels_by_code


def layer(design: Design, factor: str) -> str:
    """The name of the layer that has the embedding of a factor."""
    return f"embedding_{design.groupings.index((factor,))}"


def table(design: Design, weights: Mapping[str, np.ndarray], files: Sequence[IngestedFile]) -> pd.DataFrame:
    """The embedding of each level: columns `factor`, `level`, `rows` (the training rows with that level), and `dimension_1`,
    `dimension_2`, ..., empty beyond the dimensions of the factor. The weights are those that `bundle.read` returns."""
    parts = [pd.DataFrame({"factor": [], "level": [], "rows": []})]
    for grouping in design.groupings:
        points = weights.get(f"{layer(design, grouping[0])}/embeddings") if len(grouping) == 1 else None
        if points is not None:
            factor = design.categorical_by_name[grouping[0]]
            rows = rows_of_levels(factor, files, design.roles.required)
            named = pd.DataFrame({"factor": factor.name, "level": factor.levels, "rows": rows})
            dimensions = {f"dimension_{number}": column for number, column in enumerate(points.T, start=1)}
            parts.append(named.assign(**dimensions))
    return pd.concat(parts[1:] or parts, ignore_index=True)


def rows_of_levels(factor: Categorical, files: Sequence[IngestedFile], required: Sequence[str]) -> np.ndarray:
    """The training rows of each level, [levels]; those that lack a `required` value do not count."""
    rows = np.zeros(1 + len(factor.levels))  # the first place for values that have no level
    for file, levels in zip(files, levels_by_code(factor, files, -1), strict=True):
        used = used_levels([file], required, factor.column).filter(pl.col("split") == "train")
        rows += np.bincount(1 + levels[used["code"].to_numpy()], used["rows"].to_numpy(), len(rows))
    return rows[1:].astype(np.int64)
