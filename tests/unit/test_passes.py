"""The passes against float64 NumPy, and what they do with shards that are not as they were written."""

import gc
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.special

from pools import design_of, ingest_frame
from tfglm.data.dictionary import merge
from tfglm.data.limits import IngestLimits
from tfglm.data.shards import BLOCK_ROWS
from tfglm.distribute import wire
from tfglm.distribute.local import LocalExecutor
from tfglm.engine import passes
from tfglm.engine.cutting import Cutting
from tfglm.engine.evaluated import predictions_of
from tfglm.engine.rectified import LEAST, ROUNDS
from tfglm.engine.rows import LEFT_OUT, SEPARATED_LEVEL, UNSEEN_LEVEL
from tfglm.engine.sums import Sum, SumLayout
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.solvers.information import assemble, factor, gradient, null_vectors

FORMULA = "late ~ carrier + C(month) + hour + real + dest"


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    random = np.random.default_rng(7)
    rows = 40_000
    return pd.DataFrame(
        {
            "late": random.integers(0, 2, rows),
            "carrier": random.choice(["AA", "B6", "DL"], rows),
            "month": random.integers(1, 13, rows),
            "hour": random.integers(0, 24, rows),
            "real": random.normal(3.0, 2.0, rows),
            "dest": [f"D{number:03d}" for number in random.integers(0, 300, rows)],
            "day": random.integers(1, 31, rows),
        }
    )


@pytest.fixture(scope="module")
def file(frame, tmp_path_factory):
    limits = IngestLimits(most_codes=1000)  # so that `real` is stored as it is
    split = {"train": "day <= 24", "evaluate": "day > 24"}
    columns = ["late", "carrier", "month", "hour", "real", "dest"]
    return ingest_frame(frame, tmp_path_factory.mktemp("passes"), limits=limits, split=split, columns=columns)


@pytest.fixture(scope="module")
def workload(file) -> Workload:
    return Workload(design_of(FORMULA, "binomial", merge([file]), [file]), [file], "train")


def matrix(design, frame: pd.DataFrame) -> np.ndarray:
    """The full design matrix, every level of every categorical term."""
    columns = [np.ones(len(frame))]
    for part in design.parts[1:]:
        if part.grouping:
            factor = design.categorical_by_name[part.grouping[0]]
            columns += [(frame[factor.column].astype(str) == level).to_numpy(float) for level in factor.levels]
        else:
            number = design.numeric_by_name[part.term.name]
            columns.append((frame[number.column].to_numpy(float) - number.center[0]) / number.scale[0])
    return np.array(columns).T


def state(design, coefficients: np.ndarray) -> dict[str, np.ndarray]:
    return {term: coefficients[where] for term, where in design.slices.items()}


@pytest.mark.slow
def test_sums_equal_those_of_numpy(workload, file, frame):
    design = workload.design
    assert [file.column(name).coded for name in ("hour", "real")] == [True, False]
    assert max(shard.blocks for shard in file.manifest.shards) > 3
    coefficients = np.random.default_rng(8).normal(0, 0.3, design.size)
    train = frame[frame["day"] <= 24]
    x, y = matrix(design, train), train["late"].to_numpy(float)
    eta = x @ coefficients
    mean = scipy.special.expit(eta)
    sums = workload.sum(LocalExecutor(), "information", state(design, coefficients))
    assert sums["loss"] == pytest.approx(np.sum(np.logaddexp(0, eta) - y * eta), rel=1e-12)
    blocks = assemble(design, sums)
    np.testing.assert_allclose(gradient(design, sums), x.T @ (mean - y), rtol=1e-10, atol=1e-8)
    information = (x * (mean * (1 - mean))[:, None]).T @ x
    assert len(blocks.eliminated) == 300
    for part, rows, columns in (
        (blocks.a, blocks.dense, blocks.dense),
        (blocks.b, blocks.dense, blocks.eliminated),
        (np.diag(blocks.d), blocks.eliminated, blocks.eliminated),
    ):
        np.testing.assert_allclose(part, information[np.ix_(rows, columns)], rtol=1e-10, atol=1e-9)
    first = workload.sum(LocalExecutor(), "gradient", state(design, coefficients))
    for key, value in first.items():
        np.testing.assert_allclose(value, sums[key], rtol=1e-12, atol=1e-9)


