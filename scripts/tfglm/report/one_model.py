"""The pages of a single model that a call has fitted: those of the workflow, with their pictures and tables inside of them."""

import argparse
import base64
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib

from tfglm import digests
from tfglm.config import Layout, ResultsConfig, SelectionConfig, words_of_columns
from tfglm.config.families import compares_classes
from tfglm.config.layouts import how_values_are_read
from tfglm.data.dictionary import Dictionary
from tfglm.data.shards import IngestedFile
from tfglm.errors import writing
from tfglm.formula.read import has_curves, has_event_study
from tfglm.report import combinations_page, drawing, home, model_pages, row_account, table_one
from tfglm.report.model_results import ModelResults
from tfglm.report.words import Words

ADDRESS = re.compile(r'(?P<key>href|src)="(?:[\w.-]*/)*(?P<name>[\w.-]+\.(?P<kind>html|svg|csv))(?P<place>#[^"]*)?"')
"""The address of another page, or of a file, of the same model."""

MEDIA = {"svg": "image/svg+xml", "csv": "text/csv"}


def write_pages(
    folder: Path,
    settings: ResultsConfig,
    data: SelectionConfig,
    layout: Layout,
    files: Sequence[IngestedFile],
    write_table: Callable[[str], Path],
    path: Path,
    command: str,
) -> list[Path]:
    """Write the first page to `path`, and those that it links to beside it; return their paths.

    Parameters
    ----------
    folder
        That of the model, with the rows and the dictionary too.
    settings, data, layout
        The keys about its tables, the section `data`, and how the files are read.
    files
        The ingested files.
    write_table
        Writes a table of the model into the folder.
    path, command
        The file of the first page, and what it says makes the same fit again.

    Raises
    ------
    UserError
        If the disk refuses.
    """
    words_of = json.dumps(words_of_columns([layout], data))
    account, dictionary = (digests.read_json(folder / f"{name}.json") for name in ("rows", "dictionary"))
    words = Words.from_json(words_of, dictionary["columns"])
    fit = digests.read_json(folder / "fit.json")
    is_curved = has_curves(fit["provenance"]["model"]["formula"]) and not compares_classes(fit["family"])
    tables = {
        "coefficients": True,
        "terms": True,
        **dict.fromkeys(("marginal_effects", "adjusted_means"), settings.marginal_effects),
        **{name: bool(getattr(settings, name)) for name in ("pairwise", "margins_at", "contrasts", "hypotheses")},
        "effects": is_curved,
        "event_study": has_event_study(fit["formula"]),
    }
    for name in (name for name, has in tables.items() if has):
        write_table(f"{name}.csv")
    results = ModelResults(folder, settings, words, is_curved)
    pages = {}
    with matplotlib.rc_context():
        drawing.use_style()
        pictures = ["coefficients", *(["effects"] if is_curved else [])]
        for name in pictures:
            model_pages.PICTURES[name](results, [folder / f"{name}.svg"])
        row_account.draw(account, [folder / "rows.svg"])
        pages["coefficients.html"] = model_pages.coefficients_page(results, folder / "coefficients.svg")
        for name in filter(tables.get, ("contrasts", "hypotheses")):
            pages[f"{name}.html"] = combinations_page.page(
                folder / f"{name}.csv", fit, results.path_of_fit, settings.confidence
            )
        of_model = [folder / name for name in [*pages, *(f"{name}.svg" for name in pictures), "coefficients.csv"]]
        of_data = [folder / "data" / name for name in ("columns.html", "rows.html")]
        pages["rows.html"] = row_account.page(account, folder / "rows.svg")
        known = Dictionary.load(folder / "dictionary.json", [file.manifest.digest for file in files], folder)
        reading = how_values_are_read([layout])
        section = fit["provenance"]["model"]
        subset = section["frequency"] if section.get("subset") else None
        pages["columns.html"] = table_one.page(account, known, files, [results.response], words, reading, subset=subset)
        asked = argparse.Namespace(
            rows=folder / "rows.json",
            dictionary=folder / "dictionary.json",
            models=[folder],
            settings={fit["model"]: settings},
            words=words_of,
            held_out=False,
            pages=[*of_model, *of_data],
            command=command,
            page=folder / "index.html",
        )
        pages["index.html"] = home.page(asked)
    names = {name: path.name if name == "index.html" else f"{path.stem}_{name}" for name in pages}

    def address(found: re.Match[str]) -> str:
        name, kind = found["name"], found["kind"]
        if name in names:
            return f'{found["key"]}="{names[name]}{found["place"] or ""}"'
        if kind not in MEDIA or not (folder / name).is_file():
            return found[0]
        content = base64.b64encode((folder / name).read_bytes()).decode()
        saved = f'download="{name}" ' if found["key"] == "href" else ""
        return f'{saved}{found["key"]}="data:{MEDIA[kind]};base64,{content}"'

    written = {path.with_name(names[name]): ADDRESS.sub(address, page) for name, page in pages.items()}
    for file, page in written.items():
        with writing(file):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(page, encoding="utf-8")
    return sorted(written, key=lambda file: (file != path, file.name))
