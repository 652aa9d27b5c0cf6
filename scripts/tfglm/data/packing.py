"""What an input file is packed in, told by its first bytes, and its content as a stream of bytes."""

import errno
import gzip
import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Literal

import pyarrow as pa

from tfglm.data.unpacking import BZIP2_MAGIC, GZIP_MAGIC, unpacked
from tfglm.errors import UserError

OTHER_PACKINGS = {b"\xfd7zX": "xz", b"\x28\xb5\x2f\xfd": "zstd", b"7z\xbc\xaf": "7-Zip", b"Rar!": "RAR"}
"""By their first bytes."""

Packing = Literal["none", "gzip", "bz2", "zip", "parquet"]

EXPANSION = {"none": 1.0, "gzip": 5.5, "bz2": 7.5, "parquet": 6.0}
"""Bytes of CSV for a byte of the file, of flight data; for an estimate of the space that they need."""

DAMAGES = (
    *(zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError, OSError, RuntimeError),
    *(struct.error, ValueError, IndexError, pa.ArrowException),
)
"""What the libraries raise that unpack."""


def packing(path: Path) -> Packing:
    """How the file is packed, by its first bytes: an ending may be missing or wrong."""
    with reported(path), path.open("rb") as file:
        first = file.read(4)
    if first.startswith(GZIP_MAGIC):
        return "gzip"
    if first.startswith(BZIP2_MAGIC):
        return "bz2"
    for magic, name in OTHER_PACKINGS.items():
        if first.startswith(magic):
            raise UserError(
                f"{path}: is compressed with {name}, which cannot be read; unpack it, or compress it with gzip"
            )
    if first == b"PK\x03\x04":
        return "zip"
    if first == b"PAR1":
        return "parquet"
    if path.suffix.lower() in (".parquet", ".pq"):
        raise UserError(
            f"{path}: is no Parquet file, although its name says so (it does not begin with PAR1)\n"
            "  fetch or write it again, or name it .csv if it is text"
        )
    return "none"


def estimated_csv_bytes(path: Path) -> int:
    """About how large the file is as plain CSV."""
    kind = packing(path)
    if kind == "zip":
        with reported(path), zipfile.ZipFile(path) as archive:
            read = files_in(archive) if is_images(path) else [table_in(path, archive)]
            return sum(archive.getinfo(name).file_size for name in read)
    return int(path.stat().st_size * EXPANSION[kind])


@contextmanager
def reported(path: Path) -> Iterator[None]:
    """Errors of opening and unpacking a file as UserErrors that name it."""
    try:
        yield
    except DAMAGES as error:
        # A damaged archive sends its reader to places that no file has.
        if isinstance(error, OSError) and error.strerror and error.errno != errno.EINVAL:
            raise UserError(f"{path}: {error.strerror}") from error
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise UserError(
            f"{path}: is damaged or cut short and cannot be unpacked ({reason})\n  fetch the file again"
        ) from error


@contextmanager
def opened(path: Path, threads: int = 1) -> Iterator[IO[bytes]]:
    """The uncompressed content. Raises UserError for an archive with more than one table."""
    with reported(path), _stream(path, threads) as stream:
        yield stream


def _stream(path: Path, threads: int) -> IO[bytes]:
    kind = packing(path)
    if kind == "gzip" or kind == "bz2":
        return unpacked(path, kind, threads)
    if kind != "zip":
        return path.open("rb")
    archive = zipfile.ZipFile(path)
    return archive.open(table_in(path, archive))


def entry_of(path: Path) -> str:
    """The name of the table in a .zip archive. Raises UserError if there is none, or several."""
    with reported(path), zipfile.ZipFile(path) as archive:
        return table_in(path, archive)


def left_out(path: Path) -> list[str]:
    """The files of an archive that are not read: what stands beside its table."""
    if packing(path) != "zip" or is_images(path):
        return []
    with reported(path), zipfile.ZipFile(path) as archive:
        return [name for name in files_in(archive) if name != table_in(path, archive)]


def is_images(path: Path) -> bool:
    """Whether it is an archive of arrays, which are all read."""
    return path.suffix.lower() == ".npz"


def files_in(archive: zipfile.ZipFile) -> list[str]:
    """The files of an archive without those that macOS adds and hides."""
    names = {name: PurePosixPath(name) for name in archive.namelist() if not name.endswith("/")}
    return [name for name, path in names.items() if "__MACOSX" not in path.parts and not path.name.startswith(".")]


def table_in(path: Path, archive: zipfile.ZipFile) -> str:
    """The one file in an archive, or the one CSV file beside others, such as a readme. Raises UserError if there is none, or
    several."""
    files = files_in(archive)
    tables = [name for name in files if name.lower().endswith(".csv")] if len(files) > 1 else files
    if len(tables) != 1:
        shown = ", ".join(files[:10]) + (", ..." if len(files) > 10 else "")
        what = f"{len(files):,} files ({shown})" if files else "no file"
        raise UserError(f"{path}: holds {what}; unpack it and name the one you mean in data.files")
    return tables[0]
