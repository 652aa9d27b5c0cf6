"""The page of the scores: what each model predicts of the files under `score`."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from markupsafe import Markup
from pyarrow import parquet

from tfglm.errors import counted
from tfglm.report.pages import cell, render
from tfglm.report.table_one import histogram
from tfglm.results.digits import four_that_count

FIRST = 8
"""Rows that the page shows; the file has all."""

MEANS = ("geometric_mean", "probability", "mean")
"""Columns of predictions that are numbers, the most telling one first."""


@dataclass(frozen=True)
class ScoredFile:
    """The scores of one file by one model: their address, how many rows have no prediction and why, their distribution, and the
    first rows."""

    model: str
    file: str
    address: str
    rows: int
    without: list[str]
    summary: str
    picture: Markup | None
    low: str
    high: str
    first: pd.DataFrame


def page(scores: Sequence[Path], folder: Path) -> str:
    """Return the page about these Parquet files, to be written in a folder."""
    return render("scores", scores=[described(path, folder) for path in scores])


def described(path: Path, folder: Path) -> ScoredFile:
    """Summarise the scores in a file `models/<model>/scores/<file>.parquet`."""
    table = parquet.read_table(path)
    names = [name for name in table.column_names if not name.startswith("linear_predictor")]
    known = next((name for name in MEANS if name in names), None)
    rows = table.num_rows
    remarks = Counter(remark for remark in table["remark"].to_pylist() if remark)
    unseen = Counter(terms for terms in table["unseen"].to_pylist() if terms)
    without = [f"{counted(count, 'row')}: {remark}" for remark, count in remarks.most_common()]
    without += [
        f"{counted(count, 'row')} with a level of {terms} that no training row has"
        for terms, count in unseen.most_common()
    ]
    summary, picture, low, high = counted(rows, "row"), None, "", ""
    if known:
        values = table[known].to_numpy().astype(float)
        values = values[np.isfinite(values)]
        if len(values):
            ends = np.quantile(values, [0.1, 0.5, 0.9])
            tenth, median, most = map(four_that_count, ends.tolist())
            what = known.replace("_", " ")
            summary += f", {len(values):,} with a {what}: on average {four_that_count(float(values.mean()))}, "
            summary += f"median {median}; 80 % of them from {tenth} to {most}"
            picture, low, high = histogram(values, None)
    elif "predicted" in names:
        classes = Counter(label for label in table["predicted"].to_pylist() if label is not None)
        summary += "; predicted: " * bool(classes) + ", ".join(
            f"{label} {count:,}" for label, count in classes.most_common()
        )
    first = table.select(names).slice(0, FIRST).to_pandas().map(cell)
    address = path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.as_posix()
    model, file = path.parts[-3], path.stem
    return ScoredFile(model, file, address, rows, without, summary, picture, low, high, first)
