"""Look at a file of data, and write a config that fits a first regression to it."""

import argparse
import shlex
from pathlib import Path

from tfglm import command, console
from tfglm.survey.init import Request, init


def main(arguments: argparse.Namespace) -> None:
    request = Request(**{key: getattr(arguments, key) for key in console.REQUEST})
    config = init(arguments.csv, arguments.folder, command.say, request, arguments.caller)
    run = "tfglm run" if arguments.caller == "tfglm" else f"{arguments.caller} --configfile"
    command.say(f"Next: {run} {shlex.quote(str(config))}")


if __name__ == "__main__":
    parser = command.parser(__doc__)
    parser.add_argument("--csv", required=True, help=console.FILE_OF_DATA)
    parser.add_argument("--folder", type=Path, default=Path("config"), help="where to write the config")
    for key, words in console.REQUEST.items():
        parser.add_argument(f"--{key}", default="", help=words)
    parser.add_argument("--caller", default="snakemake --cores 4", help="how the workflow is called, to be shown")
    command.run(main, parser.parse_args())
