"""The common command-line options of the scripts that show a fit."""

import argparse
from pathlib import Path

from tfglm.config.pictures import PicturesConfig


def add_fit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--design", type=Path, required=True, help="what build_design.py wrote")
    parser.add_argument("--checkpoint", type=Path, required=True, help="folder of the checkpoint")
    parser.add_argument("--fit", type=Path, required=True, help="fit.json of the same fit")


def add_reference(parser: argparse.ArgumentParser, required: bool = True) -> None:
    """The option for the reference levels; where they are not required, only `unseen: reference` needs them."""
    parser.add_argument("--reference", type=Path, nargs="?", required=required, help="what check.py wrote")


def add_offset(parser: argparse.ArgumentParser) -> None:
    """The option for a regression whose linear predictor is a part of a network's."""
    parser.add_argument(
        "--offset", type=Path, nargs="*", default=[], help="design, checkpoint and fit.json of the regression under it"
    )


def add_words(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--words", default="{}", help="labels and units of columns, JSON")


def add_pictures(parser: argparse.ArgumentParser) -> None:
    read = PicturesConfig.model_validate_json
    parser.add_argument("--pictures", type=read, default="{}", help="the section `pictures` of the config, JSON")
