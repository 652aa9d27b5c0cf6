"""Write a table of models as papers have it: LaTeX, Markdown, Word and Excel."""

import argparse
from pathlib import Path

from tfglm import command
from tfglm.config import TablesConfig, add_settings
from tfglm.report import papers
from tfglm.report.models import add_models, read_models
from tfglm.results.compare import refuse_other_rows
from tfglm.results.nested import likelihood_ratio_tests
from tfglm.results.paper import paper_table


def main(arguments: argparse.Namespace) -> None:
    models = read_models(arguments)
    refuse_other_rows(models)
    table = paper_table(models, arguments.settings, likelihood_ratio_tests(models))
    for path in arguments.tables:
        papers.write(table, path)


if __name__ == "__main__":
    parser = command.parser(__doc__)
    add_models(parser)
    add_settings(parser, TablesConfig)
    parser.add_argument(
        "--tables", type=Path, nargs="+", required=True, help=f"files to write ({', '.join(papers.WRITERS)})"
    )
    command.run(main, parser.parse_args())
