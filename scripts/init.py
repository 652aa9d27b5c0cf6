"""Look at a file of data, and write a config that fits a first regression to it."""

import argparse
from pathlib import Path

from tfglm import command
from tfglm.survey.init import init


def main(arguments: argparse.Namespace) -> None:
    config = init(arguments.csv, arguments.folder, command.say)
    command.say(f"Next: {arguments.snakemake} --configfile {config}")


if __name__ == "__main__":
    parser = command.parser(__doc__)
    parser.add_argument("--csv", required=True, help="a CSV file (also .gz, .bz2, .zip) or a Parquet file")
    parser.add_argument("--folder", type=Path, default=Path("config"), help="where to write the config")
    parser.add_argument("--snakemake", default="snakemake --cores 4", help="how the config is run, to be shown")
    command.run(main, parser.parse_args())
