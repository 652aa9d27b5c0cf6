"""Bring one source to a plain CSV file: a file inside a Python package, or a compressed file (.zip, .gz, .bz2)."""

import argparse
import bz2
import gzip
import importlib.util
import shutil
import zipfile
from pathlib import Path
from typing import BinaryIO

from tfglm import command
from tfglm.errors import UserError


def main(arguments: argparse.Namespace) -> None:
    path = located(arguments.source)
    partial = arguments.output.with_name(arguments.output.name + ".partial")
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    try:
        with opened(path) as source, partial.open("wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
        partial.rename(arguments.output)
    except (zipfile.BadZipFile, gzip.BadGzipFile, EOFError, OSError) as error:
        raise UserError(f"{path}: cannot be unpacked: {error}\n  fetch the file again") from error
    finally:
        partial.unlink(missing_ok=True)
    command.log(f"{path}: {arguments.output.stat().st_size:,} bytes of CSV in {arguments.output}")


def located(source: str) -> Path:
    """Where the source lies on disk. Raises UserError if the package or the file in it does not exist."""
    if not source.startswith("package:"):
        return Path(source)
    package, _, inside = source.removeprefix("package:").partition("/")
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise UserError(f"data.files: `{source}`: no Python package `{package}` is installed; pip install it")
    path = Path(spec.submodule_search_locations[0]) / inside
    if not path.is_file():
        there = ", ".join(sorted(str(each.relative_to(path.parent)) for each in path.parent.glob("*.*")))
        raise UserError(f"data.files: `{source}`: the package holds no such file; beside it: {there or 'nothing'}")
    return path


def opened(path: Path) -> BinaryIO:
    """The uncompressed content. Raises UserError for an archive with more than one file."""
    match path.suffix:
        case ".gz":
            return gzip.open(path)
        case ".bz2":
            return bz2.open(path)
        case ".zip":
            archive = zipfile.ZipFile(path)
            files = [each for each in archive.namelist() if not each.endswith("/")]
            if len(files) != 1:
                raise UserError(
                    f"{path}: holds {len(files)} files ({', '.join(files)}); unpack it and name the one you mean"
                )
            return archive.open(files[0])
    return path.open("rb")


if __name__ == "__main__":
    parser = command.parser(__doc__)
    parser.add_argument("--source", required=True, help="a path, or package:<python package>/<path inside it>")
    parser.add_argument("--output", type=Path, required=True, help="the CSV file to write")
    command.run(main, parser.parse_args())
