"""Fetch one source into the project: unchanged, a file at an http(s) address, a file inside a Python package, or the copy that a
storage plugin of Snakemake has made; as Parquet, the rows that a query selects from a database."""

import argparse
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import requests
import urllib3
from urllib3 import Retry

from tfglm import command, digests
from tfglm.addresses import HIDDEN, SECRETS, is_address, redacted, without_secrets
from tfglm.data import editions
from tfglm.data.packages import located
from tfglm.errors import UserError

CHUNK = 1 << 20
TIMEOUT = 60
"""Seconds without a byte after which a connection is given up."""


def main(arguments: argparse.Namespace) -> None:
    partial = arguments.output.with_name(arguments.output.name + ".partial")
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    try:
        if arguments.copy:
            link(arguments.copy, partial)
        elif is_address(arguments.source):
            address = json.loads(os.environ.get(SECRETS, "{}")).get(arguments.output.name, arguments.source)
            if arguments.query:
                from tfglm.data.databases import fetch

                fetch(address, arguments.query, partial)
            else:
                download(address, partial, arguments.retries)
        else:
            source = located(arguments.source)
            before = editions.FileStatus.of(source)
            shutil.copyfile(source, partial)
            xxh128 = editions.checksum_of(partial)
            record = editions.Record(editions.confirmed(source, before, xxh128), xxh128, arguments.edition)
            record.write(arguments.output.with_name(f"{arguments.output.name}.{editions.RECORD}"))
        if not partial.stat().st_size:
            raise UserError(f"{redacted(arguments.source)}: the file is empty")
        digest = digests.sha256(partial)
        if arguments.sha256 and digest != arguments.sha256:
            raise UserError(
                f"{redacted(arguments.source)}: the file is not the file of data.files: its sha256 is {digest}, not "
                f"{arguments.sha256}\n"
                "  if the file was changed on purpose, put the new sha256 into the config"
            )
        partial.rename(arguments.output)
    finally:
        partial.unlink(missing_ok=True)
    command.log(
        f"{redacted(arguments.source)}: {arguments.output.stat().st_size:,} bytes in {arguments.output}, sha256 {digest}"
    )


def link(copy: str, path: Path) -> None:
    """Take over a file that its owner deletes later, without a second copy on the same disk."""
    try:
        os.link(copy, path)
    except OSError:
        shutil.copyfile(copy, path)
    os.utime(path)


def download(address: str, path: Path, retries: int) -> None:
    """Fetch a file. Raises UserError with the address for whatever goes wrong. A connection that breaks off is not tried again
    here: the rule is repeated."""
    session = requests.Session()
    again = requests.adapters.HTTPAdapter(
        max_retries=Retry(retries, backoff_factor=1, status_forcelist=[429, 500, 502, 503, 504])
    )
    session.mount("http://", again)
    session.mount("https://", again)
    with reported(address), session.get(address, stream=True, timeout=TIMEOUT) as response:
        response.raise_for_status()
        # Ask for the file unchanged: urllib3 would unpack a .csv.gz that a server calls gzip-encoded.
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
        response = error.response
        status = f"{response.status_code} {response.reason}" if response is not None else str(error)
        raise UserError(f"{redacted(address)}: the server says {status}; check the address in data.files") from None
    except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
        # The libraries quote the address, or the address of a redirect, including its secrets.
        raise UserError(
            f"{redacted(address)}: cannot be fetched: {_without_queries(str(error), address)}\n"
            "  check the connection, and run snakemake again"
        ) from None


def _without_queries(message: str, address: str) -> str:
    """Return the message of a library about an address, without any query, user or password."""
    user = urlsplit(address).netloc.rpartition("@")[0]
    for secret in filter(None, (user, *user.split(":"))):
        message = message.replace(secret, HIDDEN)
    return re.sub(r"\?[^\s)]*", f"?{HIDDEN}", without_secrets(message))


if __name__ == "__main__":
    parser = command.parser(__doc__)
    parser.add_argument(
        "--source", required=True, help="http(s)://..., s3://..., or package:<python package>/<path inside it>"
    )
    parser.add_argument("--copy", default="", help="the file itself, as a storage plugin of Snakemake has fetched it")
    parser.add_argument("--query", help="the SQL that selects the rows, if the source is a database")
    parser.add_argument("--sha256", help="the checksum that the file must have")
    parser.add_argument("--edition", type=int, default=0, help="how often the content was found changed, in a package")
    parser.add_argument("--retries", type=int, default=3, help="of connections that are refused or get a passing error")
    parser.add_file("--output", "the file to write")
    command.run(main, parser.parse_args())
