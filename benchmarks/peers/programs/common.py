"""What every program in Python does: take its work from the command line, say what took how long, and write coefficients."""

import csv
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

CORES = int(os.environ.get("BENCHMARK_CORES", os.cpu_count() or 1))


class Work:
    """The table, what is to be fitted to it, and where the answer goes: `PROGRAM table.csv work.json folder`."""

    def __init__(self) -> None:
        table, work, folder = sys.argv[1:4]
        given = json.loads(Path(work).read_text())
        self.table, self.folder = Path(table).resolve(), Path(folder).resolve()
        self.response, self.family = given["response"], given["family"]
        self.factors, self.numbers = given["factors"], given["numbers"]
        self.said: dict = {}

    @property
    def formula(self) -> str:
        """R-style, the columns as they are called."""
        return f"{self.response} ~ {' + '.join([*self.factors, *self.numbers])}"

    def frame(self):
        """The table as pandas has it, factors as categories."""
        import pandas as pd

        frame = pd.read_csv(self.table, engine="pyarrow")
        return frame.astype(dict.fromkeys(self.factors, "category"))

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Seconds of `read` or `fit`."""
        start = time.perf_counter()
        yield
        self.said[f"{what}_seconds"] = self.said.get(f"{what}_seconds", 0.0) + time.perf_counter() - start

    def answer(self, rows: Iterable[tuple], *packages: str, std_errors: bool = False) -> None:
        """Write coefficients, (term, level, estimate[, std_error]) each, and beside them the seconds and the versions."""
        header = ["term", "level", "estimate", *(["std_error"] if std_errors else [])]
        with (self.folder / "coefficients.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(header)
            writer.writerows(rows)
        self.said.setdefault("versions", {name: version(name) for name in packages})
        (self.folder / "said.json").write_text(json.dumps(self.said))


def named(names: Iterable[str], factors: list[str], joint: str) -> Iterator[tuple[str, str]]:
    """(term, level) of columns called `factor<joint>level`, such as `carrier[T.AA]`; others are numbers.

    `joint` stands between factor and level, and what ends the name (`]`) is cut off.
    """
    for name in names:
        factor = next((each for each in factors if name.startswith(each + joint)), None)
        yield (factor, name.removeprefix(factor + joint).removesuffix("]")) if factor else (name, "")
