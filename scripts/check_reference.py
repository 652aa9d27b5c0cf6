"""Check the reference levels that the config asks for, before any training."""

import argparse
import json
from pathlib import Path

from tfglm import command
from tfglm.model.design import Design, check_reference


def main(arguments: argparse.Namespace) -> None:
    check_reference(Design.load(arguments.design), json.loads(arguments.reference))
    arguments.checked.write_text(arguments.reference + "\n")


if __name__ == "__main__":
    parser = command.parser(__doc__)
    parser.add_argument("--design", type=Path, required=True, help="what build_design.py wrote")
    parser.add_argument("--reference", required=True, help="the key `reference` of the model, as JSON")
    parser.add_argument("--checked", type=Path, required=True, help="file to write the same to once it is checked")
    command.run(main, parser.parse_args())
