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
        description="Number of nodes, with `--profile slurm`: the first runs the chief and the ps, the others the "
        "workers; a single node runs all.",
    )
    patience: Integer = Field(
        default=300,
        ge=10,
        le=YEAR,
        description="Seconds that the chief waits until all parameter servers and workers are listening.",
    )
    stall: Integer = Field(
        default=900,
        ge=10,
        le=YEAR,
        description="Seconds that the chief waits for one call although all processes live; then the run ends. A "
        "last resort: a call takes seconds.",
    )
    isolate: Literal["auto", "always", "never"] = Field(
        default="auto",
        description="Whether the processes of a fit have a network of their own, which no other user of the machine "
        "can reach: `auto` where the kernel allows it, `always` or the fit does not start, `never`. On "
        "several nodes there is none.",
    )
