"""What an input file is packed in, told by its first bytes, and its content as a stream of bytes."""

import bz2
import errno
import gzip
import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, Literal

import indexed_bzip2
import pyarrow as pa

from tfglm.errors import UserError

OTHER_PACKINGS = {b"\xfd7zX": "xz", b"\x28\xb5\x2f\xfd": "zstd", b"7z\xbc\xaf": "7-Zip", b"Rar!": "RAR"}
"""By their first bytes."""

Packing = Literal["none", "gzip", "bz2", "zip", "parquet"]

EXPANSION = {"none": 1.0, "gzip": 5.5, "bz2": 7.5, "parquet": 6.0}
"""Bytes of CSV for a byte of the file, of flight data; for an estimate of the space that they need."""

MAGIC = b"\x1f\x8b"
"""What a member of a .gz file begins with."""

GZIP = 16 + zlib.MAX_WBITS
"""What zlib calls members of a .gz file."""

AT_ONCE = 1 << 18
"""Bytes of a .gz file that one call of zlib unpacks: other threads have the interpreter meanwhile, and it waits for that between
calls."""

DAMAGES = (
    *(zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError, OSError, RuntimeError),
    *(struct.error, ValueError, IndexError, pa.ArrowException),
)
"""What the libraries raise that unpack."""


def packing(path: Path) -> Packing:
    """How the file is packed, by its first bytes: an ending may be missing or wrong."""
    with reported(path), path.open("rb") as file:
        first = file.read(4)
    if first.startswith(MAGIC):
        return "gzip"
    if first.startswith(b"BZh"):
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
            return sum(entry.file_size for entry in archive.infolist())
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
    """The uncompressed content. Raises UserError for an archive with more than one file."""
    with reported(path):
        openers: dict[str, Any] = {
            "gzip": gzip_stream,
            # bzip2 unpacks 30 MB a second and core, a tenth of what the rest of ingest takes.
            "bz2": bz2.open if threads == 1 else partial(indexed_bzip2.open, parallelization=threads),
            "zip": only_entry,
        }
        with openers.get(packing(path), partial(open, mode="rb"))(str(path)) as stream:
            yield stream


class GzipStream(io.RawIOBase):
    """The content of a .gz file of one or several members, whose checksums and lengths zlib compares.

    The standard library's `gzip` takes a third longer, as it hands zlib 8 KB at a time.

    Raises
    ------
    zlib.error, EOFError, gzip.BadGzipFile
        Where reading comes to damage, to the end of a file that was cut short, or to what is no member behind the last one. They
        name the place in the packed file.
    """

    def __init__(self, path: str) -> None:
        self._file = io.FileIO(path)
        self._member = zlib.decompressobj(GZIP)
        self._waiting = b""
        self._read = 0

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()
        super().close()

    def readinto(self, buffer: Any, /) -> int:
        """As a raw stream does: some bytes, or none at the end."""
        while packed := self._waiting or self._next():
            if self._member.eof:
                self._waiting = packed = packed.lstrip(b"\0")  # what pads a file
                if not packed:
                    continue
                if not MAGIC.startswith(packed[:2]):
                    raise gzip.BadGzipFile(f"something else follows its compressed data, {self._place(packed)}")
                self._member = zlib.decompressobj(GZIP)
            try:
                unpacked = self._member.decompress(packed, len(buffer))
            except zlib.error as error:
                raise zlib.error(f"{error}, {self._place(packed)}") from error
            self._waiting = self._member.unconsumed_tail or self._member.unused_data
            if unpacked:
                buffer[: len(unpacked)] = unpacked
                return len(unpacked)
        if not self._member.eof:
            raise EOFError(f"it ends within its compressed data, {self._place(b'')}")
        return 0

    def _next(self) -> bytes:
        packed = self._file.read(AT_ONCE)
        self._read += len(packed)
        return packed

    def _place(self, packed: bytes) -> str:
        return f"behind byte {self._read - len(packed):,}"


def gzip_stream(path: str) -> io.BufferedReader:
    """A .gz file, unpacked."""
    return io.BufferedReader(GzipStream(path))


def only_entry(path: str) -> IO[bytes]:
    """The one file in a .zip archive, opened. Raises UserError if there are several."""
    archive = zipfile.ZipFile(path)
    files = [name for name in archive.namelist() if not name.endswith("/")]
    if len(files) != 1:
        raise UserError(
            f"{path}: holds {len(files)} files ({', '.join(files)}); unpack it and name the one you mean in data.files"
        )
    return archive.open(files[0])
