"""Write the page to open first: what was fitted on what, the effects in words, how well and how surely, and where the rest is."""

import argparse
import json
import os
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from tfglm import command, digests
from tfglm.config import ResultsConfig
from tfglm.families import family_of_fit
from tfglm.report import quality, sentences
from tfglm.report.class_effects import classes_compared, means_by_class, tell_by_class
from tfglm.report.pages import TEXTS, p_value, read_table, render
from tfglm.report.words import Words, decimals_of, fixed, plain
from tfglm.results import csv_files, options
from tfglm.results.accuracy import NO_ROWS, convergence, errors
from tfglm.results.compare import family_words, response_of

NAMES = {
    "coefficients.html": "all coefficients",
    "metrics.html": "how well it predicts",
    "coefficients.svg": "coefficients, picture",
    "effects.svg": "effects of numbers, picture",
    "ranked.svg": "levels by size, picture",
    "metrics.svg": "how well it predicts, picture",
    "history.svg": "how the fit went, picture",
    "coefficients.csv": "coefficients.csv",
    "rows.html": "Rows accounted for",
    "compare.html": "Models side by side",
}
"""What links to pages and files are called; others have their own name."""


def main(arguments: argparse.Namespace) -> None:
    rows = digests.read_json(arguments.rows)
    fits = [digests.read_json(folder / "fit.json") for folder in arguments.models]
    about = About(arguments)
    models = []
    for folder, fit in zip(arguments.models, fits, strict=True):
        metrics = digests.read_json(folder / "metrics.json", fit=folder / "fit.json") if arguments.held_out else {}
        models.append(of_model(fit, metrics, folder, about))
    page = render(
        "home",
        title=f"Results: {', '.join(fit['model'] for fit in fits)}" if len(fits) <= MOST_IN_TITLE else "Results",
        data=data(rows),
        models=models,
        pages=links([path for path in arguments.pages if path.parent not in arguments.models], arguments.page.parent),
        command=arguments.command,
        **provenance(fits),
    )
    arguments.page.write_text(page)


MOST_IN_TITLE = 3


def settings_by_model(text: str) -> dict[str, ResultsConfig]:
    return {name: ResultsConfig.model_validate(section) for name, section in json.loads(text).items()}


class About:
    """What is known beside the files of a model."""

    def __init__(self, arguments: argparse.Namespace):
        self.words = Words.of_json(arguments.words)
        columns = digests.read_json(arguments.dictionary)["columns"]
        ranges = {name: (column["minimum"], column["maximum"]) for name, column in columns.items()}
        self.spans = {name: high - low for name, (low, high) in ranges.items() if low is not None and high is not None}
        self.settings: dict[str, ResultsConfig] = arguments.settings
        self.folder = arguments.page.parent
        self.pages: list[Path] = arguments.pages
        self.marginal_effects: list[Path] = arguments.marginal_effects
        self.adjusted_means: list[Path] = arguments.adjusted_means


def links(paths: list[Path], folder: Path) -> list[dict]:
    """Pages, pictures and tables, in this order, with their addresses on a page in `folder`."""
    paths = sorted(paths, key=lambda path: (".html", ".svg", ".csv").index(path.suffix))
    return [
        {"name": NAMES.get(path.name, path.name), "address": Path(os.path.relpath(path, folder)).as_posix()}
        for path in paths
    ]


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


def of_model(fit: dict, metrics: dict, folder: Path, about: About) -> dict:
    """What the page says of a model."""
    response = response_of(fit)
    unit = about.words.units.get(response)
    known = {
        "fit": fit,
        "response": response,
        "unit": unit,
        "measures": quality.measures(metrics, response, unit),
        "how_well": quality.in_words(fit, metrics, unit),
        "pages": links([path for path in about.pages if path.parent == folder], about.folder),
    }
    if fit.get("kind") == "network":
        return known | of_network(fit)
    table = read_table(folder / "coefficients.csv", folder / "fit.json")
    effects = effects_of(fit, folder, about, table)
    tests, notes = joint_tests(folder / "terms.csv", folder / "fit.json")
    explained, settings = fit.get("r_squared", fit.get("pseudo_r_squared")), about.settings[fit["model"]]
    return known | {
        "is_network": False,
        "kind": family_words(fit, "regression"),
        "explained": "" if explained is None else f"{100 * explained:.1f} %",
        "regression": family_of_fit(fit).regression,
        "fitted": how_fitted(fit),
        "effects": effects,
        "averages": any("on average" in sentence for each in effects for sentence in each.sentences),
        "means": adjusted_means(fit, folder, about),
        "what_means": WHAT_MEANS[settings.adjusted_means],
        "confidence": settings.confidence,
        "errors": errors(fit),
        "convergence": convergence(fit),
        "tests": tests,
        "notes": notes,
        "without_estimate": without_estimate(table),
    }


def how_fitted(fit: dict) -> str:
    """What else stands beside the coefficients in a likelihood, or is added to it."""
    factors = [each["factor"] for each in fit.get("absorbed", {}).get("factors", [])]
    said = [f"{' and '.join(factors)} absorbed"] if factors else []
    said += ["by Firth's penalised likelihood"] if fit.get("firth") else []
    said += [classes_compared(fit)] if fit.get("classes") else []
    return "".join(f", {each}" for each in said)


def effects_of(fit: dict, folder: Path, about: About, table: pd.DataFrame) -> list[sentences.Told]:
    """The effects of a regression in sentences, from its table of coefficients."""
    slopes = [path for path in about.marginal_effects if path.parent == folder]
    averages = (
        csv_files.read(slopes[0], folder / "fit.json", MARGINAL_TEXTS)
        if slopes
        else pd.DataFrame(columns=["estimate", "ci_lower", "ci_upper"])
    )
    if not fit.get("classes"):
        return sentences.tell(table, told_of(fit, about, averages))
    by_class = csv_files.read(folder / "coefficients.csv", folder / "fit.json", TEXTS)
    return tell_by_class(by_class, averages, told_of(fit, about, averages), fit["reference_class"])


