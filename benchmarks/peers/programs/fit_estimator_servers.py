"""TensorFlow 2.15's LinearClassifier on a parameter server, a chief and a worker, each a process that is started by hand."""

import json
import os
import socket
import subprocess
import sys

import tensorflow as tf
from common import Work
from estimator_model import coefficients, estimator, input_function, levels_of


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def take_part(work: Work, role: str) -> None:
    """Train as one process of the cluster, which TF_CONFIG names."""
    levels = json.loads((work.folder / "levels.json").read_text())
    # Only the two that train read rows: half of the batches each.
    train = tf.estimator.TrainSpec(input_function(work, int(role == "worker"), 2))
    evaluate = tf.estimator.EvalSpec(input_function(work), steps=1)
    model = estimator(work, levels, work.folder / "model", tf.estimator.RunConfig())
    tf.estimator.train_and_evaluate(model, train, evaluate)


def main() -> None:
    work = Work()
    if len(sys.argv) > 4:
        take_part(work, sys.argv[4])
        return
    with work.timed("read"):
        levels = levels_of(work)
        (work.folder / "levels.json").write_text(json.dumps(levels))
    with work.timed("fit"):
        cluster = {role: [f"127.0.0.1:{free_port()}"] for role in ("chief", "ps", "worker")}
        processes = {}
        for role in cluster:
            task = json.dumps({"cluster": cluster, "task": {"type": role, "index": 0}})
            line = [sys.executable, __file__, *sys.argv[1:4], role]
            processes[role] = subprocess.Popen(line, env=os.environ | {"TF_CONFIG": task})
        codes = [processes[role].wait() for role in ("chief", "worker")]
        processes["ps"].kill()
        if any(codes):
            raise SystemExit(f"chief and worker ended with {codes}")
    model = tf.estimator.LinearClassifier([], model_dir=str(work.folder / "model"))
    work.answer(coefficients(model, work, levels), "tensorflow")


if __name__ == "__main__":
    main()
