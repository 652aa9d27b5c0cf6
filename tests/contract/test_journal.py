"""A fit that was interrupted goes on from its journal, and ends with the very same numbers."""

import numpy as np
import pytest

from golden_cases import flights
from pools import design_of, ingest_frame
from tfglm.config import SolverConfig
from tfglm.data.dictionary import merge
from tfglm.distribute.local import LocalExecutor
from tfglm.engine.passes import rows_in
from tfglm.engine.workload import Workload
from tfglm.inference.stored import arrays
from tfglm.resume import Journal, ResumingExecutor
from tfglm.solvers.fit import fit as fit_design
from tfglm.solvers.run import Run


class Killed(Exception):
    """Stands for SIGKILL."""


class Counting(LocalExecutor):
    """Counts the sums and epochs that are made, and dies before one of them."""

    def __init__(self, dies_before: int = 10_000):
        super().__init__()
        self.made, self.dies_before = 0, dies_before

    def _count(self):
        if self.made == self.dies_before:
            raise Killed
        self.made += 1

    def sum(self, task, calls, state):
        self._count()
        return super().sum(task, calls, state)

    def update(self, calls, shared, weight):
        self._count()
        return super().update(calls, shared, weight)


FRAME = flights(3_000)


@pytest.fixture(scope="module")
def setting(tmp_path_factory):
    file = ingest_frame(FRAME, tmp_path_factory.mktemp("journal"))
    design = design_of("late ~ carrier + origin + hour", "binomial", merge([file]), [file], std_errors="robust")
    return Workload(design, [file], "train")


def fit(workload, folder, executor, key="key", solver=None, **limits):
    messages = []
    journal = Journal(folder, key, messages.append, **limits)
    try:
        fitted = fit_design(
            workload,
            Run(ResumingExecutor(executor, journal, lambda recalled, seconds, of: None), solver or SolverConfig()),
        )
    finally:
        journal.settle()
    return fitted, messages


def test_what_is_made_nearly_as_fast_as_written_is_not_kept_and_what_comes_after_it_is(setting, tmp_path):
    exact, _ = fit(setting, tmp_path / "whole", Counting())
    limits = {"small": 300, "bytes_per_second": 1.0}
    whole = Counting()
    fit(setting, tmp_path / "kept", whole, **limits)
    kept = len(list((tmp_path / "kept").glob("*.npz")))
    assert 2 <= kept < whole.made
    again = Counting()
    fitted, messages = fit(setting, tmp_path / "kept", again, **limits)
    assert again.made == whole.made - kept
    assert messages == [f"resuming from {kept} results of an earlier run in {tmp_path / 'kept'}"]
    np.testing.assert_array_equal(fitted.coefficients, exact.coefficients)


@pytest.mark.parametrize(
    "solver",
    [SolverConfig(), SolverConfig(solver=["adagrad", "newton"], online={"epochs": 3})],
    ids=["newton", "adagrad, newton"],
)
def test_a_fit_killed_at_any_time_goes_on_and_repeats_nothing(setting, tmp_path, solver):
    whole = Counting()
    exact, _ = fit(setting, tmp_path / "whole", whole, solver=solver)
    assert whole.made >= 6
    for dies_before in range(whole.made):
        folder = tmp_path / str(dies_before)
        with pytest.raises(Killed):
            fit(setting, folder, Counting(dies_before), solver=solver)
        rest = Counting()
        again, messages = fit(setting, folder, rest, solver=solver)
        assert rest.made == whole.made - dies_before
        assert "resuming from" in messages[0]
        assert again.summary == exact.summary
        before, after = arrays(exact), arrays(again)
        assert "covariance/sandwich/meat_dense" in before and before.keys() == after.keys()
        for name, array in before.items():
            np.testing.assert_array_equal(after[name], array)


def test_a_journal_of_something_else_or_a_damaged_one_is_not_believed(setting, tmp_path):
    whole = Counting()
    exact, _ = fit(setting, tmp_path, whole)
    other = Counting()
    again, messages = fit(setting, tmp_path, other, key="another formula")
    assert other.made == whole.made and not messages
    files = sorted(tmp_path.glob("*.npz"))
    files[2].write_bytes(files[2].read_bytes()[:100])
    half = Counting()
    again, messages = fit(setting, tmp_path, half, key="another formula")
    assert half.made == whole.made - 2
    assert "00002.npz cannot be read" in messages[1]
    np.testing.assert_array_equal(again.coefficients, exact.coefficients)
    files[1].write_bytes(files[3].read_bytes())
    other = Counting()
    again, messages = fit(setting, tmp_path, other, key="another formula")
    assert other.made == whole.made - 1
    assert "answers another question" in messages[1]
    np.testing.assert_array_equal(again.coefficients, exact.coefficients)


def test_a_full_disk_costs_the_journal_and_not_the_fit(setting, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    _, messages = fit(setting, tmp_path / "journal", Counting())
    assert messages == [
        f"warning: {tmp_path / 'journal'} cannot be written (No space left on device): an interrupted fit starts over"
    ]
    assert [path.name for path in (tmp_path / "journal").iterdir()] == ["key"]


def test_a_key_or_an_entry_that_has_changed_is_not_believed(setting, tmp_path):
    whole = Counting()
    exact, _ = fit(setting, tmp_path, whole)
    files = sorted(tmp_path.glob("*.npz"))
    for place in range(0, files[1].stat().st_size, 97):
        content = bytearray(files[1].read_bytes())
        content[place] ^= 1
        files[1].write_bytes(content)
        again, messages = fit(setting, tmp_path, Counting())
        assert "00001.npz cannot be read (it has changed since it was written)" in messages[1]
        np.testing.assert_array_equal(again.coefficients, exact.coefficients)
    # An entry of another fit, whose question is the same.
    other = tmp_path / "other"
    fit(setting, other, Counting(), key="another response")
    files[0].write_bytes((other / files[0].name).read_bytes())
    _, messages = fit(setting, tmp_path, Counting())
    assert "00000.npz cannot be read" in messages[1]
    (tmp_path / "key").write_bytes(b"\xff\xfe")
    anew = Counting()
    again, messages = fit(setting, tmp_path, anew)
    assert anew.made == whole.made and not messages
    np.testing.assert_array_equal(again.coefficients, exact.coefficients)


def test_each_sum_tells_which_rows_it_went_through(tmp_path):
    """A pass is a sum for each kind of files, here with few levels and with many."""
    few, many = flights(1_000), flights(2_000)
    few["plane"], many["plane"] = "N1", [f"N{number % 300}" for number in range(len(many))]
    files = [ingest_frame(frame, tmp_path, name) for name, frame in {"few": few, "many": many}.items()]
    design = design_of("late ~ carrier + plane", "binomial", merge(files), files)
    rows = []
    executor = ResumingExecutor(
        LocalExecutor(),
        Journal(tmp_path / "journal", "key", lambda message: None),
        lambda recalled, seconds, calls: rows.append(rows_in(calls)),
    )
    fit_design(Workload(design, files, "train"), Run(executor))
    assert set(rows) == {1_000, 2_000}
