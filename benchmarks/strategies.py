"""What each strategy of a network costs, through the workflow: its start, and a step.

Writes results/strategies.json beside this file. Every strategy trains the same network in turn, and that again in each round, so
that what else runs on the machine slows all of them alike: what counts are the ratios within a round. `start_seconds` are those
of the command that are not spent in training: the start of all processes, and the end. `step_ms` is the time of a step with
`batch_size` rows after the first ones; of asynchronous workers that between the ends of two.
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

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
STEPS = 300


def config(batch_sizes: list[int]) -> dict:
    """The networks beside the data of the other study."""
    networks = {
        f"{name}_{size}": NETWORK | {"batch_size": size, "last_step": STEPS} | keys
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
    arguments = parser.parse_args()
    scaling.prepare(arguments.data, arguments.rows)
    described = config(arguments.batch_sizes)
    (arguments.data / "config.yaml").write_text(yaml.safe_dump(described))
    names = list(described["networks"])
    for name in names:
        scaling.snakemake(arguments.data, 1, Path("results", "flights", "models", name, "design.json"))
    rounds = [{name: train(arguments.data, name) for name in names} for _ in range(arguments.rounds)]
    medians = {
        name: {key: statistics.median(each[name][key] for each in rounds) for key in rounds[0][name]} for name in names
    }
    figures = {
        "rows": arguments.rows,
        "rounds": rounds,
        "medians": medians,
        "machine": scaling.machine(),
    }
    (HERE / "results" / "strategies.json").write_text(json.dumps(figures, indent=2) + "\n")
    print(json.dumps(medians, indent=2))


if __name__ == "__main__":
    main()
