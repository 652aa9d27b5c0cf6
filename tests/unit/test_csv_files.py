"""CSV files that a spreadsheet opens without running anything, and that give every text back."""

import argparse
import csv

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import write_tables
from pools import fit_frame, write_fit
from tfglm import command, digests
from tfglm.config import ResultsConfig
from tfglm.report import pages
from tfglm.results import csv_files, row_files

FORMULAS = [
    *("=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(1)"),
    *("\t=1", "\r=1", '=HYPERLINK("http://x","y")', "\uff1d1", "-"),
]
PLAIN = ["-5", "+5", "-1.5e3", "NA", "", "AA", "a=b", "0005", "'quoted", "two\nlines", "a\rb", 'say "x"']
LOOK_QUOTED = ["'=1+1", "''=1", "'-5", "'@x"]


def test_text_that_a_spreadsheet_would_run_is_quoted_and_comes_back(tmp_path):
    levels = [*FORMULAS, *PLAIN, *LOOK_QUOTED]
    table = pd.DataFrame(
        {"term": "x", "level": levels, "estimate": np.append(np.linspace(-1, 1, len(levels) - 2), [-np.inf, np.nan])}
    )
    csv_files.write(table, tmp_path / "coefficients.csv")
    digests.write_json(tmp_path / "fit.json", {})
    digests.write_beside(tmp_path / "coefficients.csv", tmp_path / "fit.json")
    with (tmp_path / "coefficients.csv").open(newline="") as stream:
        cells = [row[1] for row in csv.reader(stream)][1:]
    assert cells[: len(FORMULAS)] == [f"'{level}" for level in FORMULAS]
    assert cells[len(FORMULAS) : -len(LOOK_QUOTED)] == PLAIN
    assert not any(cell.startswith(("=", "@", "\t", "\r")) for cell in cells)
    again = csv_files.read(tmp_path / "coefficients.csv", tmp_path / "fit.json")
    pd.testing.assert_frame_equal(again, table, check_dtype=False)


def tabulated(design, model, folder) -> pd.DataFrame:
    """The table of coefficients as a page reads it; exactly what the Parquet file has."""
    design.write(folder / "design.json")
    write_fit(model, design, folder)
    checked = {"levels": {"g": "AA"}, "design": digests.sha256(folder / "design.json")}
    digests.write_json(folder / "reference.json", checked)
    files = {"checkpoint": "checkpoint", **{name: f"{name}.json" for name in ("design", "fit", "reference")}}
    paths = {name: folder / file for name, file in files.items()}
    tables = [folder / f"coefficients.{suffix}" for suffix in ("csv", "parquet", "sha256")]
    write_tables.main(argparse.Namespace(**paths, settings=ResultsConfig(), tables=tables))
    table = pages.read_table(folder / "coefficients.csv", folder / "fit.json")
    exact = pd.read_parquet(folder / "coefficients.parquet")
    pd.testing.assert_frame_equal(table.fillna(0), exact.fillna(0), check_dtype=False)
    return table


def test_levels_that_look_like_formulas_go_through_the_tables(tmp_path):
    levels = ["=1+1", "@x", "-5", "AA", "\x1b[31m"]
    frame = pd.DataFrame({"g": np.resize(levels, 200), "late": np.arange(200) // 7 % 2})
    table = tabulated(*fit_frame(frame, "late ~ g", "binomial", tmp_path), tmp_path)
    assert sorted(table["level"].iloc[1:]) == sorted(levels)
    written = (tmp_path / "coefficients.csv").read_text()
    assert "g,'=1+1,AA," in written and "g,-5,AA," in written


def test_reasons_why_there_is_no_test_go_through_the_tables(tmp_path):
    """Of an airport with a single flight, say."""
    random = np.random.default_rng(4)
    frame = pd.DataFrame({"g": [*np.resize(["AA", "B"], 400), "C"], "day": [*random.integers(0, 40, 400), 3]})
    frame["y"] = random.normal(size=401)
    fit = fit_frame(frame, "y ~ g", "gaussian", tmp_path, std_errors="cluster(day)")
    table = tabulated(*fit, tmp_path).set_index("level")
    assert table.loc["C", "note"].startswith("determined within single clusters")
    assert np.isnan(table.loc["C", "std_error"]) and table.loc["B", "std_error"] > 0 and table.loc["B", "note"] == ""


@pytest.mark.parametrize("hidden", ["\x1b[2J", "\x07", "\r", "\x9b31m", "\u202e", "\x00"])
def test_what_a_terminal_would_obey_is_shown_as_an_escape(hidden):
    shown = command.visible(f"no level `{hidden}x`\n  there are:\té, 東")
    assert hidden not in shown and "\\" in shown
    assert shown.endswith("x`\n  there are:\té, 東")


def test_predictions_are_written_as_csv_piece_by_piece(tmp_path):
    table = pa.table(
        {
            "row": [1, 2, 3, 4],
            "carrier": ["AA", "=1+1", None, "NA"],
            "hour": pa.array([7, None, 9, 10], pa.int64()),
            "probability": [0.1, None, 1 / 3, 1e-300],
            "remark": pa.array([None, "unseen level", None, None], pa.string()),
        }
    )
    rows = row_files.write(tmp_path / "p.csv", iter((table[:0], table[:3], table[3:])))
    assert rows == 4
    assert (tmp_path / "p.csv").read_text().splitlines() == [
        "row,carrier,hour,probability,remark",
        "1,AA,7,0.1,",
        "2,'=1+1,,,unseen level",
        "3,,9,0.3333333333333333,",
        "4,NA,10,1e-300,",
    ]
    assert not (tmp_path / "p.csv.partial").exists()
