"""The page to open first: what was fitted on what, the effects in words, how well and how surely, and where the rest is."""

import argparse
import json
import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from tfglm import digests
from tfglm.config import ResultsConfig
from tfglm.config.models import columns_of
from tfglm.errors import counted
from tfglm.families import family_of_fit
from tfglm.report import quality, sentences
from tfglm.report.circumstances import circumstances
from tfglm.report.class_effects import (
    classes_compared,
    compares_classes,
    effect_and_ratio,
    tell_by_class,
    tell_of_order,
    with_labels_of_classes,
)
from tfglm.report.drawn_means import DrawnMeans, by_factor, means_by_class, means_of_factor
from tfglm.report.layer_graph import layer_graph
from tfglm.report.pages import TEXTS, p_value, read_table, render
from tfglm.report.pairs import TEXTS as TEXTS_OF_PAIRS
from tfglm.report.pairs import Pairs, pairs_of
from tfglm.report.scenarios import Scenarios, scenarios_of
from tfglm.report.strongest import short_table, strongest_effects
from tfglm.report.words import RANDOM, Words
from tfglm.results import csv_files
from tfglm.results.accuracy import NO_ROWS, convergence, errors
from tfglm.results.compare import family_words, response_of
from tfglm.results.geometric import logarithm_of
from tfglm.results.paper import absorbed_factors

NAMES = {
    "coefficients.html": "all coefficients",
    "metrics.html": "how well it predicts",
    "coefficients.svg": "coefficients, picture",
    "effects.svg": "effects of numbers, picture",
    "ranked.svg": "levels by size, picture",
    "metrics.svg": "how well it predicts, picture",
    "history.svg": "how the fit went, picture",
    "coefficients.csv": "coefficients.csv",
    "columns.html": "The data",
    "diagnostics.html": "diagnostics",
    "contrasts.html": "contrasts",
    "hypotheses.html": "hypotheses",
    "rows.html": "Rows accounted for",
    "compare.html": "Models side by side",
}
"""What links to pages and files are called; others have their own name."""


def page(arguments: argparse.Namespace) -> str:
    """Return the page, from the options of `write_pages.py home`."""
    rows = digests.read_json(arguments.rows, needs=["data"])
    fits = [digests.read_json(folder / "fit.json") for folder in arguments.models]
    for folder, fit in zip(arguments.models, fits, strict=True):
        digests.check_rows(fit, rows["data"], arguments.rows, folder / "fit.json")
    about = About(arguments, rows["data"])
    models = []
    for folder, fit in zip(arguments.models, fits, strict=True):
        metrics = digests.read_json(folder / "metrics.json", fit=folder / "fit.json") if arguments.held_out else {}
        models.append(regression_content(fit, metrics, folder, about))
    return render(
        "home",
        title=f"Results: {', '.join(fit['model'] for fit in fits)}" if len(fits) <= MOST_IN_TITLE else "Results",
        own=about.own_names(),
        data=data(rows),
        models=models,
        pages=links([path for path in arguments.pages if path.parent not in arguments.models], arguments.page.parent),
        command=arguments.command,
        **provenance(fits),
    )


MOST_IN_TITLE = 3


def settings_by_model(text: str) -> dict[str, ResultsConfig]:
    return {name: ResultsConfig.model_validate(section) for name, section in json.loads(text).items()}


class About:
    """Facts about a model besides its files."""

    def __init__(self, arguments: argparse.Namespace, data: list[str]):
        self.account = digests.read_json(arguments.rows, needs=["read", "dropped", "splits"])
        dictionary = digests.read_json(arguments.dictionary, needs=["columns", "data"])
        if dictionary["data"] != data:
            raise digests.made_from_another("set of rows", arguments.dictionary, arguments.rows)
        self.columns = dictionary["columns"]
        self.words = Words.from_json(arguments.words, self.columns)
        self.settings: dict[str, ResultsConfig] = arguments.settings
        self.folder = arguments.page.parent
        self.pages: list[Path] = arguments.pages

    def own_names(self) -> Iterator[str]:
        """The user's words: columns, levels and their labels."""
        yield from self.columns
        yield from self.words.names.values()
        yield from chain.from_iterable(labels.values() for labels in self.words.labels.values())
        for column in self.columns.values():
            yield from (column["levels"] or []) if column["kind"] == "text" else []


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
    return f"{counted(len(rows['files']), 'input file')} with {counted(rows['read'], 'row')}: {shares}, and {others}."


