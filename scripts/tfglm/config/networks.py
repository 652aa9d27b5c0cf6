"""The sections under `networks`: which layers, and how they are trained."""

import json
import math
from random import Random
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, field_validator, model_validator
from pydantic.json_schema import SkipJsonSchema

from tfglm.config.base import (
    FROM_TEXT,
    LONGEST_FILE_NAME,
    MOST_MODELS,
    MOST_ROWS,
    Count,
    Integer,
    Level,
    Name,
    Section,
    Text,
)
from tfglm.config.compatibility import NO_THRESHOLD
from tfglm.config.families import FamilyName, NetworkFamily
from tfglm.config.models import PredictionConfig, RowsConfig

WIDEST = 65_536
"""Units of a layer."""

OF_EVERY_OPTIMIZER = {"clipnorm", "clipvalue", "global_clipnorm", "weight_decay", "use_ema", "ema_momentum"}
"""Options that each optimizer has, by their names in Keras."""

_ADAM = {"beta_1", "beta_2", "epsilon"}
SETTINGS_OF_OPTIMIZERS = {
    "sgd": {"momentum", "nesterov"},
    "adam": _ADAM | {"amsgrad"},
    "adamw": _ADAM | {"amsgrad"},
    "nadam": _ADAM,
    "adamax": _ADAM,
    "lion": {"beta_1", "beta_2"},
    "adagrad": {"initial_accumulator_value", "epsilon"},
    "adadelta": {"rho", "epsilon"},
    "rmsprop": {"rho", "momentum", "epsilon", "centered"},
    "ftrl": {
        "learning_rate_power",
        "initial_accumulator_value",
        "l1_regularization_strength",
        "l2_regularization_strength",
        "beta",
    },
}
"""Further options of an optimizer besides its learning rate, by their names in Keras."""

SETTINGS_OF_SCHEDULES = {
    "constant": set(),
    "cosine": {"decay_steps", "alpha"},
    "exponential": {"decay_steps", "decay_rate", "staircase"},
    "piecewise": {"boundaries", "values"},
    "plateau": {"factor", "patience", "min_learning_rate"},
}
"""Options of a schedule besides where it begins, by their names in Keras."""

REQUIRED_OF_SCHEDULES = {
    "constant": {"warmup_steps"},
    "exponential": {"decay_steps", "decay_rate"},
    "piecewise": {"boundaries", "values"},
}

WITHOUT = {
    "horovod": "its last release, 0.28.1, builds with no TensorFlow that this workflow can run",
}
"""Strategies that TensorFlow or others have, and why a network cannot be trained under them."""

OF_BUILT_IN = {
    *(
        "hidden",
        "activation",
        "convolutions",
        "kernel",
        "pooling",
        "dropout",
        "embedding",
        "batch_normalization",
        "l1",
        "l2",
    )
}
"""Keys of the layers that tfglm makes itself."""

SEVERAL_PROCESSES = ("multi_worker_mirrored", "parameter_server")
"""Strategies that are not one ordinary job."""

Rate = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False), FROM_TEXT]
Positive = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False), FROM_TEXT]
NotNegative = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False), FROM_TEXT]


Steps = Annotated[Count, Field(le=10**12)]
LearningRate = Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False), FROM_TEXT]


