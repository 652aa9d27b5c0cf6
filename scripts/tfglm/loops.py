"""Compile loops over rows with numba, once per machine, so that other threads run during a loop.

numba keeps compiled code beside the file of a loop, and compiles the loop again when this file changes. It does not notice
changes in other files whose functions or numbers the loop uses
(https://numba.readthedocs.io/en/stable/developer/caching.html). So a loop uses only names of its own file.

numba loads its files unchecked: after a power cut they may be empty or zero, and each later run would stop. Here each file
begins with a digest. If it does not match, the loop is compiled again and its file replaced. For this the module replaces
private classes of `numba.core.caching`; `tests/unit/test_loops.py` fails if they change. To report upstream: "`njit(cache=True)`
loads files of its cache unchecked, so a truncated file ends every later run, and whoever can write there runs code. Please check
a digest and the owner, and let a caller pass a cache."
"""

import contextlib
import hashlib
import os
import pickle
import stat
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core import caching
from numba.core.runtime import rtsys
from numba.misc.appdirs import AppDirs

from tfglm import command

# Adjacent sums become one vector instruction.
numba.config.SLP_VECTORIZE = 1

DIGEST = hashlib.sha256().digest_size


def compiled(function: Callable) -> Any:
    """A loop that numba compiles at its first call with new types, unless an earlier run on this machine has compiled it."""
    loop = numba.njit(nogil=True, error_model="numpy")(function)
    try:
        loop._cache = Cache(function)
    except (RuntimeError, OSError) as error:
        loop._cache = NoCache(error)
    return loop


logged, told = threading.Lock(), threading.Lock()


def log_once(message: str) -> None:
    """Log the first message of a process, which has many loops."""
    if logged.acquire(blocking=False):
        command.log(message)


class NoCache(caching.NullCache):
    """For the case that no folder is writable. It reports this when a loop has been compiled."""

    def __init__(self, reason: Exception) -> None:
        self._reason = reason

    def save_overload(self, sig: Any, cres: Any) -> None:
        log_once(
            f"each process compiles its loops: set NUMBA_CACHE_DIR to a folder that can be written ({self._reason})"
        )


def make_private(folder: Path) -> None:
    """Make a folder for this user alone. Raises PermissionError for one that others can use, OSError if there can be none."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise PermissionError(f"{folder} is open to other users")


class PrivateFolder(caching.UserWideCacheLocator):
    """A folder in the first of numba's places, or in TMPDIR, that can be written. Its content is executed, so it is for this user
    alone."""

    def __init__(self, function: Callable, file: str) -> None:
        self._py_file, self._lineno = file, function.__code__.co_firstlineno

    def ensure_cache_path(self) -> None:
        beside, of_user = Path(self._py_file).parent / "__pycache__", AppDirs("numba", appauthor=False).user_cache_dir
        for place in filter(None, (numba.config.CACHE_DIR, beside, of_user, tempfile.gettempdir())):
            folder = Path(place, f"tfglm-loops-{os.geteuid()}")
            self._cache_path = str(folder / self.get_suitable_cache_subpath(self._py_file))
            self.is_temporary = place == tempfile.gettempdir()
            with contextlib.suppress(OSError):
                make_private(folder)
                return super().ensure_cache_path()
        raise PermissionError(f"{folder} cannot be written, or is open to other users")


class Implementation(caching.CompileResultCacheImpl):
    _locator_classes = (PrivateFolder,)


class CheckedFiles(caching.IndexDataCacheFile):
    """A file for each combination of loop, types and processor, without an index: processes that compile at the same time
    cannot mix them up."""

    def _place(self, key: tuple) -> tuple[str, bytes]:
        """The path, and what the digest covers besides the data: numba's version, the source of the loop, its types."""
        types_and_processor = hashlib.sha256(repr(key[:2]).encode()).hexdigest()[:16]
        path = self._data_path(self._data_name_pattern.format(number=int(types_and_processor, 16)))
        return path, repr((self._version, self._source_stamp, key)).encode()

    def load(self, key: tuple) -> Any:
        path, origin = self._place(key)
        try:
            with Path(path).open("rb") as stream:
                # Who can rename the folder above may have put another in its place since it was checked.
                found = os.fstat(stream.fileno())
                content = stream.read() if found.st_uid == os.geteuid() and not found.st_mode & 0o077 else b""
        except OSError:
            return None
        digest, data = content[:DIGEST], content[DIGEST:]
        return pickle.loads(data) if hashlib.sha256(origin + data).digest() == digest else None

    def save(self, key: tuple, data: Any) -> None:
        path, origin = self._place(key)
        dumped = self._dump(data)
        with self._open_for_write(path) as stream:  # renamed into place
            os.fchmod(stream.fileno(), 0o600)
            stream.write(hashlib.sha256(origin + dumped).digest() + dumped)


class Cache(caching.FunctionCache):
    """numba's, with such files in the first folder that can be written."""

    _impl_class = Implementation

    def __init__(self, function: Callable) -> None:
        super().__init__(function)
        locator = self._impl.locator
        self._cache_file = CheckedFiles(self.cache_path, self._impl.filename_base, locator.get_source_stamp())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load a loop without numba's registries of what code may call, which take 0.2 s of a processor; to compile one, numba
        loads them anyway."""
        rtsys.initialize(target_context)
        loop = self._load_overload(sig, target_context)
        is_watched = sys.stderr.isatty() or "ipykernel" in sys.modules
        if loop is None and is_watched and told.acquire(blocking=False):
            print("tfglm compiles its loops for this machine, once; this takes some seconds", file=sys.stderr)
        return loop

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError as error:
            log_once(
                f"compiled loops cannot be kept in {self.cache_path}, so each process compiles them: {error.strerror}"
            )
        else:
            if self._impl.locator.is_temporary:
                folder = Path(self.cache_path).parent
                log_once(f"compiled loops are kept in {folder}: neither the program's folder nor HOME can be written")
