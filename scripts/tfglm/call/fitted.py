"""What `tfglm.fit` returns: a fitted model whose rows are there."""

import importlib.util
import json
import os
import re
import tempfile
import threading
import weakref
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import threadpoolctl
import yaml
from markupsafe import Markup

from tfglm import command, digests
from tfglm.call.rows import TABLE, ReadRows, in_plain_names, remove_own
from tfglm.config import Layout, ResultsConfig, from_keywords, load
from tfglm.config.pictures import PicturesConfig
from tfglm.data.shards import MANIFEST, MISSING, IngestedFile
from tfglm.errors import UserError, nearest, require, writing
from tfglm.formula.read import factors_in
from tfglm.formula.response import SUBSET
from tfglm.formula.terms import INTERCEPT, THRESHOLD
from tfglm.model import Model, as_frame
from tfglm.report.embedded import panels
from tfglm.report.model_results import ModelResults
from tfglm.report.pages import read_table
from tfglm.report.words import NO_WORDS
from tfglm.results import checks, csv_files, margins
from tfglm.results.compare import ComparedModel, refuse_other_rows
from tfglm.results.fit_tables import MARGINAL, TABLES
from tfglm.results.verdicts import Check

OF_DATA = ("where", "derive", "split", "missing", "rare", "order", "seed", "bad_rows")
"""Keys of the section `data` that are keywords."""

OF_KEYS = {
    "contrasts": 'such as contrasts={"difference": {"carrier[UA]": 1, "carrier[DL]": -1}}',
    "hypotheses": 'such as hypotheses={"equal": [{"carrier[UA]": 1, "carrier[DL]": -1}]}',
    "pairwise": 'such as pairwise=["carrier"]',
    "profile": 'such as profile={"UA": {"carrier[UA]": 1}}',
    "path": 'such as path={"select": "aic"}',
    "instruments": 'such as instruments="price ~ cost"',
    "margins_at": 'such as margins_at={"near": {"distance": 100}}',
}
"""Tables that are made if a key of the same name asks for them, and a value of it."""

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
        """Average over the training rows what tables need. Raises UserError for a fit without its rows."""
        if not hasattr(self, "_read"):
            raise UserError(
                "averages need the rows, and a pickled fit has none; ask for them before pickling, or fit again"
            )
        averaged = margins.average_rows(self._saved.design, self._saved.fitted, self._ingested, self._settings)
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
        if name in OF_KEYS and not (self._sections["models"][self.name].get(name) or name in self.fit):
            raise UserError(f"table: the fit has no `{name}`; fit it with the key `{name}`, {OF_KEYS[name]}")
        path = self._result(f"{name}.csv")
        return read_table(path, self._files.fit) if name in csv_files.TEXTS else pd.read_csv(path)

    def checks(self) -> pd.DataFrame:
        """Return the checks of the model: `check`, `verdict` (green, amber, red or not checked), `finding` and `remedy`.

        Of more than a million rows the residuals are not checked. Raises UserError for a fit that was pickled.

        >>> data = {"late": [0, 1, 0, 1, 1, 0, 1, 1], "carrier": ["AA", "UA"] * 4}
        >>> tfglm.fit("late ~ carrier", pd.DataFrame(data), "binomial").checks()[["check", "verdict"]].head(1)
                check verdict
        0  separation   green
        """
        if not hasattr(self, "_read"):
            raise UserError("checks need the rows, and a pickled fit has none; fit again")
        with quietly(self.name):
            found = checks.checks(self._saved.design, self._saved.fitted, self.fit, self._ingested)
        return pd.DataFrame(found, columns=Check._fields)

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

    def plot(
        self, picture: Literal["coefficients", "effects"] = "coefficients", file: Any = None, **look: Any
    ) -> "DrawnModel":
        """Draw the coefficients with their intervals, or the curves of `effects`, as the workflow does.

        A notebook shows what is returned. `file` (.svg, .png or .pdf) keeps it. `look` are the keys of the section `pictures`
        of the config: `title`, `labels`, `size`, `dpi`, `font_size`, `order`, `levels` and `colour`. Raises UserError without
        matplotlib, for a wrong keyword, and for a model without curves.
        """
        require("matplotlib", "plot", "a picture")
        has_curves = picture == "effects" and len(self.table("effects")) > 0
        if picture != "coefficients" and not has_curves:
            raise UserError("picture: the model has no curves; plot its `coefficients`")
        results = ModelResults(self.folder, self._settings, NO_WORDS, has_curves)
        return self._drawn(picture, results, from_keywords(PicturesConfig, look, "plot"), [Path(file)] if file else [])

    def _drawn(
        self, picture: str, results: ModelResults, look: PicturesConfig, files: Sequence[Path] = ()
    ) -> "DrawnModel":
        """A picture of the results, which further files keep."""
        import matplotlib

        svg = self.folder / f"{picture}.svg"
        with quietly(self.name), matplotlib.rc_context():
            from tfglm.report import drawing, model_pages

            drawing.use_style(look)
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
        require("matplotlib", "plot", "a page with pictures")
        with quietly(self.name):
            from tfglm.report.one_model import write_pages  # imports matplotlib

            data = load(self._sections, self.name).data
            first = Path(path)
            digests.write_json(
                self.folder / "checks.json", checks.content(self._saved, self._ingested), fit=self._files.fit
            )
            first = first if first.suffix in (".html", ".htm") else first.with_name(f"{first.name}.html")
            asked = self.folder, self._settings, data, self._layout, self._ingested
            return write_pages(*asked, self._result, first, command)

    def _picture(self, most: int) -> list[Markup]:
        results = ModelResults(self.folder, self._settings, NO_WORDS)
        table = results.coefficients
        drawn = {term for term in table["term"] if not any(factor.is_curve for factor in factors_in(term))}
        if importlib.util.find_spec("matplotlib") is None or drawn <= {INTERCEPT, THRESHOLD}:
            return []
        random = table["term"].isin([each["term"] for each in self.fit.get("smooths", ()) if each["is_random"]])
        results.coefficients = table[random | ((~random).cumsum() <= most)]
        self._drawn("coefficients", results, PicturesConfig())
        return panels(self.folder / "coefficients.svg")

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
        # A formula and a subset derive columns too, which select no rows.
        own = self._sections["data"].get("derive", {})
        data["derive"] = {key: sql for key, sql in data.get("derive", {}).items() if key in own}
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
        if not (self._files.averages.is_file() or self._saved.design.absorbed):
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
    weakref.finalize(fitted, remove_own, folder, os.getpid())
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
