"""Networks in this process: losses and gradients against their formulas, batches, checkpoints, and what they come to."""

from dataclasses import replace
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from test_models import flights

from pools import design_of, fit_design, ingest_frame, table_of
from tfglm import bundle, checkpoint
from tfglm.config import DesignConfig, TrainingConfig
from tfglm.data.dictionary import merge
from tfglm.data.shards import IngestedFile
from tfglm.design import checks
from tfglm.design.build import build_design
from tfglm.design.design import Design
from tfglm.distribute import strategies
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.families import FAMILIES
from tfglm.networks import drawing, layers, linear, predict, sources, stored
from tfglm.networks.export import ExportedNetwork
from tfglm.networks.layers import OutputScale
from tfglm.networks.pipeline import Batches
from tfglm.networks.rows import OFFSET, RESPONSE, WEIGHT, Units
from tfglm.networks.training import Training
from tfglm.results import coefficients, estimates, saved_fit, unseen
from tfglm.results.predict import check_identity
from trainings import rows_of, slopes, training_of

ROWS = 6000
FORMULA = "late ~ carrier + origin + C(month) + hour + distance"
REGRESSIONS = [name for name, family in FAMILIES.items() if family.in_networks and not family.of_classes]


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> IngestedFile:
    frame = flights(ROWS, seed=3)
    frame.loc[::50, "carrier"] = None
    split = {"train": "month <= 5", "evaluate": "month = 6 AND hour < 20", "predict": "month = 6 AND hour >= 20"}
    return ingest_frame(frame, tmp_path_factory.mktemp("networks"), split=split)


def design(file: IngestedFile, formula: str = FORMULA, family: str = "binomial", **keys) -> Design:
    return design_of(formula.replace("C(month) + ", ""), family, merge([file]), [file], **keys)


def training(
    file: IngestedFile,
    folder: Path,
    of_design: Design | None = None,
    record=lambda *of_step: None,
    kind: type[Training] = Training,
    strategy: tf.distribute.Strategy | None = None,
    **keys,
) -> Training:
    of_design = of_design or design(file)
    settings = TrainingConfig.model_validate({"batch_size": 100, "epochs": 2, "hidden": [8]} | keys)
    return training_of(rows_of(of_design, file), settings, folder, record, LINES.append, kind, strategy)


LINES: list[str] = []
"""What trainings have said."""


def weights(network: keras.Model) -> list[np.ndarray]:
    return [np.asarray(weight) for weight in network.get_weights()]


@pytest.mark.parametrize("family", REGRESSIONS)
def test_the_loss_of_tensors_is_that_of_arrays(family):
    random = np.random.default_rng(1)
    eta = random.normal(size=50, scale=3)
    y = {"gaussian": random.normal(size=50), "binomial": random.integers(0, 2, 50), "poisson": random.poisson(3, 50)}
    loss = FAMILIES[family].tensor_loss(tf, tf.constant(eta), tf.constant(y[family].astype(float)))
    np.testing.assert_allclose(loss, FAMILIES[family].loss(eta, y[family]), rtol=1e-12)


@pytest.mark.slow
def test_an_epoch_has_each_row_once_and_an_order_of_its_own(file):
    units = Units(Workload(design(file), [file], "train"))
    rows = np.concatenate([units.train(number).numbers for number in range(len(units))])
    assert len(rows) == (flights(ROWS, seed=3).drop(index=range(0, ROWS, 50))["month"] <= 5).sum()

    def taken(epoch: int, **keys) -> np.ndarray:
        batches = Batches(units, TrainingConfig.model_validate({"batch_size": 128} | keys)).epochs(epoch, epoch + 1)
        return np.concatenate([batch.numbers for batch in batches])

    def ordered(numbers: np.ndarray) -> np.ndarray:
        return numbers[np.lexsort(numbers.T)]

    first = taken(0)
    assert len(first) % 128 == 0
    used = first[first[:, WEIGHT] > 0]
    np.testing.assert_array_equal(ordered(used), ordered(rows))
    for same in (taken(0), taken(0, prefetch=1, cache=True)):
        np.testing.assert_array_equal(first, same)
    for other in (taken(1), taken(0, seed=2), taken(0, shuffle=False)):
        assert not np.array_equal(first, other)
    np.testing.assert_array_equal(taken(0, shuffle=False)[: len(rows)], rows)


