"""Check reference levels, or a network with code of the user's, before earlier results are deleted."""

import argparse

from tfglm import command, digests, tensorflow_setup
from tfglm.config import ResultsConfig, TrainingConfig, add_settings
from tfglm.design.design import Design
from tfglm.design.references import check_reference
from tfglm.networks import code


def reference(arguments: argparse.Namespace) -> None:
    """Check the reference levels against the levels of the design."""
    levels = arguments.settings.reference
    check_reference(Design.load(arguments.design), levels)
    digests.write_json(arguments.checked, {"levels": levels, "design": digests.sha256(arguments.design)})


def network(arguments: argparse.Namespace) -> None:
    """Build the network once."""
    settings = code.read(arguments)
    with tensorflow_setup.quiet():
        from tfglm.networks import check
    check.check(Design.load(arguments.design), settings, arguments.checked)


if __name__ == "__main__":
    parser = command.parser(__doc__)
    kinds = parser.add_subparsers(required=True, metavar="reference|network")
    of_reference = kinds.add_parser("reference", help=reference.__doc__)
    add_settings(of_reference, ResultsConfig)
    of_network = kinds.add_parser("network", help=network.__doc__)
    add_settings(of_network, TrainingConfig)
    code.add_options(of_network)
    for kind, check in ((of_reference, reference), (of_network, network)):
        kind.set_defaults(check=check)
        kind.add_file("--design", "what build_design.py wrote")
        kind.add_file("--checked", "JSON file to write after the check")
    arguments = parser.parse_args()
    if arguments.check is network:
        tensorflow_setup.set_environment()
    command.run(arguments.check, arguments)
