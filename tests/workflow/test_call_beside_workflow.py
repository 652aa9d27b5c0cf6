"""`tfglm.fit` and the workflow give the same tables for the same file, byte for byte."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

import tfglm
from runs import configure_few, succeed

COLUMNS = {
    **dict.fromkeys(("late", "seats", "taken", "day"), "integer"),
    **dict.fromkeys(("delay", "distance"), "number"),
    **dict.fromkeys(("carrier", "origin", "status"), "string"),
}

MODELS = {
    "linear": {"formula": "delay ~ carrier * distance + origin", "std_errors": "HC3", "vcov": True},
    "logarithm": {"formula": "log(distance) ~ carrier + poly(delay, 2)"},
    "logistic": {"formula": "late ~ carrier + distance", "family": "binomial", "std_errors": "cluster(day)"},
    "trials": {
        "formula": "taken ~ carrier + distance",
        "family": "binomial",
        "trials": "seats",
        "profile": {"far": {"distance": 100}},
    },
    "counts": {"formula": "taken ~ origin + bs(distance, df=5)", "family": "poisson", "offset": "log(seats)"},
    "negative": {"formula": "taken ~ carrier", "family": "negative_binomial"},
    "smooth": {"formula": "delay ~ s(distance) + carrier + (1 | day)", "std_errors": "unconditional"},
    "classes": {"formula": "status ~ distance + carrier", "family": "multinomial", "pairwise": ["carrier"]},
    "ordered": {"formula": "status ~ distance", "family": "ordinal", "class_order": ["early", "on time", "late"]},
    "absorbed": {"formula": "delay ~ distance", "absorb": ["day"], "std_errors": "cluster(day)"},
    "ridge": {"formula": "late ~ carrier + distance", "family": "binomial", "l2": 0.01},
    "lasso": {"formula": "delay ~ carrier + origin + distance", "path": {"number": 5, "select": "aic"}},
    "firth": {"formula": "late ~ carrier", "family": "binomial", "firth": True, "tests": "likelihood_ratio"},
    "scenarios": {
        "formula": "late ~ carrier * distance",
        "family": "binomial",
        "margins_at": {"near": {"distance": 200}, "far": {"distance": 800}},
        "contrasts": {"UA - DL": {"carrier[UA]": 1, "carrier[DL]": -1}},
    },
}

TABLES = {
    "linear": ["vcov"],
    "trials": ["profile"],
    "classes": ["pairwise"],
    "scenarios": ["margins_at", "contrasts"],
    "smooth": ["effects"],
    "lasso": ["path"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """One run of all models."""
    folder, random = tmp_path_factory.mktemp("beside"), np.random.default_rng(8)
    rows = 600
    frame = pd.DataFrame(
        {
            "late": random.integers(0, 2, rows),
            "seats": random.integers(50, 200, rows),
            "day": random.integers(1, 31, rows),
            "delay": random.normal(8, 20, rows).round(2),
            "distance": random.uniform(100, 900, rows).round(1),
            "carrier": random.choice(["AA", "UA", "DL", "9E"], rows),
            "origin": random.choice(["JFK", "LGA"], rows),
            "status": random.choice(["early", "on time", "late"], rows),
        }
    )
    frame["taken"] = random.binomial(frame["seats"], 0.6)
    frame.to_csv(folder / "flights.csv", index=False)
    configure_few(folder, ["flights.csv"], COLUMNS, {})
    config = yaml.safe_load((folder / "few.yaml").read_text())
    config["models"] = {name: {"family": "gaussian"} | model for name, model in MODELS.items()}
    (folder / "few.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    succeed(folder, "--configfile", "few.yaml")
    return folder


@pytest.mark.parametrize("name", MODELS)
def test_a_call_gives_the_bytes_of_the_workflow(name, folder):
    model = MODELS[name]
    fitted = tfglm.fit(data=folder / "flights.csv", name=name, **model)
    usual = ["coefficients", "terms"] + ["marginal_effects", "adjusted_means"] * ("absorb" not in model)
    for table in [*usual, *TABLES.get(name, [])]:
        path = folder / "results" / "few" / "models" / name / f"{table}.csv"
        if path.is_file() or table in ("coefficients", *TABLES.get(name, [])):
            fitted.table(table)
            assert (fitted.folder / path.name).read_bytes() == path.read_bytes(), table
