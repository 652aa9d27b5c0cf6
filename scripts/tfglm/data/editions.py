"""Find out whether a file is still the file that was read.

Its modification time alone does not tell: `mv`, `cp -p`, `rsync -a`, `tar` and a restored backup bring other content with
an older time.

So the results of reading a file have a record beside them: the state of the file before it was read, and its checksum.
Equal states mean an unchanged file. Otherwise the checksum decides, because a copy, a touch or a network file system
changes only the state.
"""

import contextlib
import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tfglm import digests
from tfglm.errors import UserError

RECORD = "source.json"
"""The record of an input file, beside its manifest."""


@dataclass(frozen=True)
class FileStatus:
    """The status of a file, or of the target of a link: size in bytes, two times in ns, and the inode."""

    size: int
    modified: int
    changed: int
    inode: int

    @classmethod
    def of(cls, path: Path) -> "FileStatus":
        """Raises UserError if there is no such file."""
        try:
            status = path.stat()
        except OSError as error:
            raise UserError(f"{path}: {error.strerror}") from error
        return cls(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


@dataclass(frozen=True)
class Record:
    """The record of a file at the time of reading. `edition` is the number of changes of its content found so far. It is a
    parameter of the rule that reads the file, so a change makes Snakemake run the rule again."""

    state: FileStatus
    xxh128: str
    edition: int

    def write(self, path: Path) -> None:
        digests.replace(path, json.dumps(asdict(self)) + "\n")

    @classmethod
    def load(cls, path: Path) -> "Record":
        """Raises OSError, or another error for a damaged record."""
        raw = json.loads(path.read_text(encoding="utf-8"))
        return cls(FileStatus(**raw["state"]), str(raw["xxh128"]), int(raw["edition"]))


def checksum_of(path: Path) -> str:
    """The XXH3 of 128 bits of a file, as `xxh128sum` prints it. A sha256 takes 15 times as long."""
    from xxhash import xxh3_128  # which an environment with Snakemake alone lacks

    with path.open("rb") as stream:
        return hashlib.file_digest(stream, xxh3_128).hexdigest()


def edition_of(path: Path, record: Path, made: Path) -> tuple[int, bool]:
    """Return the edition of a file from which `made` was made, and whether it is the recorded edition. If the file has the
    recorded content in another state, the record is renewed. Without xxhash, any other state counts as other content."""
    try:
        recorded = Record.load(record)
    except (OSError, ValueError, KeyError, TypeError):
        # Without a record `made` cannot be trusted; its own time is an edition that no record ever had.
        return (made.stat().st_mtime_ns if made.exists() else 0), False
    if not path.exists():
        return recorded.edition, True  # the code that needs the file reports that it is gone
    state = FileStatus.of(path)
    if state == recorded.state:
        return recorded.edition, True
    with contextlib.suppress(ImportError, OSError):
        if state.size == recorded.state.size and checksum_of(path) == recorded.xxh128:
            with contextlib.suppress(OSError):  # a folder that only others may write
                replace(recorded, state=state).write(record)
            return recorded.edition, True
    return recorded.edition + 1, False


def confirmed(path: Path, before: FileStatus, xxh128: str) -> FileStatus:
    """The state of a file after it was read, with this checksum. Raises UserError if it is not the file of before. A mere touch
    changes the state too, but not the inode."""
    after = FileStatus.of(path)
    if after != before and ((after.inode, after.size) != (before.inode, before.size) or checksum_of(path) != xxh128):
        raise _changed(path)
    return after


@contextlib.contextmanager
def steady(path: Path, before: FileStatus) -> Iterator[None]:
    """If a file changed while it was read, report this instead of the errors found in it."""
    try:
        yield
    except UserError as error:
        if path.exists() and FileStatus.of(path) == before:
            raise
        raise _changed(path) from error


def _changed(path: Path) -> UserError:
    return UserError(
        f"{path}: the file changed while it was read\n"
        "  run snakemake again when nothing writes to it any more; the file is then read again"
    )
