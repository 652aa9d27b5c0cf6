"""Several files in the schema of ASA Data Expo 2009: one table, a file more, a file that is wrong."""

import re
from pathlib import Path

import pandas as pd
import pytest

from oracles import assert_agrees, logistic_regression, treatment_contrasts
from runs import configure, planned, read_json, read_table, results, snakemake, succeed, write_asa

pytestmark = pytest.mark.processes

SHARDS = re.compile("data/[0-9a-f]{12}/")


@pytest.fixture(scope="module")
def asa(tmp_path_factory) -> tuple[Path, pd.DataFrame]:
    """A folder with two years in the ASA schema, fitted with 2 workers, and its rows."""
    folder = tmp_path_factory.mktemp("asa")
    frame = pd.concat([write_asa(folder, year, 20_000) for year in (2006, 2007)], ignore_index=True)

    def change(config):
        config["data"].update(
            files=["200?.csv"],
            layout="asa2009",
            where={"flown": "cancelled = 0 AND diverted = 0"},
            split={"train": "day <= 24", "evaluate": "day > 24"},
            columns=["late", "carrier", "origin", "dest", "dep_hour", "distance"],
        )
        formula = "late ~ carrier + origin + dest + dep_hour + distance"
        config["models"] = {"late_arrival": {"formula": formula, "family": "binomial"}}

    configure(folder, change)
    succeed(folder)
    return folder, frame


def test_two_files_in_the_asa_schema_give_one_table(asa):
    folder, frame = asa
    train = frame[(frame["Cancelled"] == 0) & (frame["DayofMonth"] <= 24)]
    train = train.assign(late=train["ArrDelay"] >= 15, dep_hour=train["CRSDepTime"] // 100, distance=train["Distance"])
    categorical = {"carrier": "UniqueCarrier", "origin": "Origin", "dest": "Dest"}
    matrix = treatment_contrasts(train, categorical, ["dep_hour", "distance"])
    exact = logistic_regression(train["late"], matrix)
    table = read_table(folder, "late_arrival")
    assert table.loc["carrier"].index.tolist() == ["AA", "DL", "PA (1)", "UA", "WN"]
    assert_agrees(table, exact, list(matrix.columns))
    rows = read_json(folder, "data", "rows.json")
    assert set(rows["files"]) == {"2006", "2007"}
    assert rows["read"] == len(frame) and rows["splits"]["train"]["used"] == len(train)


def test_one_more_file_is_read_alone(asa):
    folder, _ = asa
    write_asa(folder, 2008, 1000)
    jobs = planned(folder)
    (folder / "2008.csv").unlink()
    assert {rule: jobs.get(rule) for rule in ("ingest", "merge_dictionary")} == {
        "ingest": 1, "merge_dictionary": 1,
    }  # fmt: skip
    assert planned(folder) == {}


def test_an_unreadable_file_is_named_with_its_line_and_results_stay(asa):
    folder, _ = asa
    path = folder / "2006.csv"
    good = path.read_bytes()
    lines = good.decode().splitlines(keepends=True)
    fields = lines[99].split(",")
    fields[5] = "noon"
    before = results(folder)
    path.write_text("".join([*lines[:99], ",".join(fields), *lines[100:]]))
    done = snakemake(folder)
    assert done.returncode != 0
    assert (
        "2006.csv, line 100: column `CRSDepTime`: expected a time of day (hhmm, from 0 to 2400), found `noon`"
        in done.stdout
    )
    models = {name: digest for name, digest in before.items() if name.startswith("models/")}
    assert {name: digest for name, digest in results(folder).items() if name.startswith("models/")} == models
    path.write_bytes(good)
    succeed(folder, "--until", "ingest")
    files = {name: digest for name, digest in before.items() if SHARDS.match(name)}
    assert {name: digest for name, digest in results(folder).items() if SHARDS.match(name)} == files
