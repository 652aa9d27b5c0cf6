"""What each strategy of a network costs, through the workflow: its start, and a step; and a step without this project.

Writes results/strategies.json beside this file. Every strategy trains the same network in turn, and that again in each round, so
that what else runs on the machine slows all of them alike: what counts are the ratios within a round. `start_seconds` are those
of the command that are not spent in training: the start of all processes, and the end. `step_ms` is the time of a step with
`batch_size` rows after the first ones; of asynchronous workers that between the ends of two.

With --beside it compares what one writes without this project, and writes results/strategies_beside.json: `model_fit` is Keras'
`model.fit` on NumPy arrays, and `coordinator_loop` the loop of TensorFlow's guide to parameter servers, with a dataset for each
worker. They train the same layers on the same rows. It also compares workers that read rows of their own with those that the
chief sends rows.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import scaling  # noqa: E402
import synthetic  # noqa: E402

STRATEGIES = {
    "one_device": {},
    "mirrored": {"strategy": "mirrored", "devices": 2},
    "central_storage": {"strategy": "central_storage", "devices": 2},
    "multi_worker_mirrored": {"strategy": "multi_worker_mirrored", "workers": 2},
    "parameter_server": {"strategy": "parameter_server", "workers": 2},
    "synchronous": {"strategy": "parameter_server", "workers": 2, "synchronous": True},
    "own_rows": {"strategy": "parameter_server", "workers": 2, "synchronous": True, "auto_shard": "file"},
}
NETWORK = {"formula": synthetic.FORMULA_WITHOUT_PLANE, "family": "binomial", "epochs": 100, "report_every": 50}
STEPS, REPORTED, WORKERS = 300, 50, 2
MANY_STEPS = {"one_device": 3000, "parameter_server": 3000, "model_fit": 3000, "coordinator_loop": 3000}
"""A step takes few milliseconds here, and asynchronous workers return the steps of a turn together."""
BESIDE = {"model_fit": "one_device", "coordinator_loop": "parameter_server", "own_rows": "synchronous"}
"""Each measurement, and the strategy that it is compared with."""


def config(batch_sizes: list[int]) -> dict:
    """The networks beside the data of the other study."""
    networks = {
        f"{name}_{size}": NETWORK | {"batch_size": size, "last_step": MANY_STEPS.get(name, STEPS)} | keys
        for name, keys in STRATEGIES.items()
        for size in batch_sizes
    }
    return {"results": "results/flights", "data": scaling.CONFIG["data"], "models": {}, "networks": networks}


def train(folder: Path, name: str) -> dict:
    """Train a network anew."""
    model = folder / "results" / "flights" / "models" / name
    (model / "fit.json").unlink(missing_ok=True)
    started = time.perf_counter()
    scaling.snakemake(folder, 1, Path("results", "flights", "models", name, "fit.json"))
    end_to_end = time.perf_counter() - started
    history = pd.read_csv(model / "history.csv")
    reports = history[history["quantity"] == "train/loss"]
    return {
        "start_seconds": end_to_end - float(history["seconds"].max()),
        "step_ms": step_ms(reports),
        "loss": json.loads((model / "fit.json").read_text())["loss"],
    }


def train_without(folder: Path, name: str, size: int) -> dict:
    """Train the network of `one_device` in a process of its own by one of `WITHOUT`."""
    line = [sys.executable, __file__, "--data", str(folder), "--batch-sizes", str(size), "--without", name]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def network_and_rows(folder: Path, size: int) -> tuple[Any, np.ndarray, np.ndarray]:
    """The network of `one_device` before its training, and its rows: groups [rows, factors] and numbers [rows, ...]."""
    from tfglm.config import TrainingConfig
    from tfglm.networks.layers import OutputScale, network
    from tfglm.networks.sources import Sources

    design = folder / "results" / "flights" / "models" / f"one_device_{size}" / "design.json"
    manifests = sorted(
        (folder / "results" / "data").glob("*/table/manifest.json"), key=lambda path: path.stat().st_mtime
    )
    (units,) = Sources(design, manifests[-1:], []).units("train")
    groups, numbers = map(np.concatenate, zip(*(units.train(number) for number in range(len(units))), strict=True))
    return network(units.design, TrainingConfig(), OutputScale(0.0, 1.0), seed=1), groups, numbers


def model_fit(folder: Path, size: int) -> dict:
    """Keras' `model.fit` on arrays."""
    import keras

    from tfglm.networks.rows import RESPONSE

    network, groups, numbers = network_and_rows(folder, size)
    network.compile(keras.optimizers.Adam(), keras.losses.BinaryCrossentropy(from_logits=True))
    arrays, response = [groups, numbers], numbers[:, RESPONSE]
    first = size * REPORTED
    network.fit([each[:first] for each in arrays], response[:first], batch_size=size, verbose=0)
    steps_of_an_epoch = -(-len(response) // size)
    epochs = -(-MANY_STEPS["model_fit"] // steps_of_an_epoch)
    started = time.perf_counter()
    fitted = network.fit(arrays, response, batch_size=size, epochs=epochs, verbose=0)
    seconds = time.perf_counter() - started
    return {"step_ms": 1000 * seconds / (epochs * steps_of_an_epoch), "loss": fitted.history["loss"][-1]}


def coordinator_loop(folder: Path, size: int) -> dict:
    """A loop of one's own with a `ClusterCoordinator`, a ps and two workers."""
    import keras
    import tensorflow as tf

    from tfglm.networks.rows import RESPONSE
    from tfglm.roles.peers import Port

    ports = [Port() for _ in range(1 + WORKERS)]
    ps, *workers = [f"127.0.0.1:{port.number}" for port in ports]
    cluster = {"ps": [ps], "worker": workers}
    for port in ports:
        port.release()
    servers = [
        subprocess.Popen(
            [sys.executable, "-c", SERVER, json.dumps(cluster), role, str(index)], stderr=subprocess.DEVNULL
        )
        for role, addresses in cluster.items()
        for index in range(len(addresses))
    ]
    try:
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(tf.train.ClusterSpec(cluster), rpc_layer="grpc")
        strategy = tf.distribute.ParameterServerStrategy(resolver)
        coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        with strategy.scope():
            network, groups, numbers = network_and_rows(folder, size)
            adam = keras.optimizers.Adam()
            adam.build(network.trainable_variables)
        # Numbers of levels are exact as float32.
        records, columns = folder / "records", groups.shape[1]
        np.hstack([groups, numbers]).astype("<f4").tofile(records)
        width = columns + numbers.shape[1]

        def dataset() -> tf.data.Dataset:
            raw = tf.data.FixedLengthRecordDataset(str(records), 4 * width).shuffle(2**17).repeat().batch(size)
            return raw.map(lambda texts: tf.reshape(tf.io.decode_raw(texts, tf.float32), [size, width])).prefetch(4)

        def step_of_replica(rows: tf.Tensor) -> tf.Tensor:
            of_groups, of_numbers = tf.cast(rows[:, :columns], tf.int32), rows[:, columns:]
            with tf.GradientTape() as tape:
                eta = network([of_groups, of_numbers], training=True)
                losses = tf.nn.sigmoid_cross_entropy_with_logits(of_numbers[:, RESPONSE], eta)
                loss = tf.reduce_mean(losses)
            weights = network.trainable_variables
            adam.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
            return loss

        @tf.function
        def step(batches: Any) -> tf.Tensor:
            return strategy.run(step_of_replica, args=(next(batches),))

        batches = iter(coordinator.create_per_worker_dataset(tf.function(dataset)))
        ends = []
        for count in (REPORTED, MANY_STEPS["coordinator_loop"]):
            losses = [coordinator.schedule(step, args=(batches,)) for _ in range(count)]
            coordinator.join()
            ends.append(time.perf_counter())
        return {
            "step_ms": 1000 * (ends[1] - ends[0]) / MANY_STEPS["coordinator_loop"],
            "loss": float(np.mean([loss.fetch() for loss in losses[-REPORTED:]])),
        }
    finally:
        for server in servers:
            server.kill()


WITHOUT: dict[str, Callable[[Path, int], dict]] = {"model_fit": model_fit, "coordinator_loop": coordinator_loop}

SERVER = """
import json, sys
import tensorflow as tf
tf.distribute.Server(json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3])).join()
"""


def step_ms(reports: pd.DataFrame) -> float:
    """From the first report to the last: asynchronous workers return the steps of a turn together, so single reports mislead."""
    seconds, steps = (reports[name].iloc[-1] - reports[name].iloc[0] for name in ("seconds", "step"))
    return 1000 * float(seconds / steps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", type=Path, default=HERE / "data" / "strategies", help="folder to work in, which is kept"
    )
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[512])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--without", choices=WITHOUT, help="time this alone, of what one writes without this project")
    parser.add_argument("--beside", action="store_true", help="compare with what one writes without this project")
    arguments = parser.parse_args()
    if arguments.without:
        for size in arguments.batch_sizes:
            print(json.dumps(WITHOUT[arguments.without](arguments.data, size)), flush=True)
        # TensorFlow would wait for servers that have ended.
        os._exit(0)
    scaling.prepare(arguments.data, arguments.rows)
    described = config(arguments.batch_sizes)
    (arguments.data / "config.yaml").write_text(yaml.safe_dump(described))
    if arguments.beside:
        names = [f"{name}_{size}" for pair in BESIDE.items() for name in pair for size in arguments.batch_sizes]
    else:
        names = list(described["networks"])
    for name in set(names) & described["networks"].keys():
        scaling.snakemake(arguments.data, 1, Path("results", "flights", "models", name, "design.json"))
    rounds, loads = [], []
    for _ in range(arguments.rounds):
        loads.append(os.getloadavg()[0])
        rounds.append({name: measured(arguments.data, name) for name in names})
    medians = {
        name: {key: statistics.median(each[name][key] for each in rounds) for key in of_name}
        for name, of_name in rounds[0].items()
    }
    figures: dict[str, Any] = {
        "rows": arguments.rows,
        "rounds": rounds,
        "medians": medians,
        "load_averages": loads,
        "machine": scaling.machine(),
    }
    if arguments.beside:
        figures["times_as_long"] = times_as_long(rounds, arguments.batch_sizes)
        figures["median_times_as_long"] = {
            name: statistics.median(values) for name, values in figures["times_as_long"].items()
        }
    name = "strategies_beside.json" if arguments.beside else "strategies.json"
    (HERE / "results" / name).write_text(json.dumps(figures, indent=2) + "\n")
    print(json.dumps(medians, indent=2))


def times_as_long(rounds: list[dict], sizes: list[int]) -> dict[str, list[float]]:
    """The time of a step, divided by that of what it is compared with in the same round."""
    return {
        f"{name}_{size}": [each[f"{name}_{size}"]["step_ms"] / each[f"{against}_{size}"]["step_ms"] for each in rounds]
        for name, against in BESIDE.items()
        for size in sizes
    }


def measured(folder: Path, name: str) -> dict:
    """Train from the start, by a strategy or without this project."""
    kind, _, size = name.rpartition("_")
    return train_without(folder, kind, int(size)) if kind in WITHOUT else train(folder, name)


if __name__ == "__main__":
    main()
