"""The one way of a section's keys from the config to a script: as JSON, validated by the class of the section again."""

import argparse

from tfglm.config.base import Section


def add_settings(parser: argparse.ArgumentParser, section: type[Section], option: str = "--settings") -> None:
    """Return the command-line option with the keys of a `section` that a rule uses, without those at their default."""
    parser.add_argument(
        option,
        type=section.model_validate_json,
        required=True,
        help=f"of {', '.join(section.model_fields)}, those that are not at their default, as JSON",
    )
