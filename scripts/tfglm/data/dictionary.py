"""What the columns of all input files hold together: the levels in a stable order with their counts, and the account of rows."""

import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polars as pl

from tfglm import digests
from tfglm.config import SPLITS
from tfglm.data.kinds import ABSENT, EXACT_BELOW, RARE, Kind
from tfglm.data.shards import MISSING, IngestedFile
from tfglm.errors import UserError

MOST_LISTED = 2**16
"""Distinct texts of a column that the dictionary lists; more are read from the tables of levels (`training_values`)."""


@dataclass(frozen=True)
class Column:
    """One column over all files.

    `distinct` is how many distinct values it has in the training rows; None if some file stores it as plain numbers alone, so
    that it cannot be categorical. `levels` are these values, sorted (numbers by size, text by code point), and `train_rows` how
    often each occurs; both are None where some file stores it as plain numbers too, and where it has more than MOST_LISTED
    texts. Values with fewer than `fewest` training rows are rare, `rare_levels` of them with `rare_rows` rows together: as a
    categorical column, it has the level RARE instead of them. With `missing_rows`, None if rows without a value are dropped, it
    has the level ABSENT, of so many training rows. `mean` and `variance` (divisor n), `minimum` and `maximum` are those of the
    training rows, of images those of all pixels, None for text. Rows that lack a value in a required column count nowhere here.
    """

    name: str
    kind: Kind
    distinct: int | None
    levels: list | None
    train_rows: list[int] | None
    fewest: int
    rare_levels: int
    rare_rows: int
    missing_rows: int | None
    mean: float | None
    variance: float | None
    minimum: float | None
    maximum: float | None

    @property
    def moments(self) -> tuple[float, float]:
        """Mean and variance of a column of numbers."""
        assert self.mean is not None and self.variance is not None
        return self.mean, self.variance

    @property
    def limits(self) -> tuple[float, float]:
        """Minimum and maximum of a column of numbers."""
        assert self.minimum is not None and self.maximum is not None
        return self.minimum, self.maximum

    @property
    def labels(self) -> list[str]:
        """The levels of the column as a categorical one, as text; of a column whose levels are listed."""
        return labels(self, self._counted)[0]

    @property
    def rare(self) -> list[str]:
        """The values behind the level RARE, as text; of a column whose levels are listed."""
        return labels(self, self._counted)[1]

    @property
    def _counted(self) -> pl.DataFrame:
        return pl.DataFrame(
            {"value": self.levels, "rows": self.train_rows}, {"value": VALUE_TYPES[self.kind], "rows": pl.Int64}
        )


VALUE_TYPES = {"text": pl.String, "integer": pl.Int64, "number": pl.Float64}
"""Of the values of a column of each kind."""


@dataclass(frozen=True)
class Dictionary:
    """The columns by name; the names of those `required`, without a value of which a row is dropped; and the number of usable
    rows of each split."""

    columns: dict[str, Column]
    required: list[str]
    rows: dict[str, int]

    def write(self, path: Path) -> None:
        digests.write_json(path, asdict(self), indent=None)

    @classmethod
    def load(cls, path: Path) -> "Dictionary":
        """Raises UserError if the file has changed since it was written."""
        raw = digests.read_json(path, needs=["columns", "required", "rows"])
        columns = {name: Column(**column) for name, column in raw["columns"].items()}
        return cls(columns, raw["required"], raw["rows"])


def labels(column: Column, counted: pl.DataFrame) -> tuple[list[str], list[str]]:
    """The levels of a categorical column and the values behind RARE, as text; `counted` are its values and their training
    rows."""
    rare = pl.col("rows") < column.fewest
    ordinary, lumped = (written(counted.filter(condition)["value"]).to_list() for condition in (~rare, rare))
    return [*ordinary, *([RARE] if lumped else []), *([ABSENT] if column.missing_rows else [])], lumped


