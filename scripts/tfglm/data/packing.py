"""The compression or kind of an input file, recognised by its first bytes, and its content as a stream of bytes."""

import errno
import gzip
import io
import lzma
import re
import shlex
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any, Literal

import pyarrow as pa

from tfglm.data.foreign import converted
from tfglm.data.unpacking import BZIP2_MAGIC, GZIP_MAGIC, unpacked
from tfglm.errors import UserError

TABLES = (".tsv", ".tab", ".psv", ".dat", ".data", ".jsonl", ".ndjson", ".json")
"""Endings of data files in an archive, besides .csv."""

TEXT = re.compile(r"\.(csv|tsv|tab|psv|txt|dat|data)(\.(gz|bz2))?$", re.IGNORECASE)
"""Endings of text with columns, packed or not."""

NOTES = r"(read[ _-]?me|licen[sc]e|notes?|about|changelog|names?|variables?|codebook|dictionary|description)[^/]*$"
"""Names of .txt files in an archive that hold no data."""

LONGEST_MAGIC = 512
"""First bytes of a file that tell what it is: the beginning, and the middle of a block of a tar archive."""

UNPACK = "which cannot be read; unpack it, or compress it with gzip"

REFUSED = {
    b"\xd0\xcf\x11\xe0": "an Excel file of the old kind (.xls), or one with a password; save it as .xlsx without one",
    b"SQLite format 3": "an SQLite database; write a table as CSV: sqlite3 -csv -header FILE 'SELECT * FROM table' > table.csv",
    b"\0\0\0\0\0\0\0\0\0\0\0\0\xc2\xea\x81": "a SAS file; write it as CSV (PROC EXPORT), or as Stata's .dta",
    b"HEADER RECORD*******LIBRARY": "a SAS transport file; write it as CSV (PROC EXPORT), or as Stata's .dta",
    b"RDX": "an R file; in R: write.csv(DATA, 'data.csv', row.names = FALSE)",
    b"\x89HDF": "an HDF5 file; write its table as CSV or Parquet",
    b"ARROW1": "an Arrow (Feather) file; write it as Parquet: pandas.read_feather(FILE).to_parquet('data.parquet')",
    b"%PDF": "a PDF; look for the data behind its tables, as CSV or Excel",
    b"<!DOCTYPE html": "a web page and no data; fetch the file that the page links to",
    b"<html": "a web page and no data; fetch the file that the page links to",
    b"<?xml": "an XML file; write its table as CSV",
    b"\xfd7zX": f"compressed with xz, {UNPACK}",
    b"\x28\xb5\x2f\xfd": f"compressed with zstd, {UNPACK}",
    b"7z\xbc\xaf": f"compressed with 7-Zip, {UNPACK}",
    b"Rar!": f"compressed with RAR, {UNPACK}",
}
"""What a file is by its first bytes that no reader here takes, and what to do."""

JSON_OBJECT = re.compile(rb'(\xef\xbb\xbf)?\s*\{\s*(["}]|$)')
JSON_LIST = re.compile(rb'(?:\xef\xbb\xbf)?\s*\[\s*([{\["]|(?:-?[0-9][0-9.eE+-]*|true|false|null)\s*,|$)')
"""The latter with what the list begins with."""

Packing = Literal["none", "gzip", "bz2", "zip", "parquet", "workbook", "stata", "spss", "json"]
FileKind = Literal["csv", "images", "parquet", "workbook", "stata", "spss", "json"]

EXPANSION = {
    "none": 1.0,
    "gzip": 5.5,
    "bz2": 7.5,
    "parquet": 6.0,
    "workbook": 4.0,
    "stata": 2.0,
    "spss": 3.0,
    "json": 0.6,
}
"""Bytes of CSV for a byte of the file, of flight data; for an estimate of the space that they need."""

DAMAGES = (
    *(zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError, OSError, RuntimeError),
    *(struct.error, ValueError, IndexError, pa.ArrowException),
)
"""The errors of the libraries that unpack."""


def has_images(path: Path) -> bool:
    """Whether a file is one of images, by its ending: inside, other archives look alike."""
    return path.suffix.lower() == ".npz"


