"""`tfglm.fit`: a regression in this process, by the steps of the workflow, without Snakemake and TensorFlow."""

import argparse
import json
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from tfglm import digests, fitting
from tfglm.call.fitted import OF_DATA, FittedModel, quietly
from tfglm.call.rows import (
    TABLE,
    as_table,
    in_plain_names,
    orders_of,
    read_rows,
    remove_own,
    sources_of,
    table_or_paths,
)
from tfglm.config import (
    Config,
    DesignConfig,
    Layout,
    LayoutColumn,
    ResultsConfig,
    SelectionConfig,
    SolverConfig,
    column_problems,
    load,
)
from tfglm.config.base import MOST_MODELS
from tfglm.config.columns import named_columns
from tfglm.config.data import FILE, RANDOM
from tfglm.config.messages import validated
from tfglm.config.root import provenance
from tfglm.data.dictionary import account, merge
from tfglm.data.kinds import ABSENT
from tfglm.data.selection import check_names
from tfglm.data.shards import MANIFEST, IngestedFile
from tfglm.design.build import build_design, check_settings
from tfglm.design.design import Design
from tfglm.distribute.executor import Executor
from tfglm.distribute.local import LocalExecutor, ThreadedExecutor
from tfglm.errors import UserError
from tfglm.families.gaussian import Gaussian
from tfglm.formula.parse import parse
from tfglm.formula.parts import formulas
from tfglm.formula.read import columns_of
from tfglm.formula.response import has_dot
from tfglm.formula.terms import EventStudy
from tfglm.roles.progress import Progress
from tfglm.survey.layout import names_for
from tfglm.survey.written_numbers import decimal_character

OF_RUNS = ("sweep", "export", "predictions", "identity", "interval", "by", "diagnostics", "leverage", "collapse")
"""Keys of a model that are for runs of the workflow."""

OF_COLUMNS = (
    *("where", "derive", "subset", "weights", "frequency", "trials", "offset"),
    *("absorb", "std_errors", "pairwise", "unpenalised"),
)
"""Keys whose values name columns, which may have the names that they have in the data."""

BY_COLUMN = ("reference", "missing", "rare", "order", "pairwise_at", "penalty_factors", "bounds")
"""Keys with a value for each column or term."""

FROM_ELSEWHERE = {
    **dict.fromkeys(("cluster", "clusters"), 'std_errors="cluster(COLUMN)"'),
    **dict.fromkeys(("cov_type", "se", "se_type"), "std_errors"),
    **dict.fromkeys(("fe", "fixed_effects"), "absorb"),
    "sample_weight": "weights",
    "exposure": 'offset="log(COLUMN)"',
}
"""Keywords of other packages -> what they are here."""


