"""What a process that runs TensorFlow sees of the user's environment."""

import json
import os
import subprocess
import sys

import pytest

from processes import SCRIPTS
from tfglm import tensorflow_setup

REMOVED = [
    *("http_proxy", "HTTPS_PROXY", "grpc_proxy", "all_proxy", "no_proxy", "GRPC_POLL_STRATEGY", "TF_CONFIG"),
    *("TF_DETERMINISTIC_OPS", "TF_XLA_FLAGS", "XLA_FLAGS", "KERAS_NNX_ENABLED", "NUMBA_DISABLE_JIT", "PYTHONWARNINGS"),
]
KEPT = [
    *("CUDA_VISIBLE_DEVICES", "TF_CPP_MIN_LOG_LEVEL", "TF_FORCE_GPU_ALLOW_GROWTH", "TPU_NAME", "LD_LIBRARY_PATH"),
    *("OPENBLAS_CORETYPE", "NUMBA_CACHE_DIR", "SLURM_PROCID", "TFGLM_SCRIPTS", "HOME"),
]


@pytest.mark.parametrize("name", REMOVED)
def test_what_changes_a_result_or_where_a_call_goes_is_removed(name: str) -> None:
    assert name not in tensorflow_setup.environment({name: "1"})


@pytest.mark.parametrize("name", KEPT)
def test_what_says_what_the_machine_has_is_kept(name: str) -> None:
    assert tensorflow_setup.environment({name: "1"})[name] == "1"


@pytest.mark.parametrize("name", tensorflow_setup.FIXED | tensorflow_setup.ENVIRONMENT)
def test_what_is_fixed_is_not_the_users(name: str) -> None:
    assert tensorflow_setup.environment({name: "torch"}) == tensorflow_setup.environment({})


STARTS_ONCE_MORE = """
import json, os
from tfglm import tensorflow_setup
tensorflow_setup.set_environment()
print(json.dumps(dict(os.environ)))
"""


@pytest.mark.processes
def test_a_program_starts_once_more_with_it() -> None:
    given = {"PYTHONPATH": str(SCRIPTS), "KERAS_BACKEND": "torch", "http_proxy": "http://127.0.0.1:9"}
    done = subprocess.run(
        [sys.executable, "-c", STARTS_ONCE_MORE], env=given, capture_output=True, text=True, timeout=30
    )
    seen = json.loads(done.stdout)
    assert seen["KERAS_BACKEND"] == "tensorflow" and "http_proxy" not in seen


@pytest.mark.processes
def test_an_import_here_sees_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of whatever imports TensorFlow without having been started for that, such as the export of a model."""
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    for name in [*tensorflow_setup.FIXED, "CUDA_VISIBLE_DEVICES", "TF_CPP_MIN_LOG_LEVEL", "TF_CONFIG"]:
        monkeypatch.setenv(name, "1")
    with tensorflow_setup.quiet():
        assert os.environ["KERAS_BACKEND"] == "tensorflow" and "TF_CONFIG" not in os.environ
