"""Write pictures and pages: of a model, of its residuals, of the rows, or the page to open first."""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path

from tfglm import command, digests
from tfglm.config import ResultsConfig, add_settings
from tfglm.errors import UserError
from tfglm.report import home
from tfglm.report.words import Words
from tfglm.results import options


def prepare() -> Iterator[None]:
    """Import what pictures and pages need, and use it once, in a fork server."""
    import matplotlib  # noqa: F401

    yield
    from matplotlib import axes  # noqa: F401

    yield
    from tfglm.report import drawing

    yield
    from tfglm.report import model_pages, pages, row_account, table_one  # noqa: F401

    yield
    pages.compile_templates()
    drawing.warm_up()


def model(arguments: argparse.Namespace) -> None:
    from tfglm.report import drawing, model_pages
    from tfglm.report.model_results import ModelResults

    drawing.use_style(arguments.pictures)
    dictionary = digests.read_json(arguments.dictionary, needs=["columns", "data"])
    words = Words.from_json(arguments.words, dictionary["columns"])
    results = ModelResults(arguments.folder, arguments.settings, words, arguments.curves)
    digests.check_rows(results.fit, dictionary["data"], arguments.dictionary, results.path_of_fit)
    for name, files in groupby(arguments.files, lambda path: path.stem):
        page = partial(model_pages.PAGES[name], results) if name in model_pages.PAGES else None
        write(list(files), partial(model_pages.PICTURES[name], results), page)


def rows(arguments: argparse.Namespace) -> None:
    from tfglm.report import drawing, row_account

    drawing.use_style(arguments.pictures)
    account = digests.read_json(arguments.rows)
    of_rows = [path for path in arguments.files if path.stem == "rows"]
    write(of_rows, partial(row_account.draw, account), partial(row_account.page, account))
    for path in arguments.files:
        if path.stem == "columns":
            path.write_text(columns_page(arguments, account), encoding="utf-8")


def columns_page(arguments: argparse.Namespace, account: dict) -> str:
    from tfglm.data.dictionary import Dictionary
    from tfglm.report import table_one

    dictionary, files = Dictionary.with_files(arguments.dictionary, arguments.manifests)
    words = Words.from_json(arguments.words)
    return table_one.page(account, dictionary, files, arguments.responses, words, arguments.reading)


def write(files: Sequence[Path], draw: Callable[[Sequence[Path]], None], page: Callable[[Path], str] | None) -> None:
    """Write a picture in the formats of these files, and then its page, if there is one among them."""
    if plots := [path for path in files if path.suffix != ".html"]:
        draw(plots)
    for path in files:
        if page and path.suffix == ".html":
            path.write_text(page(path.with_suffix(".svg")), encoding="utf-8")


def home_page(arguments: argparse.Namespace) -> None:
    arguments.page.write_text(home.page(arguments), encoding="utf-8")


def diagnostics(arguments: argparse.Namespace) -> None:
    from tfglm.report import diagnostics_page, drawing
    from tfglm.results.diagnostics import diagnosed
    from tfglm.results.predict import check_identity
    from tfglm.results.saved_fit import SavedFit

    saved = SavedFit(arguments)
    design, identity, model = saved.design, arguments.settings.identity, saved.fit["model"]
    if design.equations:
        raise UserError(f"{saved.section}: a regression of classes has no residuals, so there are no diagnostics")
    for file in saved.files:
        check_identity(saved.section, file, identity)
    drawing.use_style(arguments.pictures)
    found = diagnosed(design, saved.fitted, saved.files, identity)
    svg = arguments.page.with_suffix(".svg")
    diagnostics_page.draw(found, f"{model}: {found.kind}", [svg])
    arguments.page.write_text(
        diagnostics_page.page(found, model, design.rows["train"], identity, svg), encoding="utf-8"
    )