@pytest.mark.slow
def test_solving_with_a_term_eliminated_equals_solving_the_whole(workload):
    design = workload.design
    sums = workload.sum(LocalExecutor(), "information", state(design, np.zeros(design.size)))
    blocks = assemble(design, sums)
    free = np.ones(design.size, bool)
    for each in design.categorical:
        free[design.slices[each.name].start] = False
    blocks = blocks.restrict(free)
    order = np.concatenate([blocks.dense, blocks.eliminated])
    whole = np.block([[blocks.a, blocks.b], [blocks.b.T, np.diag(blocks.d)]])
    factored, slope = factor(blocks), gradient(design, sums)
    np.testing.assert_allclose(factored.solve(slope)[order], np.linalg.solve(whole, slope[order]), rtol=1e-9)
    u = np.vstack([np.eye(len(blocks.dense)), -factored.loadings.T])
    inverse = u @ factored.schur_inverse() @ u.T
    inverse[len(blocks.dense) :, len(blocks.dense) :] += np.diag(1 / blocks.d)
    np.testing.assert_allclose(inverse, np.linalg.inv(whole), rtol=1e-8, atol=1e-12)
    assert len(null_vectors(blocks, design.size)[0]) == 0


def test_four_sums_that_are_made_side_by_side_are_those_of_each_alone():
    random = np.random.default_rng(3)
    rows, sizes = 5000, {"few": 7, "many": 300, "too many": 5000}
    groups = np.array([random.integers(0, size, rows) for size in sizes.values()], np.uint16)
    values, numbers = {"weight": random.random(rows)}, random.normal(size=(4, rows))
    products = [(), (0,), (1,), (2,), (3,)]  # one more than four
    sums = {f"{group} {product}": Sum("weight", product, (group,)) for group in sizes for product in products}

    def summed(sums: dict[str, Sum]) -> dict[str, np.ndarray]:
        layout = SumLayout(sums, sizes)
        vector = np.full(layout.size, 0.1)  # what is there already
        layout.add(vector, values, lambda: numbers, groups)
        return layout.unpack(vector)

    together = summed(sums)
    for name, sum_ in sums.items():
        np.testing.assert_array_equal(together[name], summed({name: sum_})[name], strict=True)


def test_counts_are_exact_and_leave_out_excluded_levels(workload, frame):
    design = workload.design
    train = frame[frame["day"] <= 24]
    rest = workload.excluding({("carrier",): frozenset([1])})
    for part, expected in ((workload, train), (rest, train[train["carrier"] != "B6"])):
        counts = part.sum(LocalExecutor(), "counts", state(design, np.zeros(design.size)))
        assert (counts["rows"], counts["response"]) == (len(expected), expected["late"].sum())
        by_month = expected.groupby("month")["late"].agg(["size", "sum"])
        assert counts["rows", 1].tolist() == by_month["size"].tolist()
        assert counts["response", 1].tolist() == by_month["sum"].tolist()


@pytest.mark.parametrize(
    "changed",
    [
        lambda rows, all_rows: rows.with_design(rows.design.as_linear()),
        lambda rows, all_rows: rows.sampled(1.0),
        lambda rows, all_rows: rows.excluding(rows.excluded),
        lambda rows, all_rows: rows.along(np.zeros((1, rows.design.size))),
        lambda rows, all_rows: all_rows.as_in(rows),
    ],
)
def test_rows_that_take_no_part_do_so_whatever_else_changes(workload, frame, changed):
    fewer = workload.excluding({("carrier",): frozenset([1])}).without_estimates({("carrier",): frozenset([0])})
    rows = changed(fewer, workload)
    counts = rows.sum(LocalExecutor(), "counts", state(rows.design, np.zeros(rows.design.size)))
    left = frame[(frame["day"] <= 24) & ~frame["carrier"].isin(rows.design.categorical[0].levels[:2])]
    assert counts["rows"] == len(left) > 0


def test_predictions_say_why_a_row_has_none(workload, file, frame):
    design = workload.design
    known = tuple(level for level in design.categorical[0].levels if level != "DL")
    carrier, *others = design.categorical
    narrower = replace(design, categorical=(replace(carrier, levels=known), *others))
    evaluation = Workload(narrower, [file], "evaluate", {("carrier",): frozenset([known.index("B6")])})
    coefficients = np.random.default_rng(9).normal(0, 0.3, narrower.size)
    values = state(narrower, coefficients)
    parts = []
    for signature, calls in evaluation.calls.items():
        for call in calls:
            parts.append(evaluation.passes(signature).rows(predictions_of, values, call))
    flag, eta = (np.concatenate([part[name] for part in parts]) for name in ("flag", "eta"))
    rows = frame[frame["day"] > 24]
    assert np.count_nonzero(flag == 0) == (rows["carrier"] == "AA").sum()
    assert np.count_nonzero(flag == SEPARATED_LEVEL) == (rows["carrier"] == "B6").sum()
    assert np.count_nonzero(flag == UNSEEN_LEVEL) == (rows["carrier"] == "DL").sum()
    assert len(flag) == len(rows)
    expected = matrix(narrower, rows[rows["carrier"] == "AA"]) @ coefficients
    np.testing.assert_allclose(np.sort(eta[flag == 0]), np.sort(expected), rtol=1e-12)


