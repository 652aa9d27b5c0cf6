"""The config as a whole: its sections, and what must agree between them."""

import itertools
import json
import math
import re
from collections.abc import Collection, Iterable, Mapping
from os import PathLike
from pathlib import Path
from random import Random
from typing import Annotated, Any

from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator

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
from tfglm.config.data import DataConfig, FileEntry, SelectionConfig, SourceConfig
from tfglm.config.families import LINKS
from tfglm.config.layouts import Layout, times_in
from tfglm.config.messages import LONGEST_MESSAGE, problems_of
from tfglm.config.models import DesignConfig, ModelConfig, covariates_of
from tfglm.config.networks import COMPARABLE, NetworkConfig, RangeConfig, SearchConfig, TrainingConfig
from tfglm.config.pictures import PicturesConfig
from tfglm.config.solvers import SolverConfig
from tfglm.config.tables import TablesConfig
from tfglm.errors import Problems, UserError, nearest, short
from tfglm.formula.named import check_terms, expanded_model
from tfglm.formula.parts import formulas
from tfglm.formula.response import with_computed_responses

SWEPT = ("models", "networks")
"""The sections whose members may have a `sweep`."""

TRIES_OF_A_SEARCH = 100
"""Combinations that a search draws for each network, at most, as some are drawn twice."""

Folder = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$",
        max_length=LONGEST_FILE_NAME,
        examples=["results/<name>"],
    ),
]


def folder_of_results(named: str | None, config: str | PathLike[str]) -> str:
    """The folder of the results: the one that a config names (`results`), or one with the name of its file."""
    return named or f"results/{re.sub('[^A-Za-z0-9_-]', '_', Path(config).stem)}"


class Config(Section):
    """All settings of a run."""

    data: DataConfig
    models: dict[Name, ModelConfig] = Field(default={}, max_length=MOST_MODELS)
    """The regressions, by name. Results are in the folder `models/<name>`."""
    networks: dict[Name, NetworkConfig] = Field(default={}, max_length=MOST_MODELS)
    """Neural networks, by name. They use the same rows and the same metrics as the regressions. Results are in the
    folder `models/<name>`."""
    terms: dict[Name, Text] = Field(default={}, max_length=MOST_EXPRESSIONS)
    """Lists of terms under a name that formulas use: with `calendar: C(month) + C(weekday)`, `late ~ carrier *
    calendar`."""
    fit: list[str] | None = Field(default=None, max_length=MOST_MODELS)
    """Names of the models and networks to fit. Default: all of them."""
    compare: list[str] | None = Field(default=None, min_length=2, max_length=MOST_MODELS)
    """Names of models, fitted to the same rows, that `compare.html` shows side by side. Default: none."""
    score: list[FileEntry] = Field(default=[], max_length=MOST_FILES)
    """Files whose rows `snakemake score` predicts with the fitted models. Written like `data.files`; no response is
    needed."""
    results: Folder | None = None
    """The folder of the results, of letters, digits, `_`, `.` and `-`. Default: `results/` and the name of the config
    file without its ending."""
    pictures: PicturesConfig = PicturesConfig()
    tables: TablesConfig = TablesConfig()
    """How the tables for papers look, which `snakemake tables` writes."""
    cluster: ClusterConfig = ClusterConfig()
    """How models are fitted. Changes no result."""

    @model_validator(mode="before")
    @classmethod
    def _computed_responses(cls, raw: Any) -> Any:
        """Derive the columns of responses that are expressions, and write `.` out. pydantic runs this validator last."""
        return with_computed_responses(raw)

    @model_validator(mode="before")
    @classmethod
    def _terms_by_name(cls, raw: Any) -> Any:
        """Replace the names of terms in formulas, including those of sweeps.

        pydantic runs this validator before the one above.
        """
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
        """A model or network with a sweep is several, and its name stands for all of them."""
        if not isinstance(raw, dict):
            return raw
        names: dict[str, list[str]] = {}
        sections: dict[str, Any] = {}
        for section in SWEPT:
            models = raw.get(section)
            if not isinstance(models, dict):
                continue
            expanded: dict[str, Any] = {}
            for name, model in models.items():
                of_sweep = swept(f"{section}.{short(str(name))}", str(name), model, MOST_MODELS - len(expanded))
                names[name] = list(of_sweep)
                for each, value in of_sweep.items():
                    if each in expanded or (each != name and each in models):
                        raise ValueError(
                            f"{section}.{short(str(name))}.sweep: there is a model `{each}` already; rename it"
                        )
                    expanded[each] = value
            sections[section] = expanded
        lists = {
            key: [each for name in raw[key] for each in (names.get(name, [name]) if isinstance(name, str) else [name])]
            for key in ("fit", "compare")
            if isinstance(raw.get(key), list)
        }
        return {**raw, **sections, **lists}

    @property
    def all_models(self) -> dict[str, ModelConfig | NetworkConfig]:
        """Regressions and networks, by name."""
        return {**self.models, **self.networks}

    def covariates_of(self, name: str) -> list[str]:
        """Return the columns that a prediction of a model needs; for a network, including those of the regression under it."""
        model = self.all_models[name]
        under = model.offset_from if isinstance(model, NetworkConfig) else None
        return [*covariates_of(model), *(covariates_of(self.models[under]) if under else [])]

    @property
    def models_to_fit(self) -> dict[str, ModelConfig | NetworkConfig]:
        """The regressions and networks to fit, and what is needed for them, by the place of their sections."""
        names = set(self.fit or self.all_models) | set(self.compare or [])
        names |= {
            network.offset_from for name, network in self.networks.items() if name in names and network.offset_from
        }
        sections = (("models", self.models), ("networks", self.networks))
        return {f"{key}.{name}": model for key, models in sections for name, model in models.items() if name in names}

    @model_validator(mode="after")
    def _require_a_model(self) -> "Config":
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
                raise ValueError(
                    f"networks.{name}.offset_from: `{offset}` has family {self.models[offset].family}, and the network "
                    f"{network.family}; use the same"
                )
            if offset and self.models[offset].link not in (None, LINKS[network.family][0]):
                raise ValueError(
                    f"networks.{name}.offset_from: `{offset}` has the link {self.models[offset].link}, and the network the usual "
                    "link of the family; remove the link of the regression"
                )
        return self

    @model_validator(mode="after")
    def _compared_on_the_same_rows(self) -> "Config":
        first, *others = self.compare or [""]
        for other in others:
            for key in ("subset", "weights", "frequency", "trials"):
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
        for place, model in self.models_to_fit.items():
            if isinstance(model, NetworkConfig):
                schedule = model.optimizer.schedule
                keys = {
                    "patience": bool(model.patience),
                    "metrics": bool(model.metrics),
                    "halving": bool(model.halving),
                    "optimizer.learning_rate.schedule": schedule is not None and schedule.schedule == "plateau",
                }
                key = next((key for key, needs in keys.items() if needs), None)
            elif model.path is not None and model.path.select == "held_out":
                key = "path.select"
            else:
                key = "online.patience" if model.online_solver and model.online.patience else None
            if key:
                raise ValueError(f"{place}.{key}: there are no rows to evaluate on; add data.split.evaluate")
        return self

    @model_validator(mode="after")
    def _terms_of_tables(self) -> "Config":
        try:
            self.tables.check_terms([model.formula for model in self.all_models.values()])
        except ValueError as error:
            raise ValueError(f"tables.{error}") from None
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


