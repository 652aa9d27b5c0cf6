"""The section `cluster`: how a model is fitted, processes and waiting times. Nothing here changes a result."""

from typing import Literal

from pydantic import Field

from tfglm.config.base import YEAR, Integer, Section


class ClusterConfig(Section):
    """What a model is fitted on. Nothing here changes a result."""

    strategy: Literal["parameter_server", "one_device"] = Field(
        default="parameter_server",
        description="`parameter_server` fits a model on a TensorFlow cluster of the processes below; `one_device` in one "
        "process, as one ordinary job. Both come to the same numbers, but for an online solver that is not `synchronous`. A "
        "model that was fitted the other way is fitted again.",
    )
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
