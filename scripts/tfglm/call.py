"""`tfglm.fit`: a regression in this process, by the steps of the workflow, without Snakemake and TensorFlow."""

import argparse
import base64
import fcntl
import functools
import hashlib
import importlib.util
import io
import json
import os
import re
import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass, replace
from datetime import date
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import threadpoolctl
import xxhash
import yaml
from pyarrow import parquet

import tfglm
from tfglm import command, digests, fitting
from tfglm.addresses import is_address
from tfglm.config import (
    Config,
    DesignConfig,
    Dialect,
    Layout,
    LayoutColumn,
    ResultsConfig,
    SelectionConfig,
    SolverConfig,
    SourceConfig,
    column_problems,
    expand_files,
    load,
)
from tfglm.config.columns import named_columns
from tfglm.config.data import FILE, RANDOM
from tfglm.config.messages import validated
from tfglm.config.root import provenance
from tfglm.data.dictionary import account, merge
from tfglm.data.editions import FileStatus
from tfglm.data.header import read_header
from tfglm.data.ingest import ingest
from tfglm.data.kinds import ABSENT
from tfglm.data.packages import located
from tfglm.data.packing import packing
from tfglm.data.selection import check_names
from tfglm.data.shards import MANIFEST, MISSING, IngestedFile
from tfglm.design.build import build_design, check_settings
from tfglm.design.design import Design
from tfglm.distribute.executor import Executor
from tfglm.distribute.local import LocalExecutor, ThreadedExecutor
from tfglm.errors import UserError, nearest, require, writing
from tfglm.families.gaussian import Gaussian
from tfglm.formula.parse import parse
from tfglm.formula.read import columns_of, factors_in
from tfglm.formula.response import SUBSET, has_dot
from tfglm.formula.terms import INTERCEPT, THRESHOLD
from tfglm.model import Model, as_frame
from tfglm.report.model_results import ModelResults
from tfglm.report.pages import read_table
from tfglm.report.words import NO_WORDS
from tfglm.results import csv_files, margins
from tfglm.results.compare import ComparedModel, refuse_other_rows
from tfglm.results.fit_tables import MARGINAL, TABLES
from tfglm.roles.progress import Progress
from tfglm.survey.dialect import dialect_of
from tfglm.survey.layout import names_for, own_layout
from tfglm.survey.written_numbers import decimal_character

TABLE = "table.parquet"
"""The file of the rows of a table."""

OF_DATA = ("where", "derive", "split", "missing", "rare", "order", "seed", "bad_rows")
"""Keys of the section `data` that are keywords."""

OF_RUNS = ("sweep", "export", "predictions", "identity", "by", "diagnostics", "leverage", "collapse")
"""Keys of a model that are for runs of the workflow."""

OF_COLUMNS = (
    *("where", "derive", "subset", "weights", "frequency", "trials", "offset"),
    *("absorb", "std_errors", "pairwise", "unpenalised"),
)
"""Keys whose values name columns, which may have the names that they have in the data."""

BY_COLUMN = ("reference", "missing", "rare", "order", "pairwise_at", "penalty_factors")
"""Keys with a value for each column or term."""

OF_KEYS = {
    "contrasts": 'such as contrasts={"difference": {"carrier[UA]": 1, "carrier[DL]": -1}}',
    "hypotheses": 'such as hypotheses={"equal": [{"carrier[UA]": 1, "carrier[DL]": -1}]}',
    "pairwise": 'such as pairwise=["carrier"]',
    "profile": 'such as profile={"UA": {"carrier[UA]": 1}}',
    "path": 'such as path={"select": "aic"}',
    "margins_at": 'such as margins_at={"near": {"distance": 100}}',
}
"""Tables that are made if a key of the same name asks for them, and a value of it."""

FROM_ELSEWHERE = {
    **dict.fromkeys(("cluster", "clusters"), 'std_errors="cluster(COLUMN)"'),
    **dict.fromkeys(("cov_type", "se", "se_type"), "std_errors"),
    **dict.fromkeys(("fe", "fixed_effects"), "absorb"),
    "sample_weight": "weights",
    "exposure": 'offset="log(COLUMN)"',
}
"""Keywords of other packages -> what they are here."""

