"""The levels of the rows of a file: what its codes mean, as numbers of the levels of a design."""

from functools import lru_cache

import numpy as np
import polars as pl

from tfglm.data.dictionary import VALUE_TYPES, written
from tfglm.data.shards import IngestedFile
from tfglm.design.factors import Categorical


def levels_by_code(factor: Categorical, file: IngestedFile, otherwise: int) -> np.ndarray:
    """Return the level number of each code of a column of a file, int32; code 0 is a missing value.

    Parameters
    ----------
    factor
        The factor of the column.
    file
        The file with the codes.
    otherwise
        The number for values without a level.
    """
    values = file.values(file.codes(factor.column).name)
    texts = written(values.cast(VALUE_TYPES[factor.column_kind])).alias("value").to_frame()
    levels = texts.join(_table(factor), on="value", how="left", maintain_order="left")["level"]
    return np.append(np.int32(factor.level_of_missing(otherwise)), levels.fill_null(otherwise).to_numpy())


@lru_cache(maxsize=64)
def _table(factor: Categorical) -> pl.DataFrame:
    """The number of the level that each value has."""
    known = {value: number for value, number in factor.numbers.items() if value is not None}
    columns = {"value": list(known), "level": list(known.values())}
    return pl.DataFrame(columns, {"value": pl.String, "level": pl.Int32})