def written(values: pl.Series) -> pl.Series:
    """How values are written in tables: text as it is, whole numbers without a point."""
    if values.dtype == pl.Float64:
        return pl.Series(values.name, [None if value is None else repr(value) for value in values], dtype=pl.String)
    return values.cast(pl.String)


def lacks(pattern: str, required: Collection[str]) -> bool:
    """Whether a row with that pattern of missing values, a text of the column MISSING, lacks a required one."""
    return any(name in required for name in pattern.split(","))


def merge(
    files: Sequence[IngestedFile], missing: Mapping[str, str] | None = None, rare: Mapping[str, int] | None = None
) -> Dictionary:
    """The dictionary of several ingested files.

    Parameters
    ----------
    files
        Files with the same columns.
    missing
        By column, whether a row without a value is dropped (`drop`, the default) or the lack of it is a level (`level`).
    rare
        By column, the number of training rows below which a level is rare.

    Returns
    -------
    Dictionary

    Raises
    ------
    UserError
        Where one file holds text and another numbers, for a column that has no value in any file, and for a value that is
        written like a level that stands for others.
    """
    missing, rare = missing or {}, rare or {}
    names = files[0].names
    required = [name for name in names if missing.get(name, "drop") == "drop"]
    levels = pl.concat([used_levels(file, required) for file in files])
    counted = levels.filter(pl.col("column") == MISSING).group_by("split").agg(pl.col("rows").sum())
    rows = dict.fromkeys(SPLITS, 0) | dict(counted.iter_rows())
    check_not_empty(files, names)
    columns = {name: merge_column(name, files, levels, rare.get(name, 1), name not in required) for name in names}
    check_labels(levels, rare, set(names) - set(required))
    return Dictionary(columns, required, rows)


def used_levels(file: IngestedFile, required: Collection[str], columns: Collection[str] | None = None) -> pl.DataFrame:
    """The table of levels of a file without the rows that lack a required value; of the split `predict`, all rows. Of the given
    stored `columns` alone, if there are any."""
    patterns = file.levels.filter(pl.col("column") == MISSING).select("code", "text").unique()
    dropped = [code for code, text in patterns.iter_rows() if lacks(text, required)]
    levels = file.levels if columns is None else file.levels.filter(pl.col("column").is_in(list(columns)))
    return levels.filter((pl.col("split") == "predict") | ~pl.col("pattern").is_in(dropped))


def training_values(files: Iterable[IngestedFile], column: str, kind: Kind, required: Collection[str]) -> pl.DataFrame:
    """The distinct values of a column of this kind in the training rows that lack no required one, sorted, and their rows: as
    they are, whatever data.rare says. Columns: `value`, `rows`."""
    tables = [used_levels(file, required, [file.codes(column).name]) for file in files]
    return counted_values(pl.concat(tables), kind)


def counted_values(levels: pl.DataFrame, kind: Kind) -> pl.DataFrame:
    """The same of some levels of one column."""
    train = levels.filter(pl.col("split") == "train", pl.col("rows") > 0)
    known = train.select(value_of(kind).alias("value"), "rows").drop_nulls("value")
    return known.group_by("value").agg(pl.col("rows").sum()).sort("value")


def value_of(kind: Kind) -> pl.Expr:
    """The values in a table of levels, of a column of this kind: where files disagree, integers are numbers."""
    return pl.coalesce("number", pl.col("integer").cast(pl.Float64)) if kind == "number" else pl.col(kind)


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
                f"column `{name}`: no kept row of any file has a value ({where})\n"
                "  take it out of data.columns, or choose files that have it"
            )


