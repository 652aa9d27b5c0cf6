"""A layout of a few columns of flights, files in it, and what they become by ingest."""

from pathlib import Path

import numpy as np
import pandas as pd

from tfglm.config import Layout, SelectionConfig
from tfglm.data.ingest import ingest
from tfglm.data.limits import IngestLimits
from tfglm.data.shards import IngestedFile

LAYOUT = Layout.model_validate(
    {"columns": {"day": "integer", "carrier": "string", "delay": "number", "dest": "string", "time": "clock"}}
)
HEADER = "day,carrier,delay,dest,time\n"


def write(folder: Path, text: str | bytes, name: str = "flights.csv") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def selection(**keys) -> SelectionConfig:
    return SelectionConfig.model_validate({"split": {"train": "TRUE"}, "columns": ["delay", "carrier"]} | keys)


def ingested(
    path: Path, settings: SelectionConfig, layout: Layout = LAYOUT, log=lambda message: None, **keys
) -> IngestedFile:
    ingest(path, "flights", {"layout": layout}, settings, path.parent / "out", 2, log, **keys)
    return IngestedFile.load(path.parent / "out" / "manifest.json")


def decoded(file: IngestedFile, split: str, column: str) -> list:
    """The values of a column in the order in which they are stored."""
    stored = file.column(column)
    parts = [
        np.fromfile(file.folder / shard.path / column, stored.dtype)
        for shard in file.manifest.shards
        if shard.split == split
    ]
    values = np.concatenate(parts)
    if not stored.coded:
        return [None if np.isnan(value) else value for value in values.tolist()]
    meaning = [None, *file.values(column)]
    return [meaning[code] for code in values]


def content(file: IngestedFile) -> dict[str, bytes]:
    """All that was written of an input file but its manifest, which names the input, and the state of the input."""
    beside = ("manifest.json", "source.json")
    paths = [path for path in file.folder.rglob("*") if path.is_file() and path.name not in beside]
    return {str(path.relative_to(file.folder)): path.read_bytes() for path in paths}


def flights(rows: int, seed: int = 1) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "number": np.arange(rows),
            "text": random.choice(["a", "b", "ü", "NA, Ltd"], rows),
            "small": random.integers(-3, 200, rows),
            "real": random.normal(size=rows),
            "many": random.permutation(10 * rows)[:rows] + 2.0**24,
        }
    )
    frame.loc[::7, "real"] = np.nan
    frame.loc[::11, "text"] = None
    return frame


SMALL_PIECES = IngestLimits(block_bytes=100_000, chunk_bytes=100_000)
"""Files of the tests take many blocks and chunks, as large ones do."""


def drawn(labels: list[str], odds: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """A class for each row, by the odds of each class, [rows, classes]."""
    limits = random.random((len(odds), 1)) * odds.sum(axis=1, keepdims=True)
    return np.array(labels)[(odds.cumsum(axis=1) < limits).sum(axis=1)]
