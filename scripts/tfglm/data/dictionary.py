"""What the columns of all input files hold together: the levels in a stable order with their counts, and the account of rows."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import polars as pl

from tfglm.data.shards import MISSING, SPLITS, IngestedFile
from tfglm.errors import UserError


@dataclass(frozen=True)
class Column:
    """One column over all files.

    `levels` are its distinct values in the training rows, sorted (numbers by size, text by code point), and
    `train_rows` how often each occurs there; both are None where some file stores the column as plain numbers. `mean`
    and `variance` (divisor n), `minimum` and `maximum` are those of the training rows, None for text. Rows that lack a
    value in any kept column count nowhere here.
    """

    name: str
    kind: str
    levels: list | None
    train_rows: list[int] | None
    mean: float | None
    variance: float | None
    minimum: float | None
    maximum: float | None

    @property
    def labels(self) -> list[str]:
        """The levels as text."""
        return [label(level, self.kind) for level in self.levels or []]


@dataclass(frozen=True)
class Dictionary:
    """The columns by name, and the number of usable rows of each split."""

    columns: dict[str, Column]
    rows: dict[str, int]

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)) + "\n")

    @classmethod
    def load(cls, path: Path) -> "Dictionary":
        raw = json.loads(path.read_text())
        return cls({name: Column(**column) for name, column in raw["columns"].items()}, raw["rows"])


def label(value: str | float, kind: str) -> str:
    """How a level is written in tables: text as it is, whole numbers without a point."""
    if kind == "text":
        return value
    return str(int(value)) if kind == "integer" else repr(float(value))


def merge(files: Sequence[IngestedFile]) -> Dictionary:
    """The dictionary of several ingested files. Raises UserError where one file holds text and another numbers."""
    levels = pl.concat([file.levels for file in files], how="diagonal").filter(pl.col("complete"))
    counted = levels.filter(pl.col("column") == MISSING).group_by("split").agg(pl.col("rows").sum())
    rows = dict.fromkeys(SPLITS, 0) | dict(counted.iter_rows())
    names = [column.name for column in files[0].manifest.columns if column.name != MISSING]
    return Dictionary({name: merge_column(name, files, levels) for name in names}, rows)


def merge_column(name: str, files: Sequence[IngestedFile], levels: pl.DataFrame) -> Column:
    """One column over all files; `levels` are the stacked level tables."""
    kinds = {file.column(name).kind: file.manifest.source for file in files}
    if "text" in kinds and len(kinds) > 1:
        other = next(kind for kind in kinds if kind != "text")
        raise UserError(
            f"column `{name}` is text in {kinds['text']} but {other} in {kinds[other]}\n"
            f"  give it the same type in the layouts of both"
        )
    kind = "text" if "text" in kinds else "number" if "number" in kinds else "integer"
    train = levels.filter(pl.col("column") == name, pl.col("split") == "train", pl.col("rows") > 0)
    if kind == "text":
        counts = train.group_by("text").agg(pl.col("rows").sum()).sort("text")
        return Column(name, kind, counts["text"].to_list(), counts["rows"].to_list(), None, None, None, None)
    moments = summarise(train)
    if all(file.column(name).coded for file in files):
        counts = train.group_by("number").agg(pl.col("rows").sum()).sort("number")
        return Column(name, kind, counts["number"].to_list(), counts["rows"].to_list(), *moments)
    return Column(name, kind, None, None, *moments)


def summarise(train: pl.DataFrame) -> tuple[float | None, float | None, float | None, float | None]:
    """Mean, variance (divisor n), minimum and maximum over rows of a level table, values or groups with their moments."""
    if train.is_empty():
        return None, None, None, None
    parts = train.with_columns(
        pl.lit(None, dtype=pl.Float64).alias(new)
        for new in ("number", "mean", "variance", "minimum", "maximum")
        if new not in train.columns
    )
    parts = parts.with_columns(
        pl.coalesce("mean", "number").alias("mean"),
        pl.col("variance").fill_null(0.0),
        pl.coalesce("minimum", "number").alias("minimum"),
        pl.coalesce("maximum", "number").alias("maximum"),
    )
    rows = parts["rows"].sum()
    mean = (parts["mean"] * parts["rows"]).sum() / rows
    variance = ((parts["variance"] + (parts["mean"] - mean) ** 2) * parts["rows"]).sum() / rows
    return mean, variance, parts["minimum"].min(), parts["maximum"].max()


def account(files: Sequence[IngestedFile]) -> dict:
    """Where every row went: in all and by file, read = used by the splits + dropped, by reason.

    A row that lacks values in several columns counts under all their names together.
    """
    by_file = {file.manifest.file: account_file(file) for file in files}
    reasons = dict.fromkeys(reason for one in by_file.values() for reason in one["dropped"])
    total = {
        "read": sum(one["read"] for one in by_file.values()),
        **{split: sum(one[split] for one in by_file.values()) for split in SPLITS},
        "dropped": {reason: sum(one["dropped"].get(reason, 0) for one in by_file.values()) for reason in reasons},
    }
    return {**total, "files": by_file}


def account_file(file: IngestedFile) -> dict:
    """`account` for one file. Raises RuntimeError if the rows do not add up, which would be a defect of tfglm."""
    patterns = file.levels.filter(pl.col("column") == MISSING)
    used = dict.fromkeys(SPLITS, 0)
    dropped = dict(file.manifest.dropped)
    for split, text, rows in patterns.select("split", "text", "rows").iter_rows():
        if text == "":
            used[split] += rows
        else:
            dropped[f"missing: {text}"] = dropped.get(f"missing: {text}", 0) + rows
    if sum(used.values()) + sum(dropped.values()) != file.manifest.read:
        raise RuntimeError(f"{file.manifest.source}: rows read, used and dropped do not add up")
    return {"read": file.manifest.read, **used, "dropped": dropped}
