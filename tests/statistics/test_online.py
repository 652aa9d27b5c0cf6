"""Online solvers: their updates against the published formulas and Keras, what they cover, and how close they come."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from pydantic import ValidationError
from test_models import flights

from pools import Remembering, design_of, fit_files, ingest_frame, table_of
from tfglm.config import ModelConfig, SolverConfig
from tfglm.data.dictionary import merge
from tfglm.engine import kernels
from tfglm.engine.cutting import Cutting
from tfglm.engine.updates import orders
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.roles import curves
from tfglm.solvers import online
from tfglm.solvers.fit import objective_of
from tfglm.solvers.run import Run

FRAME = flights(5_000, seed=5)
FRAME["held_out"] = (np.arange(len(FRAME)) % 5 == 0).astype(int)
TRAIN = FRAME[FRAME["held_out"] == 0]
SPLIT = {"train": "held_out = 0", "evaluate": "held_out = 1"}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return ingest_frame(FRAME, tmp_path_factory.mktemp("online"), split=SPLIT)


# The published formulas, for a gradient g: each takes and returns the weights and what the solver remembers.


def sgd(w, memory, g, step, rate, l1, l2):
    return w - rate * (g + l2 * w), memory


def adagrad(w, memory, g, step, rate, l1, l2):
    g = g + l2 * w
    squares = memory.get("n", 0) + g**2
    return w - rate * g / np.sqrt(squares + 1e-7), {"n": squares}


def adam(w, memory, g, step, rate, l1, l2):
    g = g + l2 * w
    first = 0.9 * memory.get("m", 0) + 0.1 * g
    second = 0.999 * memory.get("v", 0) + 0.001 * g**2
    unbiased = np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
    return w - rate * unbiased * first / (np.sqrt(second) + 1e-7), {"m": first, "v": second}


def ftrl(w, memory, g, step, rate, l1, l2, beta=1e-3):
    """Algorithm 1 of McMahan et al. (2013), penalties counted at each step."""
    n, z = memory.get("n", 0), memory.get("z", -w * beta / rate)
    sigma = (np.sqrt(n + g**2) - np.sqrt(n)) / rate
    z, n = z + g - sigma * w, n + g**2
    after = np.where(
        np.abs(z) <= step * l1, 0.0, -(z - np.sign(z) * step * l1) / ((beta + np.sqrt(n)) / rate + step * l2)
    )
    return after, {"n": n, "z": z}


STEPS, RATE = 5, 0.3
CASES = {
    "sgd": (sgd, 0.0, 0.2, 0.5),
    "adagrad": (adagrad, 0.0, 0.0, 0.0),
    "adam": (adam, 0.0, 0.0, 0.0),
    "ftrl": (ftrl, 0.0, 0.0, None),
    "ftrl with penalties": (ftrl, 0.1, 0.3, None),
}
"""Rule, l1, l2 and decay."""


def matrix_and_response() -> tuple[np.ndarray, np.ndarray]:
    """Intercept, carriers and hour, as the solver has them: standardised with the weights of rows."""
    columns = [np.ones(len(TRAIN))]
    columns += [TRAIN["carrier"] == level for level in sorted(TRAIN["carrier"].unique())]
    mean = np.average(TRAIN["hour"], weights=TRAIN["weight"])
    columns += [(TRAIN["hour"] - mean) / np.sqrt(np.average((TRAIN["hour"] - mean) ** 2, weights=TRAIN["weight"]))]
    return np.stack(columns, 1).astype(float), TRAIN["late"].to_numpy(float)


def gradients(offset: np.ndarray, weight: np.ndarray):
    """The gradient of the mean loss as a function of the weights."""
    x, y = matrix_and_response()
    return lambda w: x.T @ (weight * (1 / (1 + np.exp(-x @ w - offset)) - y)) / weight.sum()


def train(file, solver: str, settings: dict, start: float = 0.0, executor: Remembering | None = None, **model):
    """Train without what comes before and after. Returns what a journal would have, and the summary."""
    design = design_of("late ~ carrier + hour", "binomial", merge([file]), [file], **model)
    executor, workload = executor or Remembering(), Workload(design, [file], "train")
    run = Run(executor, SolverConfig(solver=[solver], online=settings))
    _, summary = online.OnlineTraining(objective_of(workload, run), None, 1.0).learn(
        np.r_[start, np.zeros(design.size - 1)]
    )
    return executor.remembered, summary


@pytest.fixture(scope="module")
def learnt(file) -> dict[str, list[np.ndarray]]:
    """The coefficients after each epoch of one step on all rows."""
    actual = {}
    for case, (_, l1, l2, decay) in CASES.items():
        settings = {"batch_size": len(TRAIN), "epochs": STEPS, "learning_rate": RATE, "average": False, "decay": decay}
        settings["synchronous"] = case == "adam"
        model = {"weights": "weight", "offset": "log(seats)", "l1": l1, "l2": l2}
        remembered, _ = train(file, case.split()[0], settings, -0.5, **model)
        actual[case] = [each["coefficients"] for each in remembered]
    return actual


@pytest.fixture(scope="module")
def gradient():
    return gradients(np.log(TRAIN["seats"].to_numpy()), TRAIN["weight"].to_numpy())


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_each_step_is_that_of_the_published_formula(learnt, gradient, case):
    rule, l1, l2, decay = CASES[case]
    w, memory = np.r_[-0.5, np.zeros(len(learnt[case][0]) - 1)], {}
    penalised = np.arange(len(w)) > 0
    for step, ours in enumerate(learnt[case], 1):
        rate = RATE / (1 + (decay or 0) * (step - 1))
        w, memory = rule(w, memory, gradient(w), step, rate, l1 * penalised, l2 * penalised)
        np.testing.assert_allclose(ours, w, rtol=2e-5, atol=2e-6)
    assert step == STEPS
    if l1:
        assert 0 < np.count_nonzero(w) < len(w)
        np.testing.assert_array_equal(ours == 0, w == 0)


KERAS = """
import json, os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import keras, numpy as np
rate, x, y, weight, offset = (np.array(one) for one in json.load(sys.stdin))
settings = {"Adagrad": {"initial_accumulator_value": 0.0}, "Adam": {}, "Ftrl": {"initial_accumulator_value": 0.0, "beta": 1e-3}}
found = {}
for name, more in settings.items():
    optimiser = getattr(keras.optimizers, name)(float(rate), **more)
    w = keras.Variable(np.r_[-0.5, np.zeros(x.shape[1] - 1)], dtype="float64")
    found[name] = []
    for step in range(5):
        g = x.T @ (weight * (1 / (1 + np.exp(-x @ np.array(w) - offset)) - y)) / weight.sum()
        optimiser.apply_gradients([(keras.ops.convert_to_tensor(g), w)])
        found[name].append(np.array(w).tolist())