def regression_content(fit: dict, metrics: dict, folder: Path, about: About) -> dict:
    """Return the content of the page about a regression."""
    response = response_of(fit)
    unit = about.words.units.get(response)
    known = {
        "fit": fit,
        "response": about.words.column(response),
        "column": response,
        "unit": unit,
        "measures": quality.measures(metrics, response, unit),
        "how_well": quality.in_words(fit, metrics, unit),
        "pages": links([path for path in about.pages if path.parent == folder], about.folder),
        "circumstances": circumstances(fit, about.account, about.columns),
    }
    if fit.get("kind") == "network":
        return known | network_content(fit)
    table = read_table(folder / "coefficients.csv", folder / "fit.json")
    averages = averages_of(fit, folder, about)
    effects = effects_of(fit, folder, about, table, averages)
    labelled = with_labels_of_classes(table, response, about.words) if compares_classes(fit) else table
    tests, notes = joint_tests(folder / "terms.csv", folder / "fit.json", about.words)
    logarithm = logarithm_of(fit["formula"], fit["family"], fit.get("link"))
    measure, ratio = effect_and_ratio(fit, family_of_fit(fit).effect, family_of_fit(fit).ratio)
    if logarithm:
        ratio = "ratio of geometric means"
    # The mean is the linear predictor: an average effect has the scale of a coefficient.
    alike = averages if family_of_fit(fit).quadratic and not family_of_fit(fit).ratio else None
    explained, settings = fit.get("r_squared", fit.get("pseudo_r_squared")), about.settings[fit["model"]]
    return known | {
        "is_network": False,
        "kind": family_words(fit, "regression"),
        "explained": "" if explained is None else f"{100 * explained:.1f} %",
        "regression": family_of_fit(fit).regression,
        "fitted": how_fitted(fit, about.words),
        "effects": effects,
        "drawn": strongest_effects(labelled, measure, ratio, logarithm.rate if logarithm else 1.0, about.words, alike),
        "short": short_table(labelled, fit.get("df_residual"), about.words),
        "averages": any("on average" in sentence for each in effects for sentence in each.sentences),
        "may_diagnose": not (
            fit.get("classes") or any(path.name == "diagnostics.html" for path in about.pages if path.parent == folder)
        ),
        "curves": curves(fit, folder, about),
        "means": adjusted_means(fit, folder, about),
        "pairs": pairs(fit, folder, about, measure, ratio),
        "scenarios": scenarios(fit, folder, about),
        "what_means": WHAT_MEANS[settings.adjusted_means] + offset_in_words(fit, settings),
        "scale": f" Means of {response} are shown as geometric means of {logarithm.quantity}, and their differences as ratios."
        if logarithm
        else "",
        "population": population_in_words(fit, settings, about.words),
        "confidence": settings.confidence,
        "errors": errors(fit),
        "convergence": convergence(fit),
        "tests": tests,
        "parallel": parallel_slopes(fit, about.words),
        "notes": notes,
        "without_estimate": without_estimate(table),
    }


def how_fitted(fit: dict, words: Words) -> str:
    """Say how the model was fitted: absorbed factors, Firth's penalty, and the compared classes."""
    factors = absorbed_factors(fit)
    said = [f"{' and '.join(factors)} absorbed"] if factors else []
    said += ["by Firth's penalised likelihood"] if fit.get("firth") else []
    said += [classes_compared(fit, words)] if fit.get("classes") else []
    return "".join(f", {each}" for each in said)


def averages_of(fit: dict, folder: Path, about: About) -> pd.DataFrame:
    """The average marginal effects; no rows where they were not computed."""
    if not about.settings[fit["model"]].marginal_effects:
        return pd.DataFrame(columns=["term", "level", "estimate", "std_error", "p_value", "ci_lower", "ci_upper"])
    return csv_files.read(folder / "marginal_effects.csv", folder / "fit.json", MARGINAL_TEXTS)


def effects_of(
    fit: dict, folder: Path, about: About, table: pd.DataFrame, averages: pd.DataFrame
) -> list[sentences.TermSentences]:
    """The effects of a regression in sentences, from its table of coefficients and its average marginal effects."""
    if not fit.get("classes"):
        return sentences.tell(table, sentence_facts(fit, about, averages))
    facts = sentence_facts(fit, about, averages)
    if fit.get("ordered"):
        return tell_of_order(table, averages, facts, response_of(fit), fit["classes"])
    by_class = csv_files.read(folder / "coefficients.csv", folder / "fit.json", TEXTS)
    return tell_by_class(by_class, averages, facts, response_of(fit), fit["reference_class"])


def sentence_facts(fit: dict, about: About, averages: pd.DataFrame) -> sentences.ModelFacts:
    """Return the facts about a regression that its sentences need."""
    response, family = response_of(fit), family_of_fit(fit)
    return sentences.ModelFacts(
        about.words.column(response),
        about.words.units.get(response),
        family.ratio.removesuffix("_ratio") if family.ratio else None,
        fit.get("sigma") or 1.0,
        about.words,
        sentences.slopes(averages),
        {each["term"] for each in fit.get("nearly_aliased", [])},
        family.counts_events or bool(fit.get("classes")),
        family.ratio is None and not family.quadratic,
        logarithm_of(fit["formula"], fit["family"], fit.get("link")),
    )


