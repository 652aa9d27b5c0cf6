"""Addresses as they may be shown: without the passwords and tokens in them."""

import hashlib
import re
from itertools import takewhile
from pathlib import Path
from urllib.parse import urlsplit

HIDDEN = "***"

SECRETS = "TFGLM_SECRET_ADDRESSES"
"""The environment variable with the addresses that are not to be shown, by the name of the file, as JSON. Other users of a
machine can read command lines, but not environments."""

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s`\"<>]+")
_CHANGING = re.compile(
    r"token|sig|secret|passw|pwd|credential|auth|key|session|expires|policy|x-amz|x-goog|^(se|st|sp|sv|sr|ske|skt|sks|skv)$",
    re.IGNORECASE,
)
"""Names in a query of what lets one in, and may be another tomorrow for the same file."""


def is_address(source: str) -> bool:
    """Whether a source is to be fetched from elsewhere: it begins with a scheme, such as `https://` or `s3://`."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", source) is not None


def is_database(source: str) -> bool:
    """Whether a source is a database whose rows a query selects."""
    return source.startswith(("postgresql://", "postgres://"))


def is_stored(source: str) -> bool:
    """Whether a storage plugin of Snakemake fetches a source: an address that is neither http(s) nor a database."""
    return is_address(source) and not source.startswith(("http://", "https://")) and not is_database(source)


def partition_folders(path: str) -> list[str]:
    """The folders of a path that give a file columns: those just above it whose names have a `=`.

    >>> partition_folders("flights/year=2008/carrier=UA/part-0.parquet")
    ['year=2008', 'carrier=UA']
    """
    above = Path(path).parts[-2::-1]
    return list(takewhile(lambda folder: folder.partition("=")[0] and "=" in folder, above))[::-1]


def redacted(address: str) -> str:
    """An address without user and password, and without the values of its query and its fragment."""
    scheme, separator, rest = address.partition("://")
    if not separator:
        return address
    host = re.split(r"[/?#]", rest, maxsplit=1)[0]
    # A password may hold what should have been written as %2F or %3F: then a colon without a port is its sign.
    cut_short = "@" not in host and "@" in rest and re.search(r":(?!\d*$)", host)
    user, at, _ = rest.rpartition("@") if cut_short else host.rpartition("@")
    if at:
        rest = HIDDEN + at + rest[len(user) + len(at) :]
    place, mark, query = re.findall(r"([^?#]*)([?#]?)(.*)", rest, re.DOTALL)[0]
    if mark == "#":
        query = HIDDEN if query else ""
    else:
        query, fragment, _ = query.partition("#")
        parts = [part.partition("=") for part in re.split("[&;]", query) if part]
        query = "&".join(f"{name}={HIDDEN}" if equals else HIDDEN for name, equals, _ in parts)
        query += f"#{HIDDEN}" if fragment else ""
    return f"{scheme}{separator}{place}{mark}{query}"


def without_secrets(text: str) -> str:
    """A text with every address in it redacted."""
    return _ADDRESS.sub(lambda address: redacted(address.group()), text)


def identity(address: str) -> str:
    """Return a digest that identifies the file at an address; it does not depend on user, password or token."""
    parts = urlsplit(address)
    kept = [part for part in re.split("[&;]", parts.query) if not _CHANGING.search(part.partition("=")[0])]
    host = parts.netloc.rpartition("@")[2]
    stable = f"{parts.scheme}://{host}{parts.path}?{'&'.join(kept)}"
    return hashlib.sha256(stable.encode()).hexdigest()[:16]
