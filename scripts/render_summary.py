"""Say in plain words what was fitted on what, how well and how surely: the first page of the report."""

import argparse
import html
from pathlib import Path

import pandas as pd
import yaml

from tfglm import command, digests
from tfglm.families import FAMILIES
from tfglm.report.pages import four_digits, page, read_table
from tfglm.results import csv_files
from tfglm.results.accuracy import convergence, errors
from tfglm.results.aliases import NO_ROWS
from tfglm.results.compare import response_of


def main(arguments: argparse.Namespace) -> None:
    rows = digests.read_json(arguments.rows)
    fits = [digests.read_json(folder / "fit.json") for folder in arguments.models]
    sections = [data(rows)]
    for folder, fit in zip(arguments.models, fits, strict=True):
        metrics = digests.read_json(folder / "metrics.json") if arguments.held_out else {}
        sections.append(of_model(fit, metrics, folder))
    sections.append(passport(fits))
    arguments.page.write_text(page("What was fitted, how well, how surely", "".join(sections), "", text_columns=1))


def data(rows: dict) -> str:
    """What the rows are."""
    used = {split: one["used"] for split, one in rows["splits"].items() if one["used"]}
    uses = {"train": "to fit the models", "evaluate": "kept back to evaluate them", "predict": "only to predict"}
    shares = ", ".join(f"{count:,} {uses[split]}" for split, count in used.items())
    left = rows["read"] - sum(used.values())
    others = (
        f"{left:,} left out, each for a reason that the page “rows accounted for” gives" if left else "none left out"
    )
    files = len(rows["files"])
    return f"<p>{files} input file{'s' if files > 1 else ''} with {rows['read']:,} rows: {shares}, and {others}.</p>"


def of_model(fit: dict, metrics: dict, folder: Path) -> str:
    said = [
        f"<h2>{html.escape(fit['model'])}</h2>",
        f"<p>A {FAMILIES[fit['family']].regression} <code>{html.escape(response_of(fit))}</code> on {fit['rows']:,} rows: "
        f"<code>{html.escape(fit['formula'])}</code>, {fit['coefficients']:,} coefficients.</p>",
        f"<p><b>How well.</b> {how_well(fit, metrics)}</p>",
        f"<p><b>How surely.</b> {errors(fit)} {convergence(fit)}</p>",
        *(f'<p class="warning"><b>Warning:</b> {html.escape(one)}.</p>' for one in fit["warnings"]),
        terms(folder / "terms.csv"),
        flagged(read_table(folder / "coefficients.csv")),
    ]
    return "".join(said)


def how_well(fit: dict, metrics: dict) -> str:
    explained = fit.get("r_squared", fit.get("pseudo_r_squared"))
    said = (
        ""
        if explained is None
        else f"The model explains {100 * explained:.1f} % of the deviance of the rows it was fitted to. "
    )
    if not metrics.get("rows"):
        return said + "No rows were kept back to evaluate it."
    said += f"On {metrics['rows']:,} rows kept back "
    mean, response = metrics["mean_prediction"], metrics["mean_response"]
    if metrics.get("auc") is not None:
        auc = metrics["auc"]
        said += (
            f"it ranks a row with the event above one without in {100 * auc:.1f} % of all pairs (AUC {auc:.4f}); the mean "
            f"predicted probability is {100 * mean:.1f} %, and {100 * response:.1f} % of the rows had the event"
        )
        slope = metrics["calibration_slope"]
        said += "" if slope is None else f"; calibration slope {slope:.3f} (1 is ideal)"
    elif "rmse" in metrics:
        said += (
            f"its predictions are off by {four_digits(metrics['mae'])} on average (root mean square "
            f"{four_digits(metrics['rmse'])}); the mean prediction is {four_digits(mean)}, "
            f"the mean response {four_digits(response)}"
        )
    else:
        said += "all responses are alike"
    return said + "."


def terms(path: Path) -> str:
    """The joint tests, and what there is to say of each."""
    table = csv_files.read(path, ["term", "note"])
    notes = table["note"].unique().tolist()
    if table["p_value"].isna().all() and len(notes) <= 1:
        return "".join(f"<p>Joint tests: {html.escape(note)}.</p>" for note in notes)
    # By that of which the p-value is the tail.
    name, statistic = ("F", "F") if "F" in table else ("chi-squared", "chi_squared")
    shown = pd.DataFrame(
        {
            "term": table["term"],
            "coefficients": [f"{value:g}" if pd.notna(value) else "" for value in table["df"]],
            name: [f"{value:,.1f}" if pd.notna(value) else "" for value in table[statistic]],
            "p": ["" if pd.isna(p) else "< 0.0001" if p < 1e-4 else f"{p:.4f}" for p in table["p_value"]],
        }
    )
    if any(notes):
        shown["note"] = table["note"]
    rows = shown.to_html(index=False, border=0, classes="remarks" if any(notes) else None)
    return f"<p>Joint tests that a term has no effect:</p>{rows}"


LISTED = 20


def flagged(table: pd.DataFrame) -> str:
    """The coefficients that have no estimate, and why."""
    separated = [name_of(one) for one in table[table["status"] == "separated"].itertuples()]
    aliased = [
        f"{name_of(one)} ({'=' if one.aliased_with != NO_ROWS else ''} {one.aliased_with})".replace("( ", "(")
        for one in table[table["status"] == "aliased"].itertuples()
    ]
    said = {
        "Without a finite estimate, as the responses of their rows are all alike (separated)": separated,
        "Aliased, that is made of other columns and so without a coefficient of their own": aliased,
    }
    return "".join(f"<p>{what}: {html.escape(listed(names))}.</p>" for what, names in said.items() if names)


def name_of(row) -> str:
    return f"{row.term} {row.level}".strip()


def listed(names: list[str]) -> str:
    more = f"; and {len(names) - LISTED:,} more" if len(names) > LISTED else ""
    return "; ".join(names[:LISTED]) + more


def passport(fits: list[dict]) -> str:
    """What is needed to get the same numbers again, by model; all have the same data."""
    passports = {fit["model"]: fit["passport"] for fit in fits}
    by_chance = [fit["model"] for fit in fits if "online" in fit and not fit["online"]["synchronous"]]
    but = (
        f", but for {', '.join(by_chance)}: in which order the workers of an online solver push is a matter of chance, "
        f"unless they are <code>synchronous</code>"
        if by_chance
        else ""
    )
    said = next(iter(passports.values()))
    inputs = pd.DataFrame(said["inputs"]).to_html(index=False, border=0)
    versions = ", ".join(f"{name} {version}" for name, version in said["versions"].items())
    commands = "\n".join(one["command"] for one in passports.values())
    config = {"data": said["data"], "models": {name: one["model"] for name, one in passports.items()}}
    return (
        f"<h2>To get the same numbers</h2>{inputs}<p>Versions: {html.escape(versions)}. With these files and this "
        f"configuration, these commands give the same digits on a like processor{but}:</p><pre>{html.escape(commands)}</pre>"
        f"<pre>{html.escape(yaml.safe_dump(config, sort_keys=False))}</pre>"
    )


if __name__ == "__main__":
    parser = command.parser(__doc__)
    parser.add_argument("--rows", type=Path, required=True, help="what merge_dictionary.py wrote")
    parser.add_argument("--models", type=Path, nargs="+", required=True, help="their folders under results/models")
    parser.add_argument("--held-out", action="store_true", help="whether there is a metrics.json of rows kept back")
    parser.add_argument("--page", type=Path, required=True, help="HTML page to write")
    command.run(main, parser.parse_args())
