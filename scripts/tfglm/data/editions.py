"""Whether a file is still the one that was read. Its modification time alone does not say so: `mv`, `cp -p`, `rsync -a`, `tar`
and a restored backup bring another content with an older time.

Beside what was made from a file lies a record: the file's state before it was read, and its checksum. Equal states mean an
unchanged file. Otherwise the checksum decides, as a copy, a touch or a network file system changes the state alone.
"""

import contextlib
import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tfglm.errors import UserError

RECORD = "source.json"
"""The record of an input file, beside its manifest."""


@dataclass(frozen=True)
class State:
    """What the file system says of a file, or of that which a link leads to: bytes, two times in ns, and the inode."""

    size: int
    modified: int
    changed: int
    inode: int

    @classmethod
    def of(cls, path: Path) -> "State":
        """Raises UserError if there is no such file."""
        try:
            status = path.stat()
        except OSError as error:
            raise UserError(f"{path}: {error.strerror}") from error
        return cls(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


@dataclass(frozen=True)
class Record:
    """The file as it was read. `edition` counts how often its content was found changed: a param of the rule that reads the file,
    so Snakemake runs that again."""

    state: State
    xxh128: str
    edition: int

    def write(self, path: Path) -> None:
        partial = path.with_name(path.name + ".partial")
        partial.write_text(json.dumps(asdict(self)) + "\n")
        partial.rename(path)

    @classmethod
    def load(cls, path: Path) -> "Record":
        """Raises OSError, or another error for a damaged record."""
        raw = json.loads(path.read_text())
        return cls(State(**raw["state"]), str(raw["xxh128"]), int(raw["edition"]))


def checksum_of(path: Path) -> str:
    """The XXH3 of 128 bits of a file, as `xxh128sum` prints it. A sha256 takes 15 times as long."""
    from xxhash import xxh3_128  # which an environment with Snakemake alone lacks

    with path.open("rb") as stream:
        return hashlib.file_digest(stream, xxh3_128).hexdigest()


def edition_of(path: Path, record: Path, made: Path) -> tuple[int, bool]:
    """The edition of a file from which `made` was made, and whether it is the recorded one. A file with the recorded content in
    another state has its record renewed. Without xxhash any other state counts as another content."""
    try:
        recorded = Record.load(record)
    except (OSError, ValueError, KeyError, TypeError):
        # Without a record what was made cannot be trusted, and its time is an edition that no record had.
        return (made.stat().st_mtime_ns if made.exists() else 0), False
    if not path.exists():
        return recorded.edition, True  # whoever needs it says that it is gone
    state = State.of(path)
    if state == recorded.state:
        return recorded.edition, True
    with contextlib.suppress(ImportError, OSError):
        if state.size == recorded.state.size and checksum_of(path) == recorded.xxh128:
            with contextlib.suppress(OSError):  # a folder that only others may write
                replace(recorded, state=state).write(record)
            return recorded.edition, True
    return recorded.edition + 1, False


def confirmed(path: Path, before: State, xxh128: str) -> State:
    """The state of a file after it was read, with this checksum. Raises UserError if it is not the file of before. A mere touch
    changes the state too, but not the inode."""
    after = State.of(path)
    if after != before and ((after.inode, after.size) != (before.inode, before.size) or checksum_of(path) != xxh128):
        raise _changed(path)
    return after


@contextlib.contextmanager
def steady(path: Path, before: State) -> Iterator[None]:
    """Say of a file that has changed while it was read just that, in place of what was found wrong with it."""
    try:
        yield
    except UserError as error:
        if path.exists() and State.of(path) == before:
            raise
        raise _changed(path) from error


def _changed(path: Path) -> UserError:
    return UserError(
        f"{path}: the file has changed while it was read\n"
        "  run snakemake again when nothing writes to it any more; the file is then read anew"
    )
