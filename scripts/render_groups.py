"""Draw the metrics by the values of columns."""

import argparse
from pathlib import Path

from tfglm import command, digests
from tfglm.report.drawing import use_colour
from tfglm.report.groups import groups_plot
from tfglm.results import options


def main(arguments: argparse.Namespace) -> None:
    use_colour(arguments.colour)
    metrics = digests.read_json(arguments.metrics)
    groups_plot(
        metrics, f"{metrics['model']}: {metrics['rows']:,} rows to {metrics['split']}, by group", arguments.plots
    )


if __name__ == "__main__":
    parser = command.parser(__doc__)
    parser.add_argument("--metrics", type=Path, required=True, help="what evaluate.py wrote")
    options.add_plots(parser)
    command.run(main, parser.parse_args())
