"""The columns of all input files together: their levels in a stable order with counts, and the account of rows."""

import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tfglm import digests
from tfglm.config import SPLITS
from tfglm.data.kinds import ABSENT, EXACT_BELOW, NOT_IN_SUBSET, RARE, Kind
from tfglm.data.limits import FAR
from tfglm.data.shards import MISSING, IngestedFile
from tfglm.errors import Problems, UserError, nearest

MOST_LISTED = 2**8
"""Distinct values of a column that the dictionary lists; more are read from the tables of levels (`training_values`)."""

MOST_COMPARED = 2**16
"""Distinct texts of a column among which `alike_levels` looks."""


MOST_SHOWN = 20
"""Levels of a column that a message names."""


@dataclass(frozen=True)
class Column:
    """One column over all files.

    `distinct` is the number of distinct values in the training rows. It is None if some file stores the column only as
    plain numbers, so that it cannot be categorical. `levels` are the distinct values, sorted (numbers by size, text by code
    point), and `train_rows` their frequencies. Both are None if some file also stores plain numbers, or if there are more
    than MOST_LISTED values.

    Values with fewer than `fewest` training rows are rare: `rare_levels` values with `rare_rows` rows in total. A
    categorical column has the level RARE instead of them. `missing_rows` is the number of training rows of the level
    ABSENT, or None if rows without a value are dropped. `order` are the values in the order of the config, as text; None if it
    says none. `mean`, `variance` (divisor n), `minimum` and `maximum` are
    computed over the training rows, for images over all pixels; they are None for text. Rows that lack a value in a
    required column count nowhere here.
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
    order: list[str] | None = None
    twice: str = ""
    """A number that a file has in two writings, such as 007 and 7, and the file."""

    @property
    def moments(self) -> tuple[float, float]:
        """Mean and variance of a column of numbers."""
        assert self.mean is not None and self.variance is not None
        return self.mean, self.variance

    @property
    def is_far(self) -> bool:
        """Whether the mean of a column of numbers is more than FAR standard deviations from 0."""
        mean, variance = self.moments
        return variance < (mean / FAR) ** 2

    @property
    def limits(self) -> tuple[float, float]:
        """Minimum and maximum of a column of numbers."""
        assert self.minimum is not None and self.maximum is not None
        return self.minimum, self.maximum

    @property
    def labels(self) -> list[str]:
        """The levels of the column as a categorical one, as text; of a column whose levels are listed."""
        return labels(self, self.listed)[0]

    @property
    def rare(self) -> list[str]:
        """The values behind the level RARE, as text; of a column whose levels are listed."""
        return labels(self, self.listed)[1]

    @property
    def listed(self) -> pl.DataFrame:
        """`levels` and `train_rows` as `training_values` has them."""
        return pl.DataFrame(
            {"value": self.levels, "rows": self.train_rows}, {"value": VALUE_TYPES[self.kind], "rows": pl.Int64}
        )


COUNTED = ("split", "pattern", "rows", "text", "integer", "number")
"""What counts of values need of a table of levels."""

VALUE_TYPES = {"text": pl.String, "integer": pl.Int64, "number": pl.Float64}
"""The type of the values of a column, by kind."""


@dataclass(frozen=True)
class Dictionary:
    """The columns by name, the names of the `required` columns, and the number of usable rows of each split. Rows without a
    value in a required column are dropped."""

    columns: dict[str, Column]
    required: list[str]
    rows: dict[str, int]
    data: list[str]
    """The digests of the manifests that it was made from."""

    def write(self, path: Path) -> None:
        digests.write_json(path, asdict(self), indent=None)

    @classmethod
    def load(cls, path: Path, data: Collection[str], user: Path) -> "Dictionary":
        """Raises UserError if the file has changed since it was written, or was made from other `data` than its `user` was."""
        raw = digests.read_json(path, needs=["columns", "required", "rows", "data"])
        if raw["data"] != [*data]:
            raise digests.made_from_another("set of rows", path, user)
        columns = {name: Column(**column) for name, column in raw["columns"].items()}
        return cls(columns, raw["required"], raw["rows"], raw["data"])

    @classmethod
    def with_files(cls, path: Path, manifests: Sequence[Path]) -> tuple["Dictionary", list[IngestedFile]]:
        """The dictionary at `path` and the files that it was made from. Raises UserError as `load` does."""
        files = [IngestedFile.load(manifest) for manifest in manifests]
        return cls.load(path, [file.manifest.digest for file in files], manifests[0]), files


def labels(column: Column, counted: pl.DataFrame) -> tuple[list[str], list[str]]:
    """The levels of a categorical column and the values behind RARE, as text; `counted` are its values and their training
    rows."""
    rare = pl.col("rows") < column.fewest
    ordinary, lumped = (written(counted.filter(condition)["value"]).to_list() for condition in (~rare, rare))
    if column.order:
        ordinary.sort(key={level: place for place, level in enumerate(column.order)}.__getitem__)
    return [*ordinary, *([RARE] if lumped else []), *([ABSENT] if column.missing_rows else [])], lumped


def written(values: pl.Series) -> pl.Series:
    """Return values as tables show them: text unchanged, whole numbers without a decimal point."""
    if values.dtype == pl.Float64:
        return pl.Series(values.name, [None if value is None else repr(value) for value in values], dtype=pl.String)
    return values.cast(pl.String)


def lacks(pattern: str, required: Collection[str]) -> bool:
    """Whether a row with that pattern of missing values, a text of the column MISSING, lacks a required one."""
    return any(name in required for name in pattern.split(","))


def merge(
    files: Sequence[IngestedFile],
    missing: Mapping[str, str] | None = None,
    rare: Mapping[str, int] | None = None,
    order: Mapping[str, list[str]] | None = None,
) -> Dictionary:
    """Build the dictionary of several ingested files with the same columns.

    By column, `missing` says whether rows without a value are dropped (`drop`, the default) or have a level of their own
    (`level`); `rare` is the number of training rows below which a level is rare; `order` has the levels in their order.

    Raises UserError if a column is text in one file and numbers in another, has no value in any file, or has a value that is
    written like a reserved level such as `(rare)`; and for an order that lacks a level, or names one that no training row
    has.
    """
    missing, rare, order = missing or {}, rare or {}, order or {}
    problems = Problems()
    names = files[0].names
    required = [name for name in names if missing.get(name, "drop") == "drop"]
    lacking = [lacking_patterns(file, required) for file in files]
    of_small = [
        {column.name: file.levels(column.name) for column in file.manifest.columns if file.is_small} for file in files
    ]
    tables = _LevelTables(files, lacking, of_small)
    rows = dict.fromkeys(SPLITS, 0)
    for split, of_pattern in tables.used(dict.fromkeys(range(len(files)), MISSING)).select("split", "rows").iter_rows():
        rows[split] += of_pattern
    columns = {}
    for name in names:
        merged = merge_column(name, tables, rare.get(name), name not in required)
        columns[name] = replace(merged, twice=written_twice(name, files))
        if name in order:
            with problems.collected():
                check_order(columns[name], order[name], files, required)
            columns[name] = replace(columns[name], order=order[name])
    problems.check()
    return Dictionary(columns, required, rows, [file.manifest.digest for file in files])


def written_twice(name: str, files: Sequence[IngestedFile]) -> str:
    """A number of a column that one file has in two writings, such as 007 and 7, or two files have in one each, and where; empty
    if there is none."""
    for file in files:
        if name in file.manifest.twice:
            return f"{file.manifest.twice[name]} in {file.manifest.source}"
    odd = {value: (text, file) for file in files for text, value in file.manifest.odd.get(name, {}).items()}
    for file in files if odd else ():
        own = {value: text for text, value in file.manifest.odd.get(name, {}).items()}
        is_known = file.column(name).coded and (own or name not in file.manifest.odd)
        for value in sorted(odd.keys() & file.values(name).to_list()) if is_known else ():
            (text, other), here = odd[value], own.get(value, f"{value:.15g}")
            if here != text:
                return f"`{text}` in {other.manifest.source} and `{here}` in {file.manifest.source}"
    return ""


def lacking_patterns(file: IngestedFile, required: Collection[str]) -> np.ndarray:
    """Return which patterns of missing values lack a required value, by their code, bool."""
    required = set(required)
    return np.array([False, *(lacks(pattern, required) for pattern in file.values(MISSING))])


@dataclass(frozen=True)
class _LevelTables:
    """The tables of levels of some files. `lacking` are the `lacking_patterns` of each. `of_small` has the tables of each small
    file by column, as these are read together; those of a large file may fill the memory."""

    files: Sequence[IngestedFile]
    lacking: Sequence[np.ndarray]
    of_small: Sequence[Mapping[str, pl.DataFrame]]

    def table(self, number: int, name: str) -> pl.DataFrame:
        """That of a stored column of the file with this number."""
        small = self.of_small[number]
        return small[name] if name in small else self.files[number].levels(name)

    def used(self, names: Mapping[int, str]) -> pl.DataFrame:
        """Those of a stored column of some files, by their number, `without` rows that lack a required value."""
        tables = [self.table(number, name) for number, name in names.items()]
        return without(tables, [self.lacking[number] for number in names])


def without(tables: Sequence[pl.DataFrame], lacking: Sequence[np.ndarray]) -> pl.DataFrame:
    """Return some tables of levels one below the other, without the rows of the patterns that are `lacking` in each. The split
    `predict` keeps all rows."""
    joined = pl.concat(tables)
    if not any(patterns.any() for patterns in lacking):
        return joined
    # One query for all: each has its price, and there may be many files.
    first = np.cumsum([0, *map(len, lacking[:-1])])
    patterns = joined["pattern"].to_numpy() + np.repeat(first, [len(table) for table in tables])
    return joined.filter((joined["split"] == "predict") | pl.Series(~np.concatenate(lacking)[patterns]))


def used_levels(
    files: Iterable[IngestedFile], required: Collection[str], column: str, parts: Sequence[str] | None = None
) -> pl.DataFrame:
    """Return the tables of levels with the codes of a column of the data, without the rows that lack a required value. For
    the split `predict` they count all rows. `parts` are as in `IngestedFile.levels`."""
    of_files = [(file.levels(file.codes(column).name, parts), lacking_patterns(file, required)) for file in files]
    return without(*zip(*of_files, strict=True))


def training_values(files: Iterable[IngestedFile], column: str, kind: Kind, required: Collection[str]) -> pl.DataFrame:
    """Return the distinct values of a column in the training rows that lack no required value, sorted, and their rows. The
    values are unmerged, regardless of data.rare. Columns: `value`, `rows`."""
    return counted_values(used_levels(files, required, column, COUNTED), kind)


def counted_levels(column: Column, files: Iterable[IngestedFile], required: Collection[str]) -> pl.DataFrame:
    """Return `training_values`, from the dictionary if it lists them. Raises LookupError for plain numbers."""
    return training_values(files, column.name, column.kind, required) if column.levels is None else column.listed


def counted_values(levels: pl.DataFrame, kind: Kind) -> pl.DataFrame:
    """Return the distinct values and their rows, from some levels of one column."""
    train = levels.filter(pl.col("split") == "train", pl.col("rows") > 0)
    known = train.select(value_of(kind).alias("value"), "rows").drop_nulls("value")
    # Sorted before, not after: so polars needs no hash table, which takes five times the memory of millions of values.
    return known.sort("value").group_by("value", maintain_order=True).agg(pl.col("rows").sum())


def value_of(kind: Kind) -> pl.Expr:
    """The values in a table of levels, of a column of this kind: where files disagree, integers are numbers."""
    return pl.coalesce("number", pl.col("integer").cast(pl.Float64)) if kind == "number" else pl.col(kind)


def merge_column(name: str, tables: _LevelTables, fewest: int | None, missing_is_level: bool) -> Column:
    """Merge a column over the tables of levels of all files. Levels of fewer than `fewest` rows are rare (data.rare). Raises
    UserError if no row of any file has a value, if a value is written like the level that stands for others, if the column
    is text in some files only, or if it is an integer beyond 2^53 in one file and a number in another."""
    files = tables.files
    whole = [tables.table(number, name) for number in range(len(files))]
    kinds = kinds_of(name, files, whole)
    stored = without(whole, tables.lacking)
    coded = {number: file.codes(name).name for number, file in enumerate(files) if file.has_codes(name)}
    apart = {number: of_codes for number, of_codes in coded.items() if of_codes != name}
    counted = pl.concat([stored, tables.used(apart)]) if apart else stored
    for level, key in ((RARE, "rare" if fewest else ""), (ABSENT, "missing" if missing_is_level else "")):
        if key and (counted["text"] == level).any():
            raise UserError(
                f"column `{name}` holds the value `{level}`, which is also the name of the level that data.{key} "
                "makes\n"
                f"  rename the value under data.derive, or take `{name}` out of data.{key}"
            )
    fewest = fewest or 1
    alone: Kind | None = "text" if "text" in kinds else "image" if "image" in kinds else None
    if alone and len(kinds) > 1:
        other = next(kind for kind in kinds if kind != alone)
        raise UserError(
            f"column `{name}` is {alone} in {kinds[alone]} but {other} in {kinds[other]}\n"
            f"  give it the same type in the layouts of both"
        )
    if alone == "image":
        check_sizes(name, files)
        pixels = summarise(stored.filter(pl.col("split") == "train"), "number")
        return Column(name, "image", None, None, None, fewest, 0, 0, None, *pixels)
    kind: Kind = "text" if "text" in kinds else "number" if "number" in kinds else "integer"
    is_train = (pl.col("split") == "train") & (pl.col("rows") > 0)
    in_training = counted.filter(is_train)
    absent = in_training.filter(value_of(kind).is_null() & pl.col("mean").is_null())["rows"].sum()
    missing_rows = int(absent) if missing_is_level else None
    if kind == "number" and (in_training["integer"].abs() > EXACT_BELOW).any():
        raise UserError(
            f"column `{name}` is integer in {kinds['integer']}, with values beyond 2^53, but number in {kinds['number']}, which "
            f"cannot tell such values apart\n  give it the type integer, or string, in the layouts of both"
        )
    moments = (None, None, None, None) if kind == "text" else summarise(stored.filter(is_train), kind)
    if len(coded) < len(files):
        return Column(name, kind, None, None, None, fewest, 0, 0, missing_rows, *moments)
    values = counted_values(in_training, kind)
    rare = values.filter(pl.col("rows") < fewest)
    is_listed = len(values) <= MOST_LISTED
    levels_of, rows = (values["value"].to_list(), values["rows"].to_list()) if is_listed else (None, None)
    rare_rows = int(rare["rows"].sum())
    return Column(name, kind, len(values), levels_of, rows, fewest, len(rare), rare_rows, missing_rows, *moments)


def kinds_of(name: str, files: Sequence[IngestedFile], tables: Sequence[pl.DataFrame]) -> dict[Kind, str]:
    """The kinds of a column, each with a file where it has values of that kind; `tables` are its levels in each file. A file
    without a value does not tell the kind. Raises UserError for a column without a value in any row."""
    # One query for all, as there may be many files.
    of_rows = np.repeat(np.arange(len(files)), [len(table) for table in tables])
    has_value = (pl.col("rows") > 0) & ((pl.col("code") > 0) | pl.col("mean").is_not_null())
    with_values = np.unique(of_rows[pl.concat(tables).select(has_value).to_series().to_numpy()])
    kinds = {files[number].column(name).kind: files[number].manifest.source for number in with_values}
    if not kinds and any(file.manifest.shards for file in files):
        where = ", ".join(file.manifest.source for file in files)
        raise UserError(
            f"column `{name}`: no kept row of any file has a value ({where})\n"
            "  take it out of data.columns, or choose files that have it"
        )
    return kinds or {files[0].column(name).kind: files[0].manifest.source}


def check_order(column: Column, order: Sequence[str], files: Sequence[IngestedFile], required: Collection[str]) -> None:
    """Raise UserError if `order` lacks a level of a column, or names one that no training row has. It may name values that are
    merged for being rare."""
    where = f"data.order.{column.name}"
    if column.distinct is None:
        what = "images" if column.kind == "image" else "too many different numbers"
        raise UserError(f"{where}: `{column.name}` has {what}, which are no levels; take it out of data.order")
    counted = counted_levels(column, files, required)
    known = written(counted["value"]).to_list()
    for level in order:
        if level not in known:
            shown = ", ".join(known[:MOST_SHOWN]) + (", ..." if len(known) > MOST_SHOWN else "")
            raise UserError(
                f"{where}: no training row has the level `{level}`{nearest(level, known)}\n  there are: {shown}"
            )
    left = [level for level in labels(column, counted)[0] if level in known and level not in order]
    if left:
        named = ", ".join(f"`{level}`" for level in left[:MOST_SHOWN])
        more = f" and {len(left) - MOST_SHOWN:,} more" if len(left) > MOST_SHOWN else ""
        raise UserError(
            f"{where}: {named}{more} {'have' if len(left) > 1 else 'has'} no place in it; name each level once"
        )


def check_sizes(name: str, files: Sequence[IngestedFile]) -> None:
    """Raise UserError for images of different sizes."""
    sizes = {file.column(name).shape: file.manifest.source for file in files}
    if len(sizes) > 1:
        ((mine, source), (others, other), *_) = sizes.items()
        raise UserError(
            f"column `{name}`: the images in {source} have {mine[0]} x {mine[1]} pixels, those in {other} {others[0]} x "
            f"{others[1]}\n  bring all images to one size"
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


def account(files: Sequence[IngestedFile], dictionary: Dictionary, subset: str | None = None) -> dict:
    """Where every row went, in all and by file: `read` = `dropped`, by reason, + the `rows` of all `splits`; of these
    `rows` = `dropped`, by the values that a row lacks, + `used`.

    A row that lacks values in several columns counts under all their names together. Rows that are only predicted may lack
    any. `rare` counts by column the levels, and their training rows, that are one level for being rare. `alike` has by column
    the groups of levels that look the same, each a list of levels with their training rows; `columns` has their kinds.
    `subset` is the column that is 0 outside the subset of the only model; training rows outside are dropped too.
    """
    by_file = {file.manifest.file: account_file(file, dictionary.required) for file in files}
    for file, of_file in zip(files, by_file.values(), strict=True):
        train, outside = of_file["splits"]["train"], rows_of_zero([file], dictionary, subset) if subset else 0
        train["used"] -= outside
        train["dropped"] |= {NOT_IN_SUBSET: outside} if outside else {}
    rare = {
        name: {"levels": column.rare_levels, "rows": column.rare_rows}
        for name, column in dictionary.columns.items()
        if column.rare_levels
    }
    texts = {
        name: counted_levels(column, files, dictionary.required)
        for name, column in dictionary.columns.items()
        if column.kind == "text" and column.distinct and column.distinct <= MOST_COMPARED
    }
    alike = {name: groups for name, values in texts.items() if (groups := alike_levels(values))}
    columns = {name: column.kind for name, column in dictionary.columns.items() if name != subset}
    kinds = {"columns": columns, "data": dictionary.data}
    return {**added(list(by_file.values())), "rare": rare, "alike": alike, "files": by_file, **kinds}


def rows_of_zero(files: Sequence[IngestedFile], dictionary: Dictionary, column: str) -> int:
    """How many training rows that lack no required value have a 0 in a column."""
    values = training_values(files, column, dictionary.columns[column].kind, dictionary.required)
    return int(values.filter(pl.col("value") == 0)["rows"].sum())


def alike_levels(values: pl.DataFrame) -> list[list[tuple[str, int]]]:
    """Return groups of texts that look the same, each text with its training rows. They differ only in blanks at their ends,
    in invisible characters, or in how Unicode composes a letter."""
    groups: dict[str, list[tuple[str, int]]] = {}
    for level, rows in values.iter_rows():
        groups.setdefault(shape_of(level), []).append((level, rows))
    return [group for group in groups.values() if len(group) > 1]


def shape_of(level: str) -> str:
    """Return a level as it looks: composed (NFC), without formatting characters (Cf) and blanks at its ends."""
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
    patterns = file.levels(MISSING)
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
