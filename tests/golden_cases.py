"""One fit for each family, solver and kind of standard error, to two files of made-up flights: what stands in
golden/engine.json, and must not move while the engine's version does not.

    python tests/golden_cases.py --write     after the engine's version was raised, and CHANGELOG says what moved
    python tests/golden_cases.py --folder F  every table in full, to compare two versions of the code byte for byte
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "scripts")]

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402

from pools import estimates_of, fit_files, ingest_frame  # noqa: E402
from tfglm import ENGINE  # noqa: E402
from tfglm.config import SolverConfig  # noqa: E402
from tfglm.engine.workload import Workload  # noqa: E402
from tfglm.results import coefficients, metrics, predict  # noqa: E402
from tfglm.results.joint import joint_tests  # noqa: E402

GOLDEN = Path(__file__).parent / "golden" / "engine.json"

TERMS = "carrier + origin + hour + distance"
PATH = {"number": 5, "smallest": 0.01, "l1_ratio": 0.7, "select": "aic"}
ONLINE = {"epochs": 2, "batch_size": 64, "learning_rate": 0.05}

CASES = {
    "gaussian classical": (f"delay ~ {TERMS}", "gaussian", {}, {}),
    "gaussian robust": (f"delay ~ {TERMS} + carrier:hour", "gaussian", {"std_errors": "robust"}, {}),
    "gaussian cluster": (f"delay ~ {TERMS}", "gaussian", {"std_errors": "cluster(day)"}, {}),
    "gaussian weights": (f"delay ~ {TERMS}", "gaussian", {"weights": "seats"}, {}),
    "gaussian ridge": (f"delay ~ {TERMS}", "gaussian", {"l2": 0.01}, {}),
    "gaussian lasso": (f"delay ~ {TERMS}", "gaussian", {"l1": 0.2}, {}),
    "gaussian smooth": ("delay ~ carrier + s(hour, by=carrier, k=6) + s(distance, bs=ps, k=8)", "gaussian", {}, {}),
    "gaussian adagrad": (f"delay ~ {TERMS}", "gaussian", {}, {"solver": "adagrad", "online": ONLINE}),
    "binomial classical": (f"late ~ {TERMS}", "binomial", {}, {}),
    "binomial curves": ("late ~ carrier * distance + bs(hour, df=5) + poly(distance, 2)", "binomial", {}, {}),
    "binomial separated": ("late ~ carrier + C(hour) + distance", "binomial", {}, {}),
    "binomial aliased": ("late ~ carrier + origin + state + hour", "binomial", {}, {}),
    "binomial robust": (f"late ~ {TERMS}", "binomial", {"std_errors": "robust"}, {}),
    "binomial cluster": (f"late ~ {TERMS}", "binomial", {"std_errors": "cluster(day)"}, {}),
    "binomial trials": (f"changes ~ {TERMS}", "binomial", {"trials": "seats"}, {}),
    "binomial ridge": (f"late ~ {TERMS}", "binomial", {"l2": 0.001}, {}),
    "binomial elastic net": (f"late ~ {TERMS}", "binomial", {"l1": 0.005, "l2": 0.001}, {}),
    "binomial path": (f"late ~ {TERMS}", "binomial", {"path": PATH}, {}),
    "binomial smooth": ("late ~ origin + s(distance) + s(carrier, bs=re)", "binomial", {}, {}),
    "binomial sgd": (f"late ~ {TERMS}", "binomial", {}, {"solver": "sgd", "online": ONLINE}),
    "binomial adam, newton": (f"late ~ {TERMS}", "binomial", {}, {"solver": ["adam", "newton"], "online": ONLINE}),
    "binomial ftrl lasso": (f"late ~ {TERMS}", "binomial", {"l1": 0.001}, {"solver": "ftrl", "online": ONLINE}),
    "poisson classical": (f"changes ~ {TERMS}", "poisson", {"offset": "log(seats)"}, {}),
    "poisson quasi": (f"changes ~ {TERMS}", "poisson", {"std_errors": "quasi"}, {}),
    "poisson cluster": (f"changes ~ {TERMS}", "poisson", {"std_errors": "cluster(day)"}, {}),
    "poisson ridge": (f"changes ~ {TERMS}", "poisson", {"l2": 0.01}, {}),
    "binomial probit": (f"late ~ {TERMS}", "binomial", {"link": "probit"}, {}),
    "binomial cloglog trials": (f"changes ~ {TERMS}", "binomial", {"link": "cloglog", "trials": "seats"}, {}),
    "gamma classical": ("distance ~ carrier + origin + hour", "gamma", {}, {}),
    "gamma inverse robust": (
        "distance ~ carrier + origin + hour",
        "gamma",
        {"link": "inverse", "std_errors": "robust"},
        {},
    ),
    "inverse gaussian": ("distance ~ carrier + origin + hour", "inverse_gaussian", {"weights": "seats"}, {}),
    "gaussian log cluster": (
        "seats ~ carrier + origin + hour",
        "gaussian",
        {"link": "log", "std_errors": "cluster(day)"},
        {},
    ),
    "negative binomial": (f"changes ~ {TERMS}", "negative_binomial", {}, {}),
    "negative binomial ridge": (f"changes ~ {TERMS}", "negative_binomial", {"theta": 4.0, "l2": 0.01}, {}),
    "tweedie": (f"changes ~ {TERMS}", "tweedie", {"power": 1.5}, {}),
    "tweedie lasso": (f"changes ~ {TERMS}", "tweedie", {"power": 1.5, "l1": 0.02}, {}),
    "poisson sgd": (f"changes ~ {TERMS}", "poisson", {}, {"solver": "sgd", "online": ONLINE}),
}
"""Formula, family, keys of the model and keys of the solver."""


def flights(rows: int = 4000) -> pd.DataFrame:
    random = np.random.default_rng(23)
    day = random.integers(0, 60, rows)
    frame = pd.DataFrame(
        {
            "carrier": random.choice(["AA", "B6", "DL", "UA", "WN"], rows, p=[0.4, 0.3, 0.15, 0.1, 0.05]),
            "origin": random.choice(["EWR", "JFK", "LGA"], rows),
            "hour": random.integers(5, 24, rows),
            "distance": np.round(random.gamma(4, 250, rows), 1),
            "seats": random.integers(20, 40, rows),
            "day": day,
        }
    )
    effect = {"AA": 0.0, "B6": 0.4, "DL": -0.3, "UA": 0.6, "WN": 0.1}
    eta = -1.0 + frame["carrier"].map(effect) + 0.05 * (frame["hour"] - 12) - 0.0002 * frame["distance"]
    eta += 0.4 * random.normal(size=60)[day]
    frame["delay"] = np.round(12 * eta + 10 * random.normal(size=rows), 3)
    frame["late"] = (random.random(rows) < 1 / (1 + np.exp(-eta))).astype(int)
    frame["changes"] = random.binomial(frame["seats"], 1 / (1 + np.exp(3 - eta)))
    frame["state"] = np.where(frame["origin"] == "EWR", "NJ", "NY")  # known from the origin
    frame.loc[frame["hour"] == 23, "late"] = 0  # a separated level of C(hour)
    return frame


def ingested(folder: Path) -> list:
    frame, split = flights(), {"train": "hour <> 7", "evaluate": "hour = 7"}
    halves = frame.iloc[:2500], frame.iloc[2500:]
    return [ingest_frame(half, folder, name, split=split) for half, name in zip(halves, ("early", "late"), strict=True)]


def tables(files: list, formula: str, family: str, model: dict, solver: dict) -> dict[str, str]:
    """The content of the files that a fit ends in, by their names."""
    settings = SolverConfig.model_validate(solver)
    design, fitted, _ = fit_files(files, formula, family, solver=settings, **model)
    design = design.as_fitted(fitted.summary)
    estimated = estimates_of(design, fitted)
    scored = list(predict.score(Workload(design, files, "evaluate"), fitted))
    tests = joint_tests(estimated, fitted.summary["likelihood_ratio_tests"], fitted.summary.get("smooths", ()))
    predicted = [f"{eta!r}" for piece in scored for eta in piece.rows["eta"].tolist()]
    return {
        "coefficients.csv": coefficients.table(estimated, 0.95).to_csv(index=False),
        "terms.csv": tests.to_csv(index=False),
        "fit.json": json.dumps(fitted.summary, indent=1),
        "metrics.json": json.dumps(metrics.evaluate(design, iter(scored), 0.5), indent=1),
        "predictions.csv": "\n".join(predicted),
    }


def numbers(of_case: dict[str, str]) -> dict:
    """What of these tables the golden file keeps."""
    fit = json.loads(of_case["fit.json"])
    kept = ("converged", "rows", "df_residual", "deviance", "null_deviance", "log_likelihood", "aic")
    predicted = [float(line) for line in of_case["predictions.csv"].splitlines()]
    return {
        "coefficients": of_case["coefficients.csv"],
        "terms": of_case["terms.csv"],
        "fit": {key: fit[key] for key in kept if fit[key] is not None},
        "predicted": {"sum": sum(predicted), "squares": sum(eta**2 for eta in predicted)},
    }


def main(arguments: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = ingested(Path(folder))
        tables_of_cases = {name: tables(files, *case) for name, case in CASES.items()}
    if arguments.folder:
        for name, of_case in tables_of_cases.items():
            (arguments.folder / name).mkdir(parents=True)
            for file, text in of_case.items():
                (arguments.folder / name / file).write_text(text)
    if arguments.write:
        golden = {"engine": ENGINE, "cases": {name: numbers(of_case) for name, of_case in tables_of_cases.items()}}
        GOLDEN.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="make the golden file anew")
    parser.add_argument("--folder", type=Path, help="where to write every table in full")
    main(parser.parse_args())
