"""What the sizes of input files decide: the strategy that `auto` stands for, and which files one job reads."""

from pathlib import Path

import pytest

from tfglm.config import InputFile, small_files_together, strategy_for
from tfglm.config.cluster import LARGEST_FOR_ONE_PROCESS as LARGEST
from tfglm.config.inputs import SMALL


def write(path: Path, size: int) -> Path:
    with path.open("wb") as file:
        file.truncate(size)
    return path


@pytest.mark.parametrize(
    ("sizes", "strategy"),
    [
        ({}, "one_device"),
        ({"a.csv": LARGEST}, "one_device"),
        ({"a.csv": LARGEST + 1}, "parameter_server"),
        ({"a.csv": LARGEST // 2, "b.csv": LARGEST // 2}, "one_device"),
        ({"a.csv": LARGEST // 2, "b.csv": LARGEST // 2 + 1}, "parameter_server"),
        ({"a.CSV.GZ": LARGEST // 7}, "one_device"),
        ({"a.csv.gz": LARGEST // 5}, "parameter_server"),
        ({"a.parquet": LARGEST // 5}, "parameter_server"),
    ],
)
def test_auto_depends_on_the_size_of_all_files_together(sizes, strategy, tmp_path):
    assert strategy_for(write(tmp_path / name, size) for name, size in sizes.items()) == strategy


def test_a_file_of_unknown_size_may_be_large_and_a_missing_one_is_refused_elsewhere(tmp_path):
    assert strategy_for([tmp_path / "no.csv"]) == "one_device"
    assert strategy_for([write(tmp_path / "a.csv", 5), None]) == "parameter_server"


def together(folder: Path, sizes: list[int]) -> list[list[str]]:
    """The files of each job, for files of these sizes."""
    files = {f"f{number}": write(folder / f"f{number}.csv", size) for number, size in enumerate(sizes)}
    return small_files_together({name: InputFile(str(path), ()) for name, path in files.items()})


def test_small_files_are_dealt_to_a_few_jobs(tmp_path):
    assert together(tmp_path, [10] * 5) == []
    assert together(tmp_path, [10] * 6) == [["f0", "f2", "f4"], ["f1", "f3", "f5"]]
    assert together(tmp_path, [10] * 7) == [["f0", "f2", "f4", "f6"], ["f1", "f3", "f5"]]
    assert together(tmp_path, [10, SMALL, *[10] * 5]) == [["f0", "f3", "f5"], ["f2", "f4", "f6"]]
    assert together(tmp_path, [10, SMALL, *[10] * 4]) == []
    assert [len(names) for names in together(tmp_path, [10] * 500)] == [63] * 4 + [62] * 4
    # Each job has about as many bytes as it has time for.
    assert [len(names) for names in together(tmp_path, [SMALL - 1] * 12)] == [3] * 4


def test_files_that_are_fetched_or_missing_have_a_job_each(tmp_path):
    files = {name: InputFile(f"https://host/{name}.csv", ()) for name in "abcdefgh"}
    assert small_files_together(files) == []
    assert small_files_together({name: InputFile(str(tmp_path / name), ()) for name in "abcdefgh"}) == []