def swept(place: str, name: str, model: Any, most: int) -> dict[str, Any]:
    """Return the models of a section with a sweep, by name; a section without a sweep is one model.

    With a `search` they are combinations at random. Invalid keys stay unchanged, so that later checks report them. Raises
    ValueError, which begins with the `place` of the section, for more than `most` models.
    """
    try:
        model = with_formulas(model, most)
    except ValueError as error:
        raise ValueError(f"{place}.formula: {error}") from None
    sweep = model.get("sweep") if isinstance(model, dict) else None
    if not isinstance(sweep, dict) or not sweep:
        if isinstance(model, dict) and model.get("halving") is not None and place.startswith("networks."):
            raise ValueError(
                f"{place}.halving: there is no `sweep` whose networks it compares; add one, or remove the key"
            )
        return {name: model}
    for key in sweep if model.get("halving") is not None else ():
        if str(key).partition(".")[0] in COMPARABLE:
            raise ValueError(
                f"{place}.halving: the losses of networks that differ in `{key}` cannot be compared; take the key out of `sweep`"
            )
    if "search" in model and place.startswith("networks."):
        return searched(place, name, model, most)
    if not all(isinstance(values, list) and values for values in sweep.values()):
        return {name: model}
    number = math.prod(len(values) for values in sweep.values())
    if number > most:
        raise ValueError(f"{place}.sweep: {number:,} combinations, and a config may have {MOST_MODELS:,} models in all")
    if "sweep" in sweep:
        raise ValueError(f"{place}.sweep: `sweep` cannot be swept; list the combinations as models")
    rest = {key: value for key, value in model.items() if key != "sweep"}
    return numbered(
        name, rest, (dict(zip(sweep, values, strict=True)) for values in itertools.product(*sweep.values()))
    )


def with_formulas(model: Any, most: int) -> Any:
    """The section with a sweep over the formulas that its formula stands for. Raises ValueError as `parts.formulas` does."""
    sweep = model.get("sweep") or {} if isinstance(model, dict) else None
    if not isinstance(sweep, dict):
        return model
    given = sweep.get("formula", [model.get("formula")])
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        return model
    expanded = [formula for each in given for formula in itertools.islice(formulas(each), most + 1)]
    if expanded == given:
        return model
    if len(expanded) > most:
        raise ValueError(f"it stands for more models than the {MOST_MODELS:,} that a config may have")
    return (
        {**model, "sweep": {**sweep, "formula": expanded}} if len(expanded) > 1 else {**model, "formula": expanded[0]}
    )