def combinations(arguments: argparse.Namespace) -> None:
    from tfglm.report import combinations_page

    fit, confidence = digests.read_json(arguments.fit), arguments.settings.confidence
    arguments.page.write_text(combinations_page.page(arguments.table, fit, arguments.fit, confidence), encoding="utf-8")


def scores(arguments: argparse.Namespace) -> None:
    from tfglm.report import scores_page

    arguments.page.write_text(scores_page.page(arguments.scores, arguments.page.parent), encoding="utf-8")


if __name__ == "__main__":
    parser = command.parser(__doc__)
    kinds = parser.add_subparsers(required=True, metavar="model|diagnostics|rows|home|combinations|scores")
    files = "files to write: .svg, .pdf and .png of a picture, and after its .svg the .html with its page"
    of_model = kinds.add_parser("model", help="pictures and pages of a model")
    of_model.set_defaults(write=model)
    of_model.add_file("--folder", "that of the model")
    of_model.add_file("--dictionary", "the dictionary of its rows")
    add_settings(of_model, ResultsConfig)
    of_model.add_argument("--curves", action="store_true", help="whether there is a table of effects.csv")
    options.add_words(of_model)
    of_rows = kinds.add_parser("rows", help="the account of the rows")
    of_rows.set_defaults(write=rows)
    of_rows.add_file("--rows", "what merge_dictionary.py wrote")
    of_rows.add_file("--dictionary", "for the page of the data: the dictionary that it wrote", optional=True)
    of_rows.add_files("--manifests", "one of each ingested file, in order", optional=True)
    of_rows.add_argument("--responses", nargs="*", default=[], help="those of the models, the most important one first")
    options.add_words(of_rows)
    of_rows.add_argument(
        "--reading", type=json.loads, default='""', help="which texts are missing values, in words, as JSON"
    )
    of_diagnostics = kinds.add_parser(
        "diagnostics", help="the residuals of training rows, and the most influential rows"
    )
    of_diagnostics.set_defaults(write=diagnostics)
    options.add_fit(of_diagnostics)
    of_diagnostics.add_files("--manifests", "one of each ingested file, in order")
    add_settings(of_diagnostics, ResultsConfig)
    page = "HTML page to write, and beside it the picture as .svg"
    of_diagnostics.add_file("--page", page)
    for kind in (of_model, of_diagnostics, of_rows):
        options.add_pictures(kind)
    for kind in (of_model, of_rows):
        kind.add_files("--files", files)
    of_home = kinds.add_parser("home", help="the page to open first")
    of_home.set_defaults(write=home_page)
    of_home.add_file("--rows", "the account of rows that merge_dictionary.py wrote")
    of_home.add_file("--dictionary", "the dictionary that it wrote")
    of_home.add_files("--models", "their folders")
    of_home.add_argument(
        "--settings", type=home.settings_by_model, required=True, help="keys of the regressions by model, JSON"
    )
    options.add_words(of_home)
    of_home.add_argument("--held-out", action="store_true", help="whether there is a metrics.json of held-out rows")
    of_home.add_files("--pages", "pages and files to link to", optional=True)
    of_home.add_argument("--command", type=json.loads, required=True, help="what makes these results again, as JSON")
    of_home.add_file("--page", "HTML page to write")
    of_combinations = kinds.add_parser("combinations", help="contrasts or hypotheses")
    of_combinations.set_defaults(write=combinations)
    of_combinations.add_file("--table", "contrasts.csv or hypotheses.csv")
    of_combinations.add_file("--fit", "fit.json of the model")
    add_settings(of_combinations, ResultsConfig)
    of_combinations.add_file("--page", "HTML page to write")
    of_scores = kinds.add_parser("scores", help="what the models predict of the files under `score`")
    of_scores.set_defaults(write=scores)
    of_scores.add_files("--scores", "Parquet files of predictions")
    of_scores.add_file("--page", "HTML page to write")
    arguments = parser.parse_args()
    command.run(arguments.write, arguments)
