"""Set models side by side: coefficients and metrics, tables for papers, networks by their workers, or those of a sweep."""

import argparse
import io
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd

from tfglm import command, digests
from tfglm.config import TablesConfig, TrainingConfig
from tfglm.design.design import Design
from tfglm.report.pages import read_table, render
from tfglm.results import compare, csv_files, held_out, options, scaling, sweeps
from tfglm.results.digits import fixed, four_that_count, p_value, statistic, with_error
from tfglm.results.nested import likelihood_ratio_tests
from tfglm.results.paper import Line, paper_table


class Comparison:
    """What the files of a comparison show, each computed once and only if a file shows it."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments

    @cached_property
    def models(self) -> list[compare.ComparedModel]:
        """Raises UserError for models of different rows."""
        models = read_models(self.arguments)
        compare.refuse_other_rows(models)
        return models

    @cached_property
    def table(self) -> pd.DataFrame:
        return compare.table(self.models)

    @cached_property
    def differences(self) -> pd.DataFrame:
        return held_out.differences(self.models)

    @cached_property
    def tests(self) -> pd.DataFrame:
        return likelihood_ratio_tests(self.models)

    @cached_property
    def fits(self) -> list[Mapping]:
        return [digests.read_json(folder / "fit.json") for folder in self.arguments.models]

    @cached_property
    def by_workers(self) -> pd.DataFrame:
        return scaling.table([training_run(folder) for folder in self.arguments.models])


def read_models(arguments: argparse.Namespace) -> list[compare.ComparedModel]:
    """The models of a command line. Raises UserError for a file that has changed since it was written, or is of another
    fit."""
    models = []
    for folder in arguments.models:
        path = folder / "fit.json"
        fit = digests.read_json(path)
        metrics = digests.read_json(folder / "metrics.json", fit=path) if arguments.held_out else {}
        table = read_table(folder / "coefficients.csv", path) if folder in arguments.with_coefficients else None
        digests.check(folder / "design.json", fit["design"], delete=path)
        design = None if fit.get("kind") == "network" else Design.load(folder / "design.json")
        models.append(compare.ComparedModel(fit, metrics, table, design))
    return models


def main(arguments: argparse.Namespace) -> None:
    comparison = Comparison(arguments)
    for write, paths in groupby(arguments.files, lambda path: BY_NAME.get(path.name) or BY_FORMAT[path.suffix]):
        write(comparison, *paths)


def write_for_papers(comparison: Comparison, *paths: Path) -> None:
    from tfglm.report import papers  # with what writes Word and Excel

    settings = TablesConfig.model_validate_json(comparison.arguments.settings)
    table = paper_table(comparison.models, settings, comparison.tests)
    for path in paths:
        papers.write(table, path)


def draw_by_workers(comparison: Comparison, *paths: Path) -> None:
    from tfglm.report.drawing import use_style
    from tfglm.report.trainings import scaling_plot

    use_style(comparison.arguments.pictures)
    scaling_plot(comparison.by_workers, list(paths))


def write_continuing(comparison: Comparison, path: Path) -> None:
    """Write which networks of a sweep continue their training."""
    arguments = comparison.arguments
    compared = sweeps.compare(comparison.fits, arguments.continuing)
    fits = [digests.sha256(folder / "fit.json") for folder in arguments.models]
    digests.write_json(path, {"fits": fits, **compared}, indent=2)


def write_networks(comparison: Comparison, path: Path) -> None:
    """Write the table of the networks of a sweep."""
    arguments = comparison.arguments
    compared = {int(file.parent.name): digests.read_json(file) for file in arguments.compared}
    settings = json.loads(arguments.settings)
    csv_files.write(sweeps.table(comparison.fits, settings["values"], compared, settings["epochs"]), path)


def draw_losses(comparison: Comparison, *paths: Path) -> None:
    from tfglm.report.drawing import use_style
    from tfglm.report.trainings import losses_plot

    use_style(comparison.arguments.pictures)
    folders = dict(zip(comparison.arguments.models, comparison.fits, strict=True))
    curves = {
        fit["model"]: sweeps.curve(fit, read_history(folder))
        for folder, fit in sorted(folders.items(), key=lambda each: sweeps.loss_of(each[1]))
    }
    losses_plot(paths[0].parent.name, curves, paths)


def read_history(folder: Path) -> pd.DataFrame:
    """The history.csv of the network in a folder."""
    return pd.read_csv(io.BytesIO(digests.read_beside(folder / "history.csv", folder / "fit.json")))


BY_NAME: dict[str, Callable[..., None]] = {
    "compare.csv": lambda comparison, path: csv_files.write(
        comparison.table.dropna(how="all", subset=comparison.table.columns[2:]), path
    ),
    "compare_held_out.csv": lambda comparison, path: csv_files.write(comparison.differences, path),
    "compare_likelihood_ratio.csv": lambda comparison, path: csv_files.write(comparison.tests, path),
    "compare.html": lambda comparison, path: path.write_text(
        page(comparison.models, comparison.differences, comparison.tests), encoding="utf-8"
    ),
    "continuing.json": write_continuing,
    "networks.csv": write_networks,
    **dict.fromkeys(("losses.svg", "losses.png", "losses.pdf"), draw_losses),
    "scaling.csv": lambda comparison, path: csv_files.write(comparison.by_workers, path),
}
"""What writes a file of this name;"""

BY_FORMAT: dict[str, Callable[..., None]] = {
    **dict.fromkeys((".tex", ".md", ".docx", ".xlsx"), write_for_papers),
    **dict.fromkeys((".svg", ".png", ".pdf"), draw_by_workers),
}
"""and what writes others."""


def training_run(folder: Path) -> scaling.TrainingRun:
    path = folder / "fit.json"
    fit = digests.read_json(path)
    given = fit["provenance"]["model"]
    settings = TrainingConfig.model_validate({key: given[key] for key in given.keys() & TrainingConfig.model_fields})
    _, workers = settings.servers
    history = read_history(folder)
    sharing = settings.peers or workers or settings.gpus or settings.devices or 1
    return scaling.TrainingRun(fit, history, sharing, settings.batch_size, settings.seed)


def page(models: list[compare.ComparedModel], differences: pd.DataFrame, tests: pd.DataFrame) -> str:
    """The page with the table as papers have it: the standard error in parentheses under the estimate."""
    table = paper_table(models, TablesConfig(), tests)
    return render(
        "compare",
        models=models,
        responses=compare.responses(models),
        families={model.fit["family"] for model in models},
        coefficients=[as_text(line, with_error) for line in table.coefficients],
        statistics=[as_text(line, lambda value, _: (statistic(value), [])) for line in table.statistics],
        differences=[difference(line) for line in differences.to_dict("records")],
        tests=[
            test | {"chi_squared": fixed(test["chi_squared"], 2), "p_value": p_value(test["p_value"])}
            for test in tests[tests["problem"] == ""].to_dict("records")
        ],
        problems=list(dict.fromkeys(tests["problem"][tests["problem"] != ""])),
    )


def as_text(line: Line, written: Callable[[float, Sequence[float]], tuple[str, list[str]]]) -> dict[str, Any]:
    """A line of the table with a value and an error for each model."""
    cells = []
    for cell in line.cells:
        value, errors = (cell.value, []) if isinstance(cell.value, str) else written(cell.value, cell.below)
        cells.append({"value": value, "error": "".join(errors)})
    return {"term": line.term, "level": line.level, "cells": cells}


def difference(line: dict) -> str:
    """A sentence about which of two models predicts better."""
    size = four_that_count(abs(line["difference"]))
    which = "smaller" if line["difference"] < 0 else "larger"
    text = f"The {line['metric']} of {line['model']} is {size} {which} than that of {line['against']}"
    if pd.isna(line["ci_lower"]):
        return f"{text}; {line['groups']} values of {line['resampled_by']} are too few for an interval."
    lower, upper = four_that_count(line["ci_lower"]), four_that_count(line["ci_upper"])
    decided = line["ci_lower"] * line["ci_upper"] > 0
    return (
        f"{text} (95 % interval of the difference {lower} to {upper}, by the bootstrap of "
        f"{line['groups']} values of {line['resampled_by']}): "
        f"{line['model' if line['difference'] < 0 else 'against']} {'predicts better' if decided else 'may be better by chance'}."
    )


if __name__ == "__main__":
    parser = command.parser(__doc__)
    parser.add_files("--models", "their folders")
    parser.add_files("--with-coefficients", "those that have a table of them", optional=True)
    parser.add_argument("--held-out", action="store_true", help="whether there is a metrics.json of held-out rows")
    parser.add_argument(
        "--settings",
        default="{}",
        help="JSON: the section `tables` of the config, for papers; of a sweep `epochs` and the `values` of its networks",
    )
    parser.add_argument("--continuing", type=int, help="networks of a sweep that continue their training")
    parser.add_files("--compared", "continuing.json of each comparison of a sweep", optional=True)
    options.add_pictures(parser)
    parser.add_files("--files", f"files to write ({', '.join([*BY_NAME, *BY_FORMAT])})")
    command.run(main, parser.parse_args())
