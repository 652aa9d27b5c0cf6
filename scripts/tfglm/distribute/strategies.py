"""TensorFlow's strategies: the devices, of one process or several, that train a network, and how they share a batch."""

from collections.abc import Sequence

from tfglm import tensorflow_setup
from tfglm.errors import UserError
from tfglm.roles import cards, tpu

with tensorflow_setup.quiet():
    import tensorflow as tf


def use_gpus(count: int, where: str) -> None:
    """Have this process compute on `count` GPUs that no other process has, and see no others. Once a process, and before it
    runs any TensorFlow operation. Raises UserError, which begins with `where`, for more GPUs than there are."""
    cards.take(count, f"{where}.gpus")
    visible = tf.config.list_physical_devices("GPU")
    if count > len(visible):
        raise UserError(
            f"{where}.gpus: the config asks for {count}, and TensorFlow finds {len(visible)} on this machine\n"
            "  a GPU needs its driver and the libraries of `pip install tensorflow[and-cuda]`"
        )
    tf.config.set_visible_devices(visible[:count], "GPU")
    for gpu in visible[:count]:
        tf.config.experimental.set_memory_growth(gpu, True)
    if count:
        # Else sums on a GPU depend on the order in which its threads end, and the same training gives other weights each time.
        tf.config.experimental.enable_op_determinism()


def one_process_strategy(name: str, gpus: int, devices: int | None, where: str) -> tf.distribute.Strategy:
    """`one_device`, `mirrored` or `central_storage` on so many GPUs; of 0, on `devices` logical processors, or one. Once a
    process, and before it runs any TensorFlow operation. Raises UserError as `use_gpus` does."""
    use_gpus(gpus, where)
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


def tpu_strategy(where: str) -> tf.distribute.Strategy:
    """`tpu`: all cores of the TPU of this machine. Once a process, and before it runs any TensorFlow operation. Raises
    UserError, which begins with `where`, if there is none, or if it cannot be used."""
    if reason := tpu.lacking():
        raise UserError(tpu.refused(where, reason))
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu="local")
    try:
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except tf.errors.OpError as error:
        raise UserError(tpu.refused(where, f"TensorFlow cannot use it: {error.message.splitlines()[0]}")) from error
    return tf.distribute.TPUStrategy(resolver)


def peer_strategy(
    addresses: Sequence[str], index: int, gpus: int = 0, communication: str = "ring", where: str = "cluster"
) -> tf.distribute.Strategy:
    """Return the strategy of several processes, each with a copy of the network on each of its devices and a part of every
    batch; their gradients are added up (`communication`: `ring`, `nccl` between GPUs, or `auto`).

    Call it once per process, before the process runs any TensorFlow operation. It returns when all processes are present.
    The addresses are `host:port`, and other programs take them from TF_CONFIG; `index` is this process's position among
    them. Raises UserError as `use_gpus` does.
    """
    use_gpus(gpus, where)
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": list(addresses)}),
        task_type="worker",
        task_id=index,
        num_accelerators={"GPU": gpus},
        rpc_layer="grpc",
    )
    implementation = tf.distribute.experimental.CommunicationImplementation(communication.upper())
    options = tf.distribute.experimental.CommunicationOptions(implementation=implementation)
    return tf.distribute.MultiWorkerMirroredStrategy(resolver, options)
