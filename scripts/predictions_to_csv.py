"""Write predictions as a CSV file too, some rows at a time."""

import argparse
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from tfglm import command
from tfglm.results import csv_files


def main(arguments: argparse.Namespace) -> None:
    partial = arguments.csv.with_name(arguments.csv.name + ".partial")
    with pq.ParquetFile(arguments.predictions) as parquet, partial.open("w", newline="") as file:
        csv_files.write(parquet.schema_arrow.empty_table().to_pandas(), file)
        for batch in parquet.iter_batches():
            # A whole number stays one where others are missing.
            csv_files.write(batch.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get), file, header=False)
    partial.rename(arguments.csv)


if __name__ == "__main__":
    parser = command.parser(__doc__)
    parser.add_argument("--predictions", type=Path, required=True, help="Parquet file that predict.py wrote")
    parser.add_argument("--csv", type=Path, required=True, help="CSV file to write")
    command.run(main, parser.parse_args())
