"""Say in plain words what was fitted on what, how well and how surely: the first page of the report."""

import argparse
import html
import json
from pathlib import Path

import pandas as pd
import yaml

from tfglm import command
from tfglm.results.pages import four_digits, page, read_table, response_of


def main(arguments: argparse.Namespace) -> None:
    rows = json.loads(arguments.rows.read_text())
    fits = [json.loads((folder / "fit.json").read_text()) for folder in arguments.models]
    sections = [data(rows)]
    for folder, fit in zip(arguments.models, fits, strict=True):
        metrics = json.loads((folder / "metrics.json").read_text()) if arguments.held_out else {}
        sections.append(of_model(fit, metrics, folder))
    sections.append(passport({fit["model"]: fit["passport"] for fit in fits}))
    arguments.page.write_text(page("What was fitted, how well, how surely", "".join(sections), "", text_columns=1))


def data(rows: dict) -> str:
    """What the rows are."""
    used = {split: one["used"] for split, one in rows["splits"].items() if one["used"]}
    uses = {"train": "to fit the models", "evaluate": "kept back to evaluate them", "predict": "only to predict"}
    shares = ", ".join(f"{count:,} {uses[split]}" for split, count in used.items())
    left = rows["read"] - sum(used.values())
    files = len(rows["files"])
    return (
        f"<p>{files} input file{'s' if files > 1 else ''} with {rows['read']:,} rows: {shares}, and {left:,} left out, each for "
        f"a reason that the page “rows accounted for” gives.</p>"
    )


RESPONSES = {
    "binomial": "A logistic regression of the probability of <code>{}</code>",
    "gaussian": "A linear regression of <code>{}</code>",
    "poisson": "A Poisson regression of the count <code>{}</code>",
}


def of_model(fit: dict, metrics: dict, folder: Path) -> str:
    said = [
        f"<h2>{html.escape(fit['model'])}</h2>",
        f"<p>{RESPONSES[fit['family']].format(html.escape(response_of(fit)))} on {fit['rows']:,} rows: "
        f"<code>{html.escape(fit['formula'])}</code>, {fit['coefficients']:,} coefficients.</p>",
        f"<p><b>How well.</b> {how_well(fit, metrics)}</p>",
        f"<p><b>How surely.</b> {how_surely(fit)}</p>",
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


def how_surely(fit: dict) -> str:
    errors = fit["std_errors"]
    kinds = {
        "classical": "classical: right if rows are independent and the family's variance is true",
        "quasi": "classical, with the dispersion estimated",
        "robust": "robust to a wrong variance (HC1)",
        "cluster": f"robust to rows with the same {html.escape(str(errors.get('column')))} being alike "
        f"({errors.get('clusters') or 0:,} clusters)",
        "none": "none, as the fit is penalised or not exact",
    }
    said = f"Standard errors: {kinds[errors['kind']]}. "
    certificate = fit["certificate"]
    if "largest_kkt_violation" in certificate:
        reached = f"the largest violation of the optimality conditions is {certificate['largest_kkt_violation']:.1e}"
    elif fit["exact"] and "lambda_squared" in certificate:
        root = certificate["lambda_squared"] ** 0.5
        reached = f"every estimate is within {max(root, 1e-16):.0e} standard errors of the maximum of the likelihood"
    else:
        reached = "the solver is an online one, which stops near the maximum"
    return said + ("The fit converged: " if fit["converged"] else "The fit did NOT converge: ") + reached + "."


def terms(path: Path) -> str:
    """The joint tests."""
    table = pd.read_csv(path, keep_default_na=False, na_values=[""])
    if table["p_value"].isna().all():
        return ""
    shown = pd.DataFrame(
        {
            "term": table["term"],
            "coefficients": table["df"],
            "chi-squared": [f"{value:,.1f}" if pd.notna(value) else "" for value in table["chi_squared"]],
            "p": ["" if pd.isna(p) else "< 0.0001" if p < 1e-4 else f"{p:.4f}" for p in table["p_value"]],
        }
    )
    return "<p>Joint tests that a term has no effect:</p>" + shown.to_html(index=False, border=0)


def flagged(table: pd.DataFrame) -> str:
    """The coefficients that have no estimate."""
    found = []
    for status in ("separated", "aliased"):
        names = [f"{one.term} {one.level}".strip() for one in table[table["status"] == status].itertuples()]
        if names:
            more = f" and {len(names) - 20} more" if len(names) > 20 else ""
            found.append(f"<p>Without a finite estimate ({status}): {html.escape(', '.join(names[:20]))}{more}.</p>")
    return "".join(found)


def passport(passports: dict[str, dict]) -> str:
    """What is needed to get the same numbers again, by model; all have the same data."""
    said = next(iter(passports.values()))
    inputs = pd.DataFrame(said["inputs"]).to_html(index=False, border=0)
    versions = ", ".join(f"{name} {version}" for name, version in said["versions"].items())
    commands = "\n".join(one["command"] for one in passports.values())
    config = {"data": said["data"], "models": {name: one["model"] for name, one in passports.items()}}
    return (
        f"<h2>To get the same numbers</h2>{inputs}<p>Versions: {html.escape(versions)}. With these files and this "
        f"configuration, these commands give the same digits on a like processor:</p><pre>{html.escape(commands)}</pre>"
        f"<pre>{html.escape(yaml.safe_dump(config, sort_keys=False))}</pre>"
    )


if __name__ == "__main__":
    parser = command.parser(__doc__)
    parser.add_argument("--rows", type=Path, required=True, help="what merge_dictionary.py wrote")
    parser.add_argument("--models", type=Path, nargs="+", required=True, help="their folders under results/models")
    parser.add_argument("--held-out", action="store_true", help="whether there is a metrics.json of rows kept back")
    parser.add_argument("--page", type=Path, required=True, help="HTML page to write")
    command.run(main, parser.parse_args())