IN_A_CALL = {
    "take it out of columns, or choose files that have it": "leave it out of the formula",
    "run snakemake in a folder on a larger disk with --directory; repeat the command to continue": (
        "set TMPDIR or `cache` to a folder on a larger disk"
    ),
    "columns has ": "the data have ",
    "give it the type number in the layout, or derive a number: ": "or name a number in derive={...}: ",
}
"""Words of messages of the workflow -> those of a call."""

ONE_AT_A_TIME = threading.RLock()
"""All fits of a process share the threads of linear algebra."""


class FittedModel(Model):
    """What `fit` returns: a `Model` whose tables are made when they are first asked for.

    `remarks` say how columns were read; they follow the warnings of the fit. `names` are the columns by plain names. `sections`
    are those of the config that does the same, and `layout` says how its files are read.

    Attributes
    ----------
    rows
        How many rows were read, dropped for which reason, and fitted: the content of rows.json. Rows that are not in the
        `subset` are among those dropped.
    """

    _read: "ReadRows"
    """Kept as long as the model, which averages over its rows."""

    def __init__(
        self,
        folder: Path,
        settings: ResultsConfig,
        files: Sequence[IngestedFile],
        remarks: Mapping[str, str],
        names: Mapping[str, str],
        layout: Layout,
        sections: dict[str, Any],
    ) -> None:
        super().__init__(folder)
        self._layout, self._sections = layout, sections
        self.fit["warnings"] = [*self.fit["warnings"], *(f"{name}: {remark}" for name, remark in remarks.items())]
        self._remarks, self._names = remarks, names
        self._plain = {source: name for name, source in names.items()}
        self._settings, self._ingested = settings, files
        self._files.settings, self._files.dictionary = settings, folder / "dictionary.json"
        self._files.averages = folder / "averages.npz"
        self.rows: dict[str, Any] = digests.read_json(folder / "rows.json")

    def _result(self, name: str) -> Path:
        path = self.folder / name
        if path.stem in MARGINAL and self.fit["provenance"]["model"].get("absorb"):
            raise UserError(f"{path.stem}: a model with absorbed factors has no averages, which need all coefficients")
        if not path.is_file() and path.stem in TABLES:
            with quietly(self.name):
                if path.stem in MARGINAL and not self._files.averages.is_file():
                    self._average()
                csv_files.write(TABLES[path.stem](self._saved, self._settings), path)
                digests.write_beside(path, self._files.fit)
        if not path.is_file():
            raise UserError(f"{name}: a call makes no such file; fit the model by the workflow")
        return path

    def _average(self) -> None:
        """Average over the training rows what tables need. Raises UserError if factors are absorbed."""
        if self._saved.design.absorbed:
            raise UserError("absorb: a model with absorbed factors has no margins, which depend on their coefficients")
        averaged = margins.average_for_tables(self._saved, self._ingested, self._settings)
        averaged.write(self._files.averages, self._files.fit)

    def predict(self, frame: Any, *arguments: Any, **keys: Any) -> pd.DataFrame:
        """Predict rows (`Model.predict`), whose columns may have the names that they had in the data."""
        return super().predict(as_frame(frame).rename(columns=self._plain), *arguments, **keys)

    def table(self, name: str) -> pd.DataFrame:
        """Return a table of the workflow by its name, such as `contrasts`, `pairwise`, `margins_at` or `effects`.

        Raises UserError for a table that a call does not make, or that the model does not have.
        """
        if name not in TABLES:
            raise UserError(f"there is no table `{name}`{nearest(name, TABLES)}\n  there are: {', '.join(TABLES)}")
        if name in OF_KEYS and not self._sections["models"][self.name].get(name):
            raise UserError(f"table: the fit has no `{name}`; fit it with the key `{name}`, {OF_KEYS[name]}")
        path = self._result(f"{name}.csv")
        return read_table(path, self._files.fit) if name in csv_files.TEXTS else pd.read_csv(path)

    def margins(self) -> pd.DataFrame:
        """Return the average marginal effects: what each covariate changes in the mean response.

        >>> data = {"late": [0, 1, 0, 1, 1, 0, 1, 1], "carrier": ["AA", "UA"] * 4}
        >>> tfglm.fit("late ~ carrier", pd.DataFrame(data)).margins()[["term", "level", "reference", "estimate"]]
              term level reference  estimate
        0  carrier    UA        AA      0.25
        """
        return self.table("marginal_effects")

    def quote(
        self, term: str, level: str = "", *, step: float | None = None, units: Mapping[str, str] | None = None
    ) -> str:
        """Return the effect of a level, or of a number, with its interval in a sentence for a text.

        Parameters
        ----------
        term, level
            As the table of coefficients, or the data, name them; a number has no level.
        step
            How many units more of a number the effect is for. By default so many powers of ten that it is visible.
        units
            The units of columns: `{"delay": "minutes"}`.

        Raises
        ------
        UserError
            For a level that is not there or has no test, and for a term whose effect is no single number.

        Examples
        --------
        >>> data = {"delay": [1.0, 7, 3, 8, 2, 6, 3, 9], "carrier": ["AA", "UA"] * 4}
        >>> fit = tfglm.fit("delay ~ carrier", pd.DataFrame(data))
        >>> print(fit.quote("carrier", "UA", units={"delay": "minutes"}))
        delay is 5.2 minutes higher (3.3 to 7.2 minutes) with carrier UA than with AA; 95 % confidence, classical standard errors.
        """
        from tfglm.report import home, words

        term = in_plain_names(term, self._names)
        units = {in_plain_names(column, self._names): unit for column, unit in (units or {}).items()}
        rows = self.coefficients.reset_index()
        rows = rows[rows["term"].map(lambda name: term in (name, words.plain(name)))]
        if rows.empty and term not in self._saved.design.columns:
            known = [name for name in self.coefficients.index.unique("term") if name != INTERCEPT]
            raise UserError(f"term: the model has no `{term}`{nearest(term, known)}\n  there are: {', '.join(known)}")
        if level and len(rows) and (level == rows["reference"]).any():
            raise UserError(
                f"level: others are compared with {level}, the reference level of {term}; name another level"
            )
        levels = [name for name in rows["level"].unique() if name]
        if level not in ["", *levels] or (not level and (rows["reference"] != "").all() and len(rows)):
            found = ", ".join(levels[:10]) + (", ..." if len(levels) > 10 else "")
            raise UserError(f"level: `{term}` has no level `{level}`{nearest(level, levels)}\n  there are: {found}")
        if self._settings.marginal_effects:
            self.table("marginal_effects")
        columns = digests.read_json(self._files.dictionary)["columns"]
        own = replace(words.Words.from_json("{}", columns), units=units)
        return home.quotation(ModelResults(self.folder, self._settings, own), term, level, step)

    def plot(self, picture: Literal["coefficients", "effects"] = "coefficients", file: Any = None) -> "DrawnModel":
        """Draw the coefficients with their intervals, or the curves of `effects`, as the workflow does.

        A notebook shows what is returned. `file` (.svg, .png or .pdf) keeps it. Raises UserError without matplotlib, and for a
        model without curves.
        """
        require("matplotlib", "plot", "a picture")
        has_curves = picture == "effects" and len(self.table("effects")) > 0
        if picture != "coefficients" and not has_curves:
            raise UserError("picture: the model has no curves; plot its `coefficients`")
        results = ModelResults(self.folder, self._settings, NO_WORDS, has_curves)
        return self._drawn(picture, results, [Path(file)] if file else [])

    def _drawn(self, picture: str, results: ModelResults, files: Sequence[Path] = ()) -> "DrawnModel":
        """A picture of the results, which further files keep."""
        import matplotlib

        svg = self.folder / f"{picture}.svg"
        with quietly(self.name), matplotlib.rc_context():
            from tfglm.report import drawing, model_pages

            drawing.use_style()
            model_pages.PICTURES[picture](results, [svg, *files])
        return DrawnModel(svg.read_text(encoding="utf-8"))

    def write_config(self, path: str | PathLike[str]) -> list[Path]:
        """Write the config with which the workflow makes the same fit, and its layout beside it; return both paths.

        Raises UserError for a fit to a table, and for files that exist or cannot be written.
        """
        if self._sections["data"]["files"] == [TABLE]:
            raise UserError(
                "write_config: the workflow reads files, and these rows are a table; write it to a file first"
            )
        config, layout = config_files(path)
        sections = {**self._sections, "data": {**self._sections["data"], "layout": str(layout)}}
        texts = {layout: self._layout.model_dump(mode="json", exclude_defaults=True), config: sections}
        for each, content in texts.items():
            with writing(each):
                each.parent.mkdir(parents=True, exist_ok=True)
                plain = json.loads(json.dumps(content, default=lambda value: getattr(value, "item", value.__str__)()))
                each.write_text(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True), encoding="utf-8")
        return [config, layout]

    def write_pages(self, path: str | PathLike[str], command: str = "tfglm.fit(...)") -> list[Path]:
        """Write the pages of the workflow for this model: the first to `path`, and the others beside it.

        The pages contain their pictures, and show `command` as the way to make them again. Returns the paths. Raises UserError
        if a file cannot be written, without matplotlib, and for a fit that was pickled.
        """
        if not hasattr(self, "_read"):
            raise UserError("pages need the rows, and a pickled fit has none; write them before pickling, or fit again")
        if importlib.util.find_spec("matplotlib") is None:
            raise UserError("pages have pictures, which need matplotlib: pip install matplotlib")
        with quietly(self.name):
            from tfglm.report.one_model import write_pages  # imports matplotlib

            data = load(self._sections, self.name).data
            first = Path(path)
            first = first if first.suffix in (".html", ".htm") else first.with_name(f"{first.name}.html")
            asked = self.folder, self._settings, data, self._layout, self._ingested
            return write_pages(*asked, self._result, first, command)

    def _picture(self, most: int) -> str:
        results = ModelResults(self.folder, self._settings, NO_WORDS)
        table = results.coefficients
        drawn = {term for term in table["term"] if not any(factor.is_curve for factor in factors_in(term))}
        if importlib.util.find_spec("matplotlib") is None or drawn <= {INTERCEPT, THRESHOLD}:
            return ""
        results.coefficients = table.head(most)
        svg = self._drawn("coefficients", results)
        return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"

    def _refuse_other_rows(self, others: Sequence[Model], compared: Sequence[ComparedModel]) -> None:
        first = compared[0]
        for other, model in zip(others, compared[1:], strict=True):
            if not isinstance(other, FittedModel):
                refuse_other_rows([first, model])
                continue
            refuse_other_rows(
                [replace(first, fit=self._rows_of(first.fit)), replace(model, fit=other._rows_of(model.fit))]
            )
            # Each fit of a table has the columns of its own model: what both have shows that the table is the same.
            mine, theirs = self._contents(), other._contents()
            if changed := [name for name in mine if name in theirs and mine[name] != theirs[name]]:
                what = "the subset" if changed[0] == SUBSET else f"the column `{changed[0]}`"
                raise UserError(
                    f"compare: `{first.name}` and `{model.name}` were not fitted on the same rows: {what} differs"
                )
            for lacks, has, name in ((self, theirs, first.name), (other, mine, model.name)):
                if column := lacks._missing_alone(has):
                    raise UserError(
                        f"compare: `{name}` lacks the rows without a value of `{column}`, which the other model has\n"
                        f'  leave them out of both: where="{column} IS NOT NULL"'
                    )

    def _missing_alone(self, known: Collection[str]) -> str | None:
        """A column without whose value rows are dropped here, and not from a fit of the `known` columns. Rows outside of the
        subset do not count."""
        required = digests.read_json(self._files.dictionary)["required"]
        frequency = self.fit["provenance"]["model"].get("frequency")
        for file in self._ingested:
            counted = frequency and {
                pattern
                for pattern, *values in file.levels(frequency).select("pattern", "integer", "number").iter_rows()
                if 0 not in values
            }
            for split, pattern, text in file.levels(MISSING).select("split", "pattern", "text").iter_rows():
                lacking = [name for name in text.split(",") if name in required]
                of_fit = split == "train" and (not frequency or pattern in counted)
                if of_fit and lacking and not {*known} & {*lacking}:
                    return lacking[0]
        return None

    def _rows_of(self, fit: Mapping[str, Any]) -> dict[str, Any]:
        """fit.json with what decides its rows beside the content of columns."""
        said = fit["provenance"]
        inputs = [{"file": file.manifest.file, "xxh128": f"{file.manifest.read:,} rows"} for file in self._ingested]
        data = {key: value for key, value in said["data"].items() if key not in ("columns", "order")}
        # A subset is a derived frequency too, whose name has that of the model.
        data["derive"] = {key: sql for key, sql in data.get("derive", {}).items() if not key.startswith(SUBSET)}
        model = {**said["model"], "frequency": self._sections["models"][self.name].get("frequency")}
        return {**fit, "provenance": {**said, "inputs": inputs, "data": data, "model": model}}

    def _contents(self) -> dict[str, list[bytes]]:
        """The checksums of the values of each column."""
        contents: dict[str, list[bytes]] = {}
        for file in self._ingested:
            for place, column in enumerate(file.manifest.columns):
                name = SUBSET if column.name == f"{SUBSET}{self.name}" else column.name
                contents.setdefault(name, []).append(file.checksums[:, place].tobytes())
        contents.pop(MISSING, None)
        return contents

    def __reduce__(self) -> tuple[Any, ...]:
        """A fit is pickled with its files, but without its rows; what tables need of the rows is computed before."""
        if not self._files.averages.is_file():
            with suppress(UserError), quietly(self.name):
                self._average()
        paths = [
            path
            for path in self.folder.rglob("*")
            if path.is_file() and "shards" not in path.relative_to(self.folder).parts
        ]
        content = {path.relative_to(self.folder).as_posix(): path.read_bytes() for path in paths if path.name != TABLE}
        for file in self._ingested:
            kept = (MANIFEST, *file.manifest.digests)
            content |= {f"shards/{file.manifest.file}/{name}": (file.folder / name).read_bytes() for name in kept}
        return _unpickled, (content, self._settings, self._remarks, self._names, self._layout, self._sections)