def packing(path: Path) -> Packing:
    """Return the compression or kind of the file from its first bytes: the ending of its name may be missing or wrong.
    Raises UserError for kinds that cannot be read, with what to do."""
    with reported(path), path.open("rb") as file:
        first = file.read(LONGEST_MAGIC)
    if first.startswith(GZIP_MAGIC):
        return "gzip"
    if first.startswith(BZIP2_MAGIC):
        return "bz2"
    if first.startswith(b"PK\x03\x04"):
        return kind_of_archive(path)
    if first.startswith(b"PAR1"):
        return "parquet"
    if first.startswith((b"$FL2", b"$FL3")):
        return "spss"
    # Until version 12 of Stata a file begins with the number of its kind and the order of bytes.
    is_old = len(first) > 1 and (
        path.suffix.lower() == ".dta"
        and first[:1] in b"\x69\x6a\x6b\x6c\x6d\x6e\x6f\x71\x72\x73"
        and first[1:2] in b"\1\2"
    )
    if first.startswith(b"<stata_dta>") or is_old:
        return "stata"
    if is_json(path, first):
        return "json"
    refuse_others(path, first)
    if path.suffix.lower() in (".parquet", ".pq"):
        raise UserError(
            f"{path}: is no Parquet file, although its name says so (it does not begin with PAR1)\n"
            "  fetch or write it again, or name it .csv if it is text"
        )
    return "none"


def kind_of_archive(path: Path) -> Packing:
    """Whether a .zip archive is an Excel file. Raises UserError for other spreadsheets."""
    with reported(path), zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
        book = archive.read("xl/workbook.xml") if "xl/workbook.xml" in names else b""
        others = {
            "an OpenDocument spreadsheet": "mimetype" in names and b"opendocument" in archive.read("mimetype"),
            "a binary Excel file (.xlsb)": "xl/workbook.bin" in names,
            "a Strict Open XML spreadsheet": b"//purl.oclc.org/ooxml/spreadsheetml" in book,
        }
    if what := next((name for name, is_it in others.items() if is_it), None):
        command = f"soffice --headless --convert-to xlsx {shlex.quote(str(path))}"
        raise UserError(
            f"{path}: is {what}, which cannot be read; save it as an Excel workbook (.xlsx), or run {command}"
        )
    return "workbook" if book else "zip"


def is_json(path: Path, first: bytes) -> bool:
    """Whether text begins as JSON lines do. Raises UserError for lists."""
    if found := JSON_LIST.match(first):
        # A list of lists or objects, or else a list in each line.
        jq = {b"[": "-r '.[] | @csv'", b"{": "-c '.[]'", b"": "-c '.[]'"}.get(found[1], "-r @csv")
        converted_path = path.with_name(f"{path.stem}-converted.{'csv' if '@csv' in jq else 'jsonl'}")
        source, target = (shlex.quote(str(name)) for name in (path, converted_path))
        raise UserError(
            f"{path}: holds JSON lists, and can be read as JSON objects or CSV:\n  jq {jq} {source} > {target}"
        )
    return bool(JSON_OBJECT.match(first))


def refuse_others(path: Path, first: bytes, is_packed: bool = False) -> None:
    """Raise UserError for what begins as no data does, or none that is read where `is_packed`."""
    if is_packed and first.startswith((b"PK\x03\x04", b"PAR1", b"$FL", b"<stata_dta>", GZIP_MAGIC, BZIP2_MAGIC)):
        raise UserError(
            f"{path}: holds a file that is read unpacked only, such as a workbook; unpack it, and name what is inside"
        )
    what = next((what for magic, what in REFUSED.items() if first.lower().startswith(magic.lower())), None)
    if first[257:262] == b"ustar":
        what = f"a tar archive; unpack it, and name the file to read in data.files\n  tar -xf {shlex.quote(str(path))}"
    if what:
        raise UserError(f"{path}: is {what}")


