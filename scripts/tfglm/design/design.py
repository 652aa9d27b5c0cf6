"""Formula and dictionary together: which coefficients there are. What can be refused before training is refused here.

A term is a product of factors. A categorical factor chooses a level; a numeric one multiplies, by one number or, as
`poly(x, 3)`, by one of several. So a term consists of *parts*, each a table of coefficients by level and one number to
multiply with, and the linear predictor is a sum of lookups: eta = sum over parts of number * table[level].
"""

import json
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl

from tfglm import digests
from tfglm.config import DesignConfig, PathConfig
from tfglm.data import tally
from tfglm.data.dictionary import ABSENT, RARE, VALUE_TYPES, Column, Dictionary, labels, training_values, written
from tfglm.data.encoding import MOST_LEVELS
from tfglm.data.shards import MOST_CODES, IngestedFile, Kind
from tfglm.design import transforms
from tfglm.design.formula import FormulaFactor, FormulaTerm, parse, parse_factor
from tfglm.errors import UserError, nearest
from tfglm.families import FAMILIES

INTERCEPT = "Intercept"

MANY_LEVELS = 1000
"""From which on a message does not list them."""

MOST_COMBINATIONS = 2**26
"""Possible combinations of the levels of an interaction; a pass holds a table of them, 4 bytes each."""

LARGEST_INFORMATION = 4e9
"""Bytes of the dense part of the information matrix and its coupling to the eliminated term, from which on a model is refused:
the chief holds several of such size, each worker at least two."""


LARGEST_SCORES = 2e9
"""Bytes of a number for each cluster and coefficient, from which on a model is refused: the chief holds a few of such size, each
worker one or two, and TensorFlow sends no more than 2^31 at once."""


@dataclass(frozen=True)
class Categorical:
    """A factor with levels. The last ones may stand for others: RARE for the values in `rare`, if there are any, and ABSENT for
    a missing value, if `missing`. `reference` is the level that the formula asks for, if it does."""

    name: str
    column: str
    column_kind: str
    levels: tuple[str, ...]
    rare: tuple[str, ...] = ()
    missing: bool = False
    reference: str | None = None

    @cached_property
    def numbers(self) -> dict[str | None, int]:
        """The number of the level that each value has, by its label; None is a missing value."""
        # A value may be written like a level that is made, in a column that has no such level.
        made = [RARE] * bool(self.rare) + [ABSENT] * self.missing
        values = self.levels[: len(self.levels) - len(made)]
        numbers: dict[str | None, int] = {level: number for number, level in enumerate(values)}
        numbers |= dict.fromkeys(self.rare, len(values))
        return numbers | ({None: len(self.levels) - 1} if self.missing else {})

    @cached_property
    def _table(self) -> pl.DataFrame:
        """The same as a table."""
        known = {value: number for value, number in self.numbers.items() if value is not None}
        columns = {"value": list(known), "level": list(known.values())}
        return pl.DataFrame(columns, {"value": pl.String, "level": pl.Int32})

    def levels_of(self, values: pl.Series, otherwise: int) -> np.ndarray:
        """The numbers of the levels of some values of the column, in which none is missing, int32; `otherwise` of one that has no
        level."""
        texts = written(values.cast(VALUE_TYPES[self.column_kind])).alias("value").to_frame()
        found = texts.join(self._table, on="value", how="left", maintain_order="left")["level"]
        return found.fill_null(otherwise).to_numpy()

    def level_of_missing(self, otherwise: int) -> int:
        """The number of the level of a missing value."""
        return self.numbers.get(None, otherwise)


@dataclass(frozen=True)
class Numeric:
    """A factor that multiplies, by one or several numbers: the columns that `learnt` makes of its column.

    A fit uses (number - center) / scale, or number / scale where that would change the model, so that the information matrix
    is well conditioned.
    """

    name: str
    column: str
    learnt: tuple[dict, ...]
    center: tuple[float, ...]
    scale: tuple[float, ...]

    @property
    def width(self) -> int:
        return len(self.scale)


