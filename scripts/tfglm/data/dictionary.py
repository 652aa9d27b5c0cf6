"""What the columns of all input files hold together: the levels in a stable order with their counts, and the account of rows."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import polars as pl

from tfglm.config import SPLITS
from tfglm.data.shards import MISSING, IngestedFile
from tfglm.errors import UserError

RARE, ABSENT = "(rare)", "(missing)"
"""How the level of rare values and the level of missing values are written. They come after all others."""


@dataclass(frozen=True)
class Column:
    """One column over all files.

    `levels` are its distinct values in the training rows, sorted (numbers by size, text by code point), and
    `train_rows` how often each occurs there; both are None where some file stores the column as plain numbers. `rare` are
    the values below the count that the config asks for: as a categorical column, it has the level RARE instead of them.
    With `missing_rows`, None if rows without a value are dropped, it has the level ABSENT, of so many training rows.
    `mean` and `variance` (divisor n), `minimum` and `maximum` are those of the training rows, None for text. Rows that
    lack a value in a required column count nowhere here.
    """

    name: str
    kind: str
    levels: list | None
    train_rows: list[int] | None
    rare: list
    missing_rows: int | None
    mean: float | None
    variance: float | None
    minimum: float | None
    maximum: float | None

    @property
    def labels(self) -> list[str]:
        """The levels of the column as a categorical one, as text."""
        rare = set(self.rare)
        labels = [label(level, self.kind) for level in self.levels or [] if level not in rare]
        return [*labels, *([RARE] if rare else []), *([ABSENT] if self.missing_rows else [])]

    @property
    def rare_labels(self) -> list[str]:
        """The values behind the level RARE, as text."""
        return [label(level, self.kind) for level in self.rare]

    @property
    def rare_rows(self) -> int:
        """Training rows of the level RARE."""
        rare = set(self.rare)
        counts = zip(self.levels or [], self.train_rows or [], strict=True)
        return sum(rows for level, rows in counts if level in rare)


@dataclass(frozen=True)
class Dictionary:
    """The columns by name; the names of those `required`, without a value of which a row is dropped; and the number of usable
    rows of each split."""

    columns: dict[str, Column]
    required: list[str]
    rows: dict[str, int]

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)) + "\n")

    @classmethod
    def load(cls, path: Path) -> "Dictionary":
        raw = json.loads(path.read_text())
        columns = {name: Column(**column) for name, column in raw["columns"].items()}
        return cls(columns, raw["required"], raw["rows"])


def label(value: str | float, kind: str) -> str:
    """How a level is written in tables: text as it is, whole numbers without a point."""
    if kind == "text":
        return value
    return str(int(value)) if kind == "integer" else repr(float(value))


def lacks(pattern: str, required: Collection[str]) -> bool:
    """Whether a row with that pattern of missing values, a text of the column MISSING, lacks a required one."""
    return any(name in required for name in pattern.split(","))


def merge(
    files: Sequence[IngestedFile], missing: Mapping[str, str] | None = None, rare: Mapping[str, int] | None = None
) -> Dictionary:
    """The dictionary of several ingested files.

    `missing` says of a column whether a row without a value is dropped (`drop`, the default) or the lack of it is a level
    (`level`); `rare` below which number of training rows a level is rare. Raises UserError where one file holds text and
    another numbers, and for a column that has no value in any file.
    """
    missing, rare = missing or {}, rare or {}
    names = [column.name for column in files[0].manifest.columns if column.name != MISSING]
    required = [name for name in names if missing.get(name, "drop") == "drop"]
    levels = pl.concat([used_levels(file, required) for file in files])
    counted = levels.filter(pl.col("column") == MISSING).group_by("split").agg(pl.col("rows").sum())
    rows = dict.fromkeys(SPLITS, 0) | dict(counted.iter_rows())
    check_not_empty(files, names)
    columns = {name: merge_column(name, files, levels, rare.get(name, 1), name not in required) for name in names}
    check_labels(levels, rare, set(names) - set(required))
    return Dictionary(columns, required, rows)


def used_levels(file: IngestedFile, required: Collection[str]) -> pl.DataFrame:
    """The table of levels of a file without the rows that lack a required value; of the split `predict`, all rows."""
    patterns = file.levels.filter(pl.col("column") == MISSING).select("code", "text").unique()
    dropped = [code for code, text in patterns.iter_rows() if lacks(text, required)]
    return file.levels.filter((pl.col("split") == "predict") | ~pl.col("pattern").is_in(dropped))


def has_values(file: IngestedFile, name: str) -> bool:
    """Whether some row of the file has a value in the column."""
    stored = file.levels.filter(pl.col("column") == name, pl.col("rows") > 0)
    return bool(((stored["code"] > 0) | stored["mean"].is_not_null()).any())


def check_not_empty(files: Sequence[IngestedFile], names: Iterable[str]) -> None:
    """Raise UserError for a column without a value in any row of any file."""
    if not any(file.levels.height for file in files):
        return
    for name in names:
        if not any(has_values(file, name) for file in files):
            where = ", ".join(file.manifest.source for file in files)
            raise UserError(
                f"column `{name}`: no row that is kept has a value, in none of the files ({where})\n"
                f"  take it out of data.columns, or choose files that have it"
            )


def merge_column(
    name: str, files: Sequence[IngestedFile], levels: pl.DataFrame, fewest: int, missing_is_level: bool
) -> Column:
    """One column over all files; `levels` are the stacked level tables of the rows in use."""
    # Of a column that a file has no value of, it does not tell the kind.
    kinds = {file.column(name).kind: file.manifest.source for file in files if has_values(file, name)}
    kinds = kinds or {files[0].column(name).kind: files[0].manifest.source}
    if "text" in kinds and len(kinds) > 1:
        other = next(kind for kind in kinds if kind != "text")
        raise UserError(
            f"column `{name}` is text in {kinds['text']} but {other} in {kinds[other]}\n"
            f"  give it the same type in the layouts of both"
        )
    kind = "text" if "text" in kinds else "number" if "number" in kinds else "integer"
    train = levels.filter(pl.col("column") == name, pl.col("split") == "train", pl.col("rows") > 0)
    value = "text" if kind == "text" else "number"
    absent = train.filter(pl.col(value).is_null() & pl.col("mean").is_null())["rows"].sum()
    train = train.filter(pl.col(value).is_not_null() | pl.col("mean").is_not_null())
    missing_rows = int(absent) if missing_is_level else None
    moments = (None, None, None, None) if kind == "text" else summarise(train)
    if kind != "text" and not all(file.column(name).coded for file in files):
        return Column(name, kind, None, None, [], missing_rows, *moments)
    counts = train.group_by(value).agg(pl.col("rows").sum()).sort(value)
    rare = counts.filter(pl.col("rows") < fewest)[value].to_list()
    return Column(name, kind, counts[value].to_list(), counts["rows"].to_list(), rare, missing_rows, *moments)


def check_labels(levels: pl.DataFrame, rare: Collection[str], missing_is_level: Collection[str]) -> None:
    """Raise UserError if a value is written like the level that stands for others in its column."""
    for level, key, columns in ((RARE, "rare", rare), (ABSENT, "missing", missing_is_level)):
        found = levels.filter(pl.col("text") == level, pl.col("column").is_in(sorted(columns)))
        for name in found["column"].unique().sort():
            raise UserError(
                f"column `{name}` holds the value `{level}`, which is how the level that data.{key} makes is written\n"
                f"  write that value otherwise, under data.derive, or take `{name}` out of data.{key}"
            )


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


def account(files: Sequence[IngestedFile], dictionary: Dictionary) -> dict:
    """Where every row went, in all and by file: `read` = `dropped`, by reason, + the `rows` of all `splits`; of these
    `rows` = `dropped`, by the values that a row lacks, + `used`.

    A row that lacks values in several columns counts under all their names together. Rows that are only predicted may lack
    any. `rare` counts by column the levels, and their training rows, that are one level for being rare.
    """
    by_file = {file.manifest.file: account_file(file, dictionary.required) for file in files}
    rare = {
        name: {
            "levels": len(column.rare),
            "rows": column.rare_rows,
        }
        for name, column in dictionary.columns.items()
        if column.rare
    }
    return {**added(list(by_file.values())), "rare": rare, "files": by_file}


def added(parts: Sequence):
    """Accounts added up: numbers, and what mappings hold under each key."""
    if not isinstance(parts[0], Mapping):
        return sum(parts)
    keys = dict.fromkeys(key for part in parts for key in part)
    return {key: added([part[key] for part in parts if key in part]) for key in keys}


def account_file(file: IngestedFile, required: Collection[str]) -> dict:
    """`account` for one file. Raises RuntimeError if the rows do not add up, which would be a defect of tfglm."""
    patterns = file.levels.filter(pl.col("column") == MISSING)
    splits = {split: {"rows": 0, "dropped": {}, "used": 0} for split in SPLITS}
    for split, text, rows in patterns.select("split", "text", "rows").iter_rows():
        one = splits[split]
        one["rows"] += rows
        lacking = ",".join(name for name in text.split(",") if name in required)
        if lacking and split != "predict":
            one["dropped"][f"missing: {lacking}"] = one["dropped"].get(f"missing: {lacking}", 0) + rows
        else:
            one["used"] += rows
    for split, one in splits.items():
        if one["rows"] != sum(shard.rows for shard in file.manifest.shards if shard.split == split):
            raise RuntimeError(
                f"{file.manifest.source}: shards and levels.parquet do not have the same rows to {split}"
            )
    dropped = dict(file.manifest.dropped)
    if sum(dropped.values()) + sum(one["rows"] for one in splits.values()) != file.manifest.read:
        raise RuntimeError(f"{file.manifest.source}: rows read, used and dropped do not add up")
    return {"read": file.manifest.read, "dropped": dropped, "splits": splits}