def merge_column(
    name: str, files: Sequence[IngestedFile], levels: pl.DataFrame, fewest: int, missing_is_level: bool
) -> Column:
    """Merge a column over all files.

    Parameters
    ----------
    name
        The column.
    files
        All that are ingested.
    levels
        Their level tables of the rows in use, one below the other.
    fewest
        Rows that a level needs to be one of its own (data.rare).
    missing_is_level
        Whether a missing value is a level (data.missing).

    Raises
    ------
    UserError
        If the column is text in one file and not in another, or an integer beyond 2^53 in one and a number in another.
    """
    # Of a column that a file has no value of, it does not tell the kind.
    kinds = {file.column(name).kind: file.manifest.source for file in files if has_values(file, name)}
    kinds = kinds or {files[0].column(name).kind: files[0].manifest.source}
    alone = next((kind for kind in ("text", "image") if kind in kinds), None)
    if alone and len(kinds) > 1:
        other = next(kind for kind in kinds if kind != alone)
        raise UserError(
            f"column `{name}` is {alone} in {kinds[alone]} but {other} in {kinds[other]}\n"
            f"  give it the same type in the layouts of both"
        )
    if alone == "image":
        check_sizes(name, files)
        pixels = summarise(levels.filter(pl.col("split") == "train", pl.col("column") == name), "number")
        return Column(name, "image", None, None, None, fewest, 0, 0, None, *pixels)
    kind: Kind = "text" if "text" in kinds else "number" if "number" in kinds else "integer"
    train = levels.filter(pl.col("split") == "train", pl.col("rows") > 0)
    codes = [file.codes(name).name for file in files if file.has_codes(name)]
    coded = train.filter(pl.col("column").is_in([name, *codes]))
    absent = coded.filter(value_of(kind).is_null() & pl.col("mean").is_null())["rows"].sum()
    missing_rows = int(absent) if missing_is_level else None
    if kind == "number" and (coded["integer"].abs() > EXACT_BELOW).any():
        raise UserError(
            f"column `{name}` is integer in {kinds['integer']}, with values beyond 2^53, but number in {kinds['number']}, which "
            f"cannot tell such values apart\n  give it the type integer, or string, in the layouts of both"
        )
    moments = (None, None, None, None) if kind == "text" else summarise(train.filter(pl.col("column") == name), kind)
    if len(codes) < len(files):
        return Column(name, kind, None, None, None, fewest, 0, 0, missing_rows, *moments)
    values = counted_values(coded, kind)
    rare = values.filter(pl.col("rows") < fewest)
    is_listed = len(values) <= MOST_LISTED if kind == "text" else set(codes) == {name}
    levels_of, rows = (values["value"].to_list(), values["rows"].to_list()) if is_listed else (None, None)
    rare_rows = int(rare["rows"].sum())
    return Column(name, kind, len(values), levels_of, rows, fewest, len(rare), rare_rows, missing_rows, *moments)


def check_sizes(name: str, files: Sequence[IngestedFile]) -> None:
    """Raise UserError for images of different sizes."""
    sizes = {file.column(name).shape: file.manifest.source for file in files}
    if len(sizes) > 1:
        ((mine, source), (others, other), *_) = sizes.items()
        raise UserError(
            f"column `{name}`: the images in {source} have {mine[0]} x {mine[1]} pixels, those in {other} {others[0]} x "
            f"{others[1]}\n  bring all images to one size"
        )


def check_labels(levels: pl.DataFrame, rare: Collection[str], missing_is_level: Collection[str]) -> None:
    """Raise UserError if a value is written like the level that stands for others in its column."""
    for level, key, columns in ((RARE, "rare", rare), (ABSENT, "missing", missing_is_level)):
        same_text = levels.filter(pl.col("text") == level, pl.col("column").is_in(sorted(columns)))
        for name in same_text["column"].unique().sort():
            raise UserError(
                f"column `{name}` holds the value `{level}`, which is also the name of the level that data.{key} "
                "makes\n"
                f"  rename the value under data.derive, or take `{name}` out of data.{key}"
            )