def fit(
    formula: str,
    data: Any,
    family: str = Gaussian.name,
    *,
    name: str = "model",
    cache: str | PathLike[str] | None = None,
    workers: int = 1,
    **keys: Any,
) -> FittedModel:
    """Fit a regression to a file or a table.

    The workflow with the same keys gives the same numbers, byte for byte.

    Parameters
    ----------
    formula
        As R writes it, such as `late ~ carrier + s(dep_hour) + (1 | date)`.
    data
        The path of a file, a pattern, or a list of these (CSV, Parquet, Excel, Stata, SPSS, JSON lines); or a table of pandas,
        polars or Arrow, or of anything with `__arrow_c_stream__`.
    family
        A family of the config: gaussian, binomial, poisson, ...
    name
        The name of the model, for messages and tables.
    cache
        A folder that keeps the rows of files, for further models with the same columns. By default this process alone keeps
        them, in a temporary folder: as long as a model needs them, and the latest, up to 256 MB, until it ends. A file or a
        table that has changed is read again.
    workers
        Threads that sum rows at the same time. Their number changes no byte of an exact fit.
    **keys
        Any other key of a model in the config (`std_errors="cluster(date)"`, `weights="w"`, ...), and of its section `data`:
        where, derive, split, missing, rare, order, seed, bad_rows. By default all rows train. `decimal` is `point` or `comma`,
        what is before decimals in CSV files; without it the values tell.

    Returns
    -------
    FittedModel
        A list of these for a formula with several responses, `c(y, z) ~ x`, or lists of terms, `y ~ x + csw(a, b)`. They share
        their rows, and are named `model_1`, `model_2`, ...: `first, *others = fit(...)`, `first.compare(*others)`.

    Raises
    ------
    UserError
        For data that cannot be read, and what the workflow refuses.

    Examples
    --------
    >>> data = {"late": [0, 1, 0, 1, 1, 0, 0, 1], "carrier": ["AA", "UA"] * 4}
    >>> tfglm.fit("late ~ carrier", pd.DataFrame(data), "binomial").tidy()[["term", "level", "estimate"]].round(4)
            term level  estimate
    0  Intercept         -1.0986
    1    carrier    UA    2.1972
    """
    check_words(formula, name, keys)
    try:
        several = list(islice(formulas(formula), MOST_MODELS + 1))
    except ValueError as error:
        raise UserError(f"formula: {error}") from None
    if len(several) > MOST_MODELS:
        raise UserError(f"formula: it stands for more than {MOST_MODELS:,} models; list fewer terms")
    fits = list[FittedModel]()
    for number, each in enumerate(several, start=1):
        try:
            folder = Path(tempfile.mkdtemp(prefix="tfglm-"))
        except OSError as error:
            raise UserError(
                f"no folder for temporary files can be written ({error.strerror}); set TMPDIR to another"
            ) from None
        own = f"{name}_{number}" if several[1:] else name
        try:
            with quietly(own):
                fits.append(_fitted(folder, each, several, data, family, own, cache, workers, dict(keys)))
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        weakref.finalize(fits[-1], remove_own, folder, os.getpid())
    return fits if fits[1:] else fits[0]  # type: ignore[return-value]  # a list only if the formula asks for it


def _fitted(
    folder: Path,
    formula: str,
    several: Sequence[str],
    data: Any,
    family: str,
    name: str,
    cache: Any,
    workers: Any,
    keys: dict[str, Any],
) -> FittedModel:
    """Fit a model to rows with the columns of several formulas, and write what the workflow writes of it into a folder."""
    if not isinstance(workers, int) or workers < 1:
        raise UserError(f"workers: expected a number of threads, such as 4, received {workers!r}")
    keys = {key: plain_value(key, value) for key, value in keys.items()}
    of_data = {key: keys.pop(key) for key in OF_DATA if key in keys}
    decimal = decimal_character(keys.pop("decimal", ""))
    data = table_or_paths(data)
    sources, header, dialect = sources_of(data)
    is_table = TABLE in sources
    if decimal and is_table:
        raise UserError("decimal: a table has numbers, and only files write them; leave it out")
    # Who names `a_b` means the column of this name, not `a b`.
    plain = [column for column in header if [*names_for([column])] == [column]]
    names = names_for([*plain, *(column for column in header if column not in plain)])
    if not names:
        raise UserError("data: the table has no columns")
    formula = in_plain_names(formula, names)
    for given in (of_data, keys):
        given |= {key: in_plain_names(given[key], names) for key in OF_COLUMNS if key in given}
        by_column = {key: given[key] for key in BY_COLUMN if isinstance(given.get(key), Mapping)}
        given |= {
            key: {in_plain_names(name, names): each for name, each in value.items()} for key, value in by_column.items()
        }
    model = {"formula": formula, "family": family, **keys}
    raw = {"data": {"files": list(map(str, sources.values())), "split": {"train": "TRUE"}, **of_data}}
    raw["data"]["columns"] = [*names, *of_data.get("derive", {}), *({FILE, RANDOM} & {*columns_of(formula)})]
    config = load(raw | {"models": {name: model}}, "tfglm.fit")
    parse(config.models[name].formula, f"models.{name}.formula", absorb=config.models[name].absorb)
    every = Layout(columns={column: LayoutColumn(type="string", source=source) for column, source in names.items()})
    if problems := column_problems(config, [every]):
        indexed = [f"`{level}`" for level in getattr(getattr(data, "index", None), "names", []) if level is not None]
        hint = [f"  {', '.join(indexed)} is the index, which is no column; give data.reset_index()"] if indexed else []
        raise UserError("\n".join([*problems, *hint]))
    for place, expressions in (("derive", config.data.derive), ("where", config.data.where)):
        for key, sql in expressions.items():
            check_names(sql, f"data.{place}.{key}", [*names, *of_data.get("derive", {})], config.data.derive)
    used = {column for _, column in named_columns(config)}
    for each in several:
        used |= set() if has_dot(each) else {*columns_of(in_plain_names(each, names))}
    columns = [column for column in (*names, *of_data.get("derive", {}), FILE, RANDOM) if column in used]
    raw["data"]["columns"] = columns or list(names)[:1]
    if has_dot(formula):
        for column in {*names} - used:  # `. - column` keeps no column that the rows then lack
            formula = re.sub(rf"-\s*{column}\b", "", formula)
        model["formula"] = formula
    config = load(raw | {"models": {name: model}}, "tfglm.fit")
    # The types of columns that nothing names need not be found out.
    words = {
        *raw["data"]["columns"],
        *columns_of(formula),
        *re.findall(r"\w+", " ".join(texts([of_data, config.data.derive]))),
    }
    needed = {column: source for column, source in names.items() if column in words}
    selection = validated(SelectionConfig, config.data.model_dump(include=set(SelectionConfig.model_fields)), "data")
    table = as_table(data, [*needed.values()]) if is_table else None
    read = read_rows(sources, table, header, dialect, decimal, needed, selection, cache)
    config = in_order(config, read.files, orders_of(data, needed))
    sections = raw | {"models": {name: model}}
    executor = ThreadedExecutor(workers) if workers > 1 else LocalExecutor()
    fitted = _fit_files(folder, config, name, read.layout, read.files, read.remarks, names, sections, executor)
    fitted._read = read
    return fitted


