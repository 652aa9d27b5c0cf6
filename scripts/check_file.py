"""Check the section `data` of the config against the header of one CSV file, before any of it is read."""

import argparse
import json
from pathlib import Path

from tfglm import command
from tfglm.config import Layout, SelectionConfig
from tfglm.data.ingest import read_header, selection


def main(arguments: argparse.Namespace) -> None:
    layout = Layout.model_validate_json(arguments.layout)
    header = read_header(arguments.source, layout)
    selection(arguments.source, layout, SelectionConfig.model_validate_json(arguments.settings))
    arguments.checked.write_text(json.dumps({"source": str(arguments.source), "header": header}, indent=1) + "\n")
    command.log(f"{arguments.source}: all columns are there")


if __name__ == "__main__":
    parser = command.parser(__doc__)
    parser.add_argument("--source", type=Path, required=True, help="the CSV file")
    parser.add_argument("--layout", required=True, help="its layout, as JSON")
    parser.add_argument(
        "--settings", required=True, help="derive, where, split, columns and seed of the section `data`, as JSON"
    )
    parser.add_argument("--checked", type=Path, required=True, help="file to write what was found to")
    command.run(main, parser.parse_args())