def _unpickled(content: Mapping[str, bytes], settings: ResultsConfig, *facts: Any) -> FittedModel:
    """A fit from its pickled files."""
    folder = Path(tempfile.mkdtemp(prefix="tfglm-"))
    for name, held in content.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(held)
    files = [IngestedFile.load(folder / name) for name in content if name.endswith(f"/{MANIFEST}")]
    fitted = FittedModel(folder, settings, files, *facts)
    weakref.finalize(fitted, _remove, folder, os.getpid())
    return fitted


def config_files(path: str | PathLike[str]) -> tuple[Path, Path]:
    """The files of a config to write, and of its layout. Raises UserError for another suffix, and for files that are there."""
    config = Path(path)
    if config.suffix not in (".yaml", ".yml"):
        raise UserError(f"{config}: the name of a config ends with .yaml, as in {config.with_suffix('.yaml')}")
    layout = config.with_name(f"{config.stem}.layout.yaml")
    if there := [str(each) for each in (config, layout) if each.exists()]:
        raise UserError(
            f"{' and '.join(there)} would be overwritten; move or delete what is there, or give another name"
        )
    return config, layout


class DrawnModel(str):
    """An SVG that a notebook shows."""

    __slots__ = ()

    def _repr_svg_(self) -> str:
        return str(self)

    def __repr__(self) -> str:
        return f"<SVG of {len(self):,} characters>"


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
    try:
        folder = Path(tempfile.mkdtemp(prefix="tfglm-"))
    except OSError as error:
        raise UserError(
            f"no folder for temporary files can be written ({error.strerror}); set TMPDIR to another"
        ) from None
    try:
        with quietly(name):
            fitted = _fitted(folder, formula, data, family, name, cache, workers, keys)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(fitted, _remove, folder, os.getpid())
    return fitted


