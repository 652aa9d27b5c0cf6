"""Draw the levels of a network's factors where their embeddings are."""

import argparse
from pathlib import Path

from tfglm import command, digests
from tfglm.report.drawing import use_colour
from tfglm.report.embeddings import embeddings_plot
from tfglm.results import csv_files, options


def main(arguments: argparse.Namespace) -> None:
    use_colour(arguments.colour)
    model = digests.read_json(arguments.fit)["model"]
    table = csv_files.read(arguments.table, arguments.fit, ("factor", "level"))
    embeddings_plot(table, f"{model}: embeddings of levels", arguments.plots)


if __name__ == "__main__":
    parser = command.parser(__doc__)
    parser.add_argument("--table", type=Path, required=True, help="what tabulate_embeddings.py wrote")
    parser.add_argument("--fit", type=Path, required=True, help="fit.json of the same network")
    options.add_plots(parser)
    command.run(main, parser.parse_args())
