"""Set networks side by side that were trained by different numbers of workers: a table by epoch, and a picture."""

import argparse
import io
from pathlib import Path

import pandas as pd

from tfglm import command, digests
from tfglm.config import TrainingConfig
from tfglm.report.drawing import use_colour
from tfglm.report.scaling import scaling_plot
from tfglm.results import csv_files, options, scaling


def main(arguments: argparse.Namespace) -> None:
    use_colour(arguments.colour)
    table = scaling.table([run(folder) for folder in arguments.models])
    csv_files.write(table, arguments.table)
    scaling_plot(table, arguments.plots)
    command.log(f"{table['network'].nunique()} networks")


def run(folder: Path) -> scaling.Run:
    """The training of the network in a folder."""
    path = folder / "fit.json"
    fit = digests.read_json(path)
    given = fit["provenance"]["model"]
    settings = TrainingConfig.model_validate({key: given[key] for key in given.keys() & TrainingConfig.model_fields})
    _, workers = settings.servers
    history = pd.read_csv(io.BytesIO(digests.read_beside(folder / "history.csv", path)))
    sharing = settings.peers or workers or settings.gpus or settings.devices or 1
    return scaling.Run(fit, history, sharing, settings.batch_size, settings.seed)


if __name__ == "__main__":
    parser = command.parser(__doc__)
    parser.add_argument("--models", type=Path, nargs="+", required=True, help="their folders")
    parser.add_argument("--table", type=Path, required=True, help="CSV to write")
    options.add_plots(parser)
    command.run(main, parser.parse_args())
