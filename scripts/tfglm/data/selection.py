"""Select the rows and columns of a file: evaluate the SQL expressions of layout and config over blocks of rows.

An expression reads one row at a time, so an expression of a single column is evaluated once for each distinct value.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl
import pyarrow as pa

from tfglm.config import FILE, RANDOM, SPLITS, Layout, SelectionConfig
from tfglm.data.distinct import Distinct, Recent, joined
from tfglm.data.kinds import Kind
from tfglm.data.sql import check_columns, column_of, dtype_of, expression, parsed
from tfglm.errors import Problems, UserError, nearest

TYPES = {
    "string": pl.String(),
    "integer": pl.Int64(),
    "clock": pl.Int64(),
    "number": pl.Float64(),
    "date": pl.Date(),
    "image": pl.Binary(),
}
"""The types of layout columns in expressions."""

KINDS: dict[type[pl.DataType], Kind] = {
    **dict.fromkeys([pl.String, pl.Date, pl.Datetime, pl.Time], "text"),
    **dict.fromkeys([pl.Int64, pl.Boolean], "integer"),
    pl.Float64: "number",
    pl.Binary: "image",
}
"""The kind of a kept column, by the type of its values."""

MOST_COMBINATIONS = 2**16
"""Most combinations of values of several columns: up to this number, an expression is evaluated once for each combination. For
so few, the engine of polars in memory needs a quarter of the time."""


@dataclass(frozen=True)
class Query:
    """Expressions, by name, that use the same `operands`: columns of the layout, FILE or RANDOM. `derived` are the derived
    columns on the way to them, in order."""

    operands: tuple[str, ...]
    derived: tuple[pl.Expr, ...]
    outputs: tuple[pl.Expr, ...]
    recent: Recent[dict[str, Distinct]] = field(default_factory=Recent, compare=False, repr=False)

    def evaluate(self, operands: Mapping[str, Distinct], rows: int) -> dict[str, Distinct]:
        """The outputs by name, [rows] each. Raises one of FAILURES."""
        if len(self.operands) > 1:
            return self._evaluate_several([operands[name] for name in self.operands])
        if not self.operands:
            constants = self._select([pl.Series("", [None])])
            return {output.name: column(output).take(np.zeros(rows, np.int32)) for output in constants}
        operand = operands[self.operands[0]]
        if self.operands == (RANDOM,):  # each row has a value of its own
            outputs = self._select([pl.Series(RANDOM, operand.values)])
            return {output.name: truth(output) or column(output) for output in outputs}
        if operand.table is None:
            of_values = self._evaluate_values(operand.values)
        else:
            of_values = self.recent.of([operand.values], lambda: self._evaluate_values(operand.values))
        return {name: operand.mapped(output) for name, output in of_values.items()}

    def _evaluate_values(self, values: pa.Array) -> dict[str, Distinct]:
        # The last value is missing; index -1 selects it.
        series = pl.Series(self.operands[0], values).extend_constant(None, 1)
        return {output.name: column(output) for output in self._select([series])}

    def _evaluate_several(self, operands: list[Distinct]) -> dict[str, Distinct]:
        """For each combination of values that occurs, if these are few, else row by row."""
        few = joined(operands, MOST_COMBINATIONS)
        if not few:
            return self._evaluate_rows(operands)
        combinations, numbers, occur = few
        key = tuple(column.numbers.tobytes() for column in combinations)
        of_values = self.recent.of(
            [column.values for column in operands], lambda: self._evaluate_rows(combinations), key
        )
        evaluated = {}
        for name, output in of_values.items():
            table = np.zeros(int(occur[-1]) + 1, np.int32)
            table[occur] = output.indices
            evaluated[name] = Distinct(output.values, numbers, table)
        return evaluated

    def _evaluate_rows(self, operands: list[Distinct]) -> dict[str, Distinct]:
        series = [operand.decoded().alias(name) for name, operand in zip(self.operands, operands, strict=True)]
        return {output.name: column(output) for output in self._select(series)}

    def _select(self, columns: list[pl.Series]) -> list[pl.Series]:
        frame = pl.DataFrame([finite(column) for column in columns])
        lazy = frame.lazy()
        for derived in self.derived:
            lazy = lazy.with_columns(derived)
        # An expression of constants has but one row.
        return (
            lazy.with_columns(self.outputs)
            .select(output.meta.output_name() for output in self.outputs)
            .collect(engine="in-memory" if len(frame) < MOST_COMBINATIONS else "auto")
            .get_columns()
        )


def finite(series: pl.Series) -> pl.Series:
    """The same values; what is no finite number is missing, as in what expressions compute."""
    if series.dtype != pl.Float64 or (known := series.is_finite()).all():
        return series
    return series.set(~known, None)


def column(series: pl.Series) -> Distinct:
    """Return a result of a query in the form of a column that was read."""
    if series.dtype == pl.Boolean:
        return Distinct(pl.Series([0, 1]).to_arrow(), series.cast(pl.Int32).fill_null(-1).to_numpy())
    return Distinct.of(series.to_arrow(compat_level=pl.CompatLevel.oldest()))


def truth(series: pl.Series) -> Distinct | None:
    """Return a condition as a column, row by row; None unless it is true or false for every row."""
    if series.dtype != pl.Boolean or series.null_count() or not len(series):
        return None
    bits = series.to_arrow()
    rows = np.unpackbits(np.frombuffer(bits.buffers()[1], np.uint8), bitorder="little")[bits.offset :][: len(bits)]
    return Distinct(pl.Series([0, 1]).to_arrow(), rows, np.arange(2, dtype=np.int32))


@dataclass(frozen=True, eq=False)
class Selection:
    """The config applied to one layout.

    `kinds` are the kinds of the kept columns, as far as they are known. `needed` are the columns of the layout to read.
    The `queries` compute the `computed` columns and the conditions; other kept columns are read unchanged.
    `reasons` are the names under which rows are dropped, in the order in which conditions are tried.
    """

    kinds: dict[str, Kind | None]
    needed: frozenset[str]
    computed: tuple[str, ...]
    reasons: tuple[str, ...]
    splits: tuple[int, ...]
    queries: tuple[Query, ...]

    @property
    def operands(self) -> frozenset[str]:
        """The columns that expressions read: columns of the layout, FILE and RANDOM."""
        return frozenset(name for query in self.queries for name in query.operands)

    def select(self, operands: Mapping[str, Distinct], rows: int) -> tuple[dict[str, Distinct], np.ndarray, np.ndarray]:
        """Evaluate the queries. Returns the computed columns; for each row the number of the first of the `reasons` to drop
        it, or the number of reasons if it is kept; and the number of its split in SPLITS. Both are small unsigned integers
        [rows]. Raises one of FAILURES."""
        outputs: dict[str, Distinct] = {}
        for query in self.queries:
            outputs |= query.evaluate(operands, rows)
        kept = len(self.reasons)
        split = np.full(rows, len(SPLITS), np.uint8)
        for number in self.splits:
            note_first(split, number, outputs[_SPLIT.format(number)], True)
        reason = np.where(split == len(SPLITS), kept - 1, kept).astype(np.min_scalar_type(kept))
        for number in range(kept - 1):
            note_first(reason, number, outputs[_WHERE.format(number + 1)], False)
        return {name: outputs[name] for name in self.computed}, reason, split


# Names that no column can have.
_WHERE, _SPLIT = "where {}", "split {}"


def note_first(first: np.ndarray, number: int, condition: Distinct, met: bool) -> None:
    """Lower `first`, [rows], to the number of a condition for the rows where the condition is met, or is not met. A
    condition with a missing result is not met."""
    truth = np.append(pl.Series(condition.values).to_numpy() != 0, False)
    table = np.where(truth == met, number, np.iinfo(first.dtype).max).astype(first.dtype)
    np.minimum(first, condition.through(table), out=first)


@dataclass
class KnownColumns:
    """The columns that expressions may use.

    `known` has their types, `roots` the columns that each finally reads, and `derived` the expressions of derived columns.
    `broken` are columns whose own expression is wrong; expressions that use them are not reported.
    """

    known: dict[str, pl.DataType]
    roots: dict[str, frozenset[str]]
    derived: dict[str, pl.Expr]
    broken: set[str]


def columns_of(layout: Layout, derive: Mapping[str, str], name: str, problems: Problems) -> KnownColumns:
    """The columns of a layout of that name, and those that it and the config derive."""
    known = {column: TYPES[of_layout.type] for column, of_layout in layout.columns.items()}
    known |= {FILE: pl.String(), RANDOM: pl.Float64()}
    columns = KnownColumns(known, {column: frozenset([column]) for column in known}, {}, set())
    for where, added in ((f"{name}: derive", layout.derive), ("data.derive", derive)):
        for column, sql in added.items():
            blameless = uses(sql, columns.broken)
            columns.broken.add(column)
            if blameless:
                continue
            key = f"{where}.{column}"
            with problems.collected():
                value, dtype = column_of(expression(sql, key, known), key, known)
                columns.derived[column] = value.alias(column)
                columns.roots[column] = operands_of(value, columns.roots)
                known[column] = dtype
                columns.broken.remove(column)
    return columns


def _conditions(settings: SelectionConfig, columns: KnownColumns, problems: Problems) -> dict[str, pl.Expr]:
    """The conditions of `where` and `split` by the names of their outputs."""
    keys = [
        (f"data.where.{reason}", sql, _WHERE.format(number))
        for number, (reason, sql) in enumerate(settings.where.items(), start=1)
    ]
    of_splits = [(number, split, getattr(settings.split, split)) for number, split in enumerate(SPLITS)]
    keys += [(f"data.split.{split}", sql, _SPLIT.format(number)) for number, split, sql in of_splits if sql]
    conditions: dict[str, pl.Expr] = {}
    for key, sql, output in keys:
        if not uses(sql, columns.broken):
            with problems.collected():
                conditions[output] = condition(sql, key, columns.known)
    return conditions


_selections: dict[tuple[str, str, str], Selection | UserError] = {}


def selection(layout: Layout, settings: SelectionConfig, name: str = "layout") -> Selection:
    """Return the config applied to a layout of that name. It is kept, because the Snakefile and jobs ask for each of many
    files. Raises UserError with every invalid expression, or expression of a column that does not exist."""
    key = layout.model_dump_json(), settings.model_dump_json(include=set(SelectionConfig.model_fields)), name
    if key not in _selections:
        try:
            _selections[key] = _selection(layout, settings, name)
        except UserError as error:
            _selections[key] = error
    if isinstance(found := _selections[key], UserError):
        raise found
    return found


def _selection(layout: Layout, settings: SelectionConfig, name: str) -> Selection:
    problems = Problems()
    columns = columns_of(layout, settings.derive, name, problems)
    for column in settings.columns:
        if column not in columns.known and column not in columns.broken:
            problems.messages.append(
                f"data.columns: no column `{column}`{nearest(column, columns.known)}\n"
                f"  the layout and data.derive have: {', '.join(columns.known)}\n"
                f"  choose one of these, or define `{column}` under data.derive"
            )
    conditions = _conditions(settings, columns, problems)
    problems.messages[:] = map(as_written, problems.messages)
    problems.check()
    roots, derived = columns.roots, columns.derived
    plain = tuple(name for name in settings.columns if name in layout.columns and name not in derived)
    computed = tuple(name for name in settings.columns if name not in plain)
    outputs = [pl.col(name) for name in computed]
    outputs += [met.alias(output) for output, met in conditions.items()]
    by_operands: dict[frozenset[str], list[pl.Expr]] = {}
    for output in outputs:
        by_operands.setdefault(operands_of(output, roots), []).append(output)
    queries = tuple(
        Query(tuple(sorted(operands)), on_the_way(some, derived), tuple(some)) for operands, some in by_operands.items()
    )
    used = {name for query in queries for name in query.operands}
    return Selection(
        kinds={column: KINDS.get(columns.known[column].base_type()) for column in settings.columns},
        needed=frozenset(plain) | (used - {FILE, RANDOM}),
        computed=computed,
        reasons=(*(f"where: {reason}" for reason in settings.where), "in no split"),
        splits=tuple(number for number, split in enumerate(SPLITS) if getattr(settings.split, split)),
        queries=queries,
    )


def check_names(sql: str, where: str, known: Collection[str], unlisted: Collection[str]) -> None:
    """Raise UserError for a column that an expression has and the rows have not, as `check_columns` does; not for what is no SQL,
    which `selection` reports."""
    try:
        value = parsed(sql, where)
    except UserError:
        return
    try:
        check_columns(value, sql, where, known, {*unlisted, FILE, RANDOM})
    except UserError as error:
        raise UserError(as_written(str(error))) from None


def as_written(message: str) -> str:
    """A message about the subset or the event study of a model with what the user has written."""
    message = re.sub(r"CASE WHEN \((.*?)\) THEN \w+ ELSE 0 END", r"\1", message)
    message = re.sub(
        r"`REPLACE\(.*?CASE WHEN (\w+) IS NULL .*? \|\| (\w+) \|\| '\|'.*?'\|', ''\)`", r"`sunab(\1, \2)`", message
    )
    return re.sub(r"^data\.derive\.subset_(\w+)", r"models.\1.subset", message)


def uses(sql: str, columns: Collection[str]) -> bool:
    """Return whether an expression, as far as it can be parsed, reads some of these columns."""
    try:
        return bool(columns) and not set(columns).isdisjoint(parsed(sql, "").meta.root_names())
    except UserError:
        return False


def condition(sql: str, where: str, known: Mapping[str, pl.DataType]) -> pl.Expr:
    """A condition, true or false. Raises UserError, as `expression` does, and for what is neither true nor false."""
    value = expression(sql, where, known)
    dtype = dtype_of(value, known)
    if not (dtype == pl.Boolean or dtype.is_numeric() or dtype == pl.Null):
        raise UserError(f"{where}: `{sql}` is neither true nor false, but {dtype}; compare it with something")
    return value.cast(pl.Boolean)


def operands_of(value: pl.Expr, roots: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return the columns that an expression finally reads. `roots` has these for all columns that it may use."""
    return frozenset().union(*(roots[name] for name in value.meta.root_names()))


def on_the_way(outputs: Iterable[pl.Expr], derived: Mapping[str, pl.Expr]) -> tuple[pl.Expr, ...]:
    """The derived columns that some expressions need, in their order."""
    wanted = {name for output in outputs for name in output.meta.root_names()}
    for name in reversed(list(derived)):
        if name in wanted:
            wanted |= set(derived[name].meta.root_names())
    return tuple(expression for name, expression in derived.items() if name in wanted)
