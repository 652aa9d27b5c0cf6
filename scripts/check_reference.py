"""Check the reference levels that the config asks for against the levels of the design."""

import argparse
from pathlib import Path

from tfglm import command, digests
from tfglm.config import ResultsConfig, add_settings
from tfglm.design.design import Design
from tfglm.design.references import check_reference


def main(arguments: argparse.Namespace) -> None:
    reference = arguments.settings.reference
    check_reference(Design.load(arguments.design), reference)
    digests.write_json(arguments.checked, {"levels": reference, "design": digests.sha256(arguments.design)})


if __name__ == "__main__":
    parser = command.parser(__doc__)
    parser.add_argument("--design", type=Path, required=True, help="what build_design.py wrote")
    add_settings(parser, ResultsConfig)
    parser.add_argument(
        "--checked", type=Path, required=True, help="file to write them to once they are checked (JSON)"
    )
    command.run(main, parser.parse_args())