def check_words(formula: Any, name: Any, keys: Collection[str]) -> None:
    """Raise UserError for a formula or a name that is none, and for keywords of runs and of other packages."""
    if not isinstance(formula, str):
        kind = type(formula).__name__
        raise UserError(f"formula: expected a text such as `late ~ carrier`, before the data, received a {kind}")
    if not isinstance(name, str) or not (name.isidentifier() and name.isascii()):
        raise UserError(f"name: expected letters, digits and _ after a letter, received {name!r}")
    if of_runs := next((key for key in OF_RUNS if key in keys), None):
        raise UserError(f"{of_runs}: a call has no use for it; fit the model by the workflow")
    if known := next((key for key in FROM_ELSEWHERE if key in keys), None):
        raise UserError(f"{known}: unknown key; here it is {FROM_ELSEWHERE[known]}")


def plain_value(key: str, value: Any) -> Any:
    """The value of a keyword as YAML would have it. Raises UserError for an array or another object."""
    match value:
        case Mapping():
            return {each: plain_value(key, other) for each, other in value.items()}
        case list() | tuple():
            return [plain_value(key, each) for each in value]
        case np.generic():
            return value.item()
        case None | str() | int() | float() | date():
            return value
    kind = type(value).__name__
    raise UserError(
        f"{key}: expected text, numbers or lists, received a {kind}; values of rows are a column of the data"
    )


def texts(value: Any) -> Iterator[str]:
    """The texts in the keys of a config."""
    match value:
        case Mapping():
            yield from (text for pair in value.items() for text in texts(list(pair)))
        case list() | tuple():
            yield from (text for each in value for text in texts(each))
        case _:
            yield str(value)


def in_order(config: Config, files: Sequence[IngestedFile], orders: Mapping[str, Sequence[str]]) -> Config:
    """A config with the levels of these columns in this order, without levels that no row has. An order in the config stays."""
    said = {**config.data.order, **config.data.rare}
    wanted = {name: levels for name, levels in orders.items() if name in config.data.columns and name not in said}
    if not wanted:
        return config
    columns = merge(files, config.data.missing, config.data.rare, config.data.order).columns
    found = {name: [level for level in levels if level in columns[name].labels] for name, levels in wanted.items()}
    order = {name: levels for name, levels in found.items() if set(levels) == set(columns[name].labels) - {ABSENT}}
    return config.model_copy(update={"data": config.data.model_copy(update={"order": {**config.data.order, **order}})})