def offset_in_words(fit: dict, settings: ResultsConfig) -> str:
    """Say which offset adjusted means have, if the model has one."""
    offset = fit["provenance"]["model"].get("offset")
    if not offset:
        return ""
    if settings.offset_at is None:
        return f" Each row has its own offset, {offset}."
    return f" The offset is that of {' and '.join(columns_of(offset))} = {settings.offset_at:g}."


def population_in_words(fit: dict, settings: ResultsConfig, words: Words) -> str:
    """Say what averages are about beside random effects; '' without these."""
    random = [RANDOM.fullmatch(smooth["term"]) for smooth in fit.get("smooths", []) if smooth["is_random"]]
    names = " and ".join(dict.fromkeys(words.column(match[1]) for match in random if match))
    if not names:
        return ""
    if family_of_fit(fit).quadratic:
        return f" Averages are about the population of {names}, not about its levels in these rows."
    if settings.random_effects == "integrated":
        return (
            f" Averages are over the normal distribution of the random effects of {names}; coefficients compare rows with the "
            "same random effects."
        )
    return (
        f" Random effects of {names} are at 0: averages are those of a typical level, not the mean over all levels of the "
        "population, which random_effects: integrated gives."
    )


WHAT_MEANS = {
    "observed": "The mean prediction if all training rows had the level and kept their other covariates.",
    "balanced": "The prediction for a balanced grid: all combinations of the other factors count equally, whatever "
    "their number of rows; numbers are at their means, and linear predictors are averaged, as in R's emmeans.",
}
"""The text about adjusted means, by the key of the config."""
MARGINAL_TEXTS = ["class", "term", "level", "reference", "status", "about"]


def adjusted_means(fit: dict, folder: Path, about: About) -> list[DrawnMeans]:
    """The adjusted means of each factor of a model, drawn and as tables; none where they were not computed."""
    if not about.settings[fit["model"]].marginal_effects:
        return []
    table = csv_files.read(folder / "adjusted_means.csv", folder / "fit.json", MARGINAL_TEXTS)
    if "class" in table:
        return means_by_class(table, response_of(fit), about.words)
    is_share = family_of_fit(fit).counts_events
    return [means_of_factor(str(term), rows, is_share, about.words) for term, rows in by_factor(table)]


def pairs(fit: dict, folder: Path, about: About, effect: str, ratio: str | None) -> list[Pairs]:
    """All pairs of levels of the factors that the config names; `effect` and `ratio` are the names of a difference and of its
    exponential, if this has a meaning."""
    if not about.settings[fit["model"]].pairwise:
        return []
    table = csv_files.read(folder / "pairwise.csv", folder / "fit.json", TEXTS_OF_PAIRS)
    logarithm = logarithm_of(fit["formula"], fit["family"], fit.get("link"))
    rate = logarithm.rate if logarithm else 1.0 if ratio else None
    measure = (ratio or effect).replace("_", " ")
    return list(pairs_of(table, measure, rate, response_of(fit), about.words))


def curves(fit: dict, folder: Path, about: About) -> dict | None:
    """The shapes of the curves of a model in words, and the address of their picture; None without curves."""
    picture = folder / "effects.svg"
    if picture not in about.pages:
        return None
    from tfglm.report import shapes  # imports matplotlib, which a page without curves does not need

    effects = csv_files.read(folder / "effects.csv", folder / "fit.json", shapes.TEXTS)
    (link,) = links([picture], about.folder)
    return {"shapes": shapes.shapes_of(fit, effects, about.words), "picture": link["address"]}


def parallel_slopes(fit: dict, words: Words) -> tuple[str, pd.DataFrame] | None:
    """What the tests of parallel slopes of ordered classes say: a sentence, and the test of each term."""
    tested = fit.get("parallel_slopes", {}).get("tests")
    if not tested:
        return None
    every, *of_terms = tested
    what = "The odds are proportional" if fit["link"] == "logit" else "Slopes are parallel"
    said = f"{what} if each term has the same slope at each boundary between classes. "
    if every["p_value"] is None:
        said += "There is no test of all terms together, as some levels have too few rows of some classes."
    else:
        p = p_value(every["p_value"])
        said += f"Score test of this: chi-squared {every['chi_squared']:,.1f}, {every['df']} degrees of freedom, "
        said += f"p {p if p.startswith('<') else f'= {p}'}."
    shown = pd.DataFrame(
        {
            "term": [words.term(test["term"]) for test in of_terms],
            "df": [str(test["df"]) for test in of_terms],
            "chi-squared": ["" if test["chi_squared"] is None else f"{test['chi_squared']:,.1f}" for test in of_terms],
            "p": [p_value(test["p_value"]) for test in of_terms],
        }
    )
    return said, shown


