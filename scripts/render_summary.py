"""Say in plain words what was fitted on what, how well and how surely: the first page of the report."""

import argparse
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from tfglm import command, digests
from tfglm.families import FAMILIES
from tfglm.report.pages import four_digits, p_value, read_table, render
from tfglm.results import csv_files
from tfglm.results.accuracy import NO_ROWS, convergence, errors
from tfglm.results.compare import response_of


def main(arguments: argparse.Namespace) -> None:
    rows = digests.read_json(arguments.rows)
    fits = [digests.read_json(folder / "fit.json") for folder in arguments.models]
    models = []
    for folder, fit in zip(arguments.models, fits, strict=True):
        metrics = digests.read_json(folder / "metrics.json") if arguments.held_out else {}
        models.append(of_model(fit, metrics, folder))
    arguments.page.write_text(render("summary", data=data(rows), models=models, **provenance(fits)))


def data(rows: dict) -> str:
    """What the rows are."""
    used = {split: account["used"] for split, account in rows["splits"].items() if account["used"]}
    uses = {"train": "to fit the models", "evaluate": "kept back to evaluate them", "predict": "only to predict"}
    shares = ", ".join(f"{count:,} {uses[split]}" for split, count in used.items())
    left = rows["read"] - sum(used.values())
    others = (
        f"{left:,} left out, each for a reason that the page “rows accounted for” gives" if left else "none left out"
    )
    files = len(rows["files"])
    return f"{files} input file{'s' if files > 1 else ''} with {rows['read']:,} rows: {shares}, and {others}."


def of_model(fit: dict, metrics: dict, folder: Path) -> dict:
    """What the page says of a model."""
    if fit.get("kind") == "network":
        return of_network(fit, metrics)
    tests, notes = joint_tests(folder / "terms.csv")
    return {
        "fit": fit,
        "regression": FAMILIES[fit["family"]].regression,
        "response": response_of(fit),
        "how_well": how_well(fit, metrics),
        "errors": errors(fit),
        "convergence": convergence(fit),
        "tests": tests,
        "notes": notes,
        "without_estimate": without_estimate(read_table(folder / "coefficients.csv")),
    }


def of_network(fit: dict, metrics: dict) -> dict:
    """What the page says of a network."""
    layers, offset = fit["layers"], fit["layers"]["offset_from"]
    hidden = ", ".join(f"{units:,}" for units in layers["hidden"])
    filters = ", ".join(f"{number:,}" for number in layers["convolutions"])
    kernel = layers["kernel"]
    parts = [f"convolutions with {filters} filters of {kernel} x {kernel} pixels"] if filters else []
    parts += [f"hidden layers of {hidden} units ({layers['activation']})"] if hidden else []
    parts += ["a coefficient for each level and number"] if layers["wide"] or not hidden else []
    parts += [f"the linear predictor of {offset}"] if offset else []
    chosen = fit.get("epoch_of_smallest_loss")
    return {
        "fit": fit,
        "response": response_of(fit),
        "how_well": how_well(fit, metrics),
        "parts": parts,
        "chosen": chosen if fit["weights_by_held_out_loss"] else None,
    }


