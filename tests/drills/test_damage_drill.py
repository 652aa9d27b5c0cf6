"""Two thousand damaged files, and files of another fit: each is refused by name, or the results have the same bytes as before."""

import argparse
import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import build_design
import check
import compare
import evaluate
import merge_dictionary
import predict
import tfglm
import write_pages
import write_tables
from pools import fit_files, ingest_frame, write_fit
from tfglm import digests, fitting, provenance
from tfglm.config import DesignConfig, LevelsConfig, ResultsConfig
from tfglm.config.pictures import PicturesConfig
from tfglm.design.design import Design
from tfglm.distribute.local import LocalExecutor
from tfglm.engine.workload import Workload
from tfglm.errors import UserError

pytestmark = pytest.mark.drill

SEED, CASES = 1987, 2_000

FORMULA = "late ~ carrier:origin + poly(distance, 2)"


def flights(rows: int, seed: int = 4) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    frame = {name: draw.choice(list(letters), rows) for name, letters in (("carrier", "ABCD"), ("origin", "XYZ"))}
    frame |= {
        "distance": draw.integers(1, 40, rows),
        "weight": draw.normal(size=rows).round(3),
        "day": np.arange(rows) % 9,
    }
    return pd.DataFrame(frame | {"late": draw.integers(0, 2, rows)})


RESULTS = ("rows", "dictionary", "fit", "metrics", "checks")


