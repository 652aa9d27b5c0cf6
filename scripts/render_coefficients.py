"""Show the coefficient table to a reader: a picture, and a page."""

import argparse
from pathlib import Path
from statistics import NormalDist

import numpy as np

from tfglm import command, digests
from tfglm.config import ResultsConfig, add_settings
from tfglm.families import family_of_fit
from tfglm.report.class_effects import classes_compared, effect_and_ratio
from tfglm.report.coefficient_rows import CODED
from tfglm.report.coefficients import sheet
from tfglm.report.drawing import use_colour
from tfglm.report.embedded import panels
from tfglm.report.forest import coefficient_plot
from tfglm.report.pages import read_table, render
from tfglm.report.words import Words, minus
from tfglm.results import csv_files, options
from tfglm.results.accuracy import SERIAL
from tfglm.results.compare import family_words


def main(arguments: argparse.Namespace) -> None:
    use_colour(arguments.colour)
    fit = digests.read_json(arguments.fit)
    table = read_table(arguments.table, arguments.fit)
    effects = csv_files.read(arguments.effects, arguments.fit, ("term", "column", "at")) if arguments.effects else None
    family = family_of_fit(fit)
    effect, ratio = effect_and_ratio(fit, family.effect, family.ratio)
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
    words = Words.of_json(arguments.words)
    coefficient_plot(shown, effects, title, effect, ratio, arguments.plots, words)
    page = render(
        "coefficients",
        fit=fit,
        in_words=in_words(fit),
        effect=effect,
        ratio=ratio.replace("_", " ") if ratio else "",
        coded=bool(table["term"].str.contains(CODED).any()),
        by_cluster=fit["std_errors"]["kind"] in ("cluster", *SERIAL),
        sheet=sheet(table, ratio, arguments.settings.confidence, words),
        picture=panels(arguments.plots[0]),
    )
    arguments.page.write_text(page)


PENALTIES = (("lasso", "l1"), ("ridge", "l2"))


def in_words(fit: dict) -> str:
    """The fit in two sentences."""
    lost = fit["rows_of_separated_levels"]
    separated = f" ({lost:,} of them in separated levels)" if lost else ""
    alone = fit.get("absorbed", {}).get("rows_of_singletons", 0)
    separated += f" ({alone:,} of them in absorbed levels of one row, which tell nothing)" if alone else ""
    across = fit.get("rows_separated_across_terms", 0)
    separated += f" ({across:,} of them separated by terms together)" if across else ""
    converged = "converged" if fit["converged"] else "did NOT converge"
    iterations = fit["iterations"]
    ended = f"{converged} after {iterations} iteration{'' if iterations == 1 else 's'}"
    if not fit["exact"]:
        online = fit["online"]
        ended = f"stopped after {online['epochs']} epochs ({online['steps']:,} steps) of {online['solver']}"
    against = f", {classes_compared(fit)}" if fit.get("classes") else ""
    likelihood = ""
    if fit["log_likelihood"] is not None:
        shown = [minus(f"{fit[key]:,.2f}") for key in ("log_likelihood", "aic")]
        likelihood = f"Log-likelihood {shown[0]}, AIC {shown[1]}. "
    family = family_words(fit, "family")
    parameters = "".join(f", {name} {fit[name]:.4g}" for name in ("theta", "power") if fit.get(name) is not None)
    coefficients = fit["coefficients"]
    of_null = "" if fit["null_deviance"] is None else f" of {fit['null_deviance']:,.2f}"
    return (
        f"{family[0].upper()}{family[1:]}{parameters}, {fit['rows']:,} rows{separated}, {coefficients:,} coefficient"
        f"{'' if coefficients == 1 else 's'}{against}{errors_in_words(fit)}; "
        f"{ended}. {likelihood}Deviance {fit['deviance']:,.2f}{of_null}.{collapsed_in_words(fit)}"
    )


def collapsed_in_words(fit: dict) -> str:
    """How many rows the fit has read, if equal ones were summed."""
    counts = fit.get("collapsed", {})
    if not counts.get("distinct_rows"):
        return ""
    return f" Its {counts['rows']:,} training rows were summed into {counts['distinct_rows']:,} that differ."


def errors_in_words(fit: dict) -> str:
    """What kind the standard errors are."""
    errors = fit["std_errors"]
    match errors["kind"]:
        case "cluster":
            return f", standard errors robust to {errors['clusters']:,} clusters of {errors['column'].replace(' + ', ' or ')}"
        case "newey_west" | "driscoll_kraay":
            near = f"{errors['lags']:,} of {errors['dates']:,} values of {errors['column']}"
            return f", standard errors robust to correlation over up to {near}"
        case "none":
            if "l1" not in fit:
                return ", no standard errors"
            penalties = [f"{name} penalty {fit[key]:.4g}" for name, key in PENALTIES if fit[key]]
            left = f", {fit['coefficients_not_zero']:,} of them not zero" if fit["l1"] else ""
            return f"{left}, {' and '.join(penalties)}"
        case kind:
            return f", {kind} standard errors"


if __name__ == "__main__":
    parser = command.parser(__doc__)
    parser.add_argument("--table", type=Path, required=True, help="what tabulate_coefficients.py wrote")
    parser.add_argument("--fit", type=Path, required=True, help="fit.json of the same fit")
    add_settings(parser, ResultsConfig)
    options.add_plots(parser)
    parser.add_argument(
        "--effects", type=Path, nargs="?", help="what tabulate_effects.py wrote, for splines and polynomials"
    )
    options.add_words(parser)
    parser.add_argument("--page", type=Path, required=True, help="HTML page to write")
    command.run(main, parser.parse_args())
