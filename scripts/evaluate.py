"""Compute the metrics of a fitted model on the rows of one split."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from tfglm import command, digests, tensorflow_setup
from tfglm.config import SPLITS, ResultsConfig, add_settings
from tfglm.data.shards import IngestedFile
from tfglm.design.checks import check_groups
from tfglm.engine.workload import Workload
from tfglm.results import metrics, options, predict, read, unseen


def main(arguments: argparse.Namespace) -> None:
    files = [IngestedFile.load(manifest) for manifest in arguments.manifests]
    fit = read.fit(arguments)
    design = read.fitted_design(arguments, fit)
    where = read.section(fit)
    check_groups(where, files, arguments.settings.by)
    scored: Iterator[predict.Scored]
    if fit.get("kind") == "network":
        with tensorflow_setup.quiet():
            from tfglm.networks import stored
        levels = unseen.checked(design, files, arguments.split, arguments.settings.unseen, where)
        scored = stored.score(arguments, design, fit, files, arguments.split)
    else:
        model = read.fitted(arguments, design, fit)
        levels, substitutes = unseen.resolved(
            design, model, files, arguments.split, arguments.settings.unseen, read.reference(arguments)
        )
        scored = predict.score(Workload(design, files, arguments.split, unseen=substitutes), model)
    report = metrics.evaluate(design, scored, arguments.settings.threshold, arguments.settings.by)
    report |= {"split": arguments.split, "unseen": levels}
    digests.write_json(arguments.metrics, report, indent=2, allow_nan=False, fit=arguments.fit)
    command.log(f"{report['rows']:,} rows")


if __name__ == "__main__":
    parser = command.parser(__doc__)
    options.add_fit(parser)
    parser.add_argument("--manifests", type=Path, nargs="+", required=True, help="one of each ingested file, in order")
    parser.add_argument("--split", default="evaluate", choices=SPLITS, help="the rows to evaluate on")
    add_settings(parser, ResultsConfig)
    options.add_reference(parser, required=False)
    options.add_offset(parser)
    parser.add_argument("--metrics", type=Path, required=True, help="metrics.json to write")
    command.run(main, parser.parse_args())
