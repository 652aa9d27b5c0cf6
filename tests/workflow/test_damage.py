"""What is read again is what was written: a file that has changed in between is refused by its name, with the way out."""

import argparse
import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pools import design_of, fit_files, ingest_frame, write_fit
from tfglm import checkpoint, digests, fitting
from tfglm.config import SolverConfig
from tfglm.data import shards
from tfglm.data.dictionary import Dictionary, merge
from tfglm.data.shards import BLOCK_ROWS, IngestedFile
from tfglm.design.design import Design
from tfglm.distribute.local import LocalExecutor
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.inference.stored import arrays
from tfglm.results.saved_fit import SavedFit, section

VALUE = {"name": "häß", "digits": [0.1, 2.0**70, None], "inner": {"sha256": "x", "rows": 12}}


def flights(rows: int, seed: int = 5) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    frame = {"delay": random.integers(-20, 60, rows), "carrier": random.choice(["AA", "B6", "UA"], rows)}
    return pd.DataFrame(frame | {"real": random.normal(size=rows), "day": np.arange(rows) % 7})


def ingested(folder, frame=None, late=15, **selection) -> IngestedFile:
    selection = {"derive": {"late": f"delay >= {late}"}, "columns": ["late", "carrier", "real", "day"]} | selection
    return ingest_frame(flights(3_000) if frame is None else frame, folder, **selection)


def flip(path, place: int, bit: int = 0) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1 << bit
    path.write_bytes(content)


@pytest.mark.parametrize("value", [VALUE, {}], ids=["some", "nothing"])
@pytest.mark.parametrize("indent", [None, 2])
def test_a_changed_byte_anywhere_in_a_json_file_is_refused(tmp_path, value, indent):
    path = tmp_path / "some.json"
    digests.write_json(path, value, indent)
    good = path.read_bytes()
    assert digests.read_json(path) == value
    assert [each.name for each in tmp_path.iterdir()] == ["some.json"]
    for place in range(len(good)):
        for bit in range(8):
            flip(path, place, bit)
            with pytest.raises(
                UserError, match=r"some.json: the content has changed .*\n  delete .*some.json; the next run"
            ):
                digests.read_json(path)
            path.write_bytes(good)
    for cut in range(len(good)):
        path.write_bytes(good[:cut])
        with pytest.raises(UserError):
            digests.read_json(path)
    path.unlink()
    with pytest.raises(UserError, match=r"some.json: cannot be read: No such file or directory\n  delete .*some.json"):
        digests.read_json(path)


def test_the_content_of_another_json_file_is_refused_by_name(tmp_path):
    readers = {
        "design.json": Design.load,
        "dictionary.json": lambda path: Dictionary.load(path, [], tmp_path),
        "manifest.json": shards.Manifest.load,
        "fit.json": lambda path: section(digests.read_json(path)),
    }
    for name, load in readers.items():
        path = tmp_path / name
        digests.write_json(path, VALUE | {"path": [1], "columns": [1]})
        with pytest.raises(UserError) as error:
            load(path)
        assert str(error.value).startswith(f"{path}: it has no member `")
        assert f"this is the content of another file\n  delete {path};" in str(error.value)


def test_the_digest_of_a_table_is_one_that_sha256sum_checks(tmp_path):
    path, fit = tmp_path / "terms.csv", tmp_path / "fit.json"
    digests.write_json(fit, VALUE)
    path.write_text("term,df\ncarrier,2\n")
    digests.write_beside(path, fit)
    assert os.system(f"cd {tmp_path} && sha256sum --check --quiet terms.sha256") == 0
    assert digests.read_beside(path, fit) == path.read_bytes()
    for damaged in (path, path.with_suffix(".sha256")):
        good = damaged.read_bytes()
        for content in (good.replace(b"2", b"3"), good[:15], b"\xff" * 80):
            damaged.write_bytes(content)
            with pytest.raises(UserError, match=r"terms.csv: the content has changed .*\n  delete .*terms.csv"):
                digests.read_beside(path, fit)
        damaged.write_bytes(good)