class ScheduleConfig(Section):
    """A learning rate that changes during the training, with Keras' names."""

    schedule: Literal["constant", "cosine", "exponential", "piecewise", "plateau"] = Field(
        description="How the learning rate changes: `cosine` falls like a cosine, `exponential` by a factor, `piecewise` is "
        "constant between boundaries, `plateau` falls when the loss on the `evaluate` rows no longer does. `constant` is for "
        "`warmup_steps` alone."
    )
    initial_learning_rate: LearningRate | None = Field(
        default=None, description="The learning rate at the start, after a warm-up. `piecewise` has `values` instead."
    )
    warmup_steps: Steps | None = Field(
        default=None, description="Steps in which the learning rate rises from 0 to its start. The schedule follows."
    )
    decay_steps: Steps | None = Field(
        default=None,
        description="Steps in which `cosine` falls to its end (default: the rest of the training), or `exponential` by "
        "its factor.",
    )
    alpha: Annotated[float, Field(ge=0, le=1), FROM_TEXT] | None = Field(
        default=None, description="The end of `cosine`, as a share of the start. Default: 0."
    )
    decay_rate: Annotated[float, Field(gt=0, le=1), FROM_TEXT] | None = Field(
        default=None, description="The factor of `exponential`."
    )
    staircase: bool | None = Field(default=None, description="Whether `exponential` falls all at once.")
    boundaries: list[Steps] | None = Field(
        default=None, min_length=1, max_length=1000, description="Steps after which `piecewise` takes the next value."
    )
    values: list[LearningRate] | None = Field(
        default=None, max_length=1001, description="The learning rates of `piecewise`, one more than boundaries."
    )
    factor: Annotated[float, Field(gt=0, lt=1), FROM_TEXT] | None = Field(
        default=None, description="What `plateau` multiplies the learning rate by. Default: 0.1."
    )
    patience: Annotated[Count, Field(le=100_000)] | None = Field(
        default=None, description="Epochs without a smaller loss before `plateau` acts. Default: 10."
    )
    min_learning_rate: LearningRate | None = Field(default=None, description="The smallest learning rate of `plateau`.")

    @property
    def first(self) -> float:
        """The learning rate at the start, after a warm-up."""
        return self.initial_learning_rate or (self.values or [0.0])[0]

    @model_validator(mode="after")
    def _options_that_it_has(self) -> "ScheduleConfig":
        common = {"schedule", "warmup_steps"} | ({"initial_learning_rate"} if self.schedule != "piecewise" else set())
        known = SETTINGS_OF_SCHEDULES[self.schedule] | common
        required = REQUIRED_OF_SCHEDULES.get(self.schedule, set()) | (common - {"schedule", "warmup_steps"})
        given = self.model_dump(exclude_none=True).keys()
        for key in sorted(given - known):
            raise ValueError(f"schedule `{self.schedule}` has no `{key}`; it has {', '.join(sorted(known))}")
        for key in sorted(required - given):
            raise ValueError(f"schedule `{self.schedule}` needs `{key}`; add it")
        if self.schedule == "plateau" and self.warmup_steps:
            raise ValueError("schedule `plateau` has no `warmup_steps`, since it follows the loss; remove the key")
        boundaries, values = self.boundaries or [], self.values or []
        if boundaries != sorted(set(boundaries)):
            raise ValueError(f"boundaries: {boundaries} do not rise; write each step once, in order")
        if boundaries and len(values) != len(boundaries) + 1:
            raise ValueError(
                f"values: there are {len(values)} for {len(boundaries)} boundaries; write {len(boundaries) + 1}"
            )
        return self


class OptimizerConfig(Section):
    """The optimizer, with Keras' names; options that are not given have Keras' defaults."""

    name: Literal["sgd", "adam", "adamw", "nadam", "adamax", "lion", "adagrad", "adadelta", "rmsprop", "ftrl"] = Field(
        default="adam", description="The rule that turns a gradient into a step."
    )
    learning_rate: LearningRate | ScheduleConfig = Field(
        default=0.001, description="Length of the steps: a number, or a schedule."
    )
    clipnorm: Positive | None = Field(
        default=None, description="The largest norm of the gradient of each weight; larger ones are scaled down."
    )
    global_clipnorm: Positive | None = Field(
        default=None,
        description="The largest norm of the gradient of all weights together; a larger one is scaled down.",
    )
    clipvalue: Positive | None = Field(default=None, description="The largest absolute value in a gradient.")
    weight_decay: NotNegative | None = Field(
        default=None, description="How much of a weight each step takes away, times the learning rate."
    )
    use_ema: bool | None = Field(
        default=None,
        description="Whether predictions use the moving average of each weight. The held-out loss is of these averages.",
    )
    ema_momentum: Rate | None = Field(default=None, description="Decay of these averages. Default: 0.99.")
    lazy: bool | None = Field(
        default=None,
        description="Whether a step changes only the rows of an embedding that its batch has. Default: for embeddings of 65,536 "
        "numbers or more.",
    )
    centered: bool | None = Field(
        default=None, description="Whether `rmsprop` divides by the standard deviation of the gradients."
    )
    momentum: Rate | None = Field(default=None, description="Momentum of `sgd` and `rmsprop`.")
    nesterov: bool | None = Field(default=None, description="Whether the momentum of `sgd` is Nesterov's.")
    beta_1: Rate | None = Field(default=None, description="Decay of the mean of the gradients, for `adam`.")
    beta_2: Rate | None = Field(default=None, description="Decay of the mean of the squared gradients, for `adam`.")
    rho: Rate | None = Field(default=None, description="Decay of the mean of the squared gradients, for `rmsprop`.")
    epsilon: NotNegative | None = Field(
        default=None, description="A small number added to a divisor, for `adam`, `adagrad` and `rmsprop`."
    )
    amsgrad: bool | None = Field(default=None, description="Whether `adam` divides by the largest mean so far.")
    initial_accumulator_value: NotNegative | None = Field(
        default=None, description="Initial value of the sum of squares, for `adagrad` and `ftrl`."
    )
    learning_rate_power: Annotated[float, Field(ge=-10, le=0, allow_inf_nan=False), FROM_TEXT] | None = Field(
        default=None, description="How fast the steps of `ftrl` become shorter."
    )
    l1_regularization_strength: NotNegative | None = Field(default=None, description="Lasso penalty of `ftrl`.")
    l2_regularization_strength: NotNegative | None = Field(default=None, description="Ridge penalty of `ftrl`.")
    beta: NotNegative | None = Field(
        default=None, description="A number that `ftrl` adds to the root of its sum of squares."
    )

    @property
    def given(self) -> dict[str, Any]:
        """What Keras is told, besides the learning rate."""
        return self.model_dump(exclude={"name", "learning_rate", "lazy"}, exclude_none=True)

    @property
    def schedule(self) -> ScheduleConfig | None:
        """How the learning rate changes; None if it does not."""
        return self.learning_rate if isinstance(self.learning_rate, ScheduleConfig) else None

    @property
    def first_rate(self) -> float:
        """The learning rate at the start."""
        return self.schedule.first if self.schedule else float(self.learning_rate)  # type: ignore[arg-type]

    @model_validator(mode="after")
    def _settings_that_it_has(self) -> "OptimizerConfig":
        known = SETTINGS_OF_OPTIMIZERS[self.name] | OF_EVERY_OPTIMIZER
        for key in self.given:
            if key not in known:
                raise ValueError(
                    f"`{self.name}` has no `{key}`; beside learning_rate it has {', '.join(sorted(known))}"
                )
        if len(clips := sorted({"clipnorm", "clipvalue", "global_clipnorm"} & self.given.keys())) > 1:
            raise ValueError(f"{clips[0]}: Keras clips a gradient in one way; remove it or {clips[1]}")
        if self.ema_momentum is not None and not self.use_ema:
            raise ValueError("ema_momentum: it is of `use_ema: true`; add this, or remove the key")
        return self