def scenarios(fit: dict, folder: Path, about: About) -> Scenarios | None:
    """The means and effects in scenarios, if the config has some."""
    wanted = about.settings[fit["model"]].margins_at
    if not wanted:
        return None
    table = csv_files.read(folder / "margins_at.csv", folder / "fit.json", ["at", "against", *MARGINAL_TEXTS])
    is_share = family_of_fit(fit).counts_events
    return scenarios_of(table, wanted, fit["rows_in_likelihood"], response_of(fit), is_share, about.words)


def network_content(fit: dict) -> dict:
    """Return the content of the page about a network."""
    layers, offset = fit["layers"], fit["layers"]["offset_from"]
    hidden = ", ".join(f"{units:,}" for units in layers["hidden"])
    filters = ", ".join(f"{number:,}" for number in layers["convolutions"])
    kernel = layers["kernel"]
    precision = " in bfloat16" if layers.get("precision") == "mixed_bfloat16" else ""
    parts = [f"convolutions with {filters} filters of {kernel} x {kernel} pixels"] if filters else []
    parts += [f"hidden layers of {hidden} units ({layers['activation']}){precision}"] if hidden else []
    parts += [f"the layers of {layers['model']}{precision}"] if layers["model"] else []
    parts += ["a coefficient for each level and number"] if layers["wide"] or not parts else []
    parts += [f"the linear predictor of {offset}"] if offset else []
    chosen = fit.get("epoch_of_smallest_loss")
    return {
        "is_network": True,
        "kind": f"{fit['family']} network",
        "explained": "",
        "parts": parts,
        "layers": layers_table(fit["summary"]),
        "picture": layer_graph(fit["summary"], f"Layers of {fit['model']}, from the inputs to the output"),
        "chosen": chosen if fit["weights_by_held_out_loss"] else None,
    }


def layers_table(summary: list[dict]) -> pd.DataFrame:
    """The layers of a network as a reader wants them."""
    return pd.DataFrame(
        {
            "layer": [layer["name"] for layer in summary],
            "kind": [layer["kind"] for layer in summary],
            "output": [" x ".join(str(size) for size in layer["output"]) for layer in summary],
            "weights": [f"{layer['parameters']:,}" for layer in summary],
        }
    )


def joint_tests(path: Path, fit: Path, words: Words) -> tuple[pd.DataFrame | None, list[str]]:
    """The joint tests with what there is to say of each; if there are none and one reason for it, no table but that reason."""
    table = csv_files.read(path, fit, ["term", "note"])
    notes = table["note"].unique().tolist()
    if table["p_value"].isna().all() and len(notes) <= 1:
        return None, notes
    # The p-value is a tail probability of this statistic.
    name, statistic = ("F", "F") if "F" in table else ("chi-squared", "chi_squared")
    shown = pd.DataFrame(
        {
            "term": table["term"].map(words.term),
            "df": [f"{value:.4g}" if pd.notna(value) else "" for value in table["df"]],
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
        f"{name_of(row)}{alias_text(row.aliased_with)}" for row in table[table["status"] == "aliased"].itertuples()
    ]
    reasons = {
        "Without a finite estimate, because all rows have the same outcome (separated)": separated,
        "Not identified, because only rows that terms separate together determine them": [
            name_of(row) for row in table[table["status"] == "not identified"].itertuples()
        ],
        "Aliased: a combination of other columns, so without a coefficient of their own": aliased,
    }
    return [f"{reason}: {listed(names)}." for reason, names in reasons.items() if names]


def alias_text(columns: str) -> str:
    """Say in brackets what an aliased coefficient is a combination of; absorbed factors have no columns to name."""
    return f" ({columns if columns == NO_ROWS else f'= {columns}'})" if columns else ""


def name_of(row: Any) -> str:
    return f"{row.term} {row.level}".strip()


def listed(names: list[str]) -> str:
    more = f"; and {len(names) - LISTED:,} more" if len(names) > LISTED else ""
    return "; ".join(names[:LISTED]) + more


def provenance(fits: list[dict]) -> dict:
    """Return the facts needed to reproduce the numbers, by model; all models have the same data."""
    provenances = {fit["model"]: fit["provenance"] for fit in fits}
    first = next(iter(provenances.values()))
    config = {"data": first["data"], "models": {name: provenance["model"] for name, provenance in provenances.items()}}
    return {
        "inputs": pd.DataFrame(first["inputs"]).assign(rows=lambda inputs: inputs["rows"].map("{:,}".format)),
        "versions": ", ".join(f"{name} {version}" for name, version in first["versions"].items()),
        "by_chance": [fit["model"] for fit in fits if "online" in fit and not fit["online"]["synchronous"]],
        "config": yaml.safe_dump(config, sort_keys=False),
    }
