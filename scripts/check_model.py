"""Check a model of the config against the data: refuse here, before any training, what cannot be fitted."""

import argparse
import json
from pathlib import Path

from tfglm import command
from tfglm.data.dictionary import Dictionary
from tfglm.model.design import check_reference, design


def main(arguments: argparse.Namespace) -> None:
    made = design(arguments.model, arguments.formula, arguments.family, Dictionary.load(arguments.dictionary))
    reference = json.loads(arguments.reference)
    check_reference(made, reference)
    checked = {"formula": arguments.formula, "family": arguments.family, "reference": reference}
    arguments.checked.write_text(json.dumps(checked, indent=1) + "\n")
    command.log("the model can be fitted")


if __name__ == "__main__":
    parser = command.parser(__doc__)
    parser.add_argument("--model", required=True, help="its name in the config")
    parser.add_argument("--formula", required=True)
    parser.add_argument("--family", required=True, choices=["gaussian", "binomial"])
    parser.add_argument("--reference", required=True, help="reference level by term, as JSON")
    parser.add_argument("--dictionary", type=Path, required=True, help="what merge_dictionary.py wrote")
    parser.add_argument("--checked", type=Path, required=True, help="file to write what was checked to")
    command.run(main, parser.parse_args())
