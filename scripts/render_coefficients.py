"""Show the coefficient table to a reader: a picture, and a page."""

import argparse
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pandas as pd

from tfglm import command, digests
from tfglm.config import ResultsConfig, add_settings
from tfglm.families import FAMILIES
from tfglm.report.pages import four_digits, p_value, read_table, render
from tfglm.report.plots import coefficient_plot, ranked_plot, use_colour
from tfglm.results import options


def main(arguments: argparse.Namespace) -> None:
    use_colour(arguments.colour)
    fit = digests.read_json(arguments.fit)
    table = read_table(arguments.table)
    effect = FAMILIES[fit["family"]].effect
    intervals = "confidence intervals"
    shown = table
    if "posterior_sd" in table:
        intervals = "posterior intervals"
        margin = NormalDist().inv_cdf(0.5 + arguments.settings.confidence / 2) * table["posterior_sd"]
        shown = table.assign(ci_lower=table["estimate"] - margin, ci_upper=table["estimate"] + margin)
    elif fit["std_errors"]["kind"] == "none":
        shown = table.assign(ci_lower=np.nan, ci_upper=np.nan)
    title = f"{fit['model']}: estimates with {100 * arguments.settings.confidence:g} % {intervals}"
    if shown["ci_lower"].isna().all():
        title = f"{fit['model']}: estimates"
    coefficient_plot(shown, title, effect, arguments.plots)
    ranked_plot(shown, title, effect, arguments.ranked)
    page = render("coefficients", fit=fit, in_words=in_words(fit), coefficients=readable(table))
    arguments.page.write_text(page)


PENALTIES = (("lasso", "l1"), ("ridge", "l2"))


def in_words(fit: dict) -> str:
    """The fit in two sentences."""
    separated = (
        f" ({fit['rows_of_separated_levels']:,} of them in separated levels)" if fit["rows_of_separated_levels"] else ""
    )
    converged = "converged" if fit["converged"] else "did NOT converge"
    ended = f"{converged} after {fit['iterations']} iterations"
    if not fit["exact"]:
        online = fit["online"]
        ended = f"stopped after {online['epochs']} epochs ({online['steps']:,} steps) of {online['solver']}"
    likelihood = (
        "" if fit["log_likelihood"] is None else f"Log-likelihood {fit['log_likelihood']:,.2f}, AIC {fit['aic']:,.2f}. "
    )
    return (
        f"{fit['family'].capitalize()} family, {fit['rows']:,} rows{separated}, {fit['coefficients']:,} coefficients"
        f"{errors_in_words(fit)}; "
        f"{ended}. {likelihood}Deviance {fit['deviance']:,.2f} of {fit['null_deviance']:,.2f}."
    )


def errors_in_words(fit: dict) -> str:
    """What kind the standard errors are."""
    errors = fit["std_errors"]
    match errors["kind"]:
        case "cluster":
            return f", standard errors robust to {errors['clusters']:,} clusters of {errors['column']}"
        case "none":
            if "l1" not in fit:
                return ", no standard errors"
            penalties = [f"{name} penalty {fit[key]:.4g}" for name, key in PENALTIES if fit[key]]
            left = f", {fit['coefficients_not_zero']:,} of them not zero" if fit["l1"] else ""
            return f"{left}, {' and '.join(penalties)}"
        case kind:
            return f", {kind} standard errors"


def readable(table: pd.DataFrame) -> pd.DataFrame:
    """The table with as many digits as a reader wants; the CSV has them all."""
    written = table.drop(columns=["reference"]).copy()
    written = written.drop(columns=written.columns.intersection(["neg_log10_p"]))
    for name in written.columns.intersection(ROUNDED):
        written[name] = ["" if pd.isna(value) else four_digits(value) for value in table[name]]
    for name in written.columns.intersection(["z", "t"]):
        written[name] = [f"{value:.2f}" if pd.notna(value) else "" for value in table[name]]
    if "p_value" in written:
        written["p_value"] = table["p_value"].map(p_value)
    if "df" in written:
        written["df"] = [f"{value:.1f}" if pd.notna(value) else "" for value in table["df"]]
    for name in written.columns.intersection(["rows", "events"]):
        written[name] = [f"{value:,.0f}" for value in table[name]]
    is_reference = (table["estimate"] == 0) & (table["reference"] != "") & table["std_error"].isna()
    written.loc[is_reference, "status"] = "reference"
    return written


ROUNDED = (
    *("estimate", "std_error", "classical_std_error", "posterior_sd", "ci_lower", "ci_upper"),
    *(family.ratio for family in FAMILIES.values() if family.ratio),
)


if __name__ == "__main__":
    parser = command.parser(__doc__)
    parser.add_argument("--table", type=Path, required=True, help="what tabulate_coefficients.py wrote")
    parser.add_argument("--fit", type=Path, required=True, help="fit.json of the same fit")
    add_settings(parser, ResultsConfig)
    options.add_plots(parser)
    parser.add_argument("--ranked", type=Path, nargs="+", required=True, help="pictures of the levels by size to write")
    parser.add_argument("--page", type=Path, required=True, help="HTML page to write")
    command.run(main, parser.parse_args())
