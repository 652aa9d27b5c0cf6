"""Writes what is generated from tfglm.config: the JSON schema, and the page of all keys, docs/config/reference.md."""

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from tfglm import command  # noqa: E402
from tfglm.config import Layout, compatibility, network_conflicts  # noqa: E402
from tfglm.config.root import schema  # noqa: E402
from tfglm.config.schema import Node, below, description, expected, forms  # noqa: E402
from tfglm.errors import UserError  # noqa: E402

SCHEMA = ROOT / "workflow/schemas/config.schema.json"
PAGE = ROOT / "docs/config/reference.md"


def keys(node: Node, root: Node, path: str = "") -> Iterator[tuple[str, str]]:
    """Each key below `node` of the JSON schema `root`, and the rest of its line in a Markdown table."""
    for key, child in node["properties"].items():
        free = below(child, "", root)
        if "properties" in forms(child, root)[0]:
            yield from keys(forms(child, root)[0], root, f"{path}{key}.")
        elif "$ref" in free:
            yield from keys(forms(free, root)[0], root, f"{path}{key}.<name>.")
        else:
            default = child.get("default")
            shown = "required" if key in node.get("required", []) else f"`{json.dumps(default)}`" if default else ""
            cells = [short(expected(child, root)) + (f" ({shown})" if shown else ""), description(child, root)]
            yield f"`{path}{key}`", "".join(f" {cell.replace('|', chr(92) + '|')} |" for cell in cells)


def short(words: str) -> str:
    """What a value must be, without what the head of the page says of all keys."""
    words = re.sub(r"(names?) of letters, digits and _ that begins? with a letter", r"\1", words)
    return re.sub(r" and <= (\d{4,}|1e\+\d+)", "", words)


def table(root: Node) -> str:
    """The Markdown table of all keys of a JSON schema: a line for keys of models and networks that say the same."""
    alike: dict[str, list[str]] = {}
    for key, rest in keys(root, root):
        alike.setdefault(rest, []).append(key)
    lines = [f"| {'<br>'.join(names)} |{rest}" for rest, names in alike.items()]
    return "\n".join(["| Key | Type (default) | Meaning |", "|---|---|---|", *lines])


def generated() -> dict[Path, str]:
    """Path -> the text that the file should have."""
    about = (
        "`python docs/site/document_config.py` writes this page. Examples are in [the other pages](../../config/README.md). "
        "A name has letters, digits and `_`, and begins with a letter. Upper limits of 1,000 and more are left out."
    )
    tables = f"## The config\n\n{table(schema())}\n\n## A layout\n\n{table(Layout.model_json_schema())}"
    together = (
        "## What excludes each other\n\nAll other keys of a model or a network go together. A run says why two keys do not.\n\n"
        f"### Models\n\n{compatibility.table()}\n\n### Networks\n\n{compatibility.table(network_conflicts.CONFLICTS)}"
    )
    return {
        SCHEMA: json.dumps(schema(), indent=2, ensure_ascii=False) + "\n",
        PAGE: f"# Every key\n\n{about}\n\n{tables}\n\n{together}\n",
    }


def drifted() -> list[Path]:
    """The generated files that are not what the models say."""
    return [path for path, text in generated().items() if not path.is_file() or path.read_text() != text]


def main(arguments: argparse.Namespace) -> None:
    """Writes the files; with --check writes nothing and raises UserError if one has drifted."""
    if not arguments.check:
        for path, text in generated().items():
            path.write_text(text)
    elif stale := drifted():
        names = ", ".join(str(path.relative_to(ROOT)) for path in stale)
        raise UserError(f"not as scripts/tfglm/config/ says: {names}. Run `python docs/site/document_config.py`")


if __name__ == "__main__":
    parser = command.parser(__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file is out of date")
    command.run(main, parser.parse_args())
