"""The config as a whole: its sections, and what must agree between them."""

import itertools
import math
from collections.abc import Collection
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError, ValidationInfo, field_validator, model_validator

from tfglm.config.base import (
    LONGEST_FILE_NAME,
    MOST_EXPRESSIONS,
    MOST_FILES,
    MOST_MODELS,
    Name,
    Section,
    Text,
    no_duplicates,
)
from tfglm.config.cluster import ClusterConfig
from tfglm.config.data import DataConfig, FileConfig, SelectionConfig, as_file
from tfglm.config.families import LINKS
from tfglm.config.messages import LONGEST_MESSAGE, problems_of
from tfglm.config.models import ModelConfig, columns_of, covariates_of
from tfglm.config.networks import NetworkConfig
from tfglm.config.pictures import PicturesConfig
from tfglm.config.tables import TablesConfig
from tfglm.config.terms import check_terms, expanded_model
from tfglm.errors import Problems, UserError, nearest, short

Folder = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$",
        max_length=LONGEST_FILE_NAME,
        examples=["results/<name>"],
    ),
]


class Config(Section):
    """Everything that a run is told."""

    data: DataConfig = Field(description="Which rows and columns are read, and how.")
    models: dict[Name, ModelConfig] = Field(
        default={},
        max_length=MOST_MODELS,
        description="The regressions, by name. The name is the folder under `models/` in that of the results.",
    )
    networks: dict[Name, NetworkConfig] = Field(
        default={},
        max_length=MOST_MODELS,
        description="Neural networks, by name: over the same rows, evaluated as the regressions are. The name is the folder "
        "under `models/` in that of the results.",
    )
    terms: dict[Name, Text] = Field(
        default={},
        max_length=MOST_EXPRESSIONS,
        description="Lists of terms under a name that formulas use: with `calendar: C(month) + C(weekday)` the formula "
        "`late ~ carrier * calendar` has them all.",
    )
    fit: list[str] | None = Field(
        default=None,
        max_length=MOST_MODELS,
        description="Names of the models and networks to fit. Default: all of them.",
    )
    compare: list[str] | None = Field(
        default=None,
        min_length=2,
        max_length=MOST_MODELS,
        description="Names of models, fitted on the same rows, that the page `compare.html` shows side by side. Default: none.",
    )
    score: list[Annotated[FileConfig, BeforeValidator(as_file, json_schema_input_type=str | FileConfig)]] = Field(
        default=[],
        max_length=MOST_FILES,
        description="Files whose rows `snakemake score` predicts, all of them, with the fitted models. Written like "
        "`data.files`; no response is needed.",
    )
    results: Folder | None = Field(
        default=None,
        description="The folder of the results, of letters, digits, `_`, `.` and `-`. Default: `results/` and the name of the "
        "config file without its ending, so that two configs do not overwrite each other's.",
    )
    pictures: PicturesConfig = Field(default=PicturesConfig(), description="How pictures look.")
    tables: TablesConfig = Field(
        default=TablesConfig(), description="How the tables for papers look, which `snakemake tables` writes."
    )
    cluster: ClusterConfig = Field(default=ClusterConfig(), description="What a model is fitted on. Changes no result.")

    @model_validator(mode="before")
    @classmethod
    def _terms_by_name(cls, raw: Any) -> Any:
        """Formulas with what their names of terms stand for; those of a sweep too, as pydantic takes what follows first."""
        terms = raw.get("terms") if isinstance(raw, dict) else None
        if not isinstance(terms, dict):
            return raw
        sections = {key: raw[key] for key in ("models", "networks") if isinstance(raw.get(key), dict)}
        return raw | {
            key: {name: expanded_model(model, terms) for name, model in models.items()}
            for key, models in sections.items()
        }

    @model_validator(mode="before")
    @classmethod
    def _swept(cls, raw: Any) -> Any:
        """A model with a sweep is several models, and its name stands for all of them."""
        models = raw.get("models") if isinstance(raw, dict) else None
        if not isinstance(models, dict):
            return raw
        expanded: dict[str, Any] = {}
        names: dict[str, list[str]] = {}
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

    @property
    def all_models(self) -> dict[str, ModelConfig | NetworkConfig]:
        """Regressions and networks, by name."""
        return {**self.models, **self.networks}

    def covariates_of(self, name: str) -> list[str]:
        """The columns that a prediction of a model needs: of a network, those of the regression under it too."""
        model = self.all_models[name]
        under = model.offset_from if isinstance(model, NetworkConfig) else None
        return [*covariates_of(model), *(covariates_of(self.models[under]) if under else [])]

    @property
    def to_be_made(self) -> dict[str, ModelConfig | NetworkConfig]:
        """The regressions and networks to fit, and what is needed for them, by the place of their sections."""
        names = set(self.fit or self.all_models) | set(self.compare or [])
        names |= {
            network.offset_from for name, network in self.networks.items() if name in names and network.offset_from
        }
        sections = (("models", self.models), ("networks", self.networks))
        return {f"{key}.{name}": model for key, models in sections for name, model in models.items() if name in names}

    @model_validator(mode="after")
    def _something_to_fit(self) -> "Config":
        if not self.all_models:
            raise ValueError(
                "models: there is nothing to fit; give a regression under `models` or a network under `networks`"
            )
        for name, network in self.networks.items():
            if name in self.models:
                raise ValueError(f"networks.{name}: there is a model `{name}` already; rename it")
            offset = network.offset_from
            if offset and offset not in self.models:
                raise ValueError(
                    f"networks.{name}.offset_from: no regression is named `{offset}`{nearest(offset, self.models) or ''}"
                )
            if offset and self.models[offset].family != network.family:
                raise ValueError(f"networks.{name}.offset_from: `{offset}` is of another family; use the same")
            if offset and self.models[offset].link not in (None, LINKS[network.family][0]):
                raise ValueError(f"networks.{name}.offset_from: `{offset}` has another link than networks have")
        return self

    @model_validator(mode="after")
    def _compared_on_the_same_rows(self) -> "Config":
        first, *others = self.compare or [""]
        for other in others:
            for key in ("weights", "frequency", "trials"):
                mine, theirs = (getattr(self.all_models[name], key) or "none" for name in (first, other))
                if mine != theirs:
                    raise ValueError(
                        f"compare: `{first}` and `{other}` are not of the same rows, as their `{key}` are {mine} and {theirs}; "
                        "take one of them out"
                    )
        return self

    @model_validator(mode="after")
    def _terms_are_no_columns(self) -> "Config":
        columns = dict.fromkeys(self.data.derive, "data.derive") | dict.fromkeys(self.data.columns, "data.columns")
        check_terms(self.terms, columns)
        return self

    @model_validator(mode="after")
    def _rows_to_evaluate_on(self) -> "Config":
        if self.data.split.evaluate:
            return self
        for place, model in self.to_be_made.items():
            if isinstance(model, NetworkConfig):
                key = "patience" if model.patience else None
            elif model.path is not None and model.path.select == "held_out":
                key = "path.select"
            else:
                key = "online.patience" if model.online_solver and model.online.patience else None
            if key:
                raise ValueError(f"{place}.{key}: there are no rows to evaluate on; add data.split.evaluate")
        return self

    @model_validator(mode="after")
    def _terms_of_tables(self) -> "Config":
        written = [model.formula for model in self.all_models.values()]
        formulas, columns = ["".join(formula.split()) for formula in written], [*map(columns_of, written)]
        for key in ("labels", "controls"):
            for term in getattr(self.tables, key):
                # `a * b` has the term `a:b`.
                factors = "".join(term.split()).split(":")
                is_written = any(all(part in formula for part in factors) for formula in formulas)
                # `i(month, ref=1)` and `C(month, Treatment("6"))` have the term `C(month)`.
                is_factor = term.startswith("C(") and any(set(columns_of(term)) <= set(names) for names in columns)
                if term != "Intercept" and not is_written and not is_factor:
                    raise ValueError(f"tables.{key}: no formula has the term `{short(term)}`")
        return self

    @field_validator("fit", "compare")
    @classmethod
    def _known_models(cls, fit: list[str] | None, info: ValidationInfo) -> list[str] | None:
        no_duplicates(fit)
        if not {"models", "networks"} <= info.data.keys():
            return fit  # absent if the models themselves are in error
        known = [*info.data["models"], *info.data["networks"]]
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


