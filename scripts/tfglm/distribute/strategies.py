"""TensorFlow's strategies of one process: on which devices a network is trained, and how these share a batch."""

from typing import Literal

from tfglm import tensorflow_setup
from tfglm.errors import UserError

with tensorflow_setup.quiet():
    import tensorflow as tf

Name = Literal["one_device", "mirrored", "central_storage"]


def strategy(name: Name, gpus: int, devices: int | None, where: str) -> tf.distribute.Strategy:
    """The strategy on so many GPUs; of 0, on `devices` logical processors, or one.

    Once a process, and before it runs any TensorFlow operation. Raises UserError, which begins with `where`, for more GPUs than
    there are.
    """
    visible = tf.config.list_physical_devices("GPU")
    if gpus > len(visible):
        raise UserError(
            f"{where}.gpus: {gpus} are asked for, and TensorFlow finds {len(visible)} on this machine\n"
            "  a GPU needs its driver and the libraries of `pip install tensorflow[and-cuda]`"
        )
    tf.config.set_visible_devices(visible[:gpus], "GPU")
    for gpu in visible[:gpus]:
        tf.config.experimental.set_memory_growth(gpu, True)
    tf.config.set_soft_device_placement(True)
    count = gpus or devices or 1
    if not gpus and count > 1:
        (processor,) = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(processor, [tf.config.LogicalDeviceConfiguration()] * count)
    names = [f"/{'gpu' if gpus else 'cpu'}:{number}" for number in range(count)]
    if name == "mirrored":
        # Added on one device in the order of the devices: the same each time.
        return tf.distribute.MirroredStrategy(names, tf.distribute.ReductionToOneDevice())
    if name == "central_storage":
        return tf.distribute.experimental.CentralStorageStrategy(names, "/cpu:0")
    return tf.distribute.OneDeviceStrategy(names[0])
