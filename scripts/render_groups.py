"""Draw the metrics by the values of columns."""

import argparse
from pathlib import Path

from tfglm import command, digests
from tfglm.report.drawing import use_colour
from tfglm.report.groups import groups_plot, labelled
from tfglm.report.words import Words
from tfglm.results import options


def main(arguments: argparse.Namespace) -> None:
    use_colour(arguments.colour)
    metrics = labelled(digests.read_json(arguments.metrics, fit=arguments.fit), Words.of_json(arguments.words))
    groups_plot(
        metrics, f"{metrics['model']}: {metrics['rows']:,} rows to {metrics['split']}, by group", arguments.plots
    )


if __name__ == "__main__":
    parser = command.parser(__doc__)
    parser.add_argument("--metrics", type=Path, required=True, help="what evaluate.py wrote")
    parser.add_argument("--fit", type=Path, required=True, help="fit.json of the same fit")
    options.add_plots(parser)
    options.add_words(parser)
    command.run(main, parser.parse_args())