@pytest.mark.slow
def test_cached_rows_are_read_once(file, monkeypatch):
    units = Units(Workload(design(file), [file], "train"))
    read, train = [], units.train
    monkeypatch.setattr(units, "train", lambda number: read.append(number) or train(number))
    for cache, times in ((True, 1), (False, 3)):
        read.clear()
        batches = list(Batches(units, TrainingConfig(cache=cache)).epochs(0, 3))
        assert sorted(read) == sorted(times * list(range(len(units)))) and len(batches) % 3 == 0


def test_shares_are_those_of_the_weights(file):
    units = Units(Workload(design(file, weights="weight"), [file], "train"))
    *_, last = Batches(units, TrainingConfig(batch_size=1000)).epochs(0, 1)
    weight = last.numbers[:, WEIGHT].numpy()
    assert (weight == 0).sum() > 0
    np.testing.assert_allclose(last.share, weight / weight.sum(), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("family", REGRESSIONS)
def test_gradients_are_those_of_finite_differences(file, family):
    response = {"gaussian": "delay", "binomial": "late", "poisson": "bags"}[family]
    of_family = design(file, FORMULA.replace("late", response) + " + carrier:hour", family)
    network = layers.network(
        of_family, TrainingConfig(hidden=[5, 4], activation="tanh", wide=True), OutputScale(0.5, 2.0), seed=4
    )
    rows = Units(Workload(of_family, [file], "train")).train(0)
    batch = [rows.groups[:200], rows.numbers[:200]]
    loss = np.mean(FAMILIES[family].loss(np.asarray(network(batch), float), batch[1][:, RESPONSE].astype(float)))
    for gradient, difference in slopes(network, batch, family, step=1e-2):
        assert gradient == pytest.approx(difference, rel=0.02, abs=2e-3 * abs(loss))


@pytest.mark.slow
@pytest.mark.parametrize("family", REGRESSIONS)
def test_without_hidden_layers_it_reaches_the_likelihood_of_the_exact_regression(file, family, tmp_path):
    response = {"gaussian": "delay", "binomial": "late", "poisson": "bags"}[family]
    of_family = design(file, FORMULA.replace("late", response), family)
    exact = fit_design(of_family, [file])
    units = Units(Workload(of_family, [file], "train"))
    keys = {"hidden": [], "epochs": 40, "batch_size": 500, "optimizer": {"name": "adam", "learning_rate": 0.02}}
    trained = training(file, tmp_path, of_family, **keys).run()
    eta = [scored.rows for scored in predict.score(units, trained.network)]
    reached = predict.means(units, trained.network)["loss"]
    best = np.concatenate([of_shard.rows["eta"] for of_shard in exact_scores(of_family, exact, file)])
    response_of = np.concatenate([rows["response"] for rows in eta])
    used = np.concatenate([rows["weight"] for rows in eta]) > 0
    least = FAMILIES[family].loss(best[used], response_of[used]).mean()
    unit = trained.summary["unit"] ** 2
    assert 0 <= (reached - least) / unit < 1e-3

    stored.save(trained.network, TrainingConfig(), tmp_path / "checkpoint")
    of_checkpoint = bundle.read(tmp_path / "checkpoint" / checkpoint.NETWORK)
    learnt = linear.fitted(of_checkpoint, trained.summary | {"layers": {"hidden": []}}, of_family, [file])
    theirs, named = table_of(of_family, exact), estimates.estimated(of_family, learnt, {})
    mine = coefficients.table(named, 0.95).set_index(["term", "level"])
    assert list(mine.index) == list(theirs.index) and (mine["reference"] == theirs["reference"]).all()
    away = (mine["estimate"] - theirs["estimate"]) / theirs["std_error"]
    # A thousandth a row of 5,000 rows leaves room for three.
    assert (away.dropna().abs() < 2).all()
    assert mine["std_error"].isna().all()
    eta_of_table = np.concatenate([of_shard.rows["eta"] for of_shard in exact_scores(of_family, learnt, file)])
    eta_of_network = np.concatenate([rows["eta"] for rows in eta])
    np.testing.assert_allclose(eta_of_table[used], eta_of_network[used], rtol=1e-4, atol=1e-4 * trained.summary["unit"])


def exact_scores(of_design: Design, fitted, file: IngestedFile):
    from tfglm.results.predict import score

    return score(Workload(of_design, [file], "train"), fitted)


@pytest.mark.slow
def test_a_hidden_layer_finds_what_a_linear_model_cannot(tmp_path):
    random = np.random.default_rng(7)
    frame = flights(8000, seed=8)
    frame["late"] = ((frame["hour"] > 13) ^ (frame["carrier"].isin(["AA", "UA"]))).astype(int)
    frame["late"] ^= (random.random(8000) < 0.1).astype(int)
    file = ingest_frame(frame, tmp_path / "data", split={"train": "month <= 5", "evaluate": "month = 6"})
    keys = {"epochs": 10, "optimizer": {"learning_rate": 0.01}}
    linear, deep = (training(file, tmp_path / str(len(hidden)), hidden=hidden, **keys).run() for hidden in ([], [16]))
    noise = -(0.1 * np.log(0.1) + 0.9 * np.log(0.9))
    assert linear.summary["smallest_held_out_loss"] > 0.6
    assert deep.summary["smallest_held_out_loss"] < noise + 0.05


@pytest.mark.slow
def test_training_that_was_interrupted_ends_in_the_same_weights(file, tmp_path):
    keys = {
        "dropout": 0.3,
        "optimizer": {"momentum": 0.9, "name": "sgd", "learning_rate": 0.1},
        "patience": 2,
        "epochs": 4,
    }
    whole = training(file, tmp_path / "whole", **keys).run()
    again = training(file, tmp_path / "again", **keys).run()
    for mine, theirs in zip(weights(whole.network), weights(again.network), strict=True):
        np.testing.assert_array_equal(mine, theirs)

    class Interrupted(Exception):
        pass

    keys["checkpoints"] = {"steps": 13}
    for stop in (37, 70, 117):

        def note(step: int, values: dict, until: int = stop) -> None:
            if step >= until:
                raise Interrupted

        with pytest.raises(Interrupted):
            training(file, tmp_path / "cut", record=note, report_every=stop, **keys).run()
    LINES.clear()
    result = training(file, tmp_path / "cut", **keys).run()
    assert any("continuing from step" in line for line in LINES)
    assert result.summary == whole.summary
    for mine, theirs in zip(weights(result.network), weights(whole.network), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.slow
def test_epochs_of_so_many_steps_take_the_same_steps(file, tmp_path):
    looks: dict[str, list[int]] = {"rows": [], "steps": []}

    def look(name: str):
        return lambda step, values: looks[name].append(step) if "evaluate/loss" in values else None

    by_rows = training(file, tmp_path / "rows", record=look("rows"), epochs=2)
    by_steps = training(file, tmp_path / "steps", record=look("steps"), epochs=5, steps_per_epoch=20)
    assert by_steps.steps == by_rows.steps == 100
    trained = by_steps.run()
    for mine, theirs in zip(weights(trained.network), weights(by_rows.run().network), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert looks == {"rows": [50, 100], "steps": [20, 40, 60, 80, 100]}
    assert trained.summary["epochs"] == 5


@pytest.mark.slow
def test_patience_keeps_the_weights_with_the_smallest_loss_held_out(file, tmp_path):
    # So long steps that it soon learns the training rows by heart.
    keys = {"hidden": [64, 64], "epochs": 30, "patience": 3, "optimizer": {"learning_rate": 0.02}}
    stopped = training(file, tmp_path / "stopped", **keys)
    result = stopped.run()
    assert result.summary["epochs"] == result.summary["epoch_of_smallest_loss"] + 3 < 30
    held_out = Units(Workload(design(file), [file], "evaluate"))
    assert predict.means(held_out, result.network)["loss"] == pytest.approx(result.summary["smallest_held_out_loss"])


@pytest.mark.slow
def test_a_stored_network_predicts_what_it_did(file, tmp_path):
    trained = training(file, tmp_path / "steps", wide=True, dropout=0.2).run()
    stored.save(trained.network, TrainingConfig(), tmp_path / "checkpoint")
    fit = trained.summary | {"layers": {"hidden": [8], "wide": True, "dropout": 0.2}}
    loaded = stored.load(design(file), fit, tmp_path / "checkpoint")
    units = Units(Workload(design(file), [file], "evaluate"))
    first, second = (list(predict.score(units, network)) for network in (trained.network, loaded))
    for mine, theirs in zip(first, second, strict=True):
        for name, values in mine.rows.items():
            np.testing.assert_array_equal(values, theirs.rows[name])


@pytest.mark.slow
def test_the_regression_under_a_network_is_its_offset(file, tmp_path):
    regression = design(file, "late ~ carrier + hour")
    fitted = fit_design(regression, [file])
    of_network = design(file, "late ~ origin + distance")
    offset = sources.Regression(regression, fitted)
    units = sources.units(of_network, [file], "train", offset)
    scored = next(iter(exact_scores(regression, fitted, file)))
    (rows, flag, *_), known = units.read(0), scored.rows["flag"] >= 0
    np.testing.assert_array_equal(flag, scored.rows["flag"])
    np.testing.assert_allclose(rows.numbers[:, OFFSET], np.where(known, scored.rows["eta"], 0.0), atol=1e-6)
    network = layers.network(of_network, TrainingConfig(hidden=[4]), OutputScale(0.0, 1.0), seed=1)
    network.get_layer("deep").kernel.assign(np.zeros((4, 1)))
    (predicted,) = (of_shard for of_shard in list(predict.score(units, network))[:1])
    np.testing.assert_allclose(predicted.rows["eta"][known], scored.rows["eta"][known], atol=1e-6)


def test_rows_are_counted_by_their_frequency_as_those_of_a_regression(file, tmp_path):
    of_design = design(file, frequency="times", weights="weight")
    begun, exact = training(file, tmp_path, of_design), fit_design(of_design, [file])
    assert begun.counts.rows == exact.summary["rows"] != begun.counts.lines
    assert begun.steps_of_an_epoch == -(-begun.counts.lines // 100)


def test_learning_begins_at_the_mean_response_above_the_offset(file, tmp_path):
    counts = design(file, "bags ~ carrier + hour", "poisson", offset="log(seats)")
    begun = training(file, tmp_path, counts)
    rows, flag, *_ = Units(Workload(counts, [file], "train")).read(0)
    used = flag >= 0
    mean = rows.numbers[used, RESPONSE].astype(float).mean()
    assert begun.counts.scale.start == pytest.approx(np.log(mean) - rows.numbers[used, OFFSET].astype(float).mean())


FAR = 2.0**30
"""Of which float32 tells no two responses apart that differ by less than 64."""


@pytest.fixture(scope="module")
def far(tmp_path_factory) -> IngestedFile:
    """Responses and a column `base` near and far from 0, without a rounding error between them."""
    random = np.random.default_rng(5)
    frame = flights(2000, seed=6)[["carrier", "hour", "month"]]
    frame["base"] = np.round(random.normal(size=2000) * 1024) / 1024
    frame["near"] = 0.1 * frame["hour"] + (frame["carrier"] == "AA") + frame["base"] + random.normal(size=2000) / 2
    frame["near"] = np.round(frame["near"] * 1024) / 1024
    frame["far"], frame["far_base"], frame["same"] = FAR + frame["near"], FAR + frame["base"], 0.1
    frame.loc[::50, ["carrier", "same"]] = None, 5.0
    split = {"train": "month <= 5", "evaluate": "month = 6"}
    return ingest_frame(frame, tmp_path_factory.mktemp("far"), split=split)


OFFSETS = {"nothing": (None, None), "a column": ("base", "far_base"), "the difference": ("base", "base")}


@pytest.mark.slow
@pytest.mark.parametrize("offset", [*OFFSETS, "a regression"])
@pytest.mark.parametrize("hidden", [[], [4]], ids=["linear", "deep"])
def test_a_response_far_from_0_is_learnt_as_one_near_to_it(far, hidden, offset, tmp_path):
    keys = {"hidden": hidden, "epochs": 12, "optimizer": {"learning_rate": 0.01}}
    losses, etas, tables = [], [], []
    for response, column in zip(("near", "far"), OFFSETS.get(offset, (None, None)), strict=True):
        of_network = design(far, f"{response} ~ carrier + hour", "gaussian", section="networks", offset=column)
        under = None
        if offset == "a regression":
            regression = design(far, f"{response} ~ base", "gaussian")
            under = sources.Regression(regression, fit_design(regression, [far]))
        units = [sources.units(of_network, [far], split, under) for split in ("train", "evaluate")]
        settings = TrainingConfig.model_validate({"batch_size": 100} | keys)
        trained = training_of(units, settings, tmp_path / response, say=LINES.append).run()
        losses.append(predict.means(units[1], trained.network)["loss"])
        of_rows = [scored.rows for scored in predict.score(units[1], trained.network)]
        etas.append(np.concatenate([rows["eta"][rows["flag"] >= 0] for rows in of_rows]))
        exported = ExportedNetwork(trained.network, of_network, unseen.collective_levels(of_network), under)
        fit = trained.summary | {"layers": {"hidden": hidden}, "formula": of_network.formula}
        fit |= {"offset": "digest"} if under else {}
        tables.append(exported.description(fit, {})["start"])
        if not hidden:
            stored.save(trained.network, TrainingConfig(), tmp_path / response)
            of_checkpoint = bundle.read(tmp_path / response / checkpoint.NETWORK)
            named = estimates.estimated(of_network, linear.fitted(of_checkpoint, fit, of_network, [far]), {})
            tables.extend(coefficients.table(named, 0.95)["estimate"].dropna())
    assert losses[0] < 0.7 and losses[1] == pytest.approx(losses[0], rel=1e-3)
    assert etas[1] - FAR == pytest.approx(etas[0], abs=1e-2)
    near, of_far = np.split(np.array(tables), 2)
    expected = FAR if offset in ("nothing", "the difference") else 0.0
    assert of_far[:2] - expected == pytest.approx(near[:2], abs=1e-2)
    assert of_far[2:] == pytest.approx(near[2:], abs=1e-2)


def test_a_response_that_is_constant_where_all_else_is_known_is_refused(far, tmp_path):
    with pytest.raises(UserError, match=r"networks.m: the response `same` is 0.1 in all training rows"):
        training(far, tmp_path, design(far, "same ~ carrier", "gaussian", section="networks"))


def test_embeddings_have_the_dimensions_that_are_asked_for(file):
    of_design = design(file)
    assert layers.embeddings(of_design, TrainingConfig()) == {"carrier": 3, "origin": 3}
    assert layers.embeddings(of_design, TrainingConfig(embedding=2)) == {"carrier": 2, "origin": 2}
    network = layers.network(of_design, TrainingConfig(embedding={"carrier": 5}), OutputScale(0.0, 1.0))
    shapes = [tuple(weight.shape) for weight in network.weights[:2]]
    assert shapes == [(4, 5), (3, 3)]
    with pytest.raises(
        UserError, match=r"networks.m.embedding: `carier` is no factor of the formula; did you mean `carrier`"
    ):
        layers.embeddings(of_design, TrainingConfig(embedding={"carier": 5}))


class OwnNoise(keras.layers.Layer):
    """Noise in a layer of a user, who asks TensorFlow for the shape."""

    def __init__(self) -> None:
        super().__init__()
        self.seed_generator = keras.random.SeedGenerator(3)

    def call(self, inputs, training=False):
        return inputs + keras.random.normal(tf.shape(inputs), seed=self.seed_generator)


LAYERS = {
    "own": OwnNoise(),
    "dropout": keras.layers.Dropout(0.25, seed=3),
    "of channels": keras.layers.Dropout(0.25, noise_shape=(None, 1, 1), seed=3),
    "spatial": keras.layers.SpatialDropout1D(0.25, seed=3),
    "noise": keras.layers.GaussianNoise(0.5, seed=3),
    "gaussian dropout": keras.layers.GaussianDropout(0.25, seed=3),
    "alpha dropout": keras.layers.AlphaDropout(0.25, seed=3),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("width", [3, 6])
def test_random_layers_draw_the_same_for_a_row_whatever_part_of_a_batch_has_it(name, width):
    layer = LAYERS[name]
    inputs = tf.constant(np.random.default_rng(2).normal(size=(9, width, 2)), tf.float32)
    state = layer.seed_generator.state.numpy()

    def drawn(rows: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
        layer.seed_generator.state.assign(state)
        with drawing.draw_by_row(places, 9):
            return layer(rows, training=True)

    specs = [tf.TensorSpec((None, width, 2)), tf.TensorSpec((None,), tf.int32)]
    of_any_number = tf.function(drawn, input_signature=specs, autograph=False)
    whole = layer(inputs, training=True).numpy()
    for part in (slice(0, 9), slice(0, 6), slice(6, 9), slice(3, 4)):
        for draw in (drawn, of_any_number):
            np.testing.assert_array_equal(draw(inputs[part], tf.range(9)[part]).numpy(), whole[part])
    assert not np.array_equal(whole[:3], whole[3:6])


def test_messages_name_the_section_of_networks(file, monkeypatch):
    monkeypatch.setattr(checks, "LARGEST_INFORMATION", 1.0)
    with pytest.raises(UserError, match=r"models.m.formula: .* the information matrix needs"):
        build_design("m", DesignConfig(formula="late ~ carrier + origin", family="binomial"), merge([file]), [file])
    of_network = DesignConfig(formula="late ~ carrier + origin", family="binomial")
    built = build_design("m", of_network, merge([file]), [file], section="networks")
    with pytest.raises(UserError, match=r"networks.m.formula: .*`carier`"):
        build_design(
            "m", DesignConfig(formula="late ~ carier", family="binomial"), merge([file]), [file], section="networks"
        )
    where = saved_fit.section({"kind": "network", "model": "m"})
    with pytest.raises(UserError, match=r"networks.m.identity: .* was read without `nowhere`"):
        check_identity(where, file, ["nowhere"])
    other = replace(built, categorical=tuple(replace(f, levels=f.levels[1:]) for f in built.categorical))
    with pytest.raises(UserError, match=r"networks.m.unseen: evaluation rows have levels"):
        unseen.checked(other, [file], "evaluate", "error", where)


def test_more_gpus_than_there_are_are_refused(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with pytest.raises(UserError, match=r"networks.m.gpus: this process needs 2, and this machine has 1"):
        strategies.one_process_strategy("mirrored", 2, None, "networks.m")


@pytest.mark.slow
def test_what_cannot_be_trained_is_refused_by_name(file, tmp_path):
    with pytest.raises(UserError, match=r"networks.m.batch_size: 100,000 is more than the [\d,]+ training rows"):
        training(file, tmp_path, batch_size=100_000)
    keys = {"optimizer": {"name": "sgd", "learning_rate": 1e6}, "epochs": 50, "checkpoints": {"steps": 1}}
    minutes = design(file, FORMULA.replace("late", "delay"), "gaussian")
    with pytest.raises(UserError, match=r"networks.m: the loss is not finite after step \d+; choose a smaller"):
        training(file, tmp_path / "steps", minutes, **keys).run()