def load(raw: dict[str, Any], where: str, problems: Problems | None = None) -> Config:
    """The config in `raw`, as YAML gave it.

    Parameters
    ----------
    raw
        Its sections.
    where
        The file that messages name.
    problems
        Takes what is wrong within models, if there is something left without them: then the config is returned without them, so
        that what is wrong with the rest can be told too.

    Returns
    -------
    Config
        Whether there are the columns that it names, the layouts tell (`column_problems`).

    Raises
    ------
    UserError
        With every problem, one a line.
    """
    try:
        return Config.model_validate(raw)
    except ValidationError as error:
        refusal = UserError(_as_written(problems_of(error, Config, where), raw))
        rest = _without_models(raw, [each["loc"] for each in error.errors(include_url=False)])
        if problems is None or rest is None:
            raise refusal from None
        try:
            config = Config.model_validate(rest)
        except ValidationError:
            raise refusal from None
        problems.messages.append(str(refusal))
        return config


def sections_of(raw: Any) -> dict[str, str]:
    """The section under `models` that each model stands in, alone or as one of a sweep, by name; none of what is no config."""
    models = raw.get("models") if isinstance(raw, dict) else None
    sections: dict[str, str] = {}
    for name, model in models.items() if isinstance(models, dict) else ():
        if not isinstance(name, str):
            continue
        try:
            sections |= dict.fromkeys(swept(name, model, MOST_MODELS - len(sections)), name)
        except ValueError:
            return {}
    return sections


