"""How fast tf.data hands the rows of shards to a network, without its training step.

Writes results/network_input.json beside this file: rows a second for the covariates of the README's model, by size of the batch;
of the pipeline alone, which runs to its last batch, and of a TensorFlow loop that takes one batch after the other, as training
does. Medians over the rounds, each an epoch, on files in the page cache.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "scripts")]

import ingest  # noqa: E402
from tfglm import tensorflow_setup  # noqa: E402

if __name__ == "__main__":
    tensorflow_setup.set_environment()  # as training does

with tensorflow_setup.quiet():
    import tensorflow as tf

    from tfglm.config import DesignConfig, TrainingConfig
    from tfglm.data.dictionary import merge
    from tfglm.data.shards import IngestedFile
    from tfglm.design.build import build_design
    from tfglm.engine.workload import Workload
    from tfglm.networks.pipeline import Batches
    from tfglm.networks.rows import Units

FORMULA = "late ~ carrier + origin + dest + C(month) + C(weekday) + dep_hour + distance"
CSV_BYTES = 3e8


def units(folder: Path) -> Units:
    """The training rows of generated flights."""
    source, shards = ingest.flights(folder, CSV_BYTES), folder / "network_input"
    if not (shards / "manifest.json").exists():
        subprocess.run(ingest.ingest_command(source, shards), check=True)
    file = IngestedFile.load(shards / "manifest.json")
    design = build_design("m", DesignConfig(formula=FORMULA, family="binomial"), merge([file]), [file])
    return Units(Workload(design, [file], "train"))


def last(epoch: tf.data.Dataset, count: int) -> None:
    """Make all batches, and take the last."""
    next(iter(epoch.skip(count - 1)))


def take_all(epoch: tf.data.Dataset, count: int) -> None:
    """Take each batch in a loop of TensorFlow."""
    take(iter(epoch), tf.constant(count))


@tf.function
def take(batches: tf.data.Iterator, count: tf.Tensor) -> tf.Tensor:
    """The sum of the shares of so many batches."""
    total = 0.0
    for _ in tf.range(count):
        total += tf.reduce_sum(next(batches).share)
    return total


def timed(work: Callable[[], object], rows: int, rounds: int) -> dict[str, float]:
    """Rows a second, and nanoseconds of processor a row."""
    work()
    seconds, processor = [], []
    for _ in range(rounds):
        started, used = time.perf_counter(), time.process_time()
        work()
        seconds.append(time.perf_counter() - started)
        processor.append(time.process_time() - used)
    of_processor = 1e9 * statistics.median(processor) / rows
    return {"rows_per_s": rows / statistics.median(seconds), "processor_ns_per_row": of_processor}


def measure(of_training: Units, rounds: int, sizes: list[int]) -> dict:
    """Figures by what reads."""
    rows = sum(len(of_training.train(number).numbers) for number in range(len(of_training)))
    figures = {
        "rows": rows,
        "blocks_read_alone": timed(
            lambda: [of_training.train(number) for number in range(len(of_training))], rows, rounds
        ),
    }
    for size in sizes:
        epoch = Batches(of_training, TrainingConfig(batch_size=size)).epochs(0, 1)
        count = -(-rows // size)
        figures[f"batch_{size}"] = {
            "pipeline": timed(partial(last, epoch, count), rows, rounds),
            "loop": timed(partial(take_all, epoch, count), rows, rounds),
        }
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=HERE / "data", help="folder for the flights, which are kept")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[512, 8192])
    arguments = parser.parse_args()
    figures = measure(units(arguments.data), arguments.rounds, arguments.batch_sizes)
    figures["machine"] = {
        "processor": ingest.processor(),
        "cores": os.cpu_count(),
        "load_average": os.getloadavg()[0],  # what else ran, and this
        "tensorflow": version("tensorflow"),
    }
    (HERE / "results" / "network_input.json").write_text(json.dumps(figures, indent=2) + "\n")
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
