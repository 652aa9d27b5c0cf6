"""GPUs: who sees them, and a network trained on one, where there is one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from runs import REPOSITORY, configure_flights, read_json, succeed, write_asa

NETWORK = {"formula": "late ~ carrier + month + distance", "family": "binomial", "hidden": [8], "batch_size": 100}


def printed(program: str, **environment: str) -> str:
    """What a Python program prints in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "scripts"), **environment}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize(("asked", "visible"), [("", ""), ("gpus=True", "0,1")])
def test_a_process_sees_gpus_only_if_it_asks_for_them(asked, visible):
    program = f"""
import os
from tfglm import tensorflow_setup
with tensorflow_setup.quiet({asked}):
    print(os.environ["CUDA_VISIBLE_DEVICES"])
"""
    assert printed(program, CUDA_VISIBLE_DEVICES="0,1") == visible


@pytest.fixture
def several() -> bool:
    """Whether there are two GPUs or more. Skips the test where there is none. TensorFlow, which takes seconds, is only asked
    where there may be one."""
    program = "import tensorflow as tf; print(len(tf.config.list_physical_devices('GPU')))"
    if not Path("/dev/nvidia0").exists() or (found := printed(program)) == "0":
        pytest.skip("TensorFlow finds no GPU here")
    return int(found) > 1


@pytest.mark.gpu
def test_a_network_learns_on_a_gpu_what_it_learns_on_a_processor(tmp_path, several):
    write_asa(tmp_path, 2006, 6000)
    served = NETWORK | {"strategy": "parameter_server", "workers": 1, "synchronous": True, "gpus": 1}
    networks = {"processor": NETWORK, "gpu": NETWORK | {"gpus": 1}, "again": NETWORK | {"gpus": 1}, "served": served}
    if several:
        networks["ring"] = NETWORK | {"strategy": "multi_worker_mirrored", "gpus": 1, "communication": "nccl"}
        networks["async"] = served | {"workers": 2, "synchronous": False}
    cluster = {"strategy": "one_device"}
    configure_flights(tmp_path, "late carrier month distance", 22, models={}, networks=networks, cluster=cluster)
    succeed(tmp_path, "--", *(f"results/flights/models/{name}/metrics.json" for name in networks))
    for file, loss in (("fit.json", "loss"), ("metrics.json", "log_loss")):
        found = [read_json(tmp_path, "models", name, file)[loss] for name in networks]
        assert found[1] == found[2]
        assert found[:5] == pytest.approx(found[:1] * len(found[:5]), abs=1e-4)
        assert found == pytest.approx(found[:1] * len(found), abs=0.02)