def _remove(folder: Path, process: int) -> None:
    """Remove a folder at the end of the process that made it, not of a child."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def quietly(name: str = "") -> Iterator[None]:
    """Work without a word, with one thread of linear algebra, as jobs do. In messages the keys of model `name` are keywords, and
    the file of a table is `data`."""
    with ONE_AT_A_TIME, command.unheard(), threadpoolctl.threadpool_limits(1):
        try:
            yield
        except UserError as error:
            of_model = rf"(tfglm\.fit: )?\bmodels\.{re.escape(str(name))}(\.|: )"
            places = rf"{of_model}|tfglm\.fit: |\bdata\.(?=({'|'.join(OF_DATA)}|columns)\b)"
            table = rf"{re.escape(tempfile.gettempdir())}/tfglm-\w+/{re.escape(TABLE)}"
            message = re.sub(places, "", re.sub(table, "data", str(error)))
            for words, others in IN_A_CALL.items():
                message = message.replace(words, others)
            raise UserError(message) from None
        except MemoryError as error:
            raise UserError(
                f"the memory is too small: {error or 'none is left'}\n"
                "  fit fewer coefficients, as `absorb` does for a factor of many levels"
            ) from None


def _fitted(
    folder: Path, formula: str, data: Any, family: str, name: str, cache: Any, workers: Any, keys: dict[str, Any]
) -> FittedModel:
    """Fit a model, and write what the workflow writes of it into a folder."""
    check_words(formula, name, keys)
    if not isinstance(workers, int) or workers < 1:
        raise UserError(f"workers: expected a number of threads, such as 4, received {workers!r}")
    keys = {key: plain_value(key, value) for key, value in keys.items()}
    of_data = {key: keys.pop(key) for key in OF_DATA if key in keys}
    decimal = decimal_character(keys.pop("decimal", ""))
    data = _table_or_paths(data)
    sources, header, dialect = _sources(data)
    if decimal and next(iter(sources)) == TABLE:
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
    parse(config.models[name].formula, f"models.{name}.formula")
    every = Layout(columns={column: LayoutColumn(type="string", source=source) for column, source in names.items()})
    if problems := column_problems(config, [every]):
        indexed = [f"`{level}`" for level in getattr(getattr(data, "index", None), "names", []) if level is not None]
        hint = [f"  {', '.join(indexed)} is the index, which is no column; give data.reset_index()"] if indexed else []
        raise UserError("\n".join([*problems, *hint]))
    for place, expressions in (("derive", config.data.derive), ("where", config.data.where)):
        for key, sql in expressions.items():
            check_names(sql, f"data.{place}.{key}", [*names, *of_data.get("derive", {})], config.data.derive)
    used = {column for _, column in named_columns(config)}
    used |= set() if has_dot(formula) else {*columns_of(formula)}
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
    table = _as_table(data, [*needed.values()]) if next(iter(sources)) == TABLE else None
    read = _read(sources, table, header, dialect, decimal, needed, selection, cache)
    config = in_order(config, read.files, orders_of(data, needed))
    sections = raw | {"models": {name: model}}
    executor = ThreadedExecutor(workers) if workers > 1 else LocalExecutor()
    fitted = _fit_files(folder, config, name, read.layout, read.files, read.remarks, names, sections, executor)
    fitted._read = read
    return fitted


@dataclass(frozen=True, eq=False)
class ReadRows:
    """The rows of a call as shards, and the layout and the remarks on columns by which they were read."""

    files: Sequence[IngestedFile]
    layout: Layout
    remarks: Mapping[str, str]
    size: int
    """Bytes in a temporary folder."""


READ: weakref.WeakValueDictionary[str, ReadRows] = weakref.WeakValueDictionary()
"""The rows that models of this process use, by what was read and how, so that a further model does not read them again."""

LATEST: list[ReadRows] = []
"""The rows that were read last, if they are small: they outlive their models."""

MOST_OUTLIVING = 1 << 28
"""Bytes."""

SETTLED = 2_000_000_000
"""Nanoseconds after which each change of a file shows in its times, on all file systems."""


def identity_of(path: Path) -> tuple[str | int, ...]:
    """Return what changes with the content of a file. Two calls for a file that has just been written return different
    identities, as its times may not show a further change."""
    status = FileStatus.of(path)
    is_settled = path.is_file() and time.time_ns() - max(status.modified, status.changed) > SETTLED
    return fspath(path.resolve()), *astuple(status), 0 if is_settled else time.monotonic_ns()


class Checksum(io.RawIOBase):
    """A stream that keeps the XXH3 of 128 bits of what is written to it, and nothing else."""

    def __init__(self) -> None:
        self.checksum = xxhash.xxh3_128()

    def writable(self) -> bool:
        return True

    def write(self, part: Any) -> None:
        self.checksum.update(part)


def content_of(table: pa.Table) -> str:
    """The checksum of the names, types and values of a table."""
    stream = Checksum()
    # Metadata has what the model does not read, such as the index of a frame.
    plain = table.replace_schema_metadata()
    with pa.ipc.new_stream(pa.PythonFile(stream, "w"), plain.schema) as writer:
        writer.write_table(plain)
    return stream.checksum.hexdigest()


def _read(
    sources: Mapping[str, Path],
    table: pa.Table | None,
    header: Sequence[str],
    dialect: Dialect,
    decimal: str,
    needed: Mapping[str, str],
    selection: SelectionConfig,
    cache: Any,
) -> ReadRows:
    """The rows of files, or of a table, which are read unless this process has them."""
    content = {name: identity_of(path) for name, path in sources.items()} if table is None else content_of(table)
    where = None if cache is None else fspath(Path(cache).resolve())
    key = json.dumps([os.getpid(), content, decimal, needed, selection.model_dump_json(), where])
    read = READ.get(key)
    if read is None or not all((file.folder / MANIFEST).is_file() for file in read.files):
        folder = Path(tempfile.mkdtemp(prefix="tfglm-"))
        try:
            if table is not None:
                sources = {"table": folder / TABLE}
                parquet.write_table(table, folder / TABLE)
            layout, remarks = own_layout(next(iter(sources.values())), header, dialect, decimal, needed)
            if unread := [column for column in needed if column in selection.columns and column not in layout.columns]:
                kind = "" if table is None else f", of type {table.schema.field(needed[unread[0]]).type}"
                raise UserError(
                    f"data: the column `{unread[0]}`{kind}, has no values that can be read\n"
                    "  make numbers, text, dates or booleans of it, as `.astype(str)` does"
                )
            if table is not None:
                layout = layout.model_copy(update={"missing": []})  # a text in a table is what it says
            files = [_ingested(file, path, layout, selection, cache, folder) for file, path in sources.items()]
            (folder / TABLE).unlink(missing_ok=True)
            size = sum(path.stat().st_size for path in folder.rglob("*"))
            read = ReadRows(files, layout, remarks, size)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        weakref.finalize(read, _remove, folder, os.getpid())
        READ[key] = read
    LATEST.clear()
    if read.size <= MOST_OUTLIVING:
        LATEST.append(read)
    return read


SOURCE = re.compile(
    r"`([^`]+)`|\bQ\(\s*(?:'([^']+)'|\"([^\"]+)\")\s*\)|(?<![\w.'\"])"
    r"([^\W\d]\w*(?:\.\w+)+|(?=\w*[^\x00-\x7f])[^\W\d]\w*)(?![\w.]*\()|'[^']*'|\"[^\"]*\""
)
"""A column of any name in backticks or in patsy's Q(), and one with dots or letters such as ö in its name; or else a text in
quotes."""


def in_plain_names(text: Any, names: Mapping[str, str]) -> Any:
    """A formula, SQL or the name of a column with the plain names of columns for those that the data have, or that R gives
    them; `names` are the data's by plain name.

    >>> in_plain_names("größe ~ `sq ft` + sq.ft + log(pos.x)", {"sq_ft": "sq ft", "pos_x": "pos.x", "grosse": "größe"})
    'grosse ~ sq_ft + sq_ft + log(pos_x)'
    """
    if isinstance(text, Mapping):
        return {key: in_plain_names(value, names) for key, value in text.items()}
    if isinstance(text, list):
        return [in_plain_names(each, names) for each in text]
    in_r = {re.sub(r"\W", ".", source): name for name, source in names.items()}
    plain = in_r | {source: name for name, source in names.items()}

    def plain_name(match: re.Match[str]) -> str:
        return plain.get(next(filter(None, match.groups()), ""), match[0])

    return plain.get(text) or SOURCE.sub(plain_name, text) if isinstance(text, str) else text


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


def _table_or_paths(data: Any) -> Any:
    """A table of pandas or Arrow from any table; paths as they are."""
    if isinstance(data, pd.DataFrame):
        kinds = {name: kind for name, kind in data.dtypes.items() if isinstance(kind, pd.CategoricalDtype)}
        odd = [
            name for name, kind in kinds.items() if isinstance(kind.categories.dtype, pd.IntervalDtype | pd.PeriodDtype)
        ]
        # Those of pandas.cut become text, in their order.
        return data.assign(**{str(name): data[name].cat.rename_categories(str) for name in odd}) if odd else data
    if not hasattr(data, "__arrow_c_stream__") or isinstance(data, pd.Series):
        return data
    with arrow_errors():
        table = pa.table(data)  # some streams are read once
    if isinstance(data, pa.RecordBatchReader) and not len(table):
        raise UserError("data: the stream has no rows, or was read before; give a table, or a new stream")
    return table


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
    of_terms = {name for term in design.terms if term.name not in design.absorbed for name in term.categorical}
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


def _sources(data: Any) -> tuple[dict[str, Path], list[str], Dialect]:
    """The files with the rows, by name, the columns, and how the first file is written. A table becomes a Parquet file."""
    if isinstance(data, str | PathLike):
        data = [data]
    if not isinstance(data, Sequence):
        if not isinstance(data, pd.DataFrame | pa.Table):
            made = "data.collect()" if hasattr(data, "collect") else "pandas.DataFrame(data)"
            raise UserError(
                f"data: a {type(data).__name__} is no table\n"
                f"  give a path, a list of paths, or a table of pandas, polars or Arrow, such as {made}"
            )
        columns = data.columns if isinstance(data, pd.DataFrame) else data.column_names
        return {TABLE: Path(TABLE)}, list(map(str, columns)), Dialect()
    if others := [type(each).__name__ for each in data if not isinstance(each, str | PathLike)]:
        raise UserError(f"data: a list of paths is expected, and this has a {others[0]}; put tables together first")
    named = [fspath(each) for each in data]
    if not named or not all(named):
        raise UserError("data: expected a path, or a list of paths, received none")
    if address := next(filter(is_address, named), None):
        raise UserError(f"data: `{address}` is an address; fetch the file, and give its path")
    files = expand_files(validated(SourceConfig, {"files": named}, "data"), "data")
    sources = {name: located(file.source) for name, file in files.items()}
    first = next(iter(sources.values()))
    return sources, *_form(first, identity_of(first))


@functools.lru_cache(100)
def _form(path: Path, identity: tuple[str | int, ...]) -> tuple[list[str], Dialect]:
    """The columns of a file, and how it is written."""
    dialect = dialect_of(path) if packing(path) != "parquet" else Dialect()
    return read_header(path, dialect), dialect


def _as_table(data: pd.DataFrame | pa.Table, columns: Sequence[str]) -> pa.Table:
    """These columns of a table, in Arrow's form. Categoricals become their values.

    Raises UserError for two columns of a name, and for values of different types.
    """
    with arrow_errors():
        if isinstance(data, pd.DataFrame):
            chosen = data.loc[:, [str(column) in columns for column in data.columns]]
            table = pa.Table.from_pandas(chosen, preserve_index=False)
        else:
            table = data.select(columns)
        schema = [
            field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
            for field in table.schema
        ]
        return table.cast(pa.schema(schema))


@contextmanager
def arrow_errors() -> Iterator[None]:
    """Say what a table has to be, if Arrow cannot take it."""
    try:
        yield
    except (pa.ArrowException, KeyError, ValueError, TypeError) as error:
        raise UserError(
            f"data: {'; '.join(map(str, error.args))}\n"
            "  give each column a name of its own, and values of one type: numbers, text, dates or booleans"
        ) from None


def orders_of(data: Any, names: Mapping[str, str]) -> dict[str, list[str]]:
    """The levels of the categoricals of text in a table of pandas, in their order, by the plain `names` of the columns."""
    if not isinstance(data, pd.DataFrame):
        return {}
    kinds = {name: data[source].dtype for name, source in names.items() if source in data}
    return {
        name: list(map(str, kind.categories))
        for name, kind in kinds.items()
        if isinstance(kind, pd.CategoricalDtype) and pd.api.types.is_string_dtype(kind.categories.dtype)
    }


def _ingested(
    name: str, path: Path, layout: Layout, settings: SelectionConfig, cache: Any, folder: Path
) -> IngestedFile:
    """The rows of a file, read once for all fits with the same `cache`."""
    target = folder / "shards" / name
    if cache is not None and folder not in path.parents:
        read = [fspath(path.resolve()), *astuple(FileStatus.of(path)), tfglm.ENGINE]
        asked = json.dumps([read, settings.model_dump_json(), layout.model_dump_json()])
        target = Path(cache) / hashlib.sha256(asked.encode()).hexdigest()[:20] / name
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cache: {cache} cannot be written ({error.strerror}); name another folder") from None
    with writing(target), target.with_suffix(".lock").open("wb") as lock:
        # Of two processes with the same cache one reads, and the other waits for it.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (target / MANIFEST).is_file():
            ingest(path, name, {"layout": layout}, settings, target)
    return IngestedFile.load(target / MANIFEST)
