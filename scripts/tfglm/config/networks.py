"""The sections under `networks`: which layers, and how they are trained."""

from typing import Annotated, Any, Literal, get_args

from pydantic import Field, field_validator, model_validator

from tfglm.config.base import FROM_TEXT, MOST_ROWS, Count, Integer, Level, Name, Section, Text
from tfglm.config.compatibility import NO_THRESHOLD
from tfglm.config.families import NetworkFamily, RegressionFamily
from tfglm.config.models import PredictionConfig, RowsConfig

WIDEST = 65_536
"""Units of a layer."""

SETTINGS_OF_OPTIMIZERS = {
    "sgd": {"momentum", "nesterov"},
    "adam": {"beta_1", "beta_2", "epsilon", "amsgrad"},
    "adagrad": {"initial_accumulator_value", "epsilon"},
    "rmsprop": {"rho", "momentum", "epsilon"},
    "ftrl": {
        "learning_rate_power",
        "initial_accumulator_value",
        "l1_regularization_strength",
        "l2_regularization_strength",
        "beta",
    },
}
"""What an optimizer can be told beside its learning rate, by the names that Keras has for it."""

WITHOUT = {
    "horovod": "its last release, 0.28.1, builds with no TensorFlow that this workflow can run",
}
"""Strategies that TensorFlow or others have, and why a network cannot be trained under them."""

SEVERAL_PROCESSES = ("multi_worker_mirrored", "parameter_server")
"""Strategies that are not one ordinary job."""

Rate = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False), FROM_TEXT]
NotNegative = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False), FROM_TEXT]


class OptimizerConfig(Section):
    """The optimizer, in the words of Keras; what is not given has Keras' default."""

    name: Literal["sgd", "adam", "adagrad", "rmsprop", "ftrl"] = Field(
        default="adam", description="The rule by which a gradient becomes a step."
    )
    learning_rate: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False), FROM_TEXT] = Field(
        default=0.001, description="Length of the steps."
    )
    momentum: Rate | None = Field(default=None, description="Of `sgd` and `rmsprop`.")
    nesterov: bool | None = Field(default=None, description="Whether the momentum of `sgd` is Nesterov's.")
    beta_1: Rate | None = Field(default=None, description="Decay of the mean of the gradients, of `adam`.")
    beta_2: Rate | None = Field(default=None, description="Decay of the mean of their squares, of `adam`.")
    rho: Rate | None = Field(default=None, description="The same of `rmsprop`.")
    epsilon: NotNegative | None = Field(
        default=None, description="What is added to a divisor, of `adam`, `adagrad` and `rmsprop`."
    )
    amsgrad: bool | None = Field(default=None, description="Whether `adam` divides by the largest mean so far.")
    initial_accumulator_value: NotNegative | None = Field(
        default=None, description="Where the sum of squares starts, of `adagrad` and `ftrl`."
    )
    learning_rate_power: Annotated[float, Field(ge=-10, le=0, allow_inf_nan=False), FROM_TEXT] | None = Field(
        default=None, description="How fast the steps of `ftrl` become shorter."
    )
    l1_regularization_strength: NotNegative | None = Field(default=None, description="Lasso penalty of `ftrl`.")
    l2_regularization_strength: NotNegative | None = Field(default=None, description="Ridge penalty of `ftrl`.")
    beta: NotNegative | None = Field(default=None, description="What `ftrl` adds to the root of its sum of squares.")

    @property
    def given(self) -> dict[str, Any]:
        """What Keras is told."""
        return self.model_dump(exclude={"name"}, exclude_none=True)

    @model_validator(mode="after")
    def _settings_that_it_has(self) -> "OptimizerConfig":
        known = SETTINGS_OF_OPTIMIZERS[self.name]
        for key in self.given:
            if key not in known | {"learning_rate"}:
                raise ValueError(
                    f"`{self.name}` has no `{key}`; beside learning_rate it has {', '.join(sorted(known))}"
                )
        return self


class CheckpointsConfig(Section):
    """When training writes down where it is. An interrupted run goes on from the last checkpoint."""

    seconds: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False), FROM_TEXT] = Field(
        default=60.0, description="Seconds from one to the next."
    )
    steps: Count | None = Field(
        default=None, le=10**12, description="Steps from one to the next, besides. Default: by time alone."
    )
    keep: Count = Field(default=2, le=1000, description="How many are kept; an older one is deleted.")