def _as_written(problems: str, raw: Any) -> str:
    """Messages with the keys of a sweep by the place where they stand, each message once."""
    for each, name in sections_of(raw).items():
        if each == name or f": models.{each}" not in problems:
            continue
        for key in map(str, raw["models"][name]["sweep"]):
            problems = problems.replace(f": models.{each}.{key}", f": models.{name}.sweep.{key}")
        for end in (":", "."):
            problems = problems.replace(f": models.{each}{end}", f": models.{name}{end}")
    return "\n".join(dict.fromkeys(problems.split("\n")))


def _without_models(raw: Any, places: Collection[tuple[int | str, ...]]) -> dict[str, Any] | None:
    """The config without the models and networks that have a mistake; None if something else has."""
    if not all(place[0] in ("models", "networks") for place in places if len(place) > 1) or min(map(len, places)) < 2:
        return None
    sections = sections_of(raw)
    wrong = {sections.get(str(name), str(name)) for _, name, *_ in places}
    rest: dict[str, Any] = {
        section: {name: model for name, model in raw[section].items() if str(name) not in wrong}
        for section in ("models", "networks")
        if isinstance(raw.get(section), dict)
    }
    for key in ("fit", "compare"):
        if isinstance(raw.get(key), list):
            rest[key] = [name for name in raw[key] if str(name) not in wrong]
    if rest.get("fit") == []:
        return None
    # Tables may name terms of the models that are left out.
    return {**raw, **rest, "tables": {}, **({"compare": None} if len(rest.get("compare", [])) < 2 else {})}


def settings_to_score(config: Config) -> SelectionConfig:
    """How files are read whose rows are predicted, all of them: with the covariates of all models, and no response.

    Raises UserError if there are no covariates.
    """
    models = config.fit or config.all_models
    needed = {name for model in models for name in config.covariates_of(model) + config.all_models[model].identity}
    columns = [name for name in config.data.columns if name in needed]
    if not columns:
        raise UserError("score: no model has a covariate, so they predict the same of every row; remove the key")
    settings = config.data.model_dump(include={"derive", "seed", "bad_rows"})
    all_rows = {"train": "FALSE", "predict": "TRUE"}
    return SelectionConfig.model_validate({**settings, "split": all_rows, "columns": columns})


def schema() -> dict[str, Any]:
    """The JSON schema of the config."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Config.model_json_schema()}