def told_of(fit: dict, about: About, averages: pd.DataFrame) -> sentences.Model:
    """What the sentences on a regression need to know."""
    response, family = response_of(fit), family_of_fit(fit)
    return sentences.Model(
        response,
        about.words.units.get(response),
        family.ratio.removesuffix("_ratio") if family.ratio else None,
        fit.get("sigma") or 1.0,
        about.words,
        about.spans,
        sentences.slopes(averages),
        {each["term"] for each in fit.get("nearly_aliased", [])},
        family.counts_events or bool(fit.get("classes")),
        family.ratio is None and not family.quadratic,
    )


WHAT_MEANS = {
    "observed": "The mean prediction if all training rows had the level and kept their other covariates.",
    "balanced": "The prediction for a balanced grid: all combinations of the other factors count the same, however many rows "
    "they have, numbers are at their means, and linear predictors are averaged, as R's emmeans does.",
}
"""What the page says of adjusted means, by the key of the config."""
MARGINAL_TEXTS = ["class", "term", "level", "reference", "status"]


def adjusted_means(fit: dict, folder: Path, about: About) -> list[tuple[str, pd.DataFrame]]:
    """The adjusted means of each factor of a model, as tables for readers; none where they were not computed."""
    paths = [path for path in about.adjusted_means if path.parent == folder]
    if not paths:
        return []
    table = csv_files.read(paths[0], folder / "fit.json", MARGINAL_TEXTS)
    if "class" in table:
        return means_by_class(table, response_of(fit), about.words)
    of_probabilities, shown = family_of_fit(fit).counts_events, []
    for term, rows in table.dropna(subset=["mean"]).groupby("term", sort=False):
        # All of a term with the same decimals, so that they stand in line.
        factor, unit, decimals = (100.0, " %", 1) if of_probabilities else (1.0, "", decimals_of(rows["std_error"]))

        def written(value: float, factor: float = factor, unit: str = unit, decimals: int = decimals) -> str:
            return "" if pd.isna(value) else f"{fixed(factor * value, decimals)}{unit}"

        numbers = {"mean": rows["mean"], "from": rows["ci_lower"], "to": rows["ci_upper"]}
        columns = {
            "level": [about.words.level(str(term), level) for level in rows["level"]],
            **{name: values.map(written) for name, values in numbers.items()},
            "rows": rows["rows"].map("{:,.0f}".format),
        }
        # What holds for all of them, as of a penalised fit, is said below.
        if rows["status"].nunique() > 1:
            columns["note"] = rows["status"]
        shown.append((plain(str(term)), pd.DataFrame(columns)))
    return shown


def of_network(fit: dict) -> dict:
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
        "is_network": True,
        "kind": f"{fit['family']} network",
        "explained": "",
        "parts": parts,
        "chosen": chosen if fit["weights_by_held_out_loss"] else None,
    }


def joint_tests(path: Path, fit: Path) -> tuple[pd.DataFrame | None, list[str]]:
    """The joint tests with what there is to say of each; if there are none and one reason for it, no table but that reason."""
    table = csv_files.read(path, fit, ["term", "note"])
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
    aliased = [f"{name_of(row)}{made_of(row.aliased_with)}" for row in table[table["status"] == "aliased"].itertuples()]
    reasons = {
        "Without a finite estimate, as the responses of their rows are all alike (separated)": separated,
        "Not identified, as only rows that terms separate together tell of them": [
            name_of(row) for row in table[table["status"] == "not identified"].itertuples()
        ],
        "Aliased, that is made of other columns and so without a coefficient of their own": aliased,
    }
    return [f"{reason}: {listed(names)}." for reason, names in reasons.items() if names]


def made_of(columns: str) -> str:
    """What an aliased coefficient is made of, in brackets; absorbed factors have no columns to name."""
    return f" ({columns if columns == NO_ROWS else f'= {columns}'})" if columns else ""


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
        "inputs": pd.DataFrame(first["inputs"]).assign(rows=lambda inputs: inputs["rows"].map("{:,}".format)),
        "versions": ", ".join(f"{name} {version}" for name, version in first["versions"].items()),
        "by_chance": [fit["model"] for fit in fits if "online" in fit and not fit["online"]["synchronous"]],
        "config": yaml.safe_dump(config, sort_keys=False),
    }


if __name__ == "__main__":
    parser = command.parser(__doc__)
    parser.add_argument("--rows", type=Path, required=True, help="the account of rows that merge_dictionary.py wrote")
    parser.add_argument("--dictionary", type=Path, required=True, help="the dictionary that it wrote")
    parser.add_argument("--models", type=Path, nargs="+", required=True, help="their folders")
    parser.add_argument(
        "--settings", type=settings_by_model, required=True, help="keys of the regressions by model, JSON"
    )
    options.add_words(parser)
    parser.add_argument("--held-out", action="store_true", help="whether there is a metrics.json of held-out rows")
    parser.add_argument("--pages", type=Path, nargs="*", default=[], help="pages and files to link to")
    parser.add_argument("--marginal-effects", type=Path, nargs="*", default=[], help="marginal_effects.csv of models")
    parser.add_argument("--adjusted-means", type=Path, nargs="*", default=[], help="adjusted_means.csv of models")
    parser.add_argument("--command", required=True, help="what makes these results again")
    parser.add_argument("--page", type=Path, required=True, help="HTML page to write")
    command.run(main, parser.parse_args())
