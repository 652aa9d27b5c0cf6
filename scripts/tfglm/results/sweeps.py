"""The networks of a sweep: which of them continue their training (successive halving), and the table of all."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

HELD_OUT = "evaluate/loss"
"""The loss on the held-out rows in history.csv, after each epoch."""


def compare(fits: Sequence[Mapping[str, Any]], kept: int) -> dict[str, Any]:
    """Choose the networks that continue: the `kept` ones with the smallest loss on the held-out rows after any of their
    epochs, by the content of fit.json of each after as many epochs, in their order. `ranking` has all names from the
    smallest loss on, `continuing` those that continue.

    This is successive halving (Jamieson and Talwalkar 2016). Equal losses keep the order of the networks. A network without
    a finite loss comes last.

    >>> fits = [{"model": name, "smallest_held_out_loss": loss} for name, loss in [("a", 0.7), ("b", 0.5), ("c", 0.6)]]
    >>> compare(fits, 1)
    {'ranking': ['b', 'c', 'a'], 'continuing': ['b']}
    """
    ranking = [fit["model"] for fit in sorted(fits, key=loss_of)]
    return {"ranking": ranking, "continuing": ranking[:kept]}


def loss_of(fit: Mapping[str, Any]) -> float:
    """The smallest loss on the held-out rows; infinite without one."""
    loss = fit.get("smallest_held_out_loss")
    return math.inf if loss is None or math.isnan(loss) else float(loss)


def table(
    fits: Sequence[Mapping[str, Any]],
    values: Mapping[str, Mapping[str, Any]],
    comparisons: Mapping[int, Mapping[str, Any]],
    epochs: Mapping[str, int],
) -> pd.DataFrame:
    """The networks of a sweep, from the smallest loss on the held-out rows to the largest: columns `network`, the swept
    keys, `epochs`, `held_out_loss`, `epoch_of_loss` and `end`, which says why it ended there.

    `values` are those of the swept keys and `epochs` those of a whole training, by the name of the network. `comparisons`
    has what `compare` returned, by the epochs after which it compared.
    """
    lines = []
    for fit in sorted(fits, key=loss_of):
        name = fit["model"]
        lines.append(
            {
                "network": name,
                **values[name],
                "epochs": fit["epochs"],
                "held_out_loss": fit.get("smallest_held_out_loss"),
                "epoch_of_loss": fit.get("epoch_of_smallest_loss"),
                "end": end_of(fit, comparisons, epochs[name]),
            }
        )
    return pd.DataFrame(lines)


def end_of(fit: Mapping[str, Any], comparisons: Mapping[int, Mapping[str, Any]], epochs: int) -> str:
    """Why a training ended where it did."""
    name = fit["model"]
    for after, compared in sorted(comparisons.items()):
        ranking, kept = compared["ranking"], len(compared["continuing"])
        if name in ranking[kept:]:
            rank = 1 + ranking.index(name)
            return f"halving after epoch {after}: number {rank} of {len(ranking)}, of which {kept} continued"
    return "all epochs" if fit["epochs"] >= epochs else "patience, a callback or last_step"


def curve(fit: Mapping[str, Any], history: pd.DataFrame) -> pd.Series:
    """The loss on the held-out rows by epoch, from fit.json and history.csv of a network."""
    losses = history[history["quantity"] == HELD_OUT]
    return pd.Series(losses["value"].to_numpy(), losses["step"].to_numpy() / fit["steps_of_an_epoch"])