class Run:
    """A finished run in `folder`, and what reads its files again."""

    def __init__(self, folder: Path, seed: int = 4):
        self.folder, self.out = folder, folder / "out"
        self.out.mkdir(parents=True)
        split = {"train": "day < 6", "evaluate": "day = 6", "predict": "day > 6"}
        file = ingest_frame(flights(9_000, seed), folder, split=split)
        self.manifest = file.folder / "manifest.json"
        self.merge(folder)
        self.design(folder)
        self.reference(folder)
        design, fitted, _ = fit_files([file], FORMULA, "binomial", std_errors="robust")
        design = Design.load(folder / "design.json")
        write_fit(fitted, design, folder)
        fit = digests.read_json(folder / "fit.json")
        of = provenance.of([file], {"data": {}, "model": {"formula": fit["formula"]}}, "0")
        digests.write_json(folder / "fit.json", fit | {"provenance": of}, indent=2)
        (folder / "history.csv").write_text(
            "seconds,quantity,step,value\n1.0,fit/deviance,1,20.0\n2.0,fit/deviance,2,10.0\n"
        )
        digests.write_beside(folder / "history.csv", folder / "fit.json")
        self.coefficients(folder)
        self.evaluate(folder)
        self.effects(folder)
        shards = [f"table/shards/{split}-00000" for split in ("train", "evaluate", "predict")]
        train, held_out, predicted = ([f"{each}/{name}" for name in ("carrier", "distance", "late")] for each in shards)
        beside = [f"table/{name}" for name in ("manifest.json", "levels.parquet", "checksums.npy")]
        checkpoint = [f"checkpoint/{path.name}" for path in (folder / "checkpoint").iterdir()]
        of_fit = ["design.json", "fit.json", *checkpoint]
        self.readers: dict[Callable[[Path], None], list[str]] = {
            self.merge: beside,
            self.design: ["dictionary.json", *beside, *(name for name in train if "late" not in name)],
            self.gradient: ["design.json", *beside, *train],
            self.reference: ["design.json"],
            self.coefficients: ["reference.json", *of_fit],
            self.evaluate: [*of_fit, *beside, *held_out, *train],
            self.predict: [*of_fit, *beside, *predicted, "table/predicted_rows.npy"],
            self.effects: ["dictionary.json", "reference.json", *of_fit],
            self.margins: [*of_fit, "averages.npz", "averages.sha256"],
            self.home: [*map("{}.json".format, RESULTS), *tables("coefficients", "terms")],
            self.history: [*tables("history"), "fit.json", "dictionary.json"],
        }
        self.pages: dict[Callable[[Path], None], list[str]] = {
            self.coefficients_page: [*tables("coefficients", "effects"), "fit.json", "dictionary.json"],
            self.effects_page: [*tables("effects"), "fit.json"],
            self.metrics_pages: ["metrics.json", "fit.json"],
            self.compare: ["design.json", "fit.json", "metrics.json", *tables("coefficients")],
            self.load: [*of_fit, "reference.json", "metrics.json", *tables("coefficients", "terms")],
        }

    def _arguments(self, **more) -> argparse.Namespace:
        folder = self.folder
        common = {"design": folder / "design.json", "checkpoint": folder / "checkpoint", "fit": folder / "fit.json"}
        common |= {"reference": folder / "reference.json", "settings": ResultsConfig(), "manifests": [self.manifest]}
        return argparse.Namespace(**common | more)

    def merge(self, out: Path) -> None:
        written = {"dictionary": out / "dictionary.json", "rows": out / "rows.json"}
        merge_dictionary.main(self._arguments(settings=LevelsConfig(), subsets=[], **written))

    def design(self, out: Path) -> None:
        settings = DesignConfig(formula=FORMULA, family="binomial", std_errors="robust")
        more = {"model": "m", "settings": settings, "known_late": [], "section": "models", "to_check": ResultsConfig()}
        dictionary = self.folder / "dictionary.json"
        build_design.main(self._arguments(**more | {"dictionary": dictionary, "design": out / "design.json"}))

    def reference(self, out: Path) -> None:
        check.reference(self._arguments(checked=out / "reference.json"))

    def gradient(self, out: Path) -> None:
        """What the workers sum of the training rows."""

        def work(job: fitting.Job) -> None:
            workload = Workload(job.design, job.files, "train")
            actual = workload.sum(LocalExecutor(), "gradient", job.design.by_term(np.full(job.design.size, 0.1)))
            (out / "sums").write_bytes(b"".join(np.ascontiguousarray(each).tobytes() for each in actual.values()))

        fitting.watched(self._arguments(progress=self.folder / "progress.json"), work)

    def coefficients(self, out: Path) -> None:
        names = [f"coefficients.{suffix}" for suffix in ("csv", "parquet", "sha256")] + ["terms.csv", "terms.sha256"]
        write_tables.main(self._arguments(tables=[out / name for name in names]))

    def evaluate(self, out: Path) -> None:
        more = {"split": "evaluate", "settings": ResultsConfig(by=["carrier"]), "collapsed": None, "threads": 1}
        names = {"metrics": "metrics.json", "groups": "metrics_by.csv", "averages": "averages.npz"}
        names["checks"] = "checks.json"
        evaluate.main(self._arguments(**more, **{key: out / name for key, name in names.items()}))

    def margins(self, out: Path) -> None:
        tables = [out / f"marginal_effects.{suffix}" for suffix in ("csv", "sha256")]
        write_tables.main(self._arguments(averages=self.folder / "averages.npz", tables=tables))

    def predict(self, out: Path) -> None:
        more = {"manifest": self.manifest, "settings": ResultsConfig(identity=["carrier", "weight"])}
        predict.main(self._arguments(**more, split="predict", output=out / "predictions.parquet"))

    def effects(self, out: Path) -> None:
        more = {"dictionary": self.folder / "dictionary.json", "tables": [out / "effects.csv", out / "effects.sha256"]}
        write_tables.main(self._arguments(**more))

    def home(self, out: Path) -> None:
        of_data = {name: self.folder / f"{name}.json" for name in ("rows", "dictionary")}
        settings = {"m": ResultsConfig(marginal_effects=False)}
        of_models = {"models": [self.folder], "held_out": True, "settings": settings, "words": "{}", "pages": []}
        write_pages.home_page(argparse.Namespace(**of_data, **of_models, command="", page=out / "index.html"))

    def history(self, out: Path) -> None:
        self._draw(out, "history.svg")

    def coefficients_page(self, out: Path) -> None:
        self._draw(out, "coefficients.svg", "coefficients.html")

    def effects_page(self, out: Path) -> None:
        self._draw(out, "effects.svg")

    def metrics_pages(self, out: Path) -> None:
        self._draw(out, "metrics_by.svg", "metrics.svg", "metrics.html")

    def _draw(self, out: Path, *names: str) -> None:
        more = {"folder": self.folder, "files": [out / name for name in names], "curves": True, "words": "{}"}
        dictionary = self.folder / "dictionary.json"
        write_pages.model(self._arguments(**more, dictionary=dictionary, pictures=PicturesConfig()))

    def compare(self, out: Path) -> None:
        of_models = {"models": [self.folder], "with_coefficients": [self.folder], "held_out": True}
        names = ("compare.csv", "compare_held_out.csv", "compare_likelihood_ratio.csv", "compare.html")
        compare.main(argparse.Namespace(**of_models, files=[out / name for name in names]))

    def load(self, out: Path) -> None:
        """What a notebook shows."""
        model = tfglm.load(self.folder)
        (out / "model").write_text(f"{model!r} {model.terms} {model.metrics} {model.vcov()}")

    def made(self, reader: Callable[[Path], None]) -> dict[str, bytes]:
        """What a reader makes now."""
        for path in self.out.iterdir():
            path.unlink()
        reader(self.out)
        return {path.name: path.read_bytes() for path in self.out.iterdir()}