def _fit_files(
    folder: Path,
    config: Config,
    name: str,
    layout: Layout,
    files: Sequence[IngestedFile],
    remarks: Mapping[str, str],
    names: Mapping[str, str],
    sections: dict[str, Any],
    executor: Executor,
) -> FittedModel:
    """Fit the model of a config, which has these sections, to ingested files."""
    section = config.models[name]
    dictionary = merge(files, config.data.missing, config.data.rare, config.data.order)
    dictionary.write(folder / "dictionary.json")
    rows = account(files, dictionary, section.frequency if section.subset else None)
    digests.write_json(folder / "rows.json", rows)
    if not dictionary.rows["train"]:
        dropped = rows["dropped"] | rows["splits"]["train"]["dropped"]
        reasons = ", ".join(f"{reason} ({count:,})" for reason, count in dropped.items() if count)
        raise UserError(
            f"data: no row is left of the {rows['read']:,} that were read{f'; dropped: {reasons}' if reasons else ''}"
        )

    def of(kind: Any) -> Any:
        return kind.model_validate(section.model_dump(include=set(kind.model_fields), exclude_defaults=True))

    results = of(ResultsConfig)
    design = build_design(name, of(DesignConfig), dictionary, files)
    check_settings(design, results, files, f"models.{name}")
    design.write(folder / "design.json")
    reference = {"levels": results.reference, "design": digests.sha256(folder / "design.json")}
    digests.write_json(folder / "reference.json", reference)
    arguments = argparse.Namespace(
        design=folder / "design.json",
        manifests=[file.folder / MANIFEST for file in files],
        collapsed=None,
        settings=of(SolverConfig),
        config=json.dumps(provenance(config.data, section, {"layout": layout})),
        history=folder / "history.csv",
        journal=None,
        events=None,
        checkpoint=folder / "checkpoint",
        fit=folder / "fit.json",
    )
    fitting.fit(fitting.Job(arguments, design, files, Progress(None, name)), executor)
    remarks = {**remarks, **remarks_on_levels(design, layout, rows["splits"]["train"]["used"])}
    fitted = FittedModel(folder, results, files, remarks, names, layout, sections)
    for table in ("coefficients.csv", "terms.csv"):
        fitted._result(table)
    return fitted


MANY_LEVELS, FEW_ROWS = 50, 10
"""Levels of a text, and rows for each on average, that make a remark of more levels with fewer rows."""


def remarks_on_levels(design: Design, layout: Layout, rows: int) -> dict[str, str]:
    """A remark on each date with many levels, and on each text with many levels of few rows, if each has a coefficient."""
    terms = [
        term for term in design.terms if term.name not in design.absorbed and not isinstance(term.kind, EventStudy)
    ]
    of_terms = {name for term in terms for name in term.categorical}
    remarks = {}
    for factor in design.categorical:
        name, levels = factor.column, factor.levels
        known = layout.columns.get(name)
        is_date = known is not None and known.type == "date"
        is_text = factor.column_kind == "text" and not factor.random and factor.name in of_terms
        if not is_text or len(levels) <= MANY_LEVELS or (rows >= FEW_ROWS * len(levels) and not is_date):
            continue
        found = [re.fullmatch(r"-?\d+(?:\.\d+)?(\D*)", level) for level in levels]
        units = {each[1] if each else None for each in found}
        number = f"CAST({name} AS BIGINT)" if is_date else ""
        if not is_date and len(units) == 1 and (unit := units.pop()):
            text = unit.replace("'", "''")
            number = f"CAST(REPLACE({name}, '{text}', '') AS DOUBLE)"
        use = f'a number, as by derive={{"number": "{number}"}}, or (1 | {name})' if number else f"(1 | {name})"
        remarks[name] = f"{len(levels):,} levels, each with a coefficient, for {rows:,} rows; use {use}"
    return remarks
