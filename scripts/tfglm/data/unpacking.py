"""The content of .gz and .bz2 files, by libraries that unpack faster than Python's own; damage is named by its place."""

import gzip
import io
import re
import zlib
from pathlib import Path
from typing import Any, Literal

import indexed_bzip2
from isal import isal_zlib

GZIP_MAGIC, BZIP2_MAGIC = b"\x1f\x8b", b"BZh"
"""The first bytes of members of a .gz file, and of streams of a .bz2 file."""

NOTHING = re.compile(rb"(?:\0|BZh[1-9]\x17rE8P\x90\0{4})+")
"""Empty streams of a .bz2 file, and zeros that pad it."""

GZIP = 16 + zlib.MAX_WBITS
"""zlib's number for the format of members of a .gz file."""

AT_ONCE = 1 << 18
"""Bytes of a .gz file that one call unpacks. During a call other threads run Python; between two calls this thread waits
for the interpreter."""

END_BITS = 80
"""The end of a stream of bzip2: a mark of 48 bits, and the checksum of all blocks."""


class PackedStream(io.RawIOBase):
    """The content of a packed file; `_file` is closed with it."""

    _file: Any

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()
        super().close()


class GzipStream(PackedStream):
    """The content of a .gz file of one or several members, whose checksums and lengths are compared, by ISA-L, which takes a
    third of zlib's time.

    Raises zlib.error, EOFError or gzip.BadGzipFile where reading comes to damage, to the end of a file that was cut short,
    or to what is no member behind the last one. They name the place in the packed file, which the readers of the standard
    library and of ISA-L's package do not.
    """

    def __init__(self, path: Path) -> None:
        self._file = io.FileIO(path)
        self._member = isal_zlib.decompressobj(GZIP)
        self._waiting = b""
        self._read = 0

    def readinto(self, buffer: Any, /) -> int:
        """Read as a raw stream does: some bytes, or none at the end."""
        while packed := self._waiting or self._next():
            if self._member.eof:
                self._waiting = packed = packed.lstrip(b"\0")  # what pads a file
                if not packed:
                    continue
                if not GZIP_MAGIC.startswith(packed[:2]):
                    raise gzip.BadGzipFile(f"something else follows its compressed data, {self._place(packed)}")
                self._member = isal_zlib.decompressobj(GZIP)
            try:
                unpacked = self._member.decompress(packed, len(buffer))
            except isal_zlib.error as error:
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
        return f"after byte {self._read - len(packed):,}"


class Bzip2Stream(PackedStream):
    """The content of a .bz2 file of one or several streams, unpacked by several threads, with checked checksums.

    indexed_bzip2 does this; with one thread it takes 0.7 of the time of the standard library. Each thread holds some 7 MB.
    The package accepts anything after the last stream, and with several threads also a later stream that is cut within its
    first bytes. So this function checks both. Raises OSError or EOFError where GzipStream raises its errors.
    """

    def __init__(self, path: Path, threads: int) -> None:
        self._path = path
        self._file = indexed_bzip2.open(str(path), parallelization=threads)
        self._unended = END_BITS if threads == 1 else 0

    def readinto(self, buffer: Any, /) -> int:
        """Read as a raw stream does: some bytes, or none at the end."""
        try:
            size = self._file.readinto(buffer)
        except (RuntimeError, ValueError, IndexError) as error:
            place = max(self._file.available_block_offsets(), default=0) // 8
            raise OSError(f"its compressed data end, or make no sense, after byte {place:,}") from error
        if not size:
            self._check_end()
        return size

    def _check_end(self) -> None:
        """Raise if anything but empty streams and zeros follows the last stream with content."""
        # A single thread knows the last block, which is the end of the stream, by where it begins; several by where it ends.
        place = -(-(max(self._file.block_offsets()) + self._unended) // 8)
        with self._path.open("rb") as packed:
            packed.seek(place)
            rest = packed.read(AT_ONCE)
            while nothing := NOTHING.match(rest):
                place += nothing.end()
                packed.seek(place)
                rest = packed.read(AT_ONCE)
        if BZIP2_MAGIC.startswith(rest[:3]) and rest:
            raise EOFError(f"it ends within its compressed data, after byte {place:,}")
        if rest:
            raise OSError(f"something else follows its compressed data, after byte {place:,}")


def unpacked(path: Path, kind: Literal["gzip", "bz2"], threads: int) -> io.BufferedReader:
    """The content of a .gz or .bz2 file; the latter is unpacked by so many threads."""
    return io.BufferedReader(GzipStream(path) if kind == "gzip" else Bzip2Stream(path, threads))
