"""Configs as nobody should write them: valid ones, changed at random by a seed."""

import copy
import random
from typing import Any

import numpy as np
import pandas as pd

from config_values import FORMULAS, LETTERS, TOKENS, VALUES

ROWS = 400


def frame() -> pd.DataFrame:
    """A small table of flights with a column for each use."""
    draw = np.random.default_rng(5)
    day = np.arange(ROWS) % 28 + 1
    return pd.DataFrame(
        {
            "late": draw.integers(0, 2, ROWS),
            "delay": np.round(draw.normal(10, 30, ROWS), 1),
            "carrier": draw.choice(["AA", "B6", "UA", "=x"], ROWS),
            "origin": draw.choice(["JFK", "EWR", "LGA"], ROWS),
            "month": draw.integers(1, 5, ROWS),
            "day": day,
            "distance": draw.integers(100, 2000, ROWS),
            "seats": draw.integers(1, 9, ROWS),
        }
    )


LAYOUT = {
    "columns": {
        name: "number" if name == "delay" else "string" if name in ("carrier", "origin") else "integer"
        for name in frame()
    }
}

VALID: list[dict[str, Any]] = [
    {
        "data": {
            "files": ["flights.csv"],
            "layout": "mine.yaml",
            "derive": {"far": "distance > 1000"},
            "where": {"flown": "delay IS NOT NULL"},
            "split": {"train": "day <= 24", "evaluate": "day > 24"},
            "columns": ["late", "delay", "carrier", "origin", "month", "day", "distance", "seats", "far"],
            "missing": {"origin": "level"},
            "rare": {"carrier": 2},
            "order": {"month": [2, 1]},
        },
        "models": {
            "binary": {
                "formula": "late ~ carrier * origin + C(month) + bs(distance, df=4)",
                "family": "binomial",
                "std_errors": "cluster(day)",
                "reference": {"carrier": "AA", "C(month)": 1},
                "contrasts": {"UA against B6": {"carrier[UA]": 1, "carrier[B6]": -1}},
                "by": ["carrier"],
                "identity": ["day"],
                "predictions": "csv",
            },
            "linear": {
                "formula": "delay ~ origin + poly(distance, 2) + scale(seats)",
                "family": "gaussian",
                "weights": "seats",
                "vcov": True,
            },
            "unweighted": {"formula": "delay ~ distance", "family": "gaussian"},
        },
        "fit": ["binary", "linear"],
        "compare": ["binary", "unweighted"],
        "cluster": {"ps": 1, "workers": 2, "nodes": 1, "patience": 300, "stall": 900},
        "pictures": {"colour": "#0072B2"},
        "tables": {"stars": [0.05], "labels": {"scale(seats)": "seats"}, "controls": ["carrier"], "below": "interval"},
    },
    {
        "data": {
            "files": [{"path": "flights.csv", "layout": "mine.yaml"}],
            "split": {"train": "random < 0.8", "evaluate": "random >= 0.8", "predict": "FALSE"},
            "columns": ["late", "carrier", "month", "distance", "seats"],
            "seed": 3,
            "bad_rows": "drop",
        },
        "models": {
            "lasso": {
                "formula": "late ~ carrier + C(month) + log(distance)",
                "family": "binomial",
                "path": {"number": 5, "l1_ratio": 0.5, "smallest": 0.01, "select": "aic"},
            },
            "counts": {
                "formula": "late ~ carrier - 1",
                "family": "poisson",
                "offset": "log(seats)",
                "solver": ["adagrad", "newton"],
                "online": {"epochs": 2, "batch_size": 16, "patience": 1, "learning_rate": 0.1, "parts": 2},
                "sweep": {"l2": [0.1, 0.2]},
                "max_iterations": 20,
            },
        },
        "score": [{"path": "flights.csv", "layout": "mine.yaml"}],
    },
]


def _paths(value: Any, path: tuple = ()) -> list[tuple]:
    """The places in nested mappings and lists."""
    paths = [path]
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            paths += _paths(value[key], (*path, key))
    return paths


def _at(value: Any, path: tuple) -> Any:
    for key in path:
        value = value[key]
    return value


def _text(draw: random.Random, text: str) -> str:
    """A text with a few characters changed."""
    letters = list(text)
    for _ in range(draw.randint(1, 3)):
        place = draw.randint(0, len(letters))
        letters[place : place + draw.randint(0, 2)] = draw.choice(LETTERS) * draw.choice([0, 1, 1, 2, 50])
    return "".join(letters)


def formula(draw: random.Random) -> str:
    """A formula, or what looks like one."""
    match draw.randrange(4):
        case 0:
            return draw.choice(FORMULAS)
        case 1:
            return _text(draw, draw.choice(FORMULAS)[:300])
        case 2:
            return "late ~ " + "".join(draw.choice(TOKENS) for _ in range(draw.randint(1, 12)))
    return plausible_formula(draw)


def plausible_formula(draw: random.Random) -> str:
    """A formula that is one, over columns that all valid configs have."""
    terms = [
        "carrier",
        "C(month)",
        "distance",
        "bs(distance, df=5)",
        "log(seats)",
        "poly(seats, 2, raw=True)",
        "scale(seats)",
    ]
    ends = [" + ", ":", " * ", " - ", " / ", " %in% ", " + ("]
    text = "late ~ " + "".join(draw.choice(terms) + draw.choice(ends) for _ in range(draw.randint(0, 3)))
    text += draw.choice(terms)
    return text + ")" * (text.count("(") - text.count(")"))


def _mutated(draw: random.Random, raw: dict) -> None:
    """Change one thing."""
    path = draw.choice([path for path in _paths(raw) if path])
    parent, key = _at(raw, path[:-1]), path[-1]
    match draw.randrange(8):
        case 0 | 1 | 2:
            parent[key] = copy.deepcopy(draw.choice(VALUES))
        case 3:
            del parent[key]
        case 4 if isinstance(parent, dict):
            new = draw.choice(VALUES)
            parent[new if isinstance(new, str | int | float | bool | None) else str(new)] = parent.pop(key)
        case 5 if isinstance(parent[key], str):
            parent[key] = _text(draw, parent[key])
        case 6:
            parent[key] = copy.deepcopy(_at(raw, draw.choice(_paths(raw))))
        case _:
            models = raw.get("models")
            models = [each for each in models.values() if isinstance(each, dict)] if isinstance(models, dict) else []
            for model in models:
                model["formula"] = formula(draw)


def case(seed: int) -> Any:
    """The config of a seed."""
    draw = random.Random(seed)
    raw = copy.deepcopy(draw.choice(VALID))
    if draw.random() < 0.2:
        for model in raw["models"].values():
            model["formula"] = plausible_formula(draw)
        return raw
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        if raw:
            _mutated(draw, raw)
    return raw if seed % 97 else draw.choice(VALUES)
