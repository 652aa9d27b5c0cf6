"""The synthetic flights have the schema and the quirks of the real files, and the coefficients that they claim to have."""

import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pools import fit_files, table_of
from tfglm.config import SelectionConfig, load_layout
from tfglm.data.ingest import ingest
from tfglm.data.shards import IngestedFile

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "benchmarks"))  # last, where no name in it hides a package
import asa  # noqa: E402

LAYOUT = load_layout("asa2009")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("asa")
    asa.write(folder, 300_000, range(1994, 2004), seed=7)
    return folder


@pytest.mark.slow
def test_columns_are_those_of_the_layout(folder):
    header = (folder / "1994.csv").read_text().splitlines()[0].split(",")
    assert header == [column.source for column in LAYOUT.columns.values()]


@pytest.mark.slow
def test_the_quirks_are_there(folder):
    def year(number: int) -> pl.DataFrame:
        return pl.read_csv(folder / f"{number}.csv", encoding="latin-1", null_values="NA", infer_schema_length=None)

    old, new = year(1994), year(2003)
    assert old["TailNum"].null_count() == old["AirTime"].null_count() == old["CarrierDelay"].null_count() == len(old)
    assert not any(byte > 127 for byte in (folder / "1994.csv").read_bytes())
    assert {0xE4, 0xE5, 0xE6} & set((folder / "2001.csv").read_bytes())
    assert new["CRSDepTime"].max() == 2400
    assert (new["CRSDepTime"] % 100).max() == 55
    cancelled, diverted = (new.filter(pl.col(name) == 1) for name in ("Cancelled", "Diverted"))
    assert cancelled["DepTime"].null_count() == cancelled["ArrDelay"].null_count() == len(cancelled) > 100
    assert diverted["ArrDelay"].null_count() == len(diverted) > 10
    assert diverted["DepDelay"].null_count() == 0
    assert 0 < new["Distance"].null_count() < 100
    assert new.filter(pl.col("Month") < 6)["WeatherDelay"].null_count() == len(new.filter(pl.col("Month") < 6))
    assert new.filter(pl.col("Month") > 6, pl.col("WeatherDelay").is_not_null()).height > 1000
    assert new.select(pl.date("Year", "Month", "DayofMonth").dt.weekday() == pl.col("DayOfWeek")).to_series().all()


@pytest.mark.slow
def test_a_fit_finds_the_coefficients(folder):
    """Each estimate lies within 4.5 standard errors of the truth, and they scatter as they should."""
    settings = SelectionConfig.model_validate(
        {
            "derive": {"late": "arr_delay >= 15"},
            "where": {"flown": "cancelled = 0 AND diverted = 0"},
            "split": {"train": "TRUE"},
            "columns": ["late", "carrier", "origin", "dest", "month", "weekday", "dep_hour", "distance"],
        }
    )
    files = []
    for path in sorted(folder.glob("????.csv")):
        ingest(path, path.stem, {"asa2009": LAYOUT}, settings, folder / path.stem)
        files.append(IngestedFile.load(folder / path.stem / "manifest.json"))
    formula = "late ~ carrier + origin + dest + C(month) + C(weekday) + dep_hour + distance"
    table = table_of(*fit_files(files, formula, "binomial")[:2])
    truth = {(term, level): value for term, level, value in asa.truth(7).iter_rows()}
    free = table[table["std_error"].notna() & (table.index.get_level_values("term") != "Intercept")]
    # The reference level of the table may be another first level than that of the truth: years differ in carriers.
    shift = {term: truth[term, row["reference"]] if row["reference"] else 0.0 for (term, _), row in free.iterrows()}
    z = np.array([(row["estimate"] - truth[key] + shift[key[0]]) / row["std_error"] for key, row in free.iterrows()])
    assert len(z) > 600
    assert np.abs(z).max() < 4.5
    # Origins share the error of their reference level; so the scatter is known roughly only.
    assert 0.7 < np.sqrt(np.mean(z**2)) < 1.5