class CheckpointsConfig(Section):
    """When training writes a checkpoint. An interrupted run continues from the last checkpoint."""

    seconds: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False), FROM_TEXT] = Field(
        default=60.0, description="Seconds between checkpoints."
    )
    steps: Count | None = Field(
        default=None, le=10**12, description="Steps after which a checkpoint is written too. Default: by time alone."
    )
    keep: Count = Field(default=2, le=1000, description="Number of checkpoints to keep; older checkpoints are deleted.")


Place = Annotated[
    str,
    Field(
        pattern=r"^[^:\s][^:]*\.py:[A-Za-z_][A-Za-z0-9_]*$",
        max_length=LONGEST_FILE_NAME,
        examples=["my_model.py:build"],
    ),
]
"""A function in a Python file of the user's."""


class LayersConfig(Section):
    """The layers of a network."""

    model: Place | None = Field(
        default=None,
        description="A function of your own that builds the layers with Keras, such as `my_model.py:build`, instead of "
        "`hidden` and the like. The file is in the folder of the run, or beside the config.",
    )
    settings: dict[Text, Any] = Field(
        default={}, max_length=1000, description="What `model` gets as its second argument. A change trains again."
    )
    code: SkipJsonSchema[dict[str, str]] = Field(default={}, description="The text of the files; jobs fill it in.")
    hidden: list[Annotated[int, Field(ge=1, le=WIDEST), FROM_TEXT]] = Field(
        default=[64, 32],
        max_length=100,
        description="Units of each hidden layer. `[]` leaves only the linear part: the regression, trained by gradient steps.",
    )
    activation: Literal["relu", "tanh", "sigmoid", "elu", "selu", "gelu", "silu", "softplus"] = Field(
        default="relu", description="Activation of the hidden layers and convolutions."
    )
    convolutions: list[Annotated[int, Field(ge=1, le=WIDEST), FROM_TEXT]] = Field(
        default=[],
        max_length=20,
        description="The number of filters of each convolution before the hidden layers, such as `[32, 64]`, if the "
        "formula has an image.",
    )
    kernel: Count = Field(default=3, le=64, description="Height and width of a filter, in pixels.")
    pooling: Count = Field(
        default=2,
        le=64,
        description="Height and width of the squares for max pooling after the convolutions.",
    )
    dropout: Rate = Field(default=0.0, description="Share of the units of each hidden layer that a step leaves out.")
    batch_normalization: bool = Field(
        default=False, description="Whether each hidden layer is normalised over the batch before its activation."
    )
    l1: NotNegative = Field(default=0.0, description="Lasso penalty on the weights of hidden layers and convolutions.")
    l2: NotNegative = Field(
        default=0.0, description="Ridge penalty on the same weights: `l2` times the sum of their squares."
    )
    precision: Literal["float32", "mixed_bfloat16"] = Field(
        default="float32",
        description="The numbers that layers compute with. `mixed_bfloat16` is faster on recent GPUs and on TPUs. Weights, the "
        "linear part, the output and the loss keep float32.",
    )
    embedding: (
        Annotated[int, Field(ge=1, le=WIDEST), FROM_TEXT]
        | dict[Text, Annotated[int, Field(ge=1, le=WIDEST), FROM_TEXT]]
        | None
    ) = Field(
        default=None,
        description="Dimensions of the embedding of a factor: one number for all, or by factor, such as `{dest: 8}`. Default: "
        "1.6 * levels^0.56, at most 50.",
    )
    wide: bool = Field(
        default=False,
        description="Whether the linear predictor of the formula, with a coefficient of its own for each level, is "
        "added to the output of the layers (wide and deep).",
    )
    offset_from: Name | None = Field(
        default=None,
        description="A regression under `models` whose fitted linear predictor is added: the network learns only "
        "what the regression does not explain.",
    )

    @property
    def is_deep(self) -> bool:
        """Whether it has more layers than a regression."""
        return bool(self.hidden or self.model)

    @property
    def functions(self) -> dict[str, list[str]]:
        """The functions of the user's, by the key that names them."""
        return {"model": [self.model]} if self.model else {}

    @property
    def files_of_code(self) -> list[str]:
        """The Python files of the user's that it needs."""
        return sorted({place.rpartition(":")[0] for places in self.functions.values() for place in places})

    @field_validator("precision", mode="before")
    @classmethod
    def _precision_without_scaled_losses(cls, precision: Any) -> Any:
        if precision == "mixed_float16":
            raise ValueError(
                "no `mixed_float16`: its gradients vanish unless the loss is scaled, which no strategy here does; use "
                "`mixed_bfloat16`"
            )
        return precision

    @field_validator("settings")
    @classmethod
    def _settings_of_plain_values(cls, settings: dict[str, Any]) -> dict[str, Any]:
        try:
            json.dumps(settings, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError(f"only texts, finite numbers, truth values, lists and sections of them: {error}") from None
        return settings

    @model_validator(mode="before")
    @classmethod
    def _no_hidden_layers_beside_a_model(cls, raw: Any) -> Any:
        return {"hidden": [], **raw} if isinstance(raw, dict) and raw.get("model") else raw

    @model_validator(mode="after")
    def _layers_of_one_kind(self) -> "LayersConfig":
        if not self.model and self.settings:
            raise ValueError("settings: they are for a `model` of your own; remove the key")
        for key in sorted(OF_BUILT_IN & self.model_fields_set) if self.model else ():
            if getattr(self, key) not in ([], LayersConfig.model_fields[key].default):
                raise ValueError(
                    f"{key}: with `model` the function makes the layers; give it `settings: {{{key}: ...}}`"
                )
        return self

    @model_validator(mode="after")
    def _layers_behind_convolutions(self) -> "LayersConfig":
        if self.convolutions and not self.hidden:
            raise ValueError("convolutions: they come before hidden layers; add some, such as `hidden: [64]`")
        return self


class TrainingConfig(LayersConfig):
    """How a network is trained. Every key is a reason to train again."""

    strategy: Literal[
        "one_device", "mirrored", "central_storage", "tpu", "multi_worker_mirrored", "parameter_server"
    ] = Field(
        default="one_device",
        description="TensorFlow's strategy: `one_device`; `mirrored`, a copy of the network on each device, whose "
        "gradients are added; `central_storage`, one copy that all devices read; `tpu`, a copy on each core of the TPU; "
        "`multi_worker_mirrored`, a copy in each of `workers`, whose gradients are added in a ring; or `parameter_server`, "
        "one copy on `ps` servers, which `workers` change independently of each other.",
    )
    workers: Annotated[Count, Field(le=10_000)] | None = Field(
        default=None,
        description="Processes that compute gradients under `multi_worker_mirrored` or `parameter_server`. Default: 2.",
    )
    ps: Annotated[Count, Field(le=1000)] | None = Field(
        default=None, description="Parameter servers, under `parameter_server`. Default: 1."
    )
    synchronous: bool = Field(
        default=False,
        description="With `parameter_server`: whether the workers take each step together, each with a part of the "
        "batch. The steps are then those of `one_device`, up to rounding.",
    )
    backup_workers: Integer = Field(
        default=0,
        ge=0,
        le=10_000,
        description="With `synchronous`: how many of the `workers` exceed the number of parts of a batch. They "
        "compute late parts again, so as many slow workers delay nobody.",
    )
    gpus: Integer = Field(
        default=0,
        ge=0,
        le=64,
        description="GPUs of one machine that share a batch. Under `multi_worker_mirrored` and `parameter_server` these are the "
        "GPUs of each worker, which no other process uses. SLURM is asked for them.",
    )
    communication: Literal["auto", "ring", "nccl"] = Field(
        default="auto",
        description="How the workers of `multi_worker_mirrored` add their gradients: `ring`, by TensorFlow's servers; `nccl`, by "
        "NVIDIA's library between GPUs; or `auto`, which is TensorFlow's choice.",
    )
    devices: Count | None = Field(
        default=None,
        le=64,
        description="Without `gpus`: logical processors that share a batch. Default: one.",
    )
    threads: Count = Field(
        default=1,
        le=1024,
        description="Threads of one operation. More are faster for wide layers, and may move the last digits.",
    )
    optimizer: OptimizerConfig = Field(default=OptimizerConfig(), description="The optimizer, in the words of Keras.")
    loss: Place | None = Field(
        default=None,
        description="A loss of your own instead of that of the family: a function of the linear predictor and the response, "
        "such as `my_model.py:focal`, that returns a number for each row.",
    )
    metrics: list[Place] = Field(
        default=[],
        max_length=100,
        description="Functions like `loss`, whose means over the `evaluate` rows are recorded after each epoch.",
    )
    callbacks: list[Place] = Field(
        default=[],
        max_length=100,
        description="Functions or classes of your own that return a `keras.callbacks.Callback` without arguments. It is called "
        "at the start and the end of epochs and of the training.",
    )
    class_weights: Literal["balanced"] | dict[Level, NotNegative] | None = Field(
        default=None,
        description="Factors on the loss of rows by their class, such as `{0: 1, 1: 5}`; other classes have 1. `balanced` gives "
        "all classes the same total weight.",
    )
    label_smoothing: Rate = Field(
        default=0.0, description="The share of each response that is spread over all classes, in the loss."
    )
    batch_size: Count = Field(default=512, le=2**20, description="Rows of a step, over all devices.")
    epochs: Count = Field(
        default=5,
        le=100_000,
        description="How many times each training row is used, unless `steps_per_epoch` is given.",
    )
    steps_per_epoch: Annotated[Count, Field(le=10**12)] | None = Field(
        default=None,
        description="Steps of an epoch. After each epoch the network is evaluated on the held-out rows; the next "
        "epoch continues with the following rows. Default: the number of steps that uses each training row once.",
    )
    last_step: Annotated[Count, Field(le=10**12)] | None = Field(
        default=None, description="The step after which to stop, even within an epoch."
    )
    patience: Annotated[Count, Field(le=100_000)] | None = Field(
        default=None,
        description="Stop after so many epochs without a smaller loss on the `evaluate` rows, and keep the weights with the "
        "smallest.",
    )
    seed: Integer = Field(
        default=1,
        ge=0,
        le=MOST_ROWS,
        description="Seed of the weights at the start, of the order of rows, and of dropout.",
    )
    shuffle: bool = Field(default=True, description="Whether each epoch takes the rows in another order.")
    shuffle_buffer: Annotated[Count, Field(le=2**30)] | None = Field(
        default=None,
        description="Rows of random units, each of up to 32,768 rows, that are mixed. Default: 131,072, or fewer of wide rows.",
    )
    auto_shard: Literal["data", "file"] = Field(
        default="data",
        description="How the input is divided among workers that take each step together. `data`: each worker of "
        "`multi_worker_mirrored` reads all rows and takes its part of each batch, and the chief of `parameter_server` sends "
        "parts; `file`: each worker reads rows of its own.",
    )
    cache: bool = Field(default=False, description="Whether decoded rows stay in memory after the first epoch.")
    prefetch: Count = Field(default=4, le=10_000, description="Batches to prepare in advance.")
    report_every: Count = Field(
        default=1000, le=10**9, description="Steps between two lines of progress, and between two points of the curves."
    )
    histograms: bool = Field(
        default=False, description="Whether TensorBoard shows histograms of all weights after each epoch."
    )
    checkpoints: CheckpointsConfig = Field(
        default=CheckpointsConfig(), description="When training writes down where it is."
    )

    @property
    def functions(self) -> dict[str, list[str]]:
        """The functions of the user's, by the key that names them."""
        lists = {"metrics": self.metrics, "callbacks": self.callbacks}
        own = {"loss": [self.loss]} if self.loss else {}
        return super().functions | own | {key: places for key, places in lists.items() if places}

    @property
    def is_checked(self) -> bool:
        """Whether a job builds it before the training, since the config alone does not show its mistakes."""
        return bool(self.functions or isinstance(self.class_weights, dict))

    @property
    def is_asynchronous(self) -> bool:
        """Whether workers change the weights independently of each other."""
        return self.strategy == "parameter_server" and not self.synchronous

    @property
    def is_one_job(self) -> bool:
        """Whether one process trains it."""
        return self.strategy not in SEVERAL_PROCESSES

    @property
    def peers(self) -> int:
        """The processes that share a batch, the chief included; 0 under another strategy."""
        return (self.workers or 2) if self.strategy == "multi_worker_mirrored" else 0

    @property
    def readers(self) -> int:
        """The processes that read a part of the rows each; 1 where each process that reads rows reads all."""
        return (self.peers or self.servers[1]) if self.auto_shard == "file" else 1

    @property
    def servers(self) -> tuple[int, int]:
        """The numbers of ps and of workers; none under another strategy."""
        return (self.ps or 1, self.workers or 2) if self.strategy == "parameter_server" else (0, 0)

    @field_validator("strategy", mode="before")
    @classmethod
    def _strategies_to_be_had(cls, strategy: Any) -> Any:
        reason = WITHOUT.get(strategy) if isinstance(strategy, str) else None
        if reason:
            raise ValueError(f"no `{strategy}`: {reason}; use `mirrored`")
        return strategy

    @model_validator(mode="after")
    def _a_part_for_each_device(self) -> "TrainingConfig":
        if self.gpus and self.devices:
            raise ValueError("devices: with `gpus` no processors share the batch; leave one of the keys out")
        key, count = ("gpus", self.gpus) if self.gpus else ("devices", self.devices or 1)
        if self.devices and not self.is_one_job:
            raise ValueError(
                f"devices: each of the `workers` of strategy `{self.strategy}` has one processor, or `gpus`; remove the key"
            )
        if self.gpus > 1 and self.servers[1]:
            raise ValueError(
                f"gpus: a worker of `parameter_server` takes its steps on one GPU, not on {self.gpus}; use more `workers`"
            )
        if self.gpus > 1 and self.auto_shard == "file":
            raise ValueError(
                f"gpus: with `auto_shard: file` a worker reads rows for one device, not for {self.gpus}; use more `workers`"
            )
        if self.communication != "auto" and not self.peers:
            raise ValueError(
                f"communication: it is of strategy `multi_worker_mirrored`, not of `{self.strategy}`; remove the key"
            )
        if self.communication == "nccl" and not self.gpus:
            raise ValueError("communication: `nccl` adds up between GPUs; add `gpus: 1`, or use `ring`")
        if (self.gpus or self.devices) and self.strategy == "tpu":
            raise ValueError(f"{key}: the cores of the TPU share the batch; remove the key")
        if self.strategy == "one_device" and count > 1:
            raise ValueError(f"{key}: strategy `one_device` has one, not {count}; use `mirrored`")
        count *= self.peers or 1
        if (self.gpus or self.is_one_job) and count > self.batch_size:
            raise ValueError(f"batch_size: {self.batch_size} rows are too few for {count} devices")
        return self

    @model_validator(mode="after")
    def _options_of_the_strategy(self) -> "TrainingConfig":
        """Refuse options of the optimizer that a strategy cannot carry out."""
        given, name = self.optimizer.given, self.optimizer.name
        if "clipnorm" in given and self.servers[1]:
            raise ValueError(
                "optimizer.clipnorm: the servers of `parameter_server` keep the weights of all layers in one vector; use "
                "global_clipnorm"
            )
        if self.optimizer.lazy and self.servers[1]:
            raise ValueError(
                "optimizer.lazy: the servers of `parameter_server` change embeddings of 65,536 numbers or more by rows, and keep "
                "smaller ones in one vector with all other weights; remove the key"
            )
        if self.optimizer.lazy and self.strategy == "tpu":
            raise ValueError("optimizer.lazy: a TPU changes embeddings as a whole; remove the key")
        if self.is_asynchronous and name in ("nadam", "adamax"):
            raise ValueError(
                f"optimizer.name: `{name}` divides one mean of gradients by another; workers that change both at the same time "
                "could cause a step of any size. Use adam or adamw, or `synchronous: true`"
            )
        if self.strategy == "central_storage" and name == "nadam":
            raise ValueError(
                "optimizer.name: `nadam` keeps a product of its momenta, which each device would change in the one copy of "
                "`central_storage`; use adam or adamw, or strategy `mirrored`"
            )
        if self.is_asynchronous and self.optimizer.use_ema:
            raise ValueError(
                "optimizer.use_ema: workers that take steps independently would overwrite each other's averages; add "
                "`synchronous: true`"
            )
        if self.strategy == "tpu" and self.optimizer.use_ema:
            raise ValueError("optimizer.use_ema: the averages cannot be read from the TPU; remove the key")
        return self

    @model_validator(mode="after")
    def _processes_of_the_strategy(self) -> "TrainingConfig":
        if self.workers and self.is_one_job:
            raise ValueError(f"workers: strategy `{self.strategy}` is one process; use `multi_worker_mirrored`")
        if self.ps and self.strategy != "parameter_server":
            raise ValueError(f"ps: strategy `{self.strategy}` has none; use `parameter_server`")
        if self.workers == 1 and self.strategy == "multi_worker_mirrored":
            raise ValueError("workers: `multi_worker_mirrored` needs two or more; use `one_device`")
        for key in {"synchronous", "backup_workers"} & self.model_fields_set if not self.servers[1] else ():
            if getattr(self, key):
                raise ValueError(
                    f"{key}: it is of strategy `parameter_server`, not of `{self.strategy}`; remove the key"
                )
        if self.auto_shard == "file" and not self.peers and not self.servers[1]:
            raise ValueError(
                f"auto_shard: `file` is of strategy `multi_worker_mirrored`, or of `parameter_server` with `synchronous: true`, "
                f"not of `{self.strategy}`; remove the key"
            )
        if self.auto_shard == "file" and self.is_asynchronous:
            raise ValueError(
                "auto_shard: without `synchronous: true` each worker reads the rows of its turns, and no others; remove the key"
            )
        if self.auto_shard == "file" and self.servers[1] == 1:
            raise ValueError(
                "auto_shard: with `file` each worker reads a part of the rows, and there is one; remove the key"
            )
        if self.auto_shard == "file" and self.backup_workers:
            raise ValueError(
                "auto_shard: with `file` a backup worker would have to read the rows of a slow one; remove `backup_workers`"
            )
        if self.steps_per_epoch and self.servers[1] and not self.synchronous:
            raise ValueError(
                "steps_per_epoch: without `synchronous: true` the workers take steps independently, and an epoch is "
                "each row once; add `synchronous: true`"
            )
        if self.backup_workers and not self.synchronous:
            raise ValueError(
                "backup_workers: without `synchronous: true` the workers take steps independently and wait for "
                "nobody; add `synchronous: true`"
            )
        if self.synchronous and self.backup_workers >= self.servers[1]:
            raise ValueError(
                f"backup_workers: at least one of the {self.servers[1]} workers must not be a backup; lower the number"
            )
        together = self.peers or (self.servers[1] - self.backup_workers if self.synchronous else 0)
        if together > self.batch_size:
            raise ValueError(f"batch_size: {self.batch_size} rows are too few for {together} workers")
        if self.batch_size % self.readers:
            raise ValueError(
                f"batch_size: with `auto_shard: file` each of {self.readers} workers reads as many rows of a step, and "
                f"{self.batch_size} is no multiple of {self.readers}"
            )
        return self


class RangeConfig(Section):
    """Values between two limits, from which a search draws. Whole numbers between whole limits."""

    low: int | Annotated[float, Field(allow_inf_nan=False)] = Field(description="The smallest value.")
    high: int | Annotated[float, Field(allow_inf_nan=False)] = Field(description="The largest value.")
    scale: Literal["linear", "log"] = Field(
        default="linear", description="`log`: as many values between 0.001 and 0.01 as between 0.01 and 0.1."
    )

    @model_validator(mode="after")
    def _limits_in_order(self) -> "RangeConfig":
        if self.low >= self.high:
            raise ValueError(f"low: {self.low} is not below high: {self.high}")
        if self.scale == "log" and self.low <= 0:
            raise ValueError(f"low: {self.low} has no logarithm; write a number above 0")
        return self

    def drawn(self, random: Random) -> int | float:
        """A value at random."""
        low, high = (math.log(self.low), math.log(self.high)) if self.scale == "log" else (self.low, self.high)
        is_whole = isinstance(self.low, int) and isinstance(self.high, int)
        if is_whole and self.scale == "linear":
            return random.randint(int(low), int(high))
        drawn = random.uniform(low, high)
        value = min(max(math.exp(drawn), self.low), self.high) if self.scale == "log" else drawn
        return round(value) if is_whole else float(f"{value:.4g}")


class SearchConfig(Section):
    """How many combinations of a sweep are networks, at random."""

    networks: Count = Field(le=MOST_MODELS, description="How many networks to train.")
    seed: Integer = Field(
        default=1, ge=0, le=MOST_ROWS, description="Seed of the combinations; more `networks` keep the first ones."
    )


class HalvingConfig(Section):
    """Successive halving of a sweep: most of its networks are trained for a few epochs only."""

    min_epochs: Annotated[Count, Field(le=100_000)] = Field(
        default=1, description="Epochs that each network of the sweep is trained for, before the first comparison."
    )
    factor: Integer = Field(
        default=3,
        ge=2,
        le=100,
        description="At each comparison one network in so many continues, for as many times the epochs.",
    )

    def comparisons(self, networks: int, epochs: int) -> list[int]:
        """The epochs after which so many networks are compared, before their last epoch."""
        after, compared = self.min_epochs, []
        while after < epochs and networks > 1:
            compared.append(after)
            after, networks = after * self.factor, self.kept_of(networks)
        return compared

    def kept_of(self, networks: int) -> int:
        """How many of so many networks continue after a comparison."""
        return -(-networks // self.factor)


COMPARABLE = (
    *("formula", "family", "weights", "frequency", "trials", "offset", "offset_from"),
    *("loss", "epochs", "steps_per_epoch", "halving"),
)
"""Keys that the networks of a sweep have in common with `halving`: their losses are of the same rows, after as many epochs."""


class NetworkConfig(PredictionConfig, RowsConfig, TrainingConfig):
    """One network."""

    family: NetworkFamily = Field(
        description="Distribution of the response: `gaussian` is linear regression, `binomial` logistic regression, `poisson` "
        "regression of counts with log link, `multinomial` the softmax over the classes that a response of text or whole "
        "numbers has."
    )
    sweep: dict[Text, Annotated[list[Any], Field(min_length=1, max_length=MOST_MODELS)] | RangeConfig] = Field(
        default={},
        description="Several networks in one section: other keys, each with a list of values, such as `hidden: [[32], [64, 32]]` "
        "or `optimizer.learning_rate: [0.01, 0.001]`. Each combination is a network, called `<name>_1`, `<name>_2`, ...",
    )

    search: SearchConfig | None = Field(
        default=None,
        description="So many combinations of the `sweep` at random, instead of all. Its keys may then have a range too, such as "
        "`optimizer.learning_rate: {low: 0.0001, high: 0.1, scale: log}`.",
    )
    halving: HalvingConfig | None = Field(
        default=None,
        description="Ends the training of networks of the `sweep` early, if their loss on the `evaluate` rows is among the "
        "larger ones. Default: each is trained to its end.",
    )

    @field_validator("family", mode="before")
    @classmethod
    def _family_of_networks(cls, family: Any) -> Any:
        if family in get_args(FamilyName) and family not in get_args(NetworkFamily):
            raise ValueError(
                f"networks have {', '.join(get_args(NetworkFamily))}, and no {family}; write the model under `models`"
            )
        return family

    @property
    def reference(self) -> dict[Text, Level]:
        """A network has no reference levels."""
        return {}

    @model_validator(mode="after")
    def _ranges_of_a_search(self) -> "NetworkConfig":
        for key, values in self.sweep.items():
            if isinstance(values, RangeConfig) and not self.search:
                raise ValueError(
                    f"sweep.{key}: a range has no list of values; add `search: {{networks: 20}}`, or write a list"
                )
        if self.search and not self.sweep:
            raise ValueError("search: there is no `sweep` to search in; add one, or remove the key")
        return self

    @model_validator(mode="after")
    def _training_in_parts(self) -> "NetworkConfig":
        if not self.halving:
            return self
        if not self.is_one_job:
            raise ValueError(
                f"halving: strategy `{self.strategy}` starts several processes for each part of a training; use a strategy of "
                "one process, such as `mirrored`"
            )
        if self.last_step:
            raise ValueError(
                "halving: it compares networks after whole epochs, and `last_step` may end one; use `epochs`"
            )
        if self.halving.min_epochs >= self.epochs:
            raise ValueError(
                f"halving.min_epochs: {self.halving.min_epochs} is not below epochs: {self.epochs}, so no network would end early"
            )
        return self

    @model_validator(mode="before")
    @classmethod
    def _without_leverage(cls, raw: Any) -> Any:
        if isinstance(raw, dict) and "leverage" in raw:
            raise ValueError("leverage: a network has no information matrix, which leverages need; remove the key")
        if isinstance(raw, dict) and "code" in raw:
            raise ValueError("code: name a function in a Python file by `model: my_model.py:build`; remove the key")
        return raw

    @model_validator(mode="after")
    def _keys_of_classes(self) -> "NetworkConfig":
        """Refuse keys that have no meaning for a response with several classes."""
        reasons = {
            "offset": "an offset adds the same to the linear predictors of all classes, which changes no probability",
            "offset_from": "a regression has one linear predictor, and `multinomial` one for each class",
            "threshold": NO_THRESHOLD,
        }
        for key in reasons.keys() & self.model_fields_set if self.family == "multinomial" else ():
            if getattr(self, key) is not None:
                raise ValueError(f"{key}: {reasons[key]}; remove the key")
        return self

    @model_validator(mode="after")
    def _classes_of_the_family(self) -> "NetworkConfig":
        for key in ("class_weights", "label_smoothing"):
            if getattr(self, key) and self.family not in ("binomial", "multinomial"):
                raise ValueError(f"{key}: a response of family `{self.family}` has no classes; remove the key")
        if self.family == "binomial" and isinstance(self.class_weights, dict):
            for name in self.class_weights.keys() - {"0", "1"}:
                raise ValueError(f"class_weights: the classes of `binomial` are 0 and 1; there is no `{name}`")
        return self

    @model_validator(mode="after")
    def _refuse_levels_for_unseen(self) -> "NetworkConfig":
        if self.unseen == "reference":
            raise ValueError("unseen: a network has no reference levels; use `missing` or `error`")
        return self