def kind_of_file(path: Path) -> FileKind:
    """What a file holds, whatever it is packed in. All but images and Parquet files are read as CSV. Raises UserError for a
    file in an archive that is read unpacked only."""
    if has_images(path):
        return "images"
    kind = packing(path)
    if kind in ("parquet", "workbook", "stata", "spss", "json"):
        return kind
    # The name inside of an archive spares a look, which takes a tenth of a second for each .bz2 file.
    if kind == "none" or TEXT.search(entry_of(path) if kind == "zip" else path.name):
        return "csv"
    with reported(path), _unpacked(path, kind, 1) as stream:
        return "json" if is_json(path, stream.read(64)) else "csv"


def estimated_csv_bytes(path: Path) -> int:
    """About how large the file is as plain CSV."""
    kind = packing(path)
    if kind == "zip":
        with reported(path), zipfile.ZipFile(path) as archive:
            read = files_in(archive) if has_images(path) else [table_in(path, archive)]
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
def opened(path: Path, threads: int = 1, sheet: str = "") -> Iterator[IO[bytes]]:
    """The uncompressed content, as CSV whatever the kind of the file; `sheet` is that of a workbook. Raises UserError for an
    archive with more than one table, and for a file that cannot be converted."""
    with reported(path):
        kind = kind_of_file(path)
        is_foreign = kind in ("workbook", "stata", "spss")
        stream = None if is_foreign else _unpacked(path, packing(path), threads)
        content: Any = converted(path, kind, sheet, stream) if is_foreign or kind == "json" else stream
        with content:
            yield content


def _unpacked(path: Path, kind: Packing, threads: int) -> IO[bytes]:
    if kind == "gzip" or kind == "bz2":
        stream = unpacked(path, kind, threads)
    elif kind == "zip":
        stream = io.BufferedReader(entry(path))
    else:
        return path.open("rb")
    refuse_others(path, stream.peek(LONGEST_MAGIC), is_packed=True)
    return stream


def entry(path: Path) -> Any:
    """The table in a .zip archive. Raises UserError for one that needs a password or a method that Python lacks."""
    archive = zipfile.ZipFile(path)
    name = table_in(path, archive)
    try:
        return archive.open(name)
    except RuntimeError as error:
        raise UserError(
            f"{path}: cannot be unpacked here ({error}); unpack it, and name the file to read in data.files\n"
            f"  unzip {shlex.quote(str(path))} {shlex.quote(name)}"
        ) from error


def entry_of(path: Path) -> str:
    """The name of the table in a .zip archive. Raises UserError if there is none, or several."""
    with reported(path), zipfile.ZipFile(path) as archive:
        return table_in(path, archive)


def left_out(path: Path) -> list[str]:
    """Files of an archive that are ignored: they accompany its table."""
    if packing(path) != "zip" or has_images(path):
        return []
    with reported(path), zipfile.ZipFile(path) as archive:
        return [name for name in files_in(archive) if name != table_in(path, archive)]


def files_in(archive: zipfile.ZipFile) -> list[str]:
    """The files of an archive without those that macOS adds and hides."""
    names = {name: PurePosixPath(name) for name in archive.namelist() if not name.endswith("/")}
    return [name for name, path in names.items() if "__MACOSX" not in path.parts and not path.name.startswith(".")]


def table_in(path: Path, archive: zipfile.ZipFile) -> str:
    """Return the only file in an archive, or the only data file beside others, such as a readme.

    That is the only .csv file; if there is none, the only one with another ending of TABLES; and then the only .txt file that
    is no readme. Raises UserError if there is none, or several.
    """
    files = files_in(archive)
    endings = {name: PurePosixPath(name).suffix.lower() for name in files}
    texts = [name for name in files if endings[name] == ".txt" and not re.search(NOTES, name, re.IGNORECASE)]
    choices = [[name for name in files if endings[name] == ".csv"], [name for name in files if endings[name] in TABLES]]
    tables = next(filter(None, [*choices, texts]), []) if len(files) > 1 else files
    if len(tables) != 1:
        shown = ", ".join(files[:10]) + (", ..." if len(files) > 10 else "")
        what = f"{len(files):,} files ({shown})" if files else "no file"
        raise UserError(
            f"{path}: holds {what}; unpack it and name the file to read in data.files\n"
            f"  unzip {shlex.quote(str(path))} {shlex.quote((tables or files or ['FILE'])[0])}"
        )
    return tables[0]