@pytest.mark.slow
def test_what_is_made_of_some_rows_is_freed_with_them(workload):
    zero = state(workload.design, np.zeros(workload.design.size))
    ((signature, (call, *_)),) = workload.calls.items()
    information = workload.passes(signature).named("information")
    information(zero, *call)
    gc.collect()
    gc.freeze()  # what other tests have left behind is not counted
    gc.disable()
    try:
        information(zero, *call)
        # In cycles of references rows would stay until the next collection, and others be made in memory that no cache has.
        assert gc.collect() == 0
    finally:
        gc.enable()
        gc.unfreeze()


@pytest.mark.parametrize(
    "name", ["counts", "gradient", "information", "squares", "null", "separation", "magnitudes", "rectifier"]
)
def test_a_worker_makes_the_same_of_what_it_is_sent(workload, name):
    random, size = np.random.default_rng(10), workload.design.size
    coefficients = state(workload.design, random.normal(0, 0.3, size)) | {LEFT_OUT: random.normal(size=(2, size))}
    coefficients |= {ROUNDS: random.normal(size=(1, size)), LEAST: np.zeros(1)}
    ((signature, (call, *_)),) = workload.calls.items()
    ours = workload.passes(signature).named(name)
    theirs = passes.pass_of(ours.task.design.text, json.loads(ours.task.settings))
    sent = wire.unpack(wire.kinds(call), wire.pack(call))
    assert theirs is not ours
    np.testing.assert_array_equal(theirs(coefficients, *sent), ours(coefficients, *call))


def test_calls_are_equally_long_and_have_each_block_once_wherever_a_shard_ends(workload, file, frame):
    cutting = Cutting(rows_per_sum=0.01, fewest_rows=2 * BLOCK_ROWS)
    thrice = Workload(workload.design, [file, file, file], "train", cutting=cutting)
    ((signature, calls),) = thrice.calls.items()
    numbers = [np.sum(-(-counts // BLOCK_ROWS)) for _, _, _, counts, *_ in calls]
    assert signature.shards == 2
    assert len(numbers) == 4
    assert max(numbers) - min(numbers) <= 1
    zero = state(thrice.design, np.zeros(thrice.design.size))
    whole, cut = (each.sum(LocalExecutor(), "counts", zero) for each in (workload, thrice))
    assert cut["rows"] == 3 * whole["rows"] == 3 * (frame["day"] <= 24).sum()
    np.testing.assert_array_equal(cut["response", 1], 3 * whole["response", 1])


@pytest.mark.slow
def test_more_groups_than_two_bytes_can_number_are_told_apart(tmp_path):
    ids = np.repeat(np.arange(40_000), 2)
    wide = ingest_frame(pd.DataFrame({"late": ids % 2, "id": [f"N{each:05d}" for each in ids]}), tmp_path)
    design = design_of("late ~ id", "binomial", merge([wide]), [wide])
    (grouping,) = design.groupings
    counts = Workload(design, [wide], "train").sum(LocalExecutor(), "counts", state(design, np.zeros(design.size)))
    assert design.levels_of(grouping) == 40_000
    assert (counts["rows", 0] == 2).all()
    late = [int(level[1:]) % 2 for level in design.categorical[0].levels]
    np.testing.assert_array_equal(counts["response", 0], 2.0 * np.array(late))


def test_a_file_that_is_gone_is_an_error_that_names_it(frame, tmp_path):
    lost = ingest_frame(frame.head(1000), tmp_path, columns=["late", "carrier"])
    design = design_of("late ~ carrier", "binomial", merge([lost]), [lost])
    path = tmp_path / "table" / lost.manifest.shards[0].path / "carrier"
    path.unlink()
    with pytest.raises(
        UserError, match=rf"{path.parent.name}/carrier, a part of a shard, cannot be read: No such file"
    ):
        Workload(design, [lost], "train").sum(LocalExecutor(), "counts", state(design, np.zeros(design.size)))


@pytest.mark.parametrize(("rows", "place", "block"), [(1000, 500, 0), (80_000, 8192 + 500, 1)])
def test_a_flipped_byte_is_an_error_that_names_file_and_block(tmp_path, rows, place, block):
    columns = {"late": np.arange(rows) % 2, "carrier": np.where(np.arange(rows) % 3, "AA", "B6")}
    damaged = ingest_frame(pd.DataFrame(columns), tmp_path)
    design = design_of("late ~ carrier", "binomial", merge([damaged]), [damaged])
    path = tmp_path / "table" / damaged.manifest.shards[0].path / "carrier"
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(
        UserError, match=rf"{path.parent.name}/carrier: the shard has changed.*in block {block} of 8192 rows"
    ):
        Workload(design, [damaged], "train").sum(LocalExecutor(), "counts", state(design, np.zeros(design.size)))
