"""Which rows and columns of a file are kept: the SQL expressions of layout and config as one query over a block of rows."""

from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from tfglm.config import FILE, RANDOM, SPLITS, Layout, SelectionConfig
from tfglm.errors import UserError, nearest

REASON = "__reason__"
SPLIT = "__split__"


@dataclass(frozen=True)
class Selection:
    """What one layout makes of the config.

    `needed`: the columns of the layout that must be read. Of those, `plain` are kept as they are and `operands` are what
    the expressions look at (FILE and RANDOM may be among these too). `computed` are the kept columns that `query`
    gives. `reasons` are the names under which rows are dropped, in the order in which conditions are tried.
    """

    needed: frozenset[str]
    plain: tuple[str, ...]
    operands: frozenset[str]
    computed: tuple[str, ...]
    reasons: tuple[str, ...]
    derived: tuple[pl.Expr, ...]
    reason: pl.Expr
    split: pl.Expr

    def query(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The columns `computed`; REASON, 0 for a row that is kept, else the number of the first condition that it fails,
        counted from 1; and SPLIT, its number in SPLITS (null where REASON is not 0)."""
        lazy = rows.lazy()
        for one in self.derived:
            lazy = lazy.with_columns(one)
        lazy = lazy.with_columns(self.reason.alias(REASON), self.split.alias(SPLIT))
        return lazy.select(*self.computed, REASON, SPLIT).collect()


def selection(layout: Layout, settings: SelectionConfig) -> Selection:
    """Raises UserError for an expression that is none, or one about a column that is not there."""
    derived: dict[str, pl.Expr] = {}
    known = dict.fromkeys([*layout.columns, FILE, RANDOM])
    for where, added in (("layout", layout.derive), ("data.derive", settings.derive)):
        for name, sql in added.items():
            derived[name] = expression(sql, f"{where}.{name}", known).alias(name)
            known[name] = None
    for name in settings.columns:
        if name not in known:
            raise UserError(
                f"data.columns: no column `{name}`{nearest(name, known)}\n"
                f"  the layout and data.derive have: {', '.join(known)}\n"
                f"  choose one of these, or define `{name}` under data.derive"
            )
    # `when` takes the first condition that is met, in the order in which they are added.
    reason = pl.when(pl.lit(False)).then(pl.lit(0, dtype=pl.UInt16))
    for number, (name, sql) in enumerate(settings.where.items(), start=1):
        met = expression(sql, f"data.where.{name}", known).fill_null(False)
        reason = reason.when(~met).then(pl.lit(number, dtype=pl.UInt16))
    split = pl.when(pl.lit(False)).then(pl.lit(0, dtype=pl.UInt8))
    for number, name in enumerate(SPLITS):
        if sql := getattr(settings.split, name):
            met = expression(sql, f"data.split.{name}", known).fill_null(False)
            split = split.when(met).then(pl.lit(number, dtype=pl.UInt8))
    split = split.otherwise(None)
    unsplit = pl.lit(len(settings.where) + 1, dtype=pl.UInt16)
    reason = reason.when(split.is_null()).then(unsplit).otherwise(pl.lit(0, dtype=pl.UInt16))

    plain = tuple(name for name in settings.columns if name in layout.columns and name not in derived)
    computed = tuple(name for name in settings.columns if name not in plain)
    operands = {*computed, *reason.meta.root_names(), *split.meta.root_names()}
    for name, one in reversed(derived.items()):
        if name in operands:
            operands |= set(one.meta.root_names())
    used = tuple(one for name, one in derived.items() if name in operands)
    operands = frozenset(name for name in operands if name in layout.columns or name in (FILE, RANDOM))
    return Selection(
        needed=frozenset(plain) | (operands - {FILE, RANDOM}),
        plain=plain,
        operands=operands,
        computed=computed,
        reasons=(*(f"where: {name}" for name in settings.where), "in no split"),
        derived=used,
        reason=reason,
        split=split,
    )


def columns_from(layout: Layout, settings: SelectionConfig, names: Iterable[str]) -> set[str]:
    """Some columns of a layout, and all that are derived from them. What is no SQL, ingest refuses; it is passed over here."""
    found = set(names)
    for added in (layout.derive, settings.derive):
        for name, sql in added.items():
            try:
                roots = set(pl.sql_expr(sql).meta.root_names())
            except pl.exceptions.PolarsError:
                continue
            found = found | {name} if roots & found else found - {name}
    return found


def expression(sql: str, where: str, known: Iterable[str]) -> pl.Expr:
    """A polars expression for `sql`. Raises UserError naming the config key `where` and the column that is not there."""
    try:
        made = pl.sql_expr(sql)
    except pl.exceptions.PolarsError as error:
        raise UserError(f"{where}: not an SQL expression: `{sql}`: {error}") from error
    for name in made.meta.root_names():
        if name not in known:
            raise UserError(
                f"{where}: no column `{name}` in `{sql}`{nearest(name, known)}\n  there are: {', '.join(known)}"
            )
    # A file is read block by block, so what looks at other rows would silently look at a block.
    if any(f'"{node}"' in made.meta.serialize(format="json") for node in ("Agg", "Over", "Len")):
        raise UserError(
            f"{where}: `{sql}` looks at other rows (an aggregate or a window); use the row's own columns only"
        )
    return made
