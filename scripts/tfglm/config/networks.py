"""The sections under `networks`: which layers, and how they are trained."""

import json
import math
from random import Random
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, ValidationInfo, field_validator, model_validator
from pydantic.json_schema import SkipJsonSchema

from tfglm.config import compatibility, network_conflicts
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
from tfglm.config.families import FamilyName, NetworkFamily
from tfglm.config.models import PredictionConfig, RowsConfig
from tfglm.config.optimizers import Epochs, NotNegative, OptimizerConfig, Rate, Steps

UNAVAILABLE = {
    "strategy": {
        "horovod": "no `horovod`: its last release, 0.28.1, builds with no TensorFlow that this workflow can run; use `mirrored`"
    },
    "precision": {
        "mixed_float16": "no `mixed_float16`: its gradients vanish unless the loss is scaled, which no strategy here does; use "
        "`mixed_bfloat16`"
    },
    "unseen": {"reference": "a network has no reference levels; use `missing` or `error`"},
    "family": {
        name: f"networks have {', '.join(get_args(NetworkFamily))}, and no {name}; write the model under `models`"
        for name in get_args(FamilyName)
        if name not in get_args(NetworkFamily)
    },
}
"""Values that TensorFlow or regressions have, by their keys, and why a network has none."""

NOT_KEYS = {
    "leverage": "a network has no information matrix, which leverages need; remove the key",
    "code": "name a function in a Python file by `model: my_model.py:build`; remove the key",
}

Units = Annotated[int, Field(ge=1, le=65_536), FROM_TEXT]


class CheckpointsConfig(Section):
    """When training writes a checkpoint. An interrupted run continues from the last checkpoint."""

    seconds: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False), FROM_TEXT] = 60.0
    """Seconds between checkpoints."""
    steps: Count | None = Field(default=None, le=10**12)
    """Steps after which a checkpoint is written too. Default: by time alone."""
    keep: Count = Field(default=2, le=1000)
    """Number of checkpoints to keep; older checkpoints are deleted."""


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

    model: Place | None = None
    """A function of your own that builds the layers with Keras, instead of `hidden` and the like. The file is in the
    folder of the run, or beside the config."""
    settings: dict[Text, Any] = Field(default={}, max_length=1000)
    """What `model` gets as its second argument. A change trains again."""
    code: SkipJsonSchema[dict[str, str]] = {}
    """The text of the files; jobs fill it in."""
    hidden: list[Units] = Field(default=[64, 32], max_length=100)
    """Units of each hidden layer. `[]` leaves only the linear part."""
    activation: Literal["relu", "tanh", "sigmoid", "elu", "selu", "gelu", "silu", "softplus"] = "relu"
    """Activation of the hidden layers and convolutions."""
    convolutions: list[Units] = Field(default=[], max_length=20)
    """The number of filters of each convolution before the hidden layers, such as `[32, 64]`, if the formula has an
    image."""
    kernel: Count = Field(default=3, le=64)
    """Height and width of a filter, in pixels."""
    pooling: Count = Field(default=2, le=64)
    """Height and width of the squares for max pooling after the convolutions."""
    dropout: Rate = 0.0
    """Share of the units of each hidden layer that a step leaves out."""
    batch_normalization: bool = False
    """Whether each hidden layer is normalised over the batch before its activation."""
    l1: NotNegative = 0.0
    """Lasso penalty on the weights of hidden layers and convolutions."""
    l2: NotNegative = 0.0
    """Ridge penalty on the same weights: `l2` times the sum of their squares."""
    precision: Literal["float32", "mixed_bfloat16"] = "float32"
    """The numbers that layers compute with. Weights, the linear part, the output and the loss keep float32."""
    embedding: Units | dict[Text, Units] | None = None
    """Dimensions of the embedding of a factor: one number for all, or by factor, such as `{dest: 8}`. Default: 1.6 *
    levels^0.56, at most 50."""
    wide: bool = False
    """Whether the linear predictor of the formula is added to the output of the layers (wide and deep)."""
    offset_from: Name | None = None
    """A regression under `models` whose fitted linear predictor is added."""

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


