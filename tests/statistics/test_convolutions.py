"""Convolutions of images in a network: what they compute, their gradients, and what is refused."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from scipy.signal import correlate

from tfglm import export
from tfglm.config import DesignConfig, LayersConfig, SelectionConfig, TrainingConfig, load_layout
from tfglm.data.dictionary import merge
from tfglm.data.ingest import ingest
from tfglm.data.shards import IngestedFile
from tfglm.design.build import build_design
from tfglm.design.design import Design
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.families import FAMILIES
from tfglm.networks import layers
from tfglm.networks.export import ExportedNetwork
from tfglm.networks.layers import OutputScale
from tfglm.networks.rows import Units
from trainings import rows_of, training_of

MULTINOMIAL = FAMILIES["multinomial"]
SCALE = OutputScale([0.1, -0.2, 0.1], 1.0)
KEYS = {"convolutions": [2, 3], "hidden": [4], "activation": "tanh"}


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> IngestedFile:
    """Images of 8 x 7 pixels with a bright spot, whose place the label tells; `half` is a number beside them."""
    folder, random = tmp_path_factory.mktemp("images"), np.random.default_rng(1)
    labels = random.integers(0, 3, 600)
    images = random.integers(0, 120, (600, 8, 7), dtype=np.uint8)
    for image, label in zip(images, labels, strict=True):
        row, column = random.integers(0, 6), random.integers(0, 5)
        image[row : row + 2, column : column + 2] = [[250, 250 * (label > 0)], [250 * (label > 1), 250]]
    np.savez(folder / "spots.npz", images=images, labels=labels)
    settings = SelectionConfig.model_validate(
        {
            "split": {"train": "random < 0.8", "evaluate": "random >= 0.8"},
            "derive": {"half": "random / 2"},
            "columns": ["label", "image", "half"],
        }
    )
    ingest(folder / "spots.npz", "spots", {"images": load_layout("images")}, settings, folder / "spots")
    return IngestedFile.load(folder / "spots" / "manifest.json")


def design(file: IngestedFile, formula: str = "label ~ image") -> Design:
    settings = DesignConfig(formula=formula, family="multinomial")
    return build_design("spots", settings, merge([file]), [file], section="networks")


def network(of_design: Design, **keys):
    """A network with weights at random, biases too."""
    made = layers.network(of_design, LayersConfig.model_validate(KEYS | keys), SCALE, seed=2)
    random = np.random.default_rng(3)
    made.set_weights([random.normal(0, 0.4, weight.shape) for weight in made.get_weights()])
    return made


@pytest.mark.slow
@pytest.mark.parametrize("formula", ["label ~ image", "label ~ half + image"])
def test_it_computes_what_the_formulas_say(file, formula):
    of_design = design(file, formula)
    made = network(of_design)
    rows = Units(Workload(of_design, [file], "train")).train(0)
    weights = {weight.path: np.asarray(weight, float) for weight in made.weights}
    others = rows.numbers[:50, : "half" in formula]
    images = rows.numbers[:50, others.shape[1] : -3].astype(float).reshape(50, 8, 7, 1)
    for number in range(2):
        filters = np.moveaxis(weights[f"convolution_{number}/kernel"], 3, 0)
        images = np.concatenate([correlate(images, each[None], "valid") for each in filters], axis=3)
        images = np.tanh(images + weights[f"convolution_{number}/bias"])
    assert images.shape == (50, 4, 3, 3)
    pooled = images[:, :, :2].reshape(50, 2, 2, 1, 2, 3).max(axis=(2, 4)).reshape(50, -1)
    hidden = np.tanh(np.hstack([pooled, others]) @ weights["hidden_0/kernel"] + weights["hidden_0/bias"])
    eta = hidden @ weights["deep/kernel"] + weights["deep/bias"] + SCALE.start
    np.testing.assert_allclose(made([rows.groups[:50], rows.numbers[:50]]), eta, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_filters_find_a_pattern_wherever_it_is(file, tmp_path):
    of_design = design(file)

    def accuracy(folder: Path, **keys) -> float:
        raw = {
            "epochs": 15,
            "batch_size": 20,
            "hidden": [16],
            "optimizer": {"amsgrad": True, "learning_rate": 0.01},
        } | keys
        noted: dict[str, float] = {}
        settings = TrainingConfig.model_validate(raw)
        training_of(rows_of(of_design, file), settings, folder, lambda _, values: noted.update(values)).run()
        return noted["evaluate/accuracy"]

    assert accuracy(tmp_path / "convolutional", convolutions=[8, 8]) > 0.95
    assert accuracy(tmp_path / "dense") < 0.9


@pytest.mark.slow
def test_an_exported_network_takes_images(file, tmp_path):
    of_design = design(file, "label ~ half + image")
    made = network(of_design)
    exported = ExportedNetwork(made, of_design, {}, None)
    assert exported.kinds == {"half": "number", "image": "image"}
    export.save(exported, exported.kinds, tmp_path, exported.covariates.shapes)
    images, half = np.random.default_rng(6).integers(0, 256, (5, 8, 7), dtype=np.uint8), np.linspace(0, 0.4, 5)
    (factor,) = (factor for factor in of_design.numeric if factor.name == "half")
    numbers = np.column_stack([(half - factor.center) / factor.scale, images.reshape(5, 56) / 255, np.zeros((5, 3))])
    eta = made([np.zeros((5, 1), np.int32), numbers.astype(np.float32)])
    served = tf.saved_model.load(tmp_path).signatures["serving_default"]
    outputs = served(half=tf.constant(half), image=tf.constant(images))
    np.testing.assert_allclose(outputs["linear_predictor"], eta, rtol=1e-4, atol=1e-5)
    fit = {"layers": KEYS, "start": SCALE.start, "unit": 1.0, "rows": 1, "steps": 1, "response": "label"}
    described = exported.description(fit, {})
    assert described["columns"][1] == {"name": "image", "type": "image", "missing": None}
    assert described["numbers"][1]["functions"] == [{"function": "image", "shape": (8, 7)}]
    assert described["convolutions"] == {"filters": [2, 3], "kernel": 3, "pooling": 2}


@pytest.mark.parametrize(
    ("formula", "keys", "message"),
    [
        ("label ~ half", {}, r"networks.spots.convolutions: the formula `label ~ half` has no image"),
        (
            "label ~ image",
            {"convolutions": [2] * 3, "kernel": 3},
            r"8 x 7 pixels are too small: .* leave 1 pixels of a side, and pooling",
        ),
        ("label ~ image", {"kernel": 9}, r"2 convolutions with filters of 9 x 9 leave 0 pixels"),
    ],
)
def test_what_cannot_be_convolved_is_refused_by_name(file, formula, keys, message):
    with pytest.raises(UserError, match=message):
        network(design(file, formula), **keys)
