"""Look at a file of data, and write a config that fits a first regression to it."""

import argparse
import shlex
from pathlib import Path

from tfglm import command
from tfglm.survey.init import Request, init


def main(arguments: argparse.Namespace) -> None:
    request = Request(arguments.response, arguments.formula, arguments.output, arguments.header, arguments.decimal)
    config = init(arguments.csv, arguments.folder, command.say, request, arguments.caller)
    run = "tfglm run" if arguments.caller == "tfglm" else f"{arguments.caller} --configfile"
    command.say(f"Next: {run} {shlex.quote(str(config))}")


if __name__ == "__main__":
    parser = command.parser(__doc__)
    parser.add_argument(
        "--csv",
        required=True,
        help="a file of data: CSV (also .gz, .bz2, .zip), Parquet, Excel, Stata, SPSS or JSON lines",
    )
    parser.add_argument("--folder", type=Path, default=Path("config"), help="where to write the config")
    parser.add_argument("--response", default="", help="the column to explain; else a guess")
    parser.add_argument("--formula", default="", help="the formula of the regression; else a proposal")
    parser.add_argument("--output", default="", help="the config to write; else in --folder, named after the file")
    parser.add_argument(
        "--header", default="", help="`true`, `false`, or the names of the columns, as in age,sex; else found out"
    )
    parser.add_argument("--decimal", default="", help="`point` or `comma`, what is before decimals; else found out")
    parser.add_argument("--caller", default="snakemake --cores 4", help="how the workflow is called, to be shown")
    command.run(main, parser.parse_args())
