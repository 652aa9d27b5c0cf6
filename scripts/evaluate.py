"""Read the rows once more after a fit: the metrics of one split, checks, and the averages that marginal effects are made of."""

import argparse
from collections.abc import Iterator

import pandas as pd

from tfglm import command, digests, tensorflow_setup
from tfglm.config import SPLITS, ResultsConfig, add_settings
from tfglm.data.shards import IngestedFile
from tfglm.design.checks import check_groups
from tfglm.engine.workload import Workload
from tfglm.results import checks, csv_files, margins, metrics, options, predict, unseen
from tfglm.results.saved_fit import SavedFit


def main(arguments: argparse.Namespace) -> None:
    saved = SavedFit(arguments)
    if arguments.metrics:
        report = evaluate(saved)
        digests.write_json(arguments.metrics, report, indent=2, allow_nan=False, fit=arguments.fit)
        command.log(f"{report['rows']:,} rows")
        if arguments.groups:
            groups = [{"column": column, **level} for column, levels in report["by"].items() for level in levels]
            csv_files.write(
                pd.DataFrame(groups, columns=None if groups else ["column", "level", "rows"]), arguments.groups
            )
    if arguments.checks:
        found = checks.content(saved, saved.files, arguments.settings.diagnostics)
        digests.write_json(arguments.checks, found, fit=arguments.fit)
    if arguments.averages:
        collapsed = IngestedFile.load(arguments.collapsed) if arguments.collapsed else None
        given = saved.files, arguments.settings, collapsed, arguments.threads
        averaged = margins.average_rows(saved.design, saved.fitted, *given)
        averaged.write(arguments.averages, arguments.fit)
        command.log(f"averages over {averaged.rows:,.0f} training rows")


def evaluate(saved: SavedFit) -> dict:
    """Return the content of metrics.json."""
    arguments, design, files = saved.arguments, saved.design, saved.files
    settings, where = arguments.settings, saved.section
    check_groups(where, files, settings.by)
    scored: Iterator[predict.Scored]
    if saved.is_network:
        with tensorflow_setup.quiet():
            from tfglm.networks import stored
        levels = unseen.checked(design, files, arguments.split, settings.unseen, where)
        scored = stored.score(arguments, design, saved.fit, files, arguments.split)
    else:
        levels, substitutes = unseen.resolved(
            design, saved.fitted, files, arguments.split, settings.unseen, saved.reference
        )
        scored = predict.score(Workload(design, files, arguments.split, unseen=substitutes), saved.fitted)
    report = metrics.evaluate(design, scored, settings.threshold, settings.by)
    return report | {"split": arguments.split, "unseen": levels}


if __name__ == "__main__":
    parser = command.parser(__doc__)
    options.add_fit(parser)
    parser.add_files("--manifests", "one of each ingested file, in order")
    parser.add_file("--collapsed", "manifest of the training rows, collapsed", optional=True)
    parser.add_argument("--split", default="evaluate", choices=SPLITS, help="the rows of the metrics")
    parser.add_argument("--threads", type=int, default=1, help="threads that average rows")
    add_settings(parser, ResultsConfig)
    options.add_reference(parser, required=False)
    options.add_offset(parser)
    parser.add_file("--metrics", "metrics.json to write", optional=True)
    parser.add_file("--groups", "CSV of the metrics by group to write", optional=True)
    parser.add_file("--checks", "checks.json of a regression to write", optional=True)
    parser.add_file("--averages", "averages over the training rows to write (.npz)", optional=True)
    command.run(main, parser.parse_args())