def summarise(train: pl.DataFrame, kind: Kind) -> tuple[float | None, float | None, float | None, float | None]:
    """Mean, variance (divisor n), minimum and maximum over rows of a level table, values or groups with their moments."""
    value = value_of(kind).cast(pl.Float64)
    parts = train.select(
        "rows",
        mean=pl.coalesce("mean", value),
        variance=pl.col("variance").fill_null(0.0),
        minimum=pl.coalesce("minimum", value),
        maximum=pl.coalesce("maximum", value),
    ).drop_nulls("mean")
    if parts.is_empty():
        return None, None, None, None
    rows = int(parts["rows"].sum())
    mean = float((parts["mean"] * parts["rows"]).sum()) / rows
    variance = float(((parts["variance"] + (parts["mean"] - mean) ** 2) * parts["rows"]).sum()) / rows
    return mean, variance, *parts.select(pl.min("minimum"), pl.max("maximum")).row(0)


def account(files: Sequence[IngestedFile], dictionary: Dictionary) -> dict:
    """Where every row went, in all and by file: `read` = `dropped`, by reason, + the `rows` of all `splits`; of these
    `rows` = `dropped`, by the values that a row lacks, + `used`.

    A row that lacks values in several columns counts under all their names together. Rows that are only predicted may lack
    any. `rare` counts by column the levels, and their training rows, that are one level for being rare. `alike` has by column
    the groups of levels that look the same, each a list of levels with their training rows.
    """
    by_file = {file.manifest.file: account_file(file, dictionary.required) for file in files}
    rare = {
        name: {"levels": column.rare_levels, "rows": column.rare_rows}
        for name, column in dictionary.columns.items()
        if column.rare_levels
    }
    alike = {name: groups for name, column in dictionary.columns.items() if (groups := alike_levels(column))}
    return {**added(list(by_file.values())), "rare": rare, "alike": alike, "files": by_file}


def alike_levels(column: Column) -> list[list[tuple[str, int]]]:
    """The groups of levels of a text column that differ only in blanks at their ends, in characters without a shape, or in how
    Unicode composes a letter; each level with its training rows."""
    if column.kind != "text" or column.levels is None or column.train_rows is None:
        return []
    groups: dict[str, list[tuple[str, int]]] = {}
    for level, rows in zip(column.levels, column.train_rows, strict=True):
        groups.setdefault(shape_of(level), []).append((level, rows))
    return [group for group in groups.values() if len(group) > 1]


def shape_of(level: str) -> str:
    """What a level looks like: composed (NFC), without formatting characters (Cf) and blanks at its ends."""
    if level.isascii():
        return level.strip()
    composed = unicodedata.normalize("NFC", level)
    return "".join(letter for letter in composed if unicodedata.category(letter) != "Cf").strip()


def added(parts: Sequence) -> Any:
    """Accounts added up: numbers, and what mappings hold under each key."""
    if not isinstance(parts[0], Mapping):
        return sum(parts)
    keys = dict.fromkeys(key for part in parts for key in part)
    return {key: added([part[key] for part in parts if key in part]) for key in keys}


def account_file(file: IngestedFile, required: Collection[str]) -> dict:
    """`account` for one file. Raises RuntimeError if the rows do not add up, which would be a defect of tfglm."""
    patterns = file.levels.filter(pl.col("column") == MISSING)
    splits: dict[str, Any] = {split: {"rows": 0, "dropped": {}, "used": 0} for split in SPLITS}
    for split, text, rows in patterns.select("split", "text", "rows").iter_rows():
        part = splits[split]
        part["rows"] += rows
        lacking = ",".join(name for name in text.split(",") if name in required)
        if lacking and split != "predict":
            part["dropped"][f"missing: {lacking}"] = part["dropped"].get(f"missing: {lacking}", 0) + rows
        else:
            part["used"] += rows
    for split, part in splits.items():
        if part["rows"] != sum(shard.rows for shard in file.manifest.shards if shard.split == split):
            raise RuntimeError(
                f"{file.manifest.source}: shards and levels.parquet do not have the same rows to {split}"
            )
    dropped = dict(file.manifest.dropped)
    if sum(dropped.values()) + sum(part["rows"] for part in splits.values()) != file.manifest.read:
        raise RuntimeError(f"{file.manifest.source}: rows read, used and dropped do not add up")
    return {"read": file.manifest.read, "dropped": dropped, "splits": splits}