class TrainingConfig(LayersConfig):
    """How a network is trained. Every key is a reason to train again."""

    strategy: Literal[
        "one_device", "mirrored", "central_storage", "tpu", "multi_worker_mirrored", "parameter_server"
    ] = "one_device"
    """TensorFlow's strategy: `mirrored`, a copy of the network on each device; `central_storage`, one copy that all
    devices read; `tpu`, a copy on each core of the TPU; `multi_worker_mirrored`, a copy in each of `workers`; or
    `parameter_server`, one copy on `ps` servers."""
    workers: Annotated[Count, Field(le=10_000)] | None = None
    """Processes that compute gradients under `multi_worker_mirrored` or `parameter_server`. Default: 2."""
    ps: Annotated[Count, Field(le=1000)] | None = None
    """Parameter servers, under `parameter_server`. Default: 1."""
    synchronous: bool = False
    """With `parameter_server`: whether the workers take each step together, as `one_device` does up to rounding."""
    backup_workers: Integer = Field(default=0, ge=0, le=10_000)
    """With `synchronous`: how many of the `workers` exceed the number of parts of a batch. They compute late parts
    again."""
    gpus: Integer = Field(default=0, ge=0, le=64)
    """GPUs of one machine that share a batch; under `multi_worker_mirrored` and `parameter_server` those of each
    worker, which no other process uses."""
    communication: Literal["auto", "ring", "nccl"] = "auto"
    """How the workers of `multi_worker_mirrored` add their gradients: `ring`, by TensorFlow's servers; `nccl`, by
    NVIDIA's library between GPUs; or `auto`, which is TensorFlow's choice."""
    devices: Count | None = Field(default=None, le=64)
    """Without `gpus`: logical processors that share a batch. Default: one."""
    threads: Count = Field(default=1, le=1024)
    """Threads of one operation. More are faster for wide layers, and may move the last digits."""
    optimizer: OptimizerConfig = OptimizerConfig()
    """The optimizer, in the words of Keras."""
    loss: Place | None = None
    """A loss of your own: a function of the linear predictor and the response, such as `my_model.py:focal`, that
    returns a number for each row."""
    metrics: list[Place] = Field(default=[], max_length=100)
    """Functions like `loss`, whose means over the `evaluate` rows are recorded after each epoch."""
    callbacks: list[Place] = Field(default=[], max_length=100)
    """Functions or classes of your own that return a `keras.callbacks.Callback` without arguments."""
    class_weights: Literal["balanced"] | dict[Level, NotNegative] | None = None
    """Factors on the loss of rows by their class, such as `{0: 1, 1: 5}`; other classes have 1. `balanced` gives all
    classes the same total weight."""
    label_smoothing: Rate = 0.0
    """The share of each response that is spread over all classes, in the loss."""
    batch_size: Count = Field(default=512, le=2**20)
    """Rows of a step, over all devices."""
    epochs: Count = Field(default=5, le=100_000)
    """How many times each training row is used, unless `steps_per_epoch` is given."""
    steps_per_epoch: Steps | None = None
    """Steps of an epoch; the next epoch continues with the following rows. Default: as many as use each training row
    once."""
    last_step: Steps | None = None
    """The step after which to stop, even within an epoch."""
    patience: Epochs | None = None
    """Stop after so many epochs without a smaller loss on the `evaluate` rows, and keep the best weights."""
    seed: Integer = Field(default=1, ge=0, le=MOST_ROWS)
    """Seed of the weights at the start, of the order of rows, and of dropout."""
    shuffle: bool = True
    """Whether each epoch takes the rows in another order."""
    shuffle_buffer: Annotated[Count, Field(le=2**30)] | None = None
    """Rows of random units, each of up to 32,768 rows, that are mixed. Default: 131,072, or fewer of wide rows."""
    auto_shard: Literal["data", "file"] = "data"
    """How workers that take each step together get rows. `data`: their parts of the same batches; `file`: each worker
    reads rows of its own."""
    cache: bool = False
    """Whether decoded rows stay in memory after the first epoch."""
    prefetch: Count = Field(default=4, le=10_000)
    """Batches to prepare in advance."""
    report_every: Count = Field(default=1000, le=10**9)
    """Steps between two lines of progress, and between two points of the curves."""
    histograms: bool = False
    """Whether TensorBoard shows histograms of all weights after each epoch."""
    checkpoints: CheckpointsConfig = CheckpointsConfig()
    """When training writes down where it is."""

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
    def is_one_job(self) -> bool:
        """Whether one process trains it."""
        return self.strategy not in ("multi_worker_mirrored", "parameter_server")

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


