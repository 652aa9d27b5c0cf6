"""The keys of a model that say how it is fitted: solvers and their settings."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from tfglm.config.base import FROM_TEXT, MOST_ROWS, Count, Integer, Section, as_list

ONLINE = ("sgd", "adagrad", "adam", "ftrl")
"""Solvers that learn from one batch after the other."""

Solver = Literal["newton", "sgd", "adagrad", "adam", "ftrl"]


class OnlineConfig(Section):
    """How an online solver goes through the data."""

    batch_size: Annotated[int, Field(ge=1, le=8192), FROM_TEXT] | None = None
    """Rows of a step. Default: a 2,000th of the training rows, at least 512 and at most 4096."""
    epochs: Count = Field(default=5, le=10_000)
    """How many times each training row is used."""
    learning_rate: Annotated[float, Field(gt=0, le=1e100, allow_inf_nan=False), FROM_TEXT] | None = None
    """Length of the steps; with `gaussian` in standard deviations of the response. Default: 1 for `sgd`, 0.2 for
    `adagrad` and `ftrl`, 0.01 for `adam`."""
    decay: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False), FROM_TEXT] | None = None
    """The learning rate is divided by 1 + decay * (epochs so far). Default: 1 for `sgd` and `adam`, 0 for `adagrad` and
    `ftrl`."""
    shuffle: bool = True
    """Whether each epoch takes the rows in another order."""
    seed: Integer = Field(default=1, ge=0, le=MOST_ROWS)
    """Seed of these orders."""
    average: bool = True
    """Whether the coefficients are averaged over the second half of the last epoch, which is steadier, or taken from
    the last step, as always with `l1`."""
    last_step: Annotated[Count, Field(le=10**12)] | None = None
    """The step after which to stop, even within an epoch."""
    patience: Annotated[Count, Field(le=10_000)] | None = None
    """Stop after so many epochs without a smaller loss on the `evaluate` rows, and report the best coefficients."""
    synchronous: bool = False
    """Whether workers learn in rounds, whose results are averaged: the answer is then the same for any number of
    workers, but they wait for each other."""
    parts: Count = Field(default=4, le=1024)
    """Parts of a synchronous round; no more workers are busy."""
    report_every: Count = Field(default=1000, le=10**9)
    """Most steps between two lines of progress."""


class SolverConfig(Section):
    """How a model is fitted."""

    solver: Annotated[list[Solver], BeforeValidator(as_list, json_schema_input_type=Solver | list[Solver])] = Field(
        default=["newton"], min_length=1
    )
    """`newton` is exact. `sgd`, `adagrad`, `adam` and `ftrl` learn online and come close; `[adagrad, newton]` continues
    to the exact fit."""
    max_iterations: Integer = Field(default=50, ge=1, le=10_000)
    """Newton iterations after which the fit stops, converged or not."""
    online: OnlineConfig = OnlineConfig()
    collapse: bool = False
    """Whether the fit reads equal training rows as one row with a count. The results are the same. If more than half of
    the rows would remain, the fit reads the original rows."""
    leave_out: bool = False
    """Whether a linear regression also estimates the variances of the effects of the first two `absorb` factors without their
    sampling errors (Kline, Saggio and Sølvsten 2020)."""

    @property
    def online_solver(self) -> str | None:
        return next((name for name in self.solver if name in ONLINE), None)

    @property
    def is_exact(self) -> bool:
        """Whether the last solver is."""
        return self.solver[-1] == "newton"

    @model_validator(mode="after")
    def _one_after_the_other(self) -> "SolverConfig":
        if len(self.solver) > 2 or (
            len(self.solver) == 2 and (self.solver[0] not in ONLINE or self.solver[1] != "newton")
        ):
            raise ValueError(
                f"solver: expected one solver, or an online one and `newton`, received {', '.join(self.solver)}"
            )
        if self.online_solver == "ftrl" and self.online.decay:
            raise ValueError("online.decay: `ftrl` shortens its steps itself; remove it")
        return self
