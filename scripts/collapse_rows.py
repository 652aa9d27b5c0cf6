"""Sum training rows that agree in all that some models need of them, for their fits to read."""

import argparse

from tfglm import command
from tfglm.config import CollapseConfig, add_settings
from tfglm.data.collapse import collapse
from tfglm.data.dictionary import Dictionary


def main(arguments: argparse.Namespace) -> None:
    dictionary, files = Dictionary.with_files(arguments.dictionary, arguments.manifests)
    collapse(files, dictionary, arguments.settings, arguments.manifest.parent, command.log)


if __name__ == "__main__":
    parser = command.parser(__doc__)
    add_settings(parser, CollapseConfig)
    parser.add_file("--dictionary", "what merge_dictionary.py wrote")
    parser.add_files("--manifests", "one of each ingested file, in order")
    parser.add_file("--manifest", "manifest.json to write, the shards beside it")
    command.run(main, parser.parse_args())
