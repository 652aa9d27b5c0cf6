"""Smooth models put together at random, with mgcv's gam(method = "REML") as the peer (golden/random_smooths.R).

Bases differ between programs, and so the restricted likelihood by a constant for each model. Compared is therefore what
the estimation of smoothing parameters gains over those that are all 1.

To draw and compare more models: python tests/random_smooths.py FOLDER FIRST LAST
"""

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from pools import fit_files, ingest_frame
from tfglm.errors import UserError

PEER = Path(__file__).parent / "golden" / "random_smooths.R"

FAMILIES = {
    "gaussian": ("gaussian", {}, "gaussian"),
    "gaussian log": ("gaussian", {"link": "log"}, 'gaussian("log")'),
    "binomial": ("binomial", {}, "binomial"),
    "probit": ("binomial", {"link": "probit"}, 'binomial("probit")'),
    "cloglog": ("binomial", {"link": "cloglog"}, 'binomial("cloglog")'),
    "trials": ("binomial", {"trials": "size"}, "binomial"),
    "poisson": ("poisson", {}, "poisson"),
    "gamma": ("gamma", {}, 'Gamma("log")'),
    "theta": ("negative_binomial", {}, "nb()"),
    "theta given": ("negative_binomial", {"theta": 2.0}, "negbin(2)"),
}


@dataclass(frozen=True)
class Term:
    """A term as it is written here and in R, and the number of its penalties that can be given."""

    ours: str
    theirs: str
    penalties: int = 0

    def written(self, sp: bool = False) -> str:
        given = f", sp={1 if self.penalties == 1 else [1] * self.penalties})"
        return self.ours.removesuffix(")") + given if sp and self.penalties else self.ours


@dataclass(frozen=True)
class Model:
    """A model drawn from a seed, and its rows."""

    seed: int
    name: str
    terms: tuple[Term, ...]
    frame: pd.DataFrame
    settings: dict = field(default_factory=dict)

    def formula(self, sp: bool = False) -> str:
        return f"y ~ {' + '.join(term.written(sp) for term in self.terms)}"

    @property
    def for_r(self) -> dict:
        formula = f"{self.response_in_r} ~ {' + '.join(term.theirs for term in self.terms)}"
        if "offset" in self.settings:
            formula += f" + offset({self.settings['offset']})"
        given = {key: self.settings.get(key, "") for key in ("weights", "frequency")}
        return {"seed": self.seed, "formula": formula, "family": FAMILIES[self.name][2]} | given

    @property
    def response_in_r(self) -> str:
        return "cbind(y, size - y)" if self.name == "trials" else "y"

    def gain(self, folder: Path) -> tuple[float, dict]:
        """By how much V falls from smoothing parameters of 1 to those estimated, and the summary at these."""
        file = ingest_frame(self.frame, folder)
        family, keys, _ = FAMILIES[self.name]
        estimated, given = (
            fit_files([file], self.formula(sp), family, **keys, **self.settings)[1].summary for sp in (False, True)
        )
        assert estimated["converged"] and given["converged"]
        return given["reml"] - estimated["reml"], estimated


