"""The effect of more workers on the training of a network: networks that differ only in the processes that train them, by
epoch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tfglm.errors import UserError

MAY_DIFFER = {
    "strategy",
    "synchronous",
    "workers",
    "backup_workers",
    "ps",
    "gpus",
    "communication",
    "devices",
    "threads",
    "batch_size",
    "epochs",
    "last_step",
    "seed",
    "cache",
    "prefetch",
    "report_every",
    "checkpoints",
}
"""Settings of networks that can be set side by side."""

LOSS, ACCURACY = "evaluate/loss", "evaluate/accuracy"
STALENESS, MILLISECONDS = "train/staleness", "train/milliseconds a batch"


@dataclass(frozen=True)
class TrainingRun:
    """The training of a network: fit.json and history.csv, how many `workers` (or devices) shared its steps, the rows of a step
    and the seed."""

    fit: Mapping
    history: pd.DataFrame
    workers: int
    batch_size: int
    seed: int

    @property
    def name(self) -> str:
        return self.fit["model"]


def refuse_others(runs: Sequence[TrainingRun]) -> None:
    """Raise UserError for networks that differ in more than who trains them, how long, and the rows of a step, and for
    those that count epochs by steps."""
    for run in runs:
        if run.fit["provenance"]["model"].get("steps_per_epoch"):
            raise UserError(
                f"scaling: an epoch of network `{run.name}` is not each row once, as `steps_per_epoch` says how long it is\n"
                "  remove the key, or name networks without it under `fit`"
            )
    first = runs[0]
    for other in runs[1:]:
        mine, theirs = (_compared(run.fit) for run in (first, other))
        different = sorted(key for key in mine.keys() | theirs.keys() if mine.get(key) != theirs.get(key))
        if different:
            raise UserError(
                f"scaling: networks `{first.name}` and `{other.name}` differ in {', '.join(different)}, so that not only the "
                "workers make the difference\n  name those to set side by side under `fit`"
            )


def _compared(fit: Mapping) -> dict:
    """The settings that two networks must share."""
    provenance = fit["provenance"]
    settings = {key: value for key, value in provenance["model"].items() if key not in MAY_DIFFER}
    inputs = [(file["file"], file["xxh128"]) for file in provenance["inputs"]]
    return settings | {"the input files": inputs, "the selection of rows": provenance["data"]}


def table(runs: Sequence[TrainingRun]) -> pd.DataFrame:
    """Return a row for each network and epoch.

    `epochs` counts how often all workers together have used each row, `epochs_of_worker` how many rows each of them has
    used, in epochs; `updates` are the steps of the optimizer. `accuracy` and `loss` are computed on the held-out rows,
    `staleness` is the mean over the steps of the epoch, and `seconds` the duration of these steps. Raises UserError as
    `refuse_others`.
    """
    refuse_others(runs)
    return pd.concat([_by_epoch(run) for run in runs], ignore_index=True)


def _by_epoch(run: TrainingRun) -> pd.DataFrame:
    """The rows of a network."""
    quantities = [LOSS, ACCURACY, STALENESS, MILLISECONDS]
    by_step = run.history.pivot(index="step", columns="quantity", values="value").reindex(columns=quantities)
    looks = by_step[by_step[LOSS].notna()]
    steps_of_an_epoch = run.fit["steps_of_an_epoch"]
    # A report is of the steps since the last one. There may be several in an epoch, and one is at its end.
    reports = by_step[by_step[MILLISECONDS].notna()]
    steps = np.diff(reports.index, prepend=0)
    sums = pd.DataFrame(
        {"staleness": reports[STALENESS] * steps, "seconds": reports[MILLISECONDS] * steps / 1000}
    ).groupby(-(-reports.index // steps_of_an_epoch))
    of_epochs = sums.sum(min_count=1)
    epochs = looks.index // steps_of_an_epoch
    return pd.DataFrame(
        {
            "network": run.name,
            "strategy": run.fit["strategy"] + (", synchronous" if run.fit.get("synchronous") else ""),
            "workers": run.workers,
            "batch_size": run.batch_size,
            "seed": run.seed,
            "epochs": epochs,
            "epochs_of_worker": epochs / run.workers,
            "updates": looks.index,
            "accuracy": looks[ACCURACY].to_numpy(),
            "loss": looks[LOSS].to_numpy(),
            "staleness": (of_epochs["staleness"] / steps_of_an_epoch).reindex(epochs).to_numpy(),
            "seconds": of_epochs["seconds"].reindex(epochs).to_numpy(),
        }
    )
