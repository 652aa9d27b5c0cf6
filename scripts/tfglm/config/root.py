"""The config as a whole: its sections, and what must agree between them."""

import itertools
import math
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from tfglm.config.base import MOST_FILES, MOST_MODELS, Name, Section, no_duplicates
from tfglm.config.cluster import ClusterConfig
from tfglm.config.data import DataConfig, FileConfig, SelectionConfig, as_file
from tfglm.config.messages import LONGEST_MESSAGE, MOST_PROBLEMS, validated
from tfglm.config.models import ModelConfig, columns_of, covariates_of
from tfglm.config.networks import NetworkConfig
from tfglm.config.pictures import PicturesConfig
from tfglm.errors import UserError, nearest, short


class Config(Section):
    """Everything that a run is told."""

    data: DataConfig = Field(description="Which rows and columns are read, and how.")
    models: dict[Name, ModelConfig] = Field(
        default={},
        max_length=MOST_MODELS,
        description="The regressions, by name. The name is the folder under `results/models/`.",
    )
    networks: dict[Name, NetworkConfig] = Field(
        default={},
        max_length=MOST_MODELS,
        description="Neural networks, by name: over the same rows, evaluated as the regressions are. The name is the folder "
        "under `results/models/`.",
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
        description="Names of models, fitted on the same rows, that `results/compare.html` shows side by side. Default: none.",
    )
    score: list[Annotated[FileConfig, BeforeValidator(as_file, json_schema_input_type=str | FileConfig)]] = Field(
        default=[],
        max_length=MOST_FILES,
        description="Files whose rows `snakemake score` predicts, all of them, with the fitted models. Written like "
        "`data.files`; no response is needed.",
    )
    pictures: PicturesConfig = Field(default=PicturesConfig(), description="How pictures look.")
    cluster: ClusterConfig = Field(default=ClusterConfig(), description="What a model is fitted on. Changes no result.")

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

    def sections(self) -> Iterator[tuple[str, ModelConfig | NetworkConfig]]:
        """The same, by the place of their sections."""
        yield from ((f"models.{name}", model) for name, model in self.models.items())
        yield from ((f"networks.{name}", network) for name, network in self.networks.items())

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
        return self

    @model_validator(mode="after")
    def _rows_to_evaluate_on(self) -> "Config":
        for name, model in self.models.items():
            held_out = model.path is not None and model.path.select == "held_out"
            if not self.data.split.evaluate and (held_out or (model.online_solver and model.online.patience)):
                key = "path.select" if held_out else "online.patience"
                raise ValueError(f"models.{name}.{key}: there are no rows to evaluate on; add data.split.evaluate")
        for name, network in self.networks.items():
            if not self.data.split.evaluate and network.patience:
                raise ValueError(f"networks.{name}.patience: there are no rows to evaluate on; add data.split.evaluate")
        return self

    @model_validator(mode="after")
    def _kept_columns(self) -> "Config":
        columns = self.data.columns
        for section, model in self.sections():
            for key in ("by", "identity"):
                for column in getattr(model, key):
                    if column not in columns:
                        raise ValueError(f"{section}.{key}: data.columns has no `{column}`{nearest(column, columns)}")
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


def load(raw: dict[str, Any], where: str) -> Config:
    """The config in `raw`, as YAML gave it; `where` is the file that messages name.

    Raises UserError with every problem, one a line.
    """
    config = validated(Config, raw, where)
    columns = config.data.columns
    unknown = [
        f"{where}: {section}.{key}: no column `{short(column)}`{nearest(column, columns) or ';'} "
        f"data.columns has {', '.join(columns)}"
        for section, model in config.sections()
        for key, named in ({"formula": columns_of(model.formula)} | model.roles).items()
        for column in dict.fromkeys(named)
        if column not in columns
    ]
    if unknown:
        raise UserError("\n".join(short(problem, LONGEST_MESSAGE) for problem in unknown[:MOST_PROBLEMS]))
    return config


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