def drawn(seed: int) -> Model:
    """The model of a seed."""
    random = np.random.default_rng(seed)
    n, name = int(random.choice([60, 120, 250, 500])), str(random.choice(list(FAMILIES)))
    frame = pd.DataFrame(
        {
            "x": np.round(random.uniform(0, 4, n), 2),
            "z": np.round(random.normal(0, 1, n), 2),
            "u": np.round(random.gamma(2, 1, n), 1),
            "v": np.round(random.uniform(0, 2, n), 2),
            "f": random.choice(["a", "b", "c"], n),
            "g": random.choice([f"g{number:02}" for number in range(random.integers(5, 25))], n),
            "size": random.integers(1, 8, n),
            "times": random.integers(1, 4, n),
            "precision": np.round(random.uniform(0.5, 3, n), 2),
            "exposure": np.round(random.uniform(0.5, 4, n), 2),
        }
    )
    terms, free = [], [str(column) for column in random.permutation(["x", "z", "u"])]
    eta, kinds = np.zeros(n), list(KINDS)
    for _ in range(int(random.integers(1, 4))):
        kind, basis = str(random.choice(kinds)), str(random.choice(["cr", "ps", "tp"]))
        column, k = free.pop(), int(random.integers(4, 13))
        if kind == "te" and len(free):
            terms.append(Term(f"te({column}, {free[-1]}, k=4)", f"te({column}, {free.pop()}, k = 4)", 2))
        elif kind == "by":
            k = int(random.integers(4, 7))
            theirs = f's({column}, by = f, bs = "{basis}", k = {k})'
            terms += [Term("f", "f"), Term(f"s({column}, by=f, bs={basis}, k={k})", theirs, 1)]
        elif kind == "varying":
            theirs = f's({column}, by = v, bs = "{basis}", k = {k})'
            terms.append(Term(f"s({column}, by=v, bs={basis}, k={k})", theirs, 1))
        else:
            terms.append(Term(f"s({column}, bs={basis}, k={k})", f's({column}, bs = "{basis}", k = {k})', 1))
        # A factor or a number has one smooth that depends on it.
        kinds = [other for other in kinds if other != kind or kind == "s"]
        if not free:
            break
    if "by" in kinds and random.random() < 0.4:
        terms.append(Term("f", "f"))
    if random.random() < 0.25:
        terms.append(Term("s(g, bs=re)", 's(g, bs = "re")'))
    for column in ("x", "z", "u"):
        size, turns = random.choice([0, 0.2, 0.5, 1.0]), random.uniform(0.5, 4)
        eta += size * np.sin(turns * frame[column]) if random.random() < 0.7 else size * 0.5 * frame[column]
    if random.random() < 0.5:
        eta += random.choice([0.1, 0.5]) * random.normal(size=25)[frame["g"].str[1:].astype(int)]
    settings: dict = {}
    choice = random.random()
    if choice < 0.3 and name != "trials":
        settings["frequency"] = "times"
    elif choice < 0.5 and name == "gaussian":
        settings["weights"] = "precision"
    if random.random() < 0.25 and name != "gaussian log":
        settings["offset"] = "log(exposure)"
        eta += np.log(frame["exposure"])
    return Model(seed, name, tuple(terms), frame.assign(y=response(name, eta, frame, random)), settings)


KINDS = ["s", "s", "s", "s", "by", "by", "varying", "varying", "te"]


def response(name: str, eta: np.ndarray, frame: pd.DataFrame, random: np.random.Generator) -> np.ndarray:
    """A response of the family with this linear predictor."""
    n, mean, probability = len(eta), np.exp(0.7 * eta), 1 / (1 + np.exp(0.5 - eta))
    values = {
        "gaussian": lambda: np.round(eta + random.normal(size=n), 3),
        "gaussian log": lambda: np.round(mean + 0.5 * random.normal(size=n), 3),
        "trials": lambda: random.binomial(frame["size"], probability),
        "poisson": lambda: random.poisson(mean),
        "gamma": lambda: np.round(mean * random.gamma(2, 0.5, n), 4) + 0.0001,
        "theta": lambda: random.poisson(2 * mean * random.gamma(2, 0.5, n)),
        "theta given": lambda: random.poisson(mean * random.gamma(2, 0.5, n)),
    }
    return values[name]() if name in values else random.binomial(1, probability)


def peers(models: list[Model], folder: Path) -> dict[int, dict]:
    """What mgcv says of the models, by seed: its `gain`, or the `error`."""
    folder.mkdir(parents=True, exist_ok=True)
    for model in models:
        model.frame.to_csv(folder / f"{model.seed}.csv", index=False)
    (folder / "models.json").write_text(json.dumps([model.for_r for model in models]))
    subprocess.run(["Rscript", str(PEER), str(folder)], check=True)
    return {fit["seed"]: fit for fit in json.loads((folder / "fits.json").read_text())}


def compare(folder: Path, seeds: range) -> pd.DataFrame:
    """The table of models: the gain here, that of mgcv, and errors."""
    models = [drawn(seed) for seed in seeds]
    stored = folder / "fits.json"
    theirs = {fit["seed"]: fit for fit in json.loads(stored.read_text())} if stored.exists() else peers(models, folder)
    rows: list[dict] = []
    for model in models:
        row = {"seed": model.seed, "family": model.name, "formula": model.formula(), "error": None}
        row |= {f"mgcv_{key}": value for key, value in theirs[model.seed].items() if key != "seed"}
        try:
            row["gain"], summary = model.gain(folder / str(model.seed))
            row["edf"] = sum(smooth["edf"] for smooth in summary["smooths"])
        except (UserError, AssertionError) as error:
            row["error"] = f"{type(error).__name__}: {error}"
        rows.append(row)
        print(model.seed, row.get("gain"), row.get("mgcv_gain"), row["error"] or "", flush=True)
    return pd.DataFrame(rows)


if __name__ == "__main__":
    place, first, last = sys.argv[1:]
    table = compare(Path(place), range(int(first), int(last)))
    table.to_csv(Path(place) / "compared.csv", index=False)
    worse = table["gain"] < table["mgcv_gain"] - 1e-4
    print(f"{len(table)} models; refused {table['error'].notna().sum()}; worse {worse.sum()}")
