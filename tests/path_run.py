"""A path of many penalties, fitted on a cluster: the run that drills interrupt, and that a single process repeats."""

from pathlib import Path

from runs import configure_flights, succeed, write_asa

TARGET = "results/flights/models/path/coefficients.csv"
PASSES = 25
"""Sums after which the fit is in the middle."""

MODELS = {
    "path": {"path": {"number": 60, "select": "held_out"}},
    "learnt": {"solver": ["adagrad", "newton"], "online": {"epochs": 2, "synchronous": True}, "std_errors": "robust"},
}


def run(folder: Path) -> None:
    """Fit the path; the other model is only in the config."""
    write_asa(folder, 2006, 20_000)
    formula = "late ~ carrier + origin + dest + C(month) + dep_hour + distance"
    configure_flights(
        folder,
        "late carrier origin dest month dep_hour distance",
        models={name: {"formula": formula, "family": "binomial", **keys} for name, keys in MODELS.items()},
        cluster={"ps": 1, "workers": 2, "patience": 120, "stall": 45},
    )
    succeed(folder, "--", TARGET)