@dataclass(frozen=True)
class Clusters:
    """The clusters of the standard errors: training rows with the same value of `column`, as it is in the data. What data.rare
    makes of it for categorical terms does not concern them. `count` is how many there are; they have the numbers 0 to
    count - 1 in the order of their values (`data.dictionary.training_values`)."""

    column: str
    column_kind: Kind
    count: int


@dataclass(frozen=True)
class Term:
    """A product of factors, by their names; the intercept has none. With several categorical ones, `combinations` are the
    combinations of their levels that occur in training rows, as positions in a table of all combinations, the last factor
    running fastest."""

    name: str
    categorical: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    combinations: tuple[int, ...] = ()


@dataclass(frozen=True)
class Part:
    """The coefficients of a term that share a multiplier: its factors with, for each, which of its numbers it is."""

    term: Term
    multiplier: tuple[tuple[str, int], ...]
    where: slice

    @property
    def size(self) -> int:
        return self.where.stop - self.where.start

    @property
    def coding(self) -> tuple[str, ...]:
        """The categorical factors whose levels choose the coefficient."""
        return self.term.categorical


@dataclass(frozen=True)
class Design:
    """A model ready to be fitted. The coefficient vector has every level of every categorical factor, in formula order.

    A row without a value in a `required` column is not used. `known_after_departure` are the columns in the model that a
    prediction made before departure could not use; `remarks` what else a reader should know of how it was made. `data` has the
    digests of the manifests of the files that it was made for.
    """

    model: str
    formula: str
    family: str
    response: str | None
    terms: tuple[Term, ...]
    categorical: tuple[Categorical, ...]
    numeric: tuple[Numeric, ...]
    required: tuple[str, ...]
    rows: dict[str, int]
    weights: str | None = None
    frequency: str | None = None
    trials: str | None = None
    offset: Numeric | None = None
    std_errors: Literal["classical", "quasi", "robust", "cluster"] = "classical"
    cluster: Clusters | None = None
    l1: float = 0.0
    l2: float = 0.0
    path: PathConfig | None = None
    known_after_departure: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    data: tuple[str, ...] = ()

    @cached_property
    def factors(self) -> dict[str, Categorical | Numeric]:
        return {factor.name: factor for factor in (*self.categorical, *self.numeric)}

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """In the order of the coefficient vector."""
        made, start = [], 0
        for term in self.terms:
            size = self.levels_of(term.categorical)
            widths = (range(self.factors[name].width) for name in term.numeric)
            for which in product(*widths):
                multiplier = tuple(zip(term.numeric, which, strict=True))
                made.append(Part(term, multiplier, slice(start, start + size)))
                start += size
        return tuple(made)

    def levels_of(self, coding: tuple[str, ...]) -> int:
        """Into how many groups the factors divide the rows."""
        if len(coding) > 1:
            return len(self.combinations[coding])
        return len(self.factors[coding[0]].levels) if coding else 1

    @cached_property
    def combinations(self) -> dict[tuple[str, ...], tuple[int, ...]]:
        return {term.categorical: term.combinations for term in self.terms if len(term.categorical) > 1}

    @cached_property
    def codings(self) -> tuple[tuple[str, ...], ...]:
        """The different sets of categorical factors by whose levels coefficients are chosen."""
        return tuple(dict.fromkeys(part.coding for part in self.parts if part.coding))

    def levels(self, coding: tuple[str, ...]) -> np.ndarray:
        """The number of the level of each factor in each group, [groups, factors]."""
        sizes = [len(self.factors[name].levels) for name in coding]
        groups = np.array(self.combinations[coding]) if len(coding) > 1 else np.arange(self.levels_of(coding))
        return np.stack(np.unravel_index(groups, sizes), axis=1) if coding else np.zeros((1, 0), np.int64)

    def projection(self, coarse: tuple[str, ...], fine: tuple[str, ...]) -> np.ndarray:
        """The group of the coarse coding that each group of the fine one belongs to."""
        numbers = self.levels(fine)[:, [fine.index(name) for name in coarse]]
        sizes = [len(self.factors[name].levels) for name in coarse]
        joint = np.ravel_multi_index(tuple(numbers.T), sizes)
        return np.searchsorted(self.combinations[coarse], joint) if len(coarse) > 1 else joint

    @cached_property
    def slices(self) -> dict[str, slice]:
        """Where each term lies in the coefficient vector."""
        where: dict[str, slice] = {}
        for part in self.parts:
            before = where.get(part.term.name, part.where)
            where[part.term.name] = slice(before.start, part.where.stop)
        return where

    @property
    def size(self) -> int:
        """Length of the coefficient vector."""
        return self.parts[-1].where.stop

    @property
    def unit_mass(self) -> bool:
        """Whether each row that takes part counts once."""
        return not (self.weights or self.frequency or self.trials)

    @cached_property
    def group_type(self) -> np.dtype:
        """The smallest signed type for the number of a group, or the negative reason why there is none: what is read most often
        in a pass is read faster."""
        sizes = [self.levels_of(coding) for coding in self.codings]
        largest = max([*sizes, self.cluster.count if self.cluster else 0], default=0)
        return np.dtype(np.int16 if largest <= np.iinfo(np.int16).max else np.int32)

    @property
    def penalised(self) -> bool:
        return bool(self.l1 or self.l2 or self.path)

    @property
    def intercept(self) -> int | None:
        """Its place in the coefficient vector."""
        return 0 if self.terms[0].name == INTERCEPT else None

    @property
    def penalised_coefficients(self) -> np.ndarray:
        """1 for each coefficient, 0 for the intercept."""
        which = np.ones(self.size)
        if self.intercept is not None:
            which[self.intercept] = 0.0
        return which

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the data that the model uses, the response first."""
        extra = [self.response, self.weights, self.frequency, self.trials]
        used = [*filter(None, extra), *(factor.column for factor in self.factors.values())]
        used += [one.column for one in (self.offset, self.cluster) if one]
        return tuple(dict.fromkeys(used))

    @property
    def number_columns(self) -> frozenset[str]:
        """Those whose values it reads as numbers."""
        used = [self.response, self.weights, self.frequency, self.trials, self.offset and self.offset.column]
        return frozenset(filter(None, [*used, *(factor.column for factor in self.numeric)]))

    @property
    def identified_columns(self) -> frozenset[str]:
        """Those whose values it tells apart, as levels or clusters."""
        return frozenset(one.column for one in (*self.categorical, self.cluster) if one)

    @cached_property
    def to_predict(self) -> "Design":
        """The same model of rows whose response, weight and cluster need not be known; a row lacks what it needs only if it lacks
        a covariate."""
        without = dict.fromkeys(("response", "weights", "frequency", "trials", "cluster"))
        made = replace(self, **without)
        return replace(made, required=tuple(name for name in self.required if name in made.columns))

    @property
    def warnings(self) -> list[str]:
        """What whoever reads the results should know of the model."""
        if not self.known_after_departure:
            return list(self.remarks)
        names = ", ".join(f"`{name}`" for name in self.known_after_departure)
        return [
            f"the model uses {names}, known only after departure: it cannot predict before a flight departs, and its metrics "
            f"are better than those of a prediction made then would be",
            *self.remarks,
        ]

    def by_term(self, vector: np.ndarray) -> dict[str, np.ndarray]:
        """The parts of a coefficient vector, as the passes take it."""
        return {term: vector[where] for term, where in self.slices.items()}

    def coefficients(self) -> Iterator[tuple[str, str]]:
        """Term and level ('' for a term without levels) of each coefficient, in order."""
        for part in self.parts:
            names = [self.factors[name].levels for name in part.coding]
            which = [str(number + 1) for name, number in part.multiplier if self.factors[name].width > 1]
            for group in self.levels(part.coding).tolist():
                levels = [levels[number] for levels, number in zip(names, group, strict=True)]
                yield part.term.name, ":".join([*levels, *which])

    def write(self, path: Path) -> None:
        digests.write_text(path, self.as_json)

    @classmethod
    def load(cls, path: Path) -> "Design":
        """Raises UserError if the file has changed since it was written."""
        return cls._of(digests.read_json(path))

    @cached_property
    def as_json(self) -> str:
        # Not by `asdict`, which copies every level.
        return json.dumps(self, default=_plain, indent=1)

    @classmethod
    def from_json(cls, text: str) -> "Design":
        return cls._of(json.loads(text))

    @classmethod
    def _of(cls, stored: dict) -> "Design":
        of_path = stored.pop("path")
        raw = _tuples(stored) | {"path": of_path and PathConfig.model_validate(of_path)}
        raw["terms"] = tuple(Term(**term) for term in raw["terms"])
        raw["categorical"] = tuple(Categorical(**factor) for factor in raw["categorical"])
        raw["numeric"] = tuple(Numeric(**factor) for factor in raw["numeric"])
        raw["offset"] = raw["offset"] and Numeric(**raw["offset"])
        raw["cluster"] = raw["cluster"] and Clusters(**raw["cluster"])
        return cls(**raw)


def _plain(value) -> dict:
    """What JSON has of an object."""
    return (
        value.model_dump()
        if isinstance(value, PathConfig)
        else {field.name: getattr(value, field.name) for field in fields(value)}
    )


def _tuples(value):
    """JSON with tuples for lists."""
    if isinstance(value, dict):
        return {key: _tuples(one) for key, one in value.items()}
    return tuple(_tuples(one) for one in value) if isinstance(value, list) else value


def design(
    model: str,
    settings: DesignConfig,
    dictionary: Dictionary,
    files: Sequence[IngestedFile],
    known_late: Collection[str] = (),
) -> Design:
    """The design of one model; `known_late` are the columns that are known only after departure.

    Raises UserError for what cannot be fitted: see the checks below.
    """
    where = f"models.{model}"
    made = _Maker(where, settings, dictionary, files).design(model)
    late = tuple(name for name in made.columns[1:] if name in known_late)
    made = replace(made, known_after_departure=late)
    check_width(made, where)
    check_scores(made, where)
    return made


class _Maker:
    """Makes the parts of one design."""

    def __init__(self, where: str, settings: DesignConfig, dictionary: Dictionary, files: Sequence[IngestedFile]):
        self.where, self.settings, self.dictionary, self.files = where, settings, dictionary, files
        self.categorical: dict[str, Categorical] = {}
        self.numeric: dict[str, Numeric] = {}
        self.remarks: list[str] = []

    def design(self, model: str) -> Design:
        settings, where = self.settings, f"{self.where}.formula"
        formula = parse(settings.formula, where)
        check_rows(self.dictionary)
        check_response(self.column(formula.response, where), settings, self.where)
        for term in formula.terms:
            for factor in term.factors:
                self.check_factor(factor, formula.response, where)
        terms = tuple(self.term(term, where) for term in formula.terms)
        intercept = (Term(INTERCEPT),) if formula.intercept else ()
        kind, cluster = settings.errors
        return Design(
            model,
            settings.formula,
            settings.family,
            formula.response,
            (*intercept, *terms),
            tuple(self.categorical.values()),
            tuple(self.numeric.values()),
            tuple(self.dictionary.required),
            self.dictionary.rows,
            weights=self.multiplicity("weights"),
            frequency=self.multiplicity("frequency"),
            trials=self.multiplicity("trials"),
            offset=self.offset(),
            std_errors=kind,
            cluster=self.cluster(cluster) if cluster else None,
            l1=settings.l1,
            l2=settings.l2,
            path=settings.path,
            remarks=tuple(self.remarks),
            data=tuple(file.manifest.digest for file in self.files),
        )

    def column(self, name: str, where: str) -> Column:
        """The column `name`. Raises UserError if it was not kept."""
        if name not in self.dictionary.columns:
            raise UserError(
                f"{where}: no column `{name}`{nearest(name, self.dictionary.columns)}\n"
                f"  there are: {', '.join(self.dictionary.columns)}\n  to add one, name it in data.columns"
            )
        return self.dictionary.columns[name]

    def check_factor(self, factor: FormulaFactor, response: str, where: str) -> None:
        self.column(factor.column, where)
        if factor.column == response:
            raise UserError(
                f"{where}: `{response}` is the response and stands on the right-hand side too; remove it there"
            )

    def term(self, term: FormulaTerm, where: str) -> Term:
        categorical, numeric = [], []
        for factor in term.factors:
            column = self.dictionary.columns[factor.column]
            if column.kind == "text" and factor.calls:
                raise UserError(f"{where}: `{factor.name}`: `{column.name}` is text")
            if column.kind == "text" or factor.categorical:
                self.add(self.categorical, self.categorical_factor(factor, column, where), where)
                categorical.append(factor.name)
            else:
                if factor.name not in self.numeric:
                    self.numeric[factor.name] = self.numeric_factor(factor, column, where)
                numeric.append(factor.name)
        # In one order, for two terms may have the same factors in different orders.
        categorical.sort(key=list(self.categorical).index)
        numeric.sort(key=list(self.numeric).index)
        combinations = self.combinations(tuple(categorical), where) if len(categorical) > 1 else ()
        return Term(term.name, tuple(categorical), tuple(numeric), combinations)

    def add(self, factors: dict[str, Categorical], factor: Categorical, where: str) -> None:
        """Keep a factor; two of one name must ask for the same reference level."""
        before = factors.get(factor.name, factor)
        if factor.reference and before.reference and factor.reference != before.reference:
            raise UserError(
                f"{where}: `{factor.name}` has two reference levels, {before.reference} and {factor.reference}"
            )
        factors[factor.name] = factor if factor.reference else before

    def numeric_factor(self, factor: FormulaFactor, column: Column, where: str) -> Numeric:
        """Raises UserError if the column has missing values as a level, or a value that a function cannot take."""
        where = f"{where}: `{factor.name}`"
        if column.missing_rows is not None:
            raise UserError(
                f"{where} is used as a number, so missing values cannot be a level of it\n"
                f"  write C({column.name}), or take it out of data.missing"
            )
        if column.levels is None and not factor.calls:
            return Numeric(factor.name, column.name, (), (column.mean,), (math.sqrt(column.variance) or 1.0,))
        if column.levels is None:
            values, rows = tally.sample(self.files, column.name, self.dictionary.required)
            if rows.sum() < self.dictionary.rows["train"] and any(
                call.function in transforms.LEARNING for call in factor.calls
            ):
                self.remarks.append(
                    f"`{factor.name}` learnt from a sample of {int(rows.sum()):,} training rows, as `{column.name}` has too "
                    f"many distinct values to count"
                )
        else:
            values, rows = np.array(column.levels, float), np.array(column.train_rows)
            values, rows = values[rows > 0], rows[rows > 0]
        if self.settings.frequency and any(call.function in transforms.LEARNING for call in factor.calls):
            values, rows = tally.repeated(self.files, column.name, self.settings.frequency, self.dictionary.required)
        # Of a plain column these are known exactly, while values and rows are those of a sample.
        moments = (self.dictionary.rows["train"], column.mean, column.variance) if column.levels is None else None
        learnt, columns = transforms.learn(
            factor.calls, values, rows, where, None if self.settings.frequency else moments
        )
        center = np.average(columns, axis=0, weights=rows)
        spread = np.sqrt(np.average((columns - center) ** 2, axis=0, weights=rows))
        spread[spread == 0] = 1.0
        return Numeric(factor.name, column.name, tuple(learnt), tuple(center.tolist()), tuple(spread.tolist()))

    def combinations(self, coding: tuple[str, ...], where: str) -> tuple[int, ...]:
        """The combinations of levels that occur."""
        factors = [self.categorical[name] for name in coding]
        sizes = [len(factor.levels) for factor in factors]
        if math.prod(sizes) > MOST_COMBINATIONS:
            raise UserError(
                f"{where}: `{':'.join(coding)}` has {math.prod(sizes):,} possible combinations of levels, and an interaction "
                f"may have {MOST_COMBINATIONS:,}; lump rare levels with data.rare"
            )
        found = np.zeros(0, np.int64)
        for file in self.files:
            columns = [factor.column for factor in factors]
            codes = tally.combinations(file, columns, self.dictionary.required)
            numbers = []
            for k, factor in enumerate(factors):
                levels = factor.levels_of(file.values(file.codes(factor.column).name), -1)
                numbers.append(np.append(np.int32(factor.level_of_missing(-1)), levels)[codes[:, k]])
            found = np.union1d(found, np.ravel_multi_index(numbers, sizes))
        return tuple(found.tolist())

    def multiplicity(self, key: str) -> str | None:
        """The column of `weights`, `frequency` or `trials`. Raises UserError for what cannot count a row."""
        name, where = getattr(self.settings, key), f"{self.where}.{key}"
        if name is None:
            return None
        column = self.column(name, where)
        problem = None
        if column.kind == "text":
            problem = "is text"
        elif column.missing_rows is not None:
            problem = "has missing values as a level; take it out of data.missing"
        elif column.minimum < 0:
            problem = f"has the negative value {column.minimum:g}"
        elif column.maximum == 0:
            problem = "is 0 in all training rows"
        elif key != "weights" and column.kind != "integer":
            problem = "must hold whole numbers"
        if problem:
            raise UserError(
                f"{where}: `{name}` {problem}\n  correct it under data.derive, or leave such rows out in data.where"
            )
        return name

    def offset(self) -> Numeric | None:
        if self.settings.offset is None:
            return None
        where = f"{self.where}.offset"
        factor = parse_factor(self.settings.offset, self.settings.offset, where)
        column = self.column(factor.column, where)
        if column.kind == "text" or factor.categorical:
            raise UserError(f"{where}: `{factor.name}` is no number")
        made = self.numeric_factor(factor, column, where)
        if made.width > 1:
            raise UserError(f"{where}: `{factor.name}` is more than one number")
        return made

    def cluster(self, name: str) -> Clusters:
        """Raises UserError if the column has too many values or one alone, or if training rows without a value are kept."""
        where = f"{self.where}.std_errors"
        column = self.column(name, where)
        if column.missing_rows:
            raise UserError(
                f"{where}: {column.missing_rows:,} training rows have no value of `{name}`, so they belong to no cluster, and "
                f"data.missing keeps them\n"
                f"  take `{name}` out of data.missing, so that they are dropped and counted, or derive a column under "
                f"data.derive that says which cluster they belong to"
            )
        check_levels(name, column, where)
        if column.distinct < 2:
            raise UserError(
                f"{where}: `{name}` has the one value `{column.labels[0]}` in the training rows, so there is one cluster"
            )
        return Clusters(name, column.kind, column.distinct)

    def categorical_factor(self, factor: FormulaFactor, column: Column, where: str) -> Categorical:
        """The factor with its levels. Raises UserError if there are too many or too few."""
        check_levels(factor.name, column, where)
        if column.levels is None:
            counted = training_values(self.files, column.name, column.kind, self.dictionary.required)
            levels, rare = labels(column, counted)
        else:
            levels, rare = column.labels, column.rare
        if len(levels) < 2:
            raise UserError(
                f"{where}: `{factor.name}` has the one level `{levels[0]}` in the training rows, so it has no effect to "
                f"estimate; remove it from the formula"
            )
        if factor.reference is not None and factor.reference not in levels:
            raise UserError(
                f"{where}: `{factor.name}`: no level `{factor.reference}` in the training rows"
                f"{there_are(factor.reference, levels)}"
            )
        made = (tuple(levels), tuple(rare), bool(column.missing_rows))
        return Categorical(factor.name, column.name, column.kind, *made, factor.reference)


def check_levels(name: str, column: Column, where: str) -> None:
    """Raise UserError if the values of the column cannot be told apart."""
    if column.distinct is not None:
        return
    if column.kind == "number":
        raise UserError(
            f"{where}: `{name}`: `{column.name}` is a number with more than {MOST_CODES - 1:,} distinct values in one file; use "
            f"it as a number, without C()\n"
            f"  if it is an identifier, read it as one, with `type: integer` or `string` in the layout"
        )
    raise UserError(
        f"{where}: `{name}`: `{column.name}` has more than {MOST_LEVELS:,} distinct values in one file, too many to tell apart"
        f"\n  use it as a number, without C(), or derive a coarser column under data.derive"
    )


def there_are(name: str, levels: Sequence[str]) -> str:
    """What a message says of the levels that there are, where one is not."""
    if len(levels) > MANY_LEVELS:
        return f"\n  there are {len(levels):,}, from {levels[0]} to {levels[-1]}"
    return f"{nearest(name, levels)}\n  there are: {', '.join(levels)}"


def check_rows(dictionary: Dictionary) -> None:
    """Raise UserError if nothing is left to train on."""
    if not dictionary.rows["train"]:
        raise UserError(
            "no training rows are left; results/data/rows.json tells which conditions dropped them\n"
            "  widen data.where or data.split.train, or take columns that are mostly missing out of data.columns"
        )


def check_response(column: Column, settings: DesignConfig, where: str) -> None:
    """Raise UserError unless the family can take this response and it varies."""
    if column.missing_rows is not None:
        raise UserError(
            f"{where}: the response `{column.name}` cannot have missing values as a level; take it out of data.missing"
        )
    if column.kind == "text":
        raise UserError(f"{where}: the response `{column.name}` is text; derive a number from it under data.derive")
    if column.minimum == column.maximum and not settings.trials:
        raise UserError(
            f"{where}: the response `{column.name}` is {column.minimum:g} in all training rows, so there is nothing to "
            f"fit\n  check its definition in data.derive and the conditions in data.where"
        )
    refusal = FAMILIES[settings.family].refusal(column, bool(settings.trials), bool(settings.weights))
    if refusal:
        raise UserError(f"{where}: family {settings.family} {refusal}")


def check_width(design: Design, where: str) -> None:
    """Raise UserError if the information matrix would be too large to hold."""
    sizes = [part.size for part in design.parts]
    eliminated = max(sizes)
    dense = sum(sizes) - eliminated
    needed = 8.0 * dense * (dense + eliminated)
    if needed > LARGEST_INFORMATION:
        widest = max(design.parts, key=lambda part: part.size).term.name
        raise UserError(
            f"{where}.formula: {design.size:,} coefficients, of which all but the {eliminated:,} of `{widest}` are dense: the "
            f"information matrix needs {needed / 1e9:,.1f} GB, and {LARGEST_INFORMATION / 1e9:,.1f} GB are the limit (about "
            f"{math.isqrt(int(LARGEST_INFORMATION / 8)):,} dense coefficients)\n"
            f"  lump rare levels with data.rare, or leave out an interaction"
        )


def check_scores(design: Design, where: str) -> None:
    """Raise UserError if the scores by cluster would be too large to hold."""
    if not design.cluster:
        return
    needed = 8.0 * design.cluster.count * design.size
    if needed > LARGEST_SCORES:
        raise UserError(
            f"{where}.std_errors: {design.cluster.count:,} clusters of `{design.cluster.column}` times {design.size:,} "
            f"coefficients are {needed / 1e9:,.1f} GB of scores, and {LARGEST_SCORES / 1e9:,.1f} GB are the limit\n"
            f"  cluster by a coarser column, or lump rare levels of the terms with data.rare"
        )


def check_reference(design: Design, reference: dict[str, str]) -> None:
    """Raise UserError if a reference level asked for is not a level of a categorical factor of the model."""
    levels = {factor.name: factor.levels for factor in design.categorical}
    where = f"models.{design.model}.reference"
    for name, level in reference.items():
        if name not in levels:
            raise UserError(
                f"{where}: no categorical term `{name}`{nearest(name, levels)}\n  there are: {', '.join(levels)}"
            )
        if level not in levels[name]:
            raise UserError(f"{where}.{name}: no level `{level}` in the training rows{there_are(level, levels[name])}")
