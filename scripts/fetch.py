"""Bring one source into the project as it is: a file at an http(s) address, or one inside a Python package."""

import argparse
import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import requests
import urllib3
from urllib3 import Retry

from tfglm import command
from tfglm.config import is_address
from tfglm.data.packages import located
from tfglm.errors import UserError

CHUNK = 1 << 20
RETRIES = 3
"""Of connections that are refused, or answered with a status that may pass; one that breaks off is for the rule to repeat."""

TIMEOUT = 60
"""Seconds without a byte after which a connection is given up."""


def main(arguments: argparse.Namespace) -> None:
    partial = arguments.output.with_name(arguments.output.name + ".partial")
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    try:
        if is_address(arguments.source):
            download(arguments.source, partial)
        else:
            shutil.copyfile(located(arguments.source), partial)
        found = checksum(partial)
        if arguments.sha256 and found != arguments.sha256:
            raise UserError(
                f"{arguments.source}: is not the file that data.files means: its sha256 is {found}, not {arguments.sha256}\n"
                f"  if the file there has changed for good, put the new sum into the config"
            )
        partial.rename(arguments.output)
    finally:
        partial.unlink(missing_ok=True)
    command.log(f"{arguments.source}: {arguments.output.stat().st_size:,} bytes in {arguments.output}, sha256 {found}")


def download(address: str, path: Path) -> None:
    """Fetch a file. Raises UserError with the address for whatever goes wrong."""
    session = requests.Session()
    again = requests.adapters.HTTPAdapter(
        max_retries=Retry(RETRIES, backoff_factor=1, status_forcelist=[429, 500, 502, 503, 504])
    )
    session.mount("http://", again)
    session.mount("https://", again)
    with reported(address), session.get(address, stream=True, timeout=TIMEOUT) as response:
        response.raise_for_status()
        # Asked for as it is: urllib3 would unpack a .csv.gz that a server calls gzip-encoded.
        response.raw.decode_content = False
        response.raw.enforce_content_length = True
        with path.open("wb") as target:
            shutil.copyfileobj(response.raw, target, CHUNK)


@contextmanager
def reported(address: str) -> Iterator[None]:
    """Errors of the network and the disk as UserErrors."""
    try:
        yield
    except requests.HTTPError as error:
        status = f"{error.response.status_code} {error.response.reason}"
        raise UserError(f"{address}: the server says {status}; check the address in data.files") from error
    except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
        raise UserError(
            f"{address}: cannot be fetched: {error}\n  check the connection, and run snakemake again"
        ) from error


def checksum(path: Path) -> str:
    """The sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    parser = command.parser(__doc__)
    parser.add_argument("--source", required=True, help="http(s)://..., or package:<python package>/<path inside it>")
    parser.add_argument("--sha256", help="the checksum that the file must have")
    parser.add_argument("--output", type=Path, required=True, help="the file to write")
    command.run(main, parser.parse_args())