class RangeConfig(Section):
    """Values between two limits, from which a search draws. Whole numbers between whole limits."""

    low: int | Annotated[float, Field(allow_inf_nan=False)]
    """The smallest value."""
    high: int | Annotated[float, Field(allow_inf_nan=False)]
    """The largest value."""
    scale: Literal["linear", "log"] = "linear"
    """`log`: as many values between 0.001 and 0.01 as between 0.01 and 0.1."""

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

    networks: Count = Field(le=MOST_MODELS)
    """How many networks to train."""
    seed: Integer = Field(default=1, ge=0, le=MOST_ROWS)
    """Seed of the combinations; more `networks` keep the first ones."""


class HalvingConfig(Section):
    """Successive halving of a sweep: most of its networks are trained for a few epochs only."""

    min_epochs: Epochs = 1
    """Epochs that each network of the sweep is trained for, before the first comparison."""
    factor: Integer = Field(default=3, ge=2, le=100)
    """At each comparison one network in so many continues, for as many times the epochs."""

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
    *("formula", "family", "subset", "weights", "frequency", "trials", "offset", "offset_from"),
    *("loss", "epochs", "steps_per_epoch", "halving"),
)
"""Keys that the networks of a sweep have in common with `halving`: their losses are of the same rows, after as many epochs."""


class NetworkConfig(PredictionConfig, RowsConfig, TrainingConfig):
    """One network."""

    family: NetworkFamily
    sweep: dict[Text, Annotated[list[Any], Field(min_length=1, max_length=MOST_MODELS)] | RangeConfig] = {}
    """Several networks in one section: other keys, each with a list of values, such as `hidden: [[32], [64, 32]]`. Each
    combination is a network, `<name>_1`, `<name>_2`, ..."""

    search: SearchConfig | None = None
    """So many combinations of the `sweep` at random, instead of all. Its keys may then have a range too, such as
    `optimizer.learning_rate: {low: 0.0001, high: 0.1, scale: log}`."""
    halving: HalvingConfig | None = None
    """Ends the training of networks of the `sweep` early, if their loss on the `evaluate` rows is among the larger
    ones. Default: each is trained to its end."""

    @property
    def reference(self) -> dict[Text, Level]:
        """A network has no reference levels."""
        return {}

    @model_validator(mode="before")
    @classmethod
    def _keys_of_networks(cls, raw: Any) -> Any:
        for key in NOT_KEYS.keys() & raw if isinstance(raw, dict) else ():
            raise ValueError(f"{key}: {NOT_KEYS[key]}")
        return raw

    @field_validator(*UNAVAILABLE, mode="before")
    @classmethod
    def _values_of_networks(cls, value: Any, info: ValidationInfo) -> Any:
        reasons = UNAVAILABLE[str(info.field_name)]
        if isinstance(value, str) and value in reasons:
            raise ValueError(reasons[value])
        return value

    @model_validator(mode="after")
    def _keys_that_go_together(self) -> "NetworkConfig":
        compatibility.check(self, network_conflicts.CONFLICTS, network_conflicts.PROPERTIES)
        self._check_batch()
        for key, values in self.sweep.items():
            if isinstance(values, RangeConfig) and not self.search:
                raise ValueError(
                    f"sweep.{key}: a range has no list of values; add `search: {{networks: 20}}`, or write a list"
                )
        if self.halving and self.halving.min_epochs >= self.epochs:
            raise ValueError(
                f"halving.min_epochs: {self.halving.min_epochs} is not below epochs: {self.epochs}, so no network would end early"
            )
        if self.family == "binomial" and isinstance(self.class_weights, dict):
            for name in self.class_weights.keys() - {"0", "1"}:
                raise ValueError(f"class_weights: the classes of `binomial` are 0 and 1; there is no `{name}`")
        return self

    def _check_batch(self) -> None:
        """Raise ValueError if the rows of a step are too few for the devices or the workers that share them."""
        workers = self.peers
        if self.synchronous:
            workers = self.servers[1] - self.backup_workers
            if workers < 1:
                raise ValueError(
                    f"backup_workers: at least one of the {self.servers[1]} workers must not be a backup; lower the number"
                )
        devices = (self.gpus or self.devices or 1) * (self.peers or 1) if self.gpus or self.is_one_job else 0
        for number, kind in ((devices, "devices"), (workers, "workers")):
            if number > self.batch_size:
                raise ValueError(f"batch_size: {self.batch_size} rows are too few for {number} {kind}")
        if self.batch_size % self.readers:
            raise ValueError(
                f"batch_size: with `auto_shard: file` each of {self.readers} workers reads as many rows of a step, and "
                f"{self.batch_size} is no multiple of {self.readers}"
            )
