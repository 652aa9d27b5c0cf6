"""TensorFlow's strategies of one process: on which devices a network is trained, and how these share a batch."""

from typing import Literal

from tfglm import tensorflow_setup
from tfglm.errors import UserError

with tensorflow_setup.quiet():
    import tensorflow as tf

Name = Literal["one_device", "mirrored", "central_storage"]


def strategy(name: Name, devices: int | None, where: str) -> tf.distribute.Strategy:
    """The strategy on `devices` GPUs, if the machine has any, else on so many logical processors; None is all GPUs, or one.

    Once a process, and before it runs any TensorFlow operation. Raises UserError, which begins with `where`, for more GPUs than
    there are.
    """
    gpus = tf.config.list_physical_devices("GPU")
    if gpus and devices and devices > len(gpus):
        raise UserError(f"{where}.devices: {devices} GPUs are asked for, and this machine has {len(gpus)}")
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)
    tf.config.set_soft_device_placement(True)
    count = devices or len(gpus) or 1
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