def tables(*names: str) -> list[str]:
    return [f"{name}.{suffix}" for name in names for suffix in ("csv", "sha256")]


def flip(content: bytearray, draw: random.Random) -> bytes:
    for _ in range(draw.choice([1, 1, 2, 8])):
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    return content


def cut(content: bytearray, draw: random.Random) -> bytes:
    return content[: draw.randrange(len(content))]


def swap_bytes(content: bytearray, draw: random.Random) -> bytes:
    size = draw.choice([1, 4, 8, 64])
    starts = [draw.randrange(max(len(content) - size, 1)) for _ in range(2)]
    here, there = (slice(start, start + size) for start in starts)
    content[here], content[there] = content[there], content[here]
    return content


def swap_lines(content: bytearray, draw: random.Random) -> bytes:
    lines = content.split(b"\n")
    first, second = (draw.randrange(len(lines)) for _ in range(2))
    lines[first], lines[second] = lines[second], lines[first]
    return b"\n".join(lines)


def drop(content: bytearray, draw: random.Random) -> bytes:
    place = draw.randrange(len(content))
    return content[:place] + content[place + draw.choice([1, 8, 1000]) :]


def add(content: bytearray, draw: random.Random) -> bytes:
    place = draw.choice([len(content), draw.randrange(len(content) + 1)])
    return content[:place] + draw.randbytes(draw.choice([1, 8, 1000])) + content[place:]


def change_digit(content: bytearray, draw: random.Random) -> bytes:
    digits = [place for place, byte in enumerate(content) if chr(byte).isdigit()]
    if digits:
        content[draw.choice(digits)] = ord(draw.choice("0123456789"))
    return content


CHANGES = [flip, flip, cut, swap_bytes, swap_lines, drop, add, change_digit]


def test_whatever_is_damaged_is_refused_by_name_or_changes_nothing(tmp_path):
    run, draw, outcomes, wrong = Run(tmp_path), random.Random(SEED), Counter(), []
    exact = {reader: run.made(reader) for reader in run.readers}
    pairs = [(reader, name) for reader, names in run.readers.items() for name in names]
    for number in range(CASES):
        reader, name = pairs[number % len(pairs)]
        change, path = draw.choice(CHANGES), tmp_path / name
        good = path.read_bytes()
        path.write_bytes(change(bytearray(good), draw))
        same = path.read_bytes() == good
        try:
            ended = "same bytes" if run.made(reader) == exact[reader] else "OTHER BYTES"
        except UserError as error:
            is_named = path.with_suffix("").name in str(error) and "\n  delete " in str(error) and not same
            ended = "refused" if is_named else f"REFUSED, but: {error}"
        except Exception as error:
            ended = f"{type(error).__name__}: {error}"
        finally:
            path.write_bytes(good)
        outcomes[ended if ended in ("same bytes", "refused") else "wrong"] += 1
        if ended not in ("same bytes", "refused"):
            wrong.append(f"{number}: {reader.__name__} of {name} after {change.__name__}: {ended}")
    assert not wrong, "\n".join([str(outcomes), *wrong[:40]])
    assert outcomes["refused"] > 0.8 * CASES


OF_DATA = ("table/",)
"""What is there before a fit is."""


def test_files_of_another_fit_of_the_same_model_are_refused_by_name(tmp_path):
    run, other = Run(tmp_path / "this"), Run(tmp_path / "other", seed=5)
    outcomes, wrong = Counter(), []
    for reader, names in (run.readers | run.pages).items():
        exact, of_fit = run.made(reader), [name for name in names if not name.startswith(OF_DATA)]
        together = {Path(name).parts[0].removesuffix(".csv").removesuffix(".sha256") for name in of_fit}
        groups = [[name] for name in of_fit]
        groups += [[name for name in of_fit if name.startswith((f"{stem}.", f"{stem}/"))] for stem in sorted(together)]
        for group in groups:
            good = {name: (run.folder / name).read_bytes() for name in group}
            if len(group) == len(names) or not group:
                continue
            for name in group:
                shutil.copy(other.folder / name, run.folder / name)
            same = good == {name: (run.folder / name).read_bytes() for name in group}
            try:
                ended = "same bytes" if run.made(reader) == exact else "OTHER BYTES"
            except UserError as error:
                is_named = any(Path(name).stem in str(error) for name in group)
                ended = "refused" if is_named and "\n  delete " in str(error) and not same else f"REFUSED, but: {error}"
            finally:
                for name, content in good.items():
                    (run.folder / name).write_bytes(content)
            outcomes[ended] += 1
            if ended != "refused" and not same:
                wrong.append(f"{reader.__name__} of {group}: {ended}")
    assert not wrong, "\n".join([str(outcomes), *wrong])
    assert outcomes["refused"] > 60
