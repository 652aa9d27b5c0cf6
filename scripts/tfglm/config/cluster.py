"""The section `cluster`: how a model is fitted, processes and waiting times. Nothing here changes a result."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from tfglm.config.base import YEAR, Integer, Section
from tfglm.config.inputs import csv_bytes

WITHOUT = {
    "mirrored": "it divides a batch of a network among the devices of one process, and the passes of a regression are loops for "
    "one processor; use `multi_worker_mirrored` or `parameter_server` for several",
    "central_storage": "it keeps the weights of a network on one of the devices of a process, and the passes of a regression are "
    "loops for one processor; use `parameter_server` for several",
    "tpu": "a TPU computes in 32 bits or fewer, too few for the sums of an exact fit; use `parameter_server`",
    "horovod": "its last release, 0.28.1, builds with no TensorFlow that this workflow can run; use `multi_worker_mirrored`",
}
"""Strategies that TensorFlow or others have, and why a regression is not fitted under them."""


LARGEST_FOR_ONE_PROCESS = 3 * 10**9
"""Bytes of CSV, about 30 million rows. Below that, starting a cluster takes longer than two workers save on two cores;
docs/config/running.md has the times."""


def strategy_for(files: Iterable[Path | None]) -> str:
    """The strategy that `auto` stands for. It depends on the names and sizes of the input files alone; one is None if only a
    fetch can tell its size, and what a fetch finds must not change the strategy."""
    total = 0
    for file in files:
        if file is None:
            return "parameter_server"
        if file.is_file():  # otherwise the run does not start
            total += csv_bytes(file)
    return "one_device" if total <= LARGEST_FOR_ONE_PROCESS else "parameter_server"


class ClusterConfig(Section):
    """How models are fitted. Nothing here changes a result."""

    strategy: Literal["parameter_server", "multi_worker_mirrored", "one_device", "auto"] = Field(
        default="auto",
        description="How a regression is fitted: by `workers` with parameter servers and a chief, by `workers` equal "
        "processes, or by one process. `auto`: `one_device` for files of up to "
        f"{LARGEST_FOR_ONE_PROCESS / 1e9:.0f} GB of CSV in all, else `parameter_server`. Who names `ps`, `workers` or `nodes` "
        "and no strategy gets `parameter_server`. All give the same numbers, except an online solver that is not "
        "`synchronous`.",
    )
    ps: Integer = Field(default=1, ge=1, le=1000)
    """Number of parameter servers, under `parameter_server`."""
    workers: Integer = Field(default=2, ge=1, le=10_000)
    """Number of workers; under `multi_worker_mirrored` the chief is one of them."""
    nodes: Integer = Field(default=1, ge=1, le=10_000)
    """Number of nodes, with `--profile slurm`: the first runs the chief and the ps, the others the other workers; a
    single node runs all."""
    patience: Integer = Field(default=300, ge=10, le=YEAR)
    """Seconds that the chief waits until all other processes are listening."""
    stall: Integer = Field(default=900, ge=10, le=YEAR)
    """Seconds that the chief waits for one call although all processes live; then the run ends. A last resort: a call
    takes seconds."""
    isolate: Literal["auto", "always", "never"] = "auto"
    """Whether the processes of a fit on one node have a network that no other user of the machine can reach: `auto`
    where the kernel allows it, `always` or the fit does not start, `never`."""

    fetch: Literal["here", "job"] = "here"
    """Where files at addresses are fetched: `here`, on the machine where `snakemake` runs, or by a `job` of the
    scheduler."""

    @property
    def peers(self) -> int:
        """The processes that fit a regression together with its chief; 0 under another strategy."""
        return self.workers - 1 if self.strategy == "multi_worker_mirrored" else 0

    @property
    def servers(self) -> tuple[int, int]:
        """The numbers of ps and of workers; none under another strategy."""
        return (self.ps, self.workers) if self.strategy == "parameter_server" else (0, 0)

    @model_validator(mode="before")
    @classmethod
    def _processes_that_are_asked_for(cls, raw: Any) -> Any:
        """Numbers of processes without a strategy are those of parameter servers."""
        if isinstance(raw, dict) and "strategy" not in raw and {"ps", "workers", "nodes"} & {*raw}:
            return raw | {"strategy": "parameter_server"}
        return raw

    @field_validator("strategy", mode="before")
    @classmethod
    def _strategies_to_be_had(cls, strategy: Any) -> Any:
        reason = WITHOUT.get(strategy) if isinstance(strategy, str) else None
        if reason:
            raise ValueError(f"no `{strategy}`: {reason}")
        return strategy

    @model_validator(mode="after")
    def _several_peers(self) -> "ClusterConfig":
        if self.strategy == "multi_worker_mirrored" and self.workers == 1:
            raise ValueError("workers: `multi_worker_mirrored` needs two or more; use `one_device`")
        return self