def searched(place: str, name: str, model: dict[str, Any], most: int) -> dict[str, Any]:
    """Return the networks of a section with a `search`, by name: combinations of the values of its sweep, at random.

    Seed and number alone determine a combination, so a search for more networks keeps those that there are. Raises ValueError
    as `swept` does, and if there are not as many combinations.
    """
    sweep, rest = model["sweep"], {key: value for key, value in model.items() if key not in ("sweep", "search")}
    try:
        search = SearchConfig.model_validate(model["search"])
        ranges = {key: RangeConfig.model_validate(value) for key, value in sweep.items() if isinstance(value, dict)}
    except ValidationError:
        return {name: model}
    if not all(key in ranges or (isinstance(values, list) and values) for key, values in sweep.items()):
        return {name: model}
    if search.networks > most:
        raise ValueError(
            f"{place}.search: {search.networks:,} networks, and a config may have {MOST_MODELS:,} models in all"
        )
    found: dict[str, dict[str, Any]] = {}
    for number in range(TRIES_OF_A_SEARCH * search.networks):
        drawn = {}
        for key, values in sweep.items():
            random = Random(f"{search.seed} {number} {key}")
            drawn[key] = ranges[key].drawn(random) if key in ranges else random.choice(values)
        # A combination that has been drawn before is passed over.
        found.setdefault(json.dumps(drawn, sort_keys=True, default=str), drawn)
        if len(found) == search.networks:
            break
    else:
        raise ValueError(
            f"{place}.search: only {len(found):,} combinations were found for {search.networks:,} networks; ask for fewer, or "
            "list more values"
        )
    return numbered(name, rest, found.values())


def numbered(name: str, rest: dict[str, Any], combinations: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The sections of a sweep, by name: the `rest` of the section with the values of each combination."""
    models = {}
    for number, values in enumerate(combinations, start=1):
        models[f"{name}_{number}"] = rest
        for key, value in values.items():
            models[f"{name}_{number}"] = with_value(models[f"{name}_{number}"], str(key), value)
    return models


def with_value(section: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    """Return a section with another value of a key; the key `optimizer.name` is in the section `optimizer`."""
    first, _, rest = key.partition(".")
    inner = section.get(first)
    return {**section, first: with_value(inner if isinstance(inner, dict) else {}, rest, value) if rest else value}


def load(raw: dict[str, Any], where: str, problems: Problems | None = None) -> Config:
    """Parse the config in `raw`, the content of the YAML file.

    Parameters
    ----------
    raw
        The sections of the config.
    where
        The file that messages name.
    problems
        Receives the mistakes in models. The config is then returned without these models, if any are left, so that mistakes
        in the rest can be reported too.

    Returns
    -------
    Config
        It does not check whether the named columns exist; `column_problems` does.

    Raises
    ------
    UserError
        With every problem, one per line.
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
    """Return the name of the section of each model and network, alone or in a sweep; nothing if `raw` is no config."""
    sections: dict[str, str] = {}
    for key in SWEPT:
        models = raw.get(key) if isinstance(raw, dict) else None
        for name, model in models.items() if isinstance(models, dict) else ():
            if not isinstance(name, str):
                continue
            try:
                sections |= dict.fromkeys(swept(f"{key}.{name}", name, model, MOST_MODELS - len(sections)), name)
            except ValueError:
                return {}
    return sections


def _as_written(problems: str, raw: Any) -> str:
    """Name in messages about a sweep the keys as they are in the config, each message once."""
    for section in SWEPT:
        for each, name in sections_of({section: raw.get(section)} if isinstance(raw, dict) else raw).items():
            if each == name or f": {section}.{each}" not in problems:
                continue
            for key in map(str, raw[section][name].get("sweep", ())):
                problems = problems.replace(f": {section}.{each}.{key}", f": {section}.{name}.sweep.{key}")
            for end in (":", "."):
                problems = problems.replace(f": {section}.{each}{end}", f": {section}.{name}{end}")
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


def provenance(data: DataConfig, model: ModelConfig | NetworkConfig, layouts: Mapping[str, Layout]) -> dict[str, Any]:
    """Return the keys of the config that the numbers of a model depend on, and what a prediction may need of the layouts of the
    files."""
    keys = {key for section in (DesignConfig, SolverConfig, TrainingConfig) for key in section.model_fields}
    derived = {name: layout.derive for name, layout in layouts.items() if {*data.columns} & {*layout.derive}}
    expressions = [*data.derive.values(), *(sql for derive in derived.values() for sql in derive.values())]
    words = set(re.findall(r"\w+", " ".join([*data.columns, *expressions])))
    times = {name: time for name, time in times_in(layouts.values()).items() if name in words}
    return {
        "data": data.model_dump(exclude=set(SourceConfig.model_fields), exclude_defaults=True),
        "model": model.model_dump(include=keys, exclude_defaults=True),
        **({"derived_in_layouts": derived} if derived else {}),
        **({"times_in_layouts": times} if times else {}),
    }


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
