"""A network with the user's own layers learns the same under each strategy, in real processes.

`python tests/contract/test_network_strategies.py FOLDER KIND INDEX` is one of them.
"""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pools import design_of, ingest_frame
from processes import end, start_roles
from runs import REPOSITORY
from tfglm.config import TrainingConfig
from tfglm.data.dictionary import merge
from tfglm.roles import announce, peers
from tfglm.roles.announce import Announcement

PEERS, ROWS = 2, 1500
TABLES = {"first": (0, 600), "second": (600, 1050), "third": (1050, ROWS)}
"""The rows of each file: of two readers the first has more."""
OWN_ROWS = " with rows of its own"
HERE = ("one_device", "mirrored", "central_storage")
LARGE = 2**16
STRATEGIES = (*HERE, "multi_worker_mirrored", "parameter_server")
KEYS = {
    "model": "residual.py:build",
    # The embedding of the carriers is large: all change it by rows, and the servers divide it.
    "settings": {"units": 8, "blocks": 1, "dimensions": LARGE // 4, "dropout": 0.3},
    "optimizer": {"name": "sgd", "momentum": 0.9, "learning_rate": 0.02, "use_ema": True},
    "batch_size": 100,
    "epochs": 2,
}


def train(folder: Path, kind: str, index: int) -> None:
    """Train as one process of this kind, and write what it has learnt."""
    # They import TensorFlow.
    from tfglm.distribute import strategies
    from tfglm.distribute.servers import Servers
    from tfglm.networks.sources import Sources
    from tfglm.networks.synchronous import SynchronousTraining
    from tfglm.networks.training import Assignment, ChiefHooks, Training

    settings, of_own_rows = (
        TrainingConfig.model_validate_json((folder / name).read_text()) for name in ("settings.json", "own_rows.json")
    )
    chief = ChiefHooks(lambda step, values: None, lambda line: None)

    sources = Sources(folder / "design.json", [folder / name / "manifest.json" for name in TABLES], [])

    def learnt(strategy: str, *given, training: type[Training] = Training, led: bool = True, **keys) -> None:
        for name, of_rows in {strategy: settings, f"{strategy}{OWN_ROWS}": of_own_rows}.items():
            if of_rows.auto_shard == "file" and strategy in HERE:
                continue
            of_strategy = of_rows.model_copy(update={"strategy": strategy} | keys)
            rows = sources.units("train", "evaluate")
            made = training(Assignment(*rows, of_strategy, folder / name, chief if led else None), *given).run()
            state = [
                weight for weight in made.network.weights if weight.name in ("moving_mean", "kernel", "embeddings")
            ]
            content = {"loss": made.summary["loss"], "state": np.concatenate([*map(np.ravel, state)]).tolist()}
            if led:
                (folder / f"{name}.json").write_text(json.dumps(content))

    if kind == "peers":
        addresses = json.loads((folder / "addresses.json").read_text())
        strategy = strategies.peer_strategy(addresses, index)
        learnt("multi_worker_mirrored", strategy, led=index == 0, workers=PEERS)
    elif kind == "servers":
        with served(folder) as members:
            servers = Servers(members, 60, contextlib.nullcontext)
            learnt("parameter_server", servers, sources, training=SynchronousTraining, synchronous=True, workers=PEERS)
    else:
        for name in HERE:
            learnt(name, strategies.one_process_strategy(name, 0, 2, "networks.m"))


@contextlib.contextmanager
def served(folder: Path) -> Iterator[list[Announcement]]:
    """A ps and the workers."""
    from tfglm.distribute.designs import Designs
    from tfglm.distribute.tasks import Document

    Designs.beside(folder).put(Document.of((folder / "design.json").read_text()))
    started = [start_roles(folder, "ps", 1), start_roles(folder, "worker", PEERS)]
    try:
        yield announce.gather([folder / "pss.json", folder / "workers.json"], 120, print)
    finally:
        for each in started:
            end(each)


@pytest.fixture(scope="module")
def learnt(tmp_path_factory) -> dict[str, dict]:
    """What the network has learnt, by strategy."""
    folder = tmp_path_factory.mktemp("own")
    random = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "carrier": random.choice(["AA", "B6", "DL", "UA"], ROWS),
            "origin": random.choice(["EWR", "JFK", "LGA"], ROWS),
            "distance": np.round(random.gamma(4, 250, ROWS), 1),
            "part": np.arange(ROWS) % 6,
        }
    )
    frame["late"] = (random.random(ROWS) < 0.2 + 0.3 * (frame["carrier"] == "UA")).astype(int)
    split = {"train": "part < 5", "evaluate": "part = 5"}
    files = [ingest_frame(frame[first:last], folder, name, split=split) for name, (first, last) in TABLES.items()]
    design_of("late ~ carrier + origin + distance", "binomial", merge(files), files).write(folder / "design.json")
    code = (REPOSITORY / "config" / "examples" / "residual.py").read_text()
    settings = TrainingConfig.model_validate(KEYS | {"code": {"residual.py": code}})
    (folder / "settings.json").write_text(settings.model_dump_json())
    # Without the order of a seed, which peers and workers draw in other ways.
    own = {key: KEYS[key] for key in ("optimizer", "batch_size", "epochs")}
    own |= {"strategy": "multi_worker_mirrored", "auto_shard": "file", "shuffle": False}
    own |= {"l2": 0.01, "hidden": [8], "dropout": 0.2}
    (folder / "own_rows.json").write_text(TrainingConfig.model_validate(own).model_dump_json())
    ports = [peers.Port() for _ in range(PEERS)]
    (folder / "addresses.json").write_text(json.dumps([f"127.0.0.1:{port.number}" for port in ports]))
    for port in ports:
        port.release()
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    for kinds in (["here", "servers"], ["peers"] * PEERS):
        started = [
            subprocess.Popen(
                [sys.executable, __file__, str(folder), kind, str(index)],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for index, kind in enumerate(kinds)
        ]
        for process in started:
            said, _ = process.communicate(timeout=240)
            assert process.returncode == 0, said
    names = [*STRATEGIES, *(f"{name}{OWN_ROWS}" for name in STRATEGIES[len(HERE) :])]
    return {name: json.loads((folder / f"{name}.json").read_text()) for name in names}


def test_a_model_with_batch_normalisation_and_dropout_learns_the_same_under_each_strategy(learnt):
    losses = [learnt[name]["loss"] for name in STRATEGIES]
    assert 0.1 < losses[0] < 0.69 and max(losses) - min(losses) < 1e-6
    for of_strategy in (learnt[name] for name in STRATEGIES):
        np.testing.assert_allclose(of_strategy["state"], learnt["one_device"]["state"], rtol=1e-4, atol=1e-5)


def test_workers_with_rows_of_their_own_learn_the_same_under_both_strategies(learnt):
    ring, served = (learnt[f"{name}{OWN_ROWS}"] for name in ("multi_worker_mirrored", "parameter_server"))
    assert abs(ring["loss"] - served["loss"]) < 1e-6 and abs(ring["loss"] - learnt["one_device"]["loss"]) > 1e-4
    np.testing.assert_allclose(served["state"], ring["state"], rtol=1e-4, atol=1e-5)


if __name__ == "__main__":
    train(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