def test_a_result_of_another_fit_is_refused_with_the_names_of_both_files(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        digests.write_json(tmp_path / name / "fit.json", VALUE | {"fit of": name})
        write_results(tmp_path / name)
    fit, (table, metrics) = tmp_path / "a/fit.json", write_results(tmp_path / "a")
    assert digests.read_beside(table, fit) == table.read_bytes()
    assert digests.read_json(metrics, fit=fit) == VALUE
    # All of another fit but one file, and the other way round.
    for names in (["terms.csv", "terms.sha256", "metrics.json"], ["fit.json"]):
        good = {name: (tmp_path / "a" / name).read_bytes() for name in names}
        for name in names:
            shutil.copy(tmp_path / "b" / name, tmp_path / "a" / name)
        for path, read_result in ((table, digests.read_beside), (metrics, digests.read_json)):
            with pytest.raises(UserError) as error:
                read_result(path, fit=fit)
            assert str(error.value).startswith(f"{path}: it was made from another fit than {fit}\n  delete {path};")
        for name, content in good.items():
            (tmp_path / "a" / name).write_bytes(content)
    # What does not say which fit it was made from is of none.
    digests.write_json(metrics, VALUE)
    table.with_suffix(".sha256").write_text(f"{digests.sha256(table)}  terms.csv\n")
    for path, read_result in ((table, digests.read_beside), (metrics, digests.read_json)):
        with pytest.raises(UserError, match="it was made from another fit than"):
            read_result(path, fit=fit)
    fit.unlink()
    with pytest.raises(UserError, match=r"fit.json: cannot be read: No such file or directory\n  delete .*fit.json"):
        digests.read_beside(table, fit)


def write_results(folder: Path) -> tuple[Path, Path]:
    """A table and a JSON file made from the fit in `folder`; the same bytes for any fit, but for the digests."""
    table, metrics = folder / "terms.csv", folder / "metrics.json"
    table.write_text("term,df\ncarrier,2\n")
    digests.write_beside(table, folder / "fit.json")
    digests.write_json(metrics, VALUE, fit=folder / "fit.json")
    return table, metrics


def test_the_manifest_tells_the_content_of_the_shards(tmp_path):
    """Another response in the same rows, with the same codes: all that it once said was the same."""
    frame = flights(3_000)
    frame["delay"] = np.where(np.arange(3_000) < 1_000, 40, -5)
    files = {}
    for name, late in (("a", 15), ("b", 30), ("reversed", 15)):
        # The rows that are late are others.
        ordered = frame.assign(delay=frame["delay"].to_numpy()[::-1]) if name == "reversed" else frame
        files[name] = ingested(tmp_path / name, ordered, late)
    first, again, other = (file.manifest for file in files.values())
    assert first.digest == again.digest, "the same rows, by another expression"
    counts = [
        getattr(other, key) == getattr(first, key) for key in ("shards", "columns", "read", "dropped", "capacity")
    ]
    assert all(counts) and other.digest != first.digest
    assert (other.digests["levels.parquet"], other.digests["checksums.npy"]) != (
        first.digests["levels.parquet"],
        first.digests["checksums.npy"],
    )


def test_journal_design_and_provenance_depend_on_the_content_of_the_shards(tmp_path):
    keys, designs = set(), set()
    for late in (15, 30):
        file = ingested(tmp_path / str(late), late=late)
        design = design_of("late ~ carrier", "binomial", merge([file]), [file])
        # The same file as an empty one of the design: what counts is the manifest.
        (tmp_path / "design.json").write_text("")
        manifests = [file.folder / "manifest.json"]
        arguments = argparse.Namespace(
            design=tmp_path / "design.json", manifests=manifests, collapsed=None, settings=SolverConfig()
        )
        keys.add(fitting.key(arguments))
        designs.add(design.data)
        assert design.data == (file.manifest.digest,)
    assert len(keys) == len(designs) == 2


def test_the_checksum_sees_the_highest_bits_of_two_words():
    values = np.random.default_rng(3).normal(size=BLOCK_ROWS)
    signs = values.copy()
    signs[[7, 4000]] *= -1
    assert shards.checksums(signs) != shards.checksums(values)


FILES = {
    "manifest.json": "manifest.json",
    "levels.parquet": "levels.parquet",
    "checksums.npy": "checksums.npy",
    "predicted_rows.npy": "predicted_rows.npy",
    "shards/train-00000/carrier": "shards/train-00000/carrier",
    "shards/predict-00000/real": "shards/predict-00000/real",
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("change", ["flip", "cut", "gone"])
def test_a_changed_file_of_an_ingested_one_is_refused_with_the_way_out(tmp_path, name, change):
    file = ingested(tmp_path, split={"train": "day < 5", "predict": "day >= 5"})
    path = file.folder / name
    if change == "flip":
        flip(path, path.stat().st_size // 2)
    elif change == "cut":
        path.write_bytes(path.read_bytes()[:-1])
    else:
        path.unlink()
    with pytest.raises(UserError) as error:
        again = IngestedFile.load(file.folder / "manifest.json")
        again.predicted_rows()
        for shard in again.manifest.shards:
            again.stored(shard, "carrier")
            again.stored(shard, "real")
    assert name in str(error.value)
    assert f"\n  delete {file.folder / 'manifest.json'}; the next run of snakemake makes it again" in str(error.value)


def test_what_the_design_reads_of_training_rows_is_checked(tmp_path):
    file = ingested(tmp_path)
    flip(file.folder / "shards/train-00000/carrier", 100)
    with pytest.raises(UserError, match=r"train-00000/carrier: the shard has changed"):
        design_of("late ~ carrier:C(day)", "binomial", merge([file]), [file])


def test_a_read_that_brings_less_than_there_is_goes_on(tmp_path, monkeypatch):
    file = ingested(tmp_path, flights(20_000))
    design = design_of("late ~ carrier + real", "binomial", merge([file]), [file])
    workload, state = Workload(design, [file], "train"), design.by_term(np.full(design.size, 0.1))
    exact = workload.sum(LocalExecutor(), "gradient", state)
    preadv, calls = os.preadv, []

    def little(descriptor, buffers, place):
        calls.append(place)
        return preadv(descriptor, [buffers[0][:1000]], place)

    monkeypatch.setattr(os, "preadv", little)
    actual = workload.sum(LocalExecutor(), "gradient", state)
    assert len(calls) > 100
    for name, value in exact.items():
        np.testing.assert_array_equal(actual[name], value)


@pytest.fixture(scope="module")
def fit(tmp_path_factory):
    """A folder with a fit, as the chief leaves it."""
    folder = tmp_path_factory.mktemp("fit")
    file = ingested(folder)
    design, fitted, dictionary = fit_files([file], "real ~ carrier + day", "gaussian", std_errors="robust")
    dictionary.write(folder / "dictionary.json")
    design.write(folder / "design.json")
    write_fit(fitted, design, folder)
    return folder, design, fitted, dictionary


def test_every_number_of_a_checkpoint_comes_back_as_it_was(fit):
    folder, design, fitted, _ = fit
    again = checkpoint.load(design, folder / "checkpoint")
    covariance = fitted.covariance
    assert all(float(np.float32(each)) != each for each in (covariance.dispersion, covariance.correction))
    assert type(again.covariance) is type(covariance)
    stored, read = arrays(fitted), arrays(again)
    for name in stored.keys() - {"summary"}:
        before, after = np.asarray(stored[name]), np.asarray(read[name])
        assert after.dtype == before.dtype and np.array_equal(after, before), name


def test_design_and_dictionary_read_back_as_they_were_written(fit):
    folder, design, _, dictionary = fit
    assert Design.load(folder / "design.json") == design
    assert Dictionary.load(folder / "dictionary.json", design.data, folder / "design.json") == dictionary


def test_a_dictionary_of_other_rows_is_refused_by_name(fit, tmp_path):
    folder, design, _, dictionary = fit
    other = merge([ingested(tmp_path, flights(3_000, seed=6))])
    assert set(other.columns) == set(dictionary.columns) and other.data != dictionary.data
    other.write(tmp_path / "dictionary.json")
    with pytest.raises(UserError) as error:
        Dictionary.load(tmp_path / "dictionary.json", design.data, folder / "design.json")
    path = tmp_path / "dictionary.json"
    assert str(error.value).startswith(f"{path}: it was made from another set of rows than {folder / 'design.json'}\n")
    assert f"\n  delete {path};" in str(error.value)


def test_reference_levels_of_another_design_or_file_are_refused_by_name(fit, tmp_path):
    design = fit[0] / "design.json"
    arguments = argparse.Namespace(design=design, reference=tmp_path / "reference.json")
    digests.write_json(arguments.reference, {"levels": {"carrier": "B6"}, "design": digests.sha256(design)})
    assert SavedFit(arguments).reference == {"carrier": "B6"}
    digests.write_json(arguments.reference, {"levels": {}, "design": digests.sha256(fit[0] / "fit.json")})
    with pytest.raises(
        UserError, match=r"reference.json: it was made from another design than .*design.json\n  delete"
    ):
        _ = SavedFit(arguments).reference
    shutil.copy(fit[0] / "fit.json", arguments.reference)
    with pytest.raises(UserError, match=r"reference.json: it has no member `levels`: this is the content of another"):
        _ = SavedFit(arguments).reference


@pytest.mark.parametrize("name", ["fitted.index", "fitted.data-00000-of-00001", "checkpoint", "design.json"])
def test_a_fit_is_not_read_with_another_checkpoint_or_design(fit, name, tmp_path):
    folder, *_ = fit
    arguments = argparse.Namespace(
        design=folder / "design.json", checkpoint=folder / "checkpoint", fit=folder / "fit.json"
    )
    path = arguments.design if name == "design.json" else arguments.checkpoint / name
    good = path.read_bytes()
    _ = SavedFit(arguments).fitted
    try:
        flip(path, len(good) // 2)
        with pytest.raises(UserError, match=rf"{name}: the content has changed .*\n  delete .*fit.json; the next run"):
            _ = SavedFit(arguments).fitted
    finally:
        path.write_bytes(good)
