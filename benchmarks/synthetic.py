"""A table like airline data without its meaning: 8 categorical columns with 8,801 levels in all, 3 numbers, a binary response.

Levels of the long columns are skewed as airports and tail numbers are. The coefficients are drawn from a seed of their own, so
tables of any size have the same.
"""

from pathlib import Path

import numpy as np
import polars as pl

LEVELS = {"carrier": 22, "month": 12, "day": 31, "weekday": 7, "hour": 29, "plane": 8000, "origin": 350, "dest": 350}
NUMBERS = ("departure", "arrival", "distance")
FORMULA = f"late ~ {' + '.join([*LEVELS, *NUMBERS])}"
FORMULA_WITHOUT_PLANE = FORMULA.replace("plane + ", "")
CHUNK = 1_000_000


def frame(rows: int, seed: int) -> pl.DataFrame:
    """So many rows, the same ones for the same seed."""
    random = np.random.default_rng(seed)
    codes = {}
    for name, levels in LEVELS.items():
        share = (
            np.ones(levels) if name in ("carrier", "month", "day", "weekday") else 1 / np.arange(1, levels + 1) ** 0.8
        )
        codes[name] = np.searchsorted(np.cumsum(share / share.sum()), random.random(rows)).clip(0, levels - 1)
    departure = random.uniform(0, 24, rows)
    arrival = (departure + random.gamma(3, 0.7, rows)) % 24
    numbers = dict(zip(NUMBERS, (departure, arrival, random.gamma(2, 0.35, rows)), strict=True))
    truth = np.random.default_rng(12345)
    eta = 0.5 * (departure - 12) / 7 - 0.2 * (arrival - 12) / 7 + 0.1 * (numbers["distance"] - 0.7) / 0.5 - 0.3
    for name, levels in LEVELS.items():
        eta += truth.normal(0, 0.3, levels)[codes[name]]
    late = (random.random(rows) < 1 / (1 + np.exp(-eta))).astype(np.int8)
    texts = {name: np.array([f"{name[0]}{level:04d}" for level in range(levels)]) for name, levels in LEVELS.items()}
    columns = {name: pl.Series(code.astype(np.uint32)) for name, code in codes.items()}
    frame = pl.DataFrame(
        {"late": late, **columns, **{name: value.astype(np.float32) for name, value in numbers.items()}}
    )
    return frame.with_columns(
        pl.col(name).replace_strict(list(range(len(texts[name]))), texts[name].tolist(), return_dtype=pl.Categorical)
        for name in LEVELS
    )


def write(path: Path, rows: int, seed: int = 1) -> None:
    """A Parquet file of so many rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    writer = None
    for number, first in enumerate(range(0, rows, CHUNK)):
        part = frame(min(CHUNK, rows - first), seed * 1000 + number)
        table = part.with_columns(pl.col(pl.Categorical).cast(pl.String)).to_arrow()
        writer = writer or pq.ParquetWriter(path, pa.schema(table.schema), use_dictionary=True)
        writer.write_table(table)
    writer.close()