def how_well(fit: dict, metrics: dict) -> str:
    """How much of the responses the model explains, and how it predicts rows that it has not seen."""
    explained = fit.get("r_squared", fit.get("pseudo_r_squared"))
    text = (
        ""
        if explained is None
        else f"The model explains {100 * explained:.1f} % of the deviance of the rows it was fitted to. "
    )
    if not metrics.get("rows"):
        return text + "No rows were kept back to evaluate it."
    text += f"On {metrics['rows']:,} rows kept back "
    if "confusion" in metrics:
        return text + (
            f"it predicts the class of {100 * metrics['accuracy']:.1f} % (the most frequent class alone has "
            f"{100 * metrics['null_accuracy']:.1f} %); log loss {four_digits(metrics['log_loss'])}."
        )
    mean, response = metrics["mean_prediction"], metrics["mean_response"]
    if metrics.get("auc") is not None:
        auc = metrics["auc"]
        text += (
            f"it ranks a row with the event above one without in {100 * auc:.1f} % of all pairs (AUC {auc:.4f}); the mean "
            f"predicted probability is {100 * mean:.1f} %, and {100 * response:.1f} % of the rows had the event"
        )
        slope = metrics["calibration_slope"]
        text += "" if slope is None else f"; calibration slope {slope:.3f} (1 is ideal)"
    elif "rmse" in metrics:
        text += (
            f"its predictions are off by {four_digits(metrics['mae'])} on average (root mean square "
            f"{four_digits(metrics['rmse'])}); the mean prediction is {four_digits(mean)}, "
            f"the mean response {four_digits(response)}"
        )
    else:
        text += "all responses are alike"
    return text + "."


def joint_tests(path: Path) -> tuple[pd.DataFrame | None, list[str]]:
    """The joint tests with what there is to say of each; if there are none and one reason for it, no table but that reason."""
    table = csv_files.read(path, ["term", "note"])
    notes = table["note"].unique().tolist()
    if table["p_value"].isna().all() and len(notes) <= 1:
        return None, notes
    # By that of which the p-value is the tail.
    name, statistic = ("F", "F") if "F" in table else ("chi-squared", "chi_squared")
    shown = pd.DataFrame(
        {
            "term": table["term"],
            "coefficients": [f"{value:g}" if pd.notna(value) else "" for value in table["df"]],
            name: [f"{value:,.1f}" if pd.notna(value) else "" for value in table[statistic]],
            "p": table["p_value"].map(p_value),
        }
    )
    if any(notes):
        shown["note"] = table["note"]
    return shown, []


LISTED = 20


def without_estimate(table: pd.DataFrame) -> list[str]:
    """Sentences about the coefficients that have no estimate, and why."""
    separated = [name_of(row) for row in table[table["status"] == "separated"].itertuples()]
    aliased = [
        f"{name_of(row)} ({row.aliased_with if row.aliased_with == NO_ROWS else f'= {row.aliased_with}'})"
        for row in table[table["status"] == "aliased"].itertuples()
    ]
    reasons = {
        "Without a finite estimate, as the responses of their rows are all alike (separated)": separated,
        "Aliased, that is made of other columns and so without a coefficient of their own": aliased,
    }
    return [f"{reason}: {listed(names)}." for reason, names in reasons.items() if names]


def name_of(row: Any) -> str:
    return f"{row.term} {row.level}".strip()


def listed(names: list[str]) -> str:
    more = f"; and {len(names) - LISTED:,} more" if len(names) > LISTED else ""
    return "; ".join(names[:LISTED]) + more


def provenance(fits: list[dict]) -> dict:
    """What is needed to get the same numbers again, by model; all have the same data."""
    provenances = {fit["model"]: fit["provenance"] for fit in fits}
    first = next(iter(provenances.values()))
    config = {"data": first["data"], "models": {name: provenance["model"] for name, provenance in provenances.items()}}
    return {
        "inputs": pd.DataFrame(first["inputs"]),
        "versions": ", ".join(f"{name} {version}" for name, version in first["versions"].items()),
        "by_chance": [fit["model"] for fit in fits if "online" in fit and not fit["online"]["synchronous"]],
        "commands": "\n".join(provenance["command"] for provenance in provenances.values()),
        "config": yaml.safe_dump(config, sort_keys=False),
    }


if __name__ == "__main__":
    parser = command.parser(__doc__)
    parser.add_argument("--rows", type=Path, required=True, help="what merge_dictionary.py wrote")
    parser.add_argument("--models", type=Path, nargs="+", required=True, help="their folders under results/models")
    parser.add_argument("--held-out", action="store_true", help="whether there is a metrics.json of held-out rows")
    parser.add_argument("--page", type=Path, required=True, help="HTML page to write")
    command.run(main, parser.parse_args())
