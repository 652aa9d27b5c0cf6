"""Which keys of a network exclude each other: a table as that of `compatibility` for models."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from tfglm.config.compatibility import NO_THRESHOLD, listed


def given(key: str) -> Callable[[Any], Any]:
    """Whether a key has a value that is neither its default nor an empty list."""
    return lambda network: getattr(network, key) not in ([], type(network).model_fields[key].default)


def option(key: str) -> Callable[[Any], Any]:
    """Whether the optimizer has an option."""
    return lambda network: getattr(network.optimizer, key) is not None


LAYERS = ("hidden", "activation", "kernel", "pooling", "dropout", "embedding", "batch_normalization", "l1", "l2")
"""Keys of the layers that tfglm makes itself, beside `convolutions`."""

KEYS = (
    *("convolutions", "model", "settings", "gpus", "devices", "workers", "ps", "communication", "synchronous"),
    *("backup_workers", "steps_per_epoch", "last_step", "search", "halving", "offset", "offset_from"),
    *("class_weights", "label_smoothing"),
)

CLIPS = ("clipnorm", "clipvalue", "global_clipnorm")

SEVERAL, ONE_PROCESS = "a strategy of several processes", "a strategy of one process"
NOT_SERVED, ASYNCHRONOUS = "a strategy other than `parameter_server`", "`parameter_server` without `synchronous: true`"
SERVED, RING, TPU = "`strategy: parameter_server`", "`strategy: multi_worker_mirrored`", "`strategy: tpu`"
WITHOUT_CLASSES = "a family other than `binomial` and `multinomial`"

PROPERTIES: dict[str, Callable[[Any], Any]] = {
    **{f"`{key}`": given(key) for key in (*LAYERS, *KEYS)},
    **{f"`optimizer.{key}`": option(key) for key in (*CLIPS, "ema_momentum")},
    "no `model`": lambda n: not n.model,
    "no `hidden`": lambda n: not n.hidden,
    "no `gpus`": lambda n: not n.gpus,
    "no `sweep`": lambda n: not n.sweep,
    "`gpus` above 1": lambda n: n.gpus > 1,
    "`devices` above 1": lambda n: (n.devices or 1) > 1,
    "`workers: 1`": lambda n: n.workers == 1,
    "`communication: nccl`": lambda n: n.communication == "nccl",
    "`auto_shard: file`": lambda n: n.auto_shard == "file",
    "`optimizer.lazy: true`": attrgetter("optimizer.lazy"),
    "`optimizer.use_ema: true`": attrgetter("optimizer.use_ema"),
    "no `optimizer.use_ema: true`": lambda n: not n.optimizer.use_ema,
    "`optimizer.name: nadam`": lambda n: n.optimizer.name == "nadam",
    "`optimizer.name: nadam` or `adamax`": lambda n: n.optimizer.name in ("nadam", "adamax"),
    ONE_PROCESS: attrgetter("is_one_job"),
    SEVERAL: lambda n: not n.is_one_job,
    TPU: lambda n: n.strategy == "tpu",
    "`strategy: one_device`": lambda n: n.strategy == "one_device",
    "`strategy: central_storage`": lambda n: n.strategy == "central_storage",
    RING: attrgetter("peers"),
    "a strategy other than `multi_worker_mirrored`": lambda n: not n.peers,
    SERVED: lambda n: n.servers[1],
    NOT_SERVED: lambda n: not n.servers[1],
    ASYNCHRONOUS: lambda n: n.strategy == "parameter_server" and not n.synchronous,
    "`threshold`": lambda n: "threshold" in n.model_fields_set,
    "`multinomial`": lambda n: n.family == "multinomial",
    WITHOUT_CLASSES: lambda n: n.family not in ("binomial", "multinomial"),
}
"""The properties that a network may have: their names in the documentation, and functions that test a network for them."""

OWN_LAYERS = "with `model` the function makes the layers; write the key under `settings`"
ONE_CLIP = "Keras clips a gradient in one way; remove one of the two keys"
CORES = "the cores of the TPU share the batch; remove the key"
NO_CLASSES = "a response of family `{model.family}` has no classes; remove the key"
INDEPENDENT = "without `synchronous: true` the workers take steps independently"
OF_SERVERS = "it is of strategy `parameter_server`, not of `{model.strategy}`; remove the key"

REASONS = {
    # Layers.
    "`settings`": {"no `model`": "they are for a `model` of your own; remove the key"},
    **{f"`{key}`": {"`model`": OWN_LAYERS} for key in LAYERS},
    "`convolutions`": {
        "`model`": OWN_LAYERS,
        "no `hidden`": "they come before hidden layers; add some, such as `hidden: [64]`",
    },
    # Devices and processes.
    "`devices`": {
        "`gpus`": "with `gpus` no processors share the batch; leave one of the keys out",
        SEVERAL: "each of the `workers` has one processor, or `gpus`; remove the key",
        TPU: CORES,
    },
    "`devices` above 1": {
        "`strategy: one_device`": "strategy `one_device` has one, not {model.devices}; use `mirrored`"
    },
    "`gpus`": {TPU: CORES},
    "`gpus` above 1": {
        "`strategy: one_device`": "strategy `one_device` has one, not {model.gpus}; use `mirrored`",
        SERVED: "a worker of `parameter_server` takes its steps on one GPU, not on {model.gpus}; use more `workers`",
        "`auto_shard: file`": "with `auto_shard: file` a worker reads rows for one device, not for {model.gpus}; use more "
        "`workers`",
    },
    "`communication`": {
        "a strategy other than `multi_worker_mirrored`": "it is of strategy `multi_worker_mirrored`, not of "
        "`{model.strategy}`; remove the key"
    },
    "`communication: nccl`": {"no `gpus`": "`nccl` adds up between GPUs; add `gpus: 1`, or use `ring`"},
    "`workers`": {ONE_PROCESS: "strategy `{model.strategy}` is one process; use `multi_worker_mirrored`"},
    "`workers: 1`": {RING: "`multi_worker_mirrored` needs two or more; use `one_device`"},
    "`ps`": {NOT_SERVED: "strategy `{model.strategy}` has none; use `parameter_server`"},
    "`synchronous`": {NOT_SERVED: OF_SERVERS},
    "`backup_workers`": {
        NOT_SERVED: OF_SERVERS,
        ASYNCHRONOUS: f"{INDEPENDENT} and wait for nobody; add `synchronous: true`",
    },
    "`auto_shard: file`": {
        ONE_PROCESS: "`file` is of strategy `multi_worker_mirrored`, or of `parameter_server` with `synchronous: true`, not of "
        "`{model.strategy}`; remove the key",
        ASYNCHRONOUS: "without `synchronous: true` each worker reads the rows of its turns, and no others; remove the key",
        "`workers: 1`": "with `file` each worker reads a part of the rows, and there is one; remove the key",
        "`backup_workers`": "with `file` a backup worker would have to read the rows of a slow one; remove `backup_workers`",
    },
    "`steps_per_epoch`": {ASYNCHRONOUS: f"{INDEPENDENT}, and an epoch is each row once; add `synchronous: true`"},
    # The optimizer.
    "`optimizer.clipnorm`": {
        "`optimizer.clipvalue`": ONE_CLIP,
        "`optimizer.global_clipnorm`": ONE_CLIP,
        SERVED: "the servers of `parameter_server` keep the weights of all layers in one vector; use global_clipnorm",
    },
    "`optimizer.clipvalue`": {"`optimizer.global_clipnorm`": ONE_CLIP},
    "`optimizer.lazy: true`": {
        SERVED: "the servers of `parameter_server` change embeddings of 65,536 numbers or more by rows, and keep smaller ones in "
        "one vector with all other weights; remove the key",
        TPU: "a TPU changes embeddings as a whole; remove the key",
    },
    "`optimizer.name: nadam` or `adamax`": {
        ASYNCHRONOUS: "nadam and adamax divide one mean of gradients by another; workers that change both at the same time could "
        "cause a step of any size. Use adam or adamw, or `synchronous: true`"
    },
    "`optimizer.name: nadam`": {
        "`strategy: central_storage`": "`nadam` keeps a product of its momenta, which each device would change in the one copy "
        "of `central_storage`; use adam or adamw, or strategy `mirrored`"
    },
    "`optimizer.ema_momentum`": {
        "no `optimizer.use_ema: true`": "it is of `use_ema: true`; add this, or remove the key"
    },
    "`optimizer.use_ema: true`": {
        ASYNCHRONOUS: "workers that take steps independently would overwrite each other's averages; add `synchronous: true`",
        TPU: "the averages cannot be read from the TPU; remove the key",
    },
    # Sweeps.
    "`search`": {"no `sweep`": "there is no `sweep` to search in; add one, or remove the key"},
    "`halving`": {
        SEVERAL: "several processes would start for each part of a training; use a strategy of one process, such as `mirrored`",
        "`last_step`": "it compares networks after whole epochs, and `last_step` may end one; use `epochs`",
    },
    # The family.
    "`offset`": {
        "`multinomial`": "an offset adds the same to the linear predictors of all classes, which changes no probability; remove "
        "the key"
    },
    "`offset_from`": {
        "`multinomial`": "a regression has one linear predictor, and `multinomial` one for each class; remove the key"
    },
    "`threshold`": {"`multinomial`": f"{NO_THRESHOLD}; remove the key"},
    **{f"`{key}`": {WITHOUT_CLASSES: NO_CLASSES} for key in ("class_weights", "label_smoothing")},
}
"""Property -> what it excludes -> why, with what to do. The first name in the property is the key at fault."""

CONFLICTS = listed(REASONS)
