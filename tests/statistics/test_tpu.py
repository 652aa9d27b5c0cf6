"""Training on a TPU, as far as it can be seen without one: XLA compiles its steps for a processor, and they come to the same."""

import pytest
import tensorflow as tf
from test_convolutions import KEYS as CONVOLUTIONAL
from test_convolutions import design as design_of_images
from test_convolutions import file as images  # noqa: F401
from test_networks import design, file, training  # noqa: F401

from tfglm.distribute import strategies
from tfglm.errors import UserError
from tfglm.networks import predict
from tfglm.networks.on_tpu import TrainingOnTPU
from tfglm.networks.pipeline import Batch
from tfglm.networks.training import Training
from tfglm.roles import tpu


class Compiled(TrainingOnTPU):
    """XLA compiles each step, as it does on a TPU."""

    @tf.function(jit_compile=True)
    def _step_of_replica(self, batch: Batch) -> tf.Tensor:
        return super()._step_of_replica(batch)


def are_alike(file, folder, of_design, within, **keys):  # noqa: F811
    """Training here and by compiled steps comes to the same losses."""
    both = [training(file, folder / kind.__name__, of_design, kind=kind, **keys) for kind in (Training, Compiled)]
    losses = [each.run().summary["loss"] for each in both]
    assert losses[1] == pytest.approx(losses[0], abs=within)
    held_out = [predict.means(each._held_out, each.network)["loss"] for each in both]
    assert held_out[1] == pytest.approx(held_out[0], abs=within)


OTHERS = [pytest.param(name, marks=pytest.mark.drill) for name in ("sgd", "adagrad", "rmsprop", "ftrl")]


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["adam", *OTHERS])
def test_steps_that_xla_compiles_come_to_the_same(file, tmp_path, optimizer):  # noqa: F811
    of_design = design(file, "late ~ carrier + origin + hour + distance")
    are_alike(file, tmp_path, of_design, 1e-5, wide=True, optimizer={"name": optimizer, "learning_rate": 0.01})


@pytest.mark.slow
def test_so_do_those_of_classes_and_the_weights_of_the_best_epoch(file, tmp_path):  # noqa: F811
    of_design = design(file, "carrier ~ origin + hour + distance", "multinomial")
    are_alike(file, tmp_path, of_design, 1e-5, patience=1, optimizer={"learning_rate": 0.1})


@pytest.mark.slow
def test_and_those_of_convolutions(images, tmp_path):  # noqa: F811
    are_alike(images, tmp_path, design_of_images(images), 1e-5, **CONVOLUTIONAL)


@pytest.mark.slow
def test_other_units_are_left_out_but_as_many(file, tmp_path):  # noqa: F811
    """XLA draws other random numbers from the same seed."""
    are_alike(file, tmp_path, design(file), 0.02, dropout=0.2)


def test_cores_have_equal_parts_of_a_batch(file, tmp_path):  # noqa: F811
    class EightCores:
        num_replicas_in_sync = 8

    with pytest.raises(UserError, match="the 8 cores of the TPU share each batch, and 100 is no multiple of 8"):
        training(file, tmp_path, design(file), kind=Compiled, strategy=EightCores())


def test_a_tpu_that_is_not_there_is_missed(tmp_path):
    with pytest.raises(
        UserError, match=r"(?s)networks.m.strategy: `tpu` is for a machine with a TPU, and .* use `mirrored`"
    ):
        strategies.tpu_strategy("networks.m")
    assert (
        tpu.lacking(tmp_path, "no_such_package")
        == "there is no TPU in /dev and Python finds no package no_such_package"
    )
    (tmp_path / "vfio").mkdir()
    (tmp_path / "vfio" / "0").touch()
    assert tpu.lacking(tmp_path, "no_such_package") == "Python finds no package no_such_package"
    assert tpu.lacking(tmp_path, "numpy") == ""
