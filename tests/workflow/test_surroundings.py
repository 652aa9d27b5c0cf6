"""A run in an environment that misleads TensorFlow, Keras, numba and Python comes to the same bytes."""

import shutil
from pathlib import Path

import forks
from runs import ENVIRONMENT, OPTIONS, configure, processes_in, results_of_models, write_asa

LATE = "late ~ carrier + dest + dep_hour"
NETWORK = {"strategy": "multi_worker_mirrored", "workers": 2, "hidden": [4], "batch_size": 200, "epochs": 1}
TARGETS = [f"results/flights/models/{name}/fit.json" for name in ("late", "ring")]


def misleading(folder: Path) -> dict[str, str]:
    """As on a site with a proxy, in the shell of somebody who works with other backends too. None listens at that port."""
    (folder / "foreign" / "tfglm").mkdir(parents=True)
    (folder / "foreign" / "tfglm" / "__init__.py").write_text("raise ImportError('another tfglm')\n")
    proxies = [f"{name}_proxy" for name in ("http", "https", "grpc", "all")]
    environment = {name: text for name, text in ENVIRONMENT.items() if name != "HOME"}
    return environment | {
        **dict.fromkeys([*proxies, *map(str.upper, proxies)], "http://127.0.0.1:9"),
        "KERAS_BACKEND": "torch",
        "TF_CONFIG": '{"cluster": {"worker": ["127.0.0.1:9", "127.0.0.1:10"]}, "task": {"type": "worker", "index": 1}}',
        "TF_USE_LEGACY_KERAS": "0",
        "TF_XLA_FLAGS": "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit",
        "XLA_FLAGS": "--no_such_flag=1",
        "TF_ENABLE_ONEDNN_OPTS": "1",
        "GRPC_POLL_STRATEGY": "none",
        "NUMBA_DISABLE_JIT": "1",
        "PYTHONWARNINGS": "error",
        "PYTHONSAFEPATH": "1",
        "PYTHONSTARTUP": "/nowhere.py",
        "PYTHONPATH": str(folder / "foreign"),
        "LC_ALL": "C",
        "TZ": "Pacific/Apia",
    }


def run(folder: Path, environment: dict[str, str]) -> None:
    done = forks.snakemake(folder, [*OPTIONS, "--", *TARGETS], environment, 300)
    assert done.returncode == 0, done.stdout


def test_a_misleading_environment_changes_nothing(tmp_path: Path) -> None:
    clean, misled = tmp_path / "clean", tmp_path / "misled"
    clean.mkdir()
    write_asa(clean, 2006, 3_000)

    def change(config: dict) -> None:
        columns = ["late", "carrier", "dest", "dep_hour"]
        config["data"].update(files=["2006.csv"], columns=columns, split={"train": "day <= 24", "evaluate": "day > 24"})
        config["models"] = {"late": {"formula": LATE, "family": "binomial"}}
        config["networks"] = {"ring": {"formula": LATE, "family": "binomial"} | NETWORK}

    configure(clean, change)
    shutil.copytree(clean, misled)
    run(clean, ENVIRONMENT)
    run(misled, misleading(tmp_path))
    assert results_of_models(misled) == results_of_models(clean)
    assert processes_in(misled) == []