class LayersConfig(Section):
    """What a network consists of."""

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
        description="Of an image in the formula: the filters of each convolution before the hidden layers, such as `[32, 64]`.",
    )
    kernel: Count = Field(default=3, le=64, description="Height and width of a filter, in pixels.")
    pooling: Count = Field(
        default=2,
        le=64,
        description="Height and width of the squares of which the largest value is kept after the convolutions.",
    )
    dropout: Rate = Field(default=0.0, description="Share of the units of each hidden layer that a step leaves out.")
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
        description="Whether the linear predictor of the formula, with a coefficient of its own for each level, is added to "
        "what the layers say (wide and deep).",
    )
    offset_from: Name | None = Field(
        default=None,
        description="A regression under `models` whose linear predictor, as it was fitted, is added: the network learns only "
        "what that leaves over.",
    )

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
        description="Under `parameter_server`: whether the workers take each step together, each with a part of the batch. The "
        "steps are those of `one_device` then, but for rounding.",
    )
    backup_workers: Integer = Field(
        default=0,
        ge=0,
        le=10_000,
        description="With `synchronous`: those of the `workers` beyond the parts of a batch. They compute late parts once more, "
        "so that as many slow workers keep nobody waiting.",
    )
    gpus: Integer = Field(
        default=0,
        ge=0,
        le=64,
        description="GPUs of one machine that share a batch. A training sees no others, and SLURM is asked for so many.",
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
    batch_size: Count = Field(default=512, le=2**20, description="Rows of a step, over all devices.")
    epochs: Count = Field(
        default=5,
        le=100_000,
        description="How many times each training row is used, if `steps_per_epoch` says nothing else.",
    )
    steps_per_epoch: Annotated[Count, Field(le=10**12)] | None = Field(
        default=None,
        description="Steps of an epoch, after which the rows held out are looked at; the next epoch goes on with the rows that "
        "follow. Default: as many as use each training row once.",
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
    auto_shard: Literal["data", "file"] = Field(
        default="data",
        description="How the input is divided among the processes of `multi_worker_mirrored`. `data`: each reads all rows and "
        "takes its part of each batch; `file`: each reads rows of its own.",
    )
    cache: bool = Field(default=False, description="Whether decoded rows stay in memory after the first epoch.")
    prefetch: Count = Field(default=4, le=10_000, description="Batches that are made ready ahead of the step.")
    report_every: Count = Field(
        default=1000, le=10**9, description="Steps from one line of progress, and point of its curves, to the next."
    )
    checkpoints: CheckpointsConfig = Field(
        default=CheckpointsConfig(), description="When training writes down where it is."
    )

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
        return self.peers if self.auto_shard == "file" else 1

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
        if (self.gpus or self.devices) and not self.is_one_job:
            raise ValueError(
                f"{key}: each of the `workers` of strategy `{self.strategy}` has one processor; remove the key"
            )
        if (self.gpus or self.devices) and self.strategy == "tpu":
            raise ValueError(f"{key}: the cores of the TPU share the batch; remove the key")
        if self.strategy == "one_device" and count > 1:
            raise ValueError(f"{key}: strategy `one_device` has one, not {count}; use `mirrored`")
        if count > self.batch_size:
            raise ValueError(f"batch_size: {self.batch_size} rows are too few for {count} devices")
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
        if self.auto_shard == "file" and not self.peers:
            raise ValueError(
                f"auto_shard: `file` is of strategy `multi_worker_mirrored`, not of `{self.strategy}`; remove the key"
            )
        if self.steps_per_epoch and self.servers[1] and not self.synchronous:
            raise ValueError(
                "steps_per_epoch: an epoch of workers that take steps by themselves is each row once; add `synchronous: true`"
            )
        if self.backup_workers and not self.synchronous:
            raise ValueError(
                "backup_workers: workers that take steps by themselves wait for nobody; add `synchronous: true`"
            )
        if self.synchronous and self.backup_workers >= self.servers[1]:
            raise ValueError(f"backup_workers: of {self.servers[1]} workers one at least has to be none; add `workers`")
        together = self.peers or (self.servers[1] - self.backup_workers if self.synchronous else 0)
        if together > self.batch_size:
            raise ValueError(f"batch_size: {self.batch_size} rows are too few for {together} workers")
        if self.batch_size % self.readers:
            raise ValueError(
                f"batch_size: with `auto_shard: file` each of {self.readers} workers reads as many rows of a step, and "
                f"{self.batch_size} is no multiple of {self.readers}"
            )
        return self


class NetworkConfig(PredictionConfig, RowsConfig, TrainingConfig):
    """One network."""

    family: NetworkFamily = Field(
        description="Distribution of the response: `gaussian` is linear regression, `binomial` logistic regression, `poisson` "
        "regression of counts with log link, `multinomial` the softmax over the classes that a response of text or whole "
        "numbers has."
    )

    @field_validator("family", mode="before")
    @classmethod
    def _of_networks(cls, family: Any) -> Any:
        if family in get_args(RegressionFamily) and family not in get_args(NetworkFamily):
            raise ValueError(
                f"networks have {', '.join(get_args(NetworkFamily))}, and no {family}; write the model under `models`"
            )
        return family

    @property
    def reference(self) -> dict[Text, Level]:
        """A network has no reference levels."""
        return {}

    @model_validator(mode="before")
    @classmethod
    def _without_leverage(cls, raw: Any) -> Any:
        if isinstance(raw, dict) and "leverage" in raw:
            raise ValueError(
                "leverage: a network has no information matrix, which leverages are made of; remove the key"
            )
        return raw

    @model_validator(mode="after")
    def _keys_of_classes(self) -> "NetworkConfig":
        """What says nothing of a response that is one of several classes."""
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
    def _nothing_stands_for_the_unseen(self) -> "NetworkConfig":
        if self.unseen == "reference":
            raise ValueError("unseen: a network has no reference levels; use `missing` or `error`")
        return self