print(json.dumps(found))
"""


@pytest.mark.processes
def test_each_step_is_that_of_keras(learnt):
    x, y = matrix_and_response()
    given = [RATE, x.tolist(), y.tolist(), TRAIN["weight"].tolist(), np.log(TRAIN["seats"]).tolist()]
    done = subprocess.run(
        [sys.executable, "-c", KERAS],
        input=json.dumps(given),
        env={**os.environ, "KERAS_BACKEND": "tensorflow"},
        capture_output=True,
        text=True,
        check=True,
    )
    for name, theirs in json.loads(done.stdout.splitlines()[-1]).items():
        # Keras' Ftrl begins as if the weights were 0.
        if name != "Ftrl":
            np.testing.assert_allclose(learnt[name.lower()], theirs, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(learnt[name.lower()][-1], theirs[-1], rtol=2e-2)


def rows_of(calls) -> list[tuple[str, int]]:
    """File and number of each row that these calls go through."""
    actual = []
    for signature, (order, paths, _, blocks, counts, *_) in calls:
        for (multiplier, offset), block, count in zip(order, blocks, counts, strict=True):
            place, runs = np.arange(count), count // kernels.RUN
            mixed = (place // kernels.RUN * int(multiplier) + offset) % max(runs, 1) * kernels.RUN + place % kernels.RUN
            where = np.where(place < runs * kernels.RUN, mixed, place)
            shard, inside = divmod(int(block), signature.blocks)
            actual += [(paths[shard, 0], inside * 8192 + int(row)) for row in where]
    return actual


@pytest.mark.slow
def test_each_epoch_has_every_row_once_in_another_order(tmp_path):
    frame = flights(120_000, seed=6)
    half = ingest_frame(frame[:80_000], tmp_path, "first"), ingest_frame(frame[80_000:], tmp_path, "second")
    empty = ingest_frame(frame[:100], tmp_path, "empty", split={"train": "FALSE", "evaluate": "TRUE"})
    design = design_of("late ~ carrier + hour", "binomial", merge([*half, empty]), half)
    workload = Workload(design, [*half, empty], "train", cutting=Cutting(reads_to_shuffle=1))
    epochs = [workload.epoch(np.random.default_rng([1, epoch]), fewest) for epoch, fewest in ((1, 1), (2, 7))]
    # Few calls read several blocks at once.
    assert [max(counts.max() for _, (_, _, _, _, counts, *_) in calls) for calls in epochs] == [26_667, 8_192]
    first, second = map(rows_of, epochs)
    assert len(first) == len(set(first)) == 120_000 == workload.rows
    assert set(second) == set(first) == set(rows_of(workload.epoch(None, 2)))
    assert first != second


@pytest.mark.slow
def test_a_block_is_read_in_any_order_of_its_runs():
    sizes, most = np.array([1, 2, 4]), 8192
    starts = np.append(0, np.cumsum(sizes[:-1])) * most // 8
    types = np.uint8, np.uint16, np.float32
    stored = [np.arange(most).astype(kind) for kind in types]
    words = np.concatenate([column.view(np.int64) for column in stored])
    for count in (1, 31, 32, 33, 100, 5_000, 8_191, 8_192):
        actual = np.zeros_like(words)
        ((multiplier, offset),) = orders([count], np.random.default_rng(count))
        kernels.in_runs(words, starts, sizes * kernels.RUN // 8, count, int(multiplier), int(offset), actual)
        of_columns = [part.view(kind)[:count] for part, kind in zip(np.split(actual, starts[1:]), types, strict=True)]
        order = of_columns[1].astype(int)
        assert sorted(order) == list(range(count))
        assert count < 100 or list(order) != sorted(order)
        for column, was in zip(of_columns, stored, strict=True):
            assert np.array_equal(column, was[order])


FORMULA = "late ~ carrier * origin + C(month) + hour + scale(distance)"


def fit(file, solver: SolverConfig, messages: list[str] | None = None, workers: int = 1, formula=FORMULA, **settings):
    return fit_files(
        [file],
        formula,
        settings.pop("family", "binomial"),
        solver=solver,
        executor=Remembering(workers),
        tell=(messages if messages is not None else []).append,
        **settings,
    )[:2]


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    frame = flights(60_000, seed=7)
    frame["held_out"] = (np.arange(len(frame)) % 6 == 0).astype(int)
    frame["delay"] += 5_000
    return ingest_frame(frame, tmp_path_factory.mktemp("large"), split=SPLIT)


@pytest.fixture(scope="module")
def exact(large):
    return fit(large, SolverConfig())


@pytest.mark.slow
@pytest.mark.parametrize("synchronous", [False, True], ids=["asynchronous", "synchronous"])
def test_it_comes_close_and_says_how_close(large, exact, synchronous):
    messages = []
    settings = {"epochs": 10, "batch_size": 256, "learning_rate": 0.1, "report_every": 20}
    settings |= {"synchronous": synchronous, "parts": 2}
    design, fitted = fit(large, SolverConfig(solver="adagrad", online=settings), messages, workers=2)
    gap = exact[1].summary["log_likelihood"] - fitted.summary["log_likelihood"]
    assert 0 < gap < 2e-4 * 50_000
    assert fitted.summary["gap"]["log_likelihood"] == pytest.approx(gap, rel=0.1)
    assert fitted.summary["gap"]["unreliable"] == (
        fitted.summary["gap"]["log_likelihood"] > 0.01 * fitted.summary["coefficients"]
    )
    blocks = [8192] * 6 + [50_000 - 6 * 8192]
    assert fitted.summary["online"]["steps"] == 10 * sum(-(-rows // 256) for rows in blocks)
    assert not fitted.summary["exact"] and not fitted.summary["converged"]
    table = table_of(design, fitted)
    assert table["std_error"].isna().all() and table["p_value"].isna().all()
    assert np.isfinite(table["estimate"]).all()
    assert any(
        re.fullmatch(r"step (\d+), epoch 1, batch \1: loss 0\.\d+, [\d,]+ rows a second", line) for line in messages
    )
    assert any("steps in" in line and "final loss 0." in line for line in messages)


@pytest.mark.slow
def test_an_exact_solver_goes_on_from_there(large, exact):
    assert SolverConfig(solver=["sgd", "newton"]).is_exact
    design, fitted = fit(large, SolverConfig(solver=["sgd", "newton"], online={"epochs": 1}))
    assert fitted.summary["exact"] and fitted.summary["converged"]
    ours, theirs = table_of(design, fitted), table_of(*exact)
    error = theirs["std_error"].fillna(1.0)
    assert (np.abs(ours["estimate"] - theirs["estimate"]) <= 1e-7 * error).all()
    np.testing.assert_allclose(ours["std_error"], theirs["std_error"], rtol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize(("family", "response"), [("gaussian", "delay"), ("poisson", "bags")])
def test_linear_regression_with_a_large_mean_and_poisson_regression(large, family, response):
    settings = {"epochs": 8, "batch_size": 256, "learning_rate": 0.1}
    formula = FORMULA.replace("late", response)
    _, fitted = fit(large, SolverConfig(solver="adagrad", online=settings), formula=formula, family=family)
    assert fitted.summary["gap"]["log_likelihood"] < 3e-4 * 50_000


@pytest.mark.slow
def test_the_epoch_with_the_least_loss_on_other_rows_counts(file):
    messages = []
    solver = SolverConfig(solver="sgd", online={"epochs": 30, "patience": 2, "learning_rate": 8.0, "decay": 0.0})
    _, fitted = fit(file, solver, messages, formula="late ~ carrier + hour")
    lines = [line for line in messages if "held out" in line]
    losses = [float(line.split(" held out")[0].split()[-1]) for line in lines]
    assert len(losses) == int(np.argmin(losses)) + 1 + 2 < 30
    assert fitted.summary["online"]["epochs"] == int(np.argmin(losses)) + 1
    assert fitted.summary["online"]["loss_a_row_held_out"] == pytest.approx(min(losses), rel=1e-5)


def test_it_stops_at_the_last_step(file):
    remembered, summary = train(file, "sgd", {"batch_size": 100, "epochs": 3, "last_step": 61})
    assert (summary["steps"], summary["epochs"], len(remembered)) == (61, 2, 2)


def test_repeated_calls_are_counted(file):
    class Dying(Remembering):
        """A executor of which one worker dies after it has pushed."""

        def update(self, calls, shared, weight):
            for turn in super().update(calls, shared, weight):
                shared.additions += turn[0][0] == 0
                yield turn

    _, summary = train(file, "sgd", {"epochs": 2}, executor=Dying())
    assert summary["calls_repeated"] == 2


@pytest.mark.parametrize("penalty", [{}, {"l1": 0.001}])
@pytest.mark.parametrize("rate", [1e3, 1e30])
def test_a_learning_rate_whose_loss_stays_finite_far_off_is_refused(file, rate, penalty):
    solver = SolverConfig(solver=["sgd", "newton"], online={"learning_rate": rate, "epochs": 2})
    message = (
        r"models.m.online.learning_rate: with .* the steps are too long: sgd began at a deviance of .*\n.*such as 1$"
    )
    with pytest.raises(UserError, match=message):
        fit(file, solver, **penalty)


@pytest.mark.parametrize("synchronous", [False, True])
def test_a_learning_rate_that_diverges_is_refused_and_the_last_good_epoch_kept(file, synchronous):
    settings = {"learning_rate": 1e38, "synchronous": synchronous, "epochs": 2}
    with pytest.raises(
        UserError, match=r"models.m.online.learning_rate: the loss is not finite in epoch 1.*\n.*kept in memory"
    ):
        train(file, "sgd", settings, l2=1e3)


def test_a_batch_larger_than_the_data_is_refused(file):
    with pytest.raises(
        UserError, match=r"online.batch_size: a batch has 8,000 rows, but there are only 4,000 training rows"
    ):
        train(file, "sgd", {"batch_size": 8000})


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"solver": "ftrl", "online": {"last_step": 0}}, "greater than or equal to 1"),
        ({"solver": "ftrl", "online": {"learning_rate": 0}}, "greater than 0"),
        ({"solver": ["newton", "sgd"]}, "expected one solver, or an online one and `newton`"),
        ({"solver": "ftrl", "online": {"decay": 1.0}}, "shortens its steps itself"),
        ({"l1": -0.1}, "greater than or equal to 0"),
        ({"path": {"penalties": [0.1, -1.0]}}, "greater than 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ValidationError, match=message):
        ModelConfig(formula="y ~ x", family="binomial", **settings)


def test_curves_can_be_read_by_tensorboard(tmp_path):
    written = curves.Curves(tmp_path / "events")
    written.record(3, {"online/loss": 0.5})
    written.record(4, {"online/loss": 0.25})
    (path,) = (tmp_path / "events").iterdir()
    actual = []
    for event in tf.compat.v1.train.summary_iterator(str(path)):
        for value in event.summary.value:
            assert value.metadata.plugin_data.plugin_name == "scalars"
            actual.append((event.step, value.tag, float(tf.make_ndarray(value.tensor))))
    assert actual == [(3, "online/loss", 0.5), (4, "online/loss", 0.25)]


@pytest.mark.parametrize(
    ("rows", "expected"), [(300, 300), (4000, 512), (1_000_000, 512), (3_000_000, 2048), (10_000_000, 4096)]
)
def test_by_default_a_batch_grows_with_the_rows(rows, expected):
    assert online.default_batch_size(rows) == expected
