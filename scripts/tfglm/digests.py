"""Files that a later step reads again. The sha256 of its content identifies each file: a file that has changed since it was
written is refused by name, whatever changed it.

A JSON file ends with its own digest. The digest of any other file is in a JSON file beside it; the digest of a table for
people is in a file in the format of `sha256sum`. A result also has the digest of its fit.json, and is refused if fit.json
belongs to another fit.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tfglm.errors import UserError, writing

SEAL = re.compile(rb',?\n "sha256": "([0-9a-f]{64})"\n\}\n\Z')
"""The end of a JSON file: the digest of everything before it."""

SUFFIX = ".sha256"


def sha256(path: Path) -> str:
    """The sha256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def joined_sha256(digests: Iterable[str]) -> str:
    """The sha256 of several digests, one for all."""
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def replace(path: Path, text: str) -> None:
    """Replace a file as a whole: a reader sees the old text or the new one, never half of it. Its folder is made. Raises OSError,
    and then leaves nothing beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def write_json(
    path: Path, value: Mapping[str, Any], indent: int | None = 1, allow_nan: bool = True, fit: Path | None = None
) -> None:
    """Write an object with its digest as the last member, renamed into place. The others are as `json.dumps` has them; a result
    of a fit has the digest of its fit.json as the member `fit`."""
    origin = {"fit": sha256(fit)} if fit else {}
    write_text(path, json.dumps({**value, **origin}, indent=indent, allow_nan=allow_nan))


def write_text(path: Path, text: str) -> None:
    """`write_json` of an object that is JSON already. Raises UserError if the disk does not take it."""
    body = text[:-1].rstrip()
    digest = hashlib.sha256(body.encode()).hexdigest()
    with writing(path):
        replace(path, f'{body}{"" if body == "{" else ","}\n "sha256": "{digest}"\n}}\n')


class ResultFile(dict[str, Any]):
    """The members of a JSON file. One that is not there shows that the content is that of another file: a UserError says so."""

    def __init__(self, path: Path, delete: Path, members: Mapping[str, Any]):
        super().__init__(members)
        self._path, self._delete = path, delete

    def __missing__(self, name: str) -> Any:
        raise UserError(
            f"{self._path}: it has no member `{name}`: this is the content of another file\n  {remedy(self._delete)}"
        )


def read_json(
    path: Path, delete: Path | None = None, fit: Path | None = None, needs: Iterable[str] = ()
) -> dict[str, Any]:
    """Return the object that `write_json` wrote. Raises UserError if the file has changed, lacks a member that it `needs`,
    or is a result of another fit than `fit`. The message says to `delete` the file, or the file given there."""
    content = _content(path, delete or path)
    seal = SEAL.search(content)
    if not seal or hashlib.sha256(content[: seal.start()]).hexdigest() != seal[1].decode():
        raise changed(path, "its last line does not have the digest of those before it", delete or path)
    value = ResultFile(path, delete or path, json.loads(content[: seal.start()] + b"}"))
    for name in needs:
        value[name]
    if fit:
        check_origin(path, value.pop("fit", ""), fit)
    return value


def read(path: Path, digest: str, delete: Path) -> bytes:
    """The content of a file. Raises UserError, which says what to delete, if it has another digest."""
    content = _content(path, delete)
    if hashlib.sha256(content).hexdigest() != digest:
        raise changed(path, "its sha256 is another", delete)
    return content


def check(path: Path, digest: str, delete: Path) -> None:
    """`read`, for files that something else reads, and that may be large."""
    if _sha256_or_error(path, delete) != digest:
        raise changed(path, "its sha256 is another", delete)


def _sha256_or_error(path: Path, delete: Path) -> str:
    """The digest that a file has now. Raises UserError, which says what to delete, if it cannot be read."""
    try:
        return sha256(path)
    except OSError as error:
        raise _unreadable(path, error, delete) from error


def write_beside(path: Path, fit: Path) -> None:
    """Write the digests of a table and of the fit.json it was made from into the file `<stem>.sha256` beside it; `sha256sum
    --check` reads that too."""
    lines = [f"{sha256(file)}  {file.name}\n" for file in (path, fit)]
    path.with_suffix(SUFFIX).write_text("".join(lines), encoding="utf-8")


def read_beside(path: Path, fit: Path) -> bytes:
    """The content of a table. Raises UserError if it, or `fit`, has another digest than `write_beside` wrote."""
    lines = _content(path.with_suffix(SUFFIX), path).decode(errors="replace").split("\n")
    digest, origin = ([line[:64] for line in lines] + [""])[:2]
    content = read(path, digest, delete=path)
    check_origin(path, origin, fit)
    return content


def changed(path: Path, how: str, delete: Path) -> UserError:
    """The error for a file that is not as it was written."""
    return UserError(f"{path}: the content has changed since it was written: {how}\n  {remedy(delete)}")


def check_origin(path: Path, digest: str, origin: Path, kind: str = "fit") -> None:
    """Raise UserError if a result of `origin`, by default a fit.json, has the digest of another file of this kind."""
    if _sha256_or_error(origin, origin) != digest:
        raise made_from_another(kind, path, origin)


def made_from_another(kind: str, path: Path, origin: Path) -> UserError:
    """The error for a file that does not belong to what it is used with."""
    return UserError(f"{path}: it was made from another {kind} than {origin}\n  {remedy(path)}")


def check_rows(fit: Mapping[str, Any], data: Iterable[str], path: Path, origin: Path) -> None:
    """Raise UserError if the file at `path`, made from the rows with the digests `data`, is not of the rows of a fit, the content
    of fit.json at `origin`."""
    if fit["provenance"]["shards_sha256"] != joined_sha256(data):
        raise made_from_another("set of rows", path, origin)


def remedy(delete: Path) -> str:
    """Say what to do about a file that has changed since it was written."""
    return f"delete {delete}; the next run of snakemake makes it again, with everything that depends on it"


def _content(path: Path, delete: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error, delete) from error


def _unreadable(path: Path, error: OSError, delete: Path) -> UserError:
    return UserError(f"{path}: cannot be read: {error.strerror or error}\n  {remedy(delete)}")
