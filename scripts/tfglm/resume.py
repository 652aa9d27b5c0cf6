"""The sums of a fit so far, on disk, so that a killed fit continues from there.

A solver is a function of its sums: if run again, it requests the same sums in the same order. Sums in the journal are read
instead of computed, and the rest of the fit is the same bit for bit. Sums that are computed nearly as fast as written are
not kept.
"""

import hashlib
import io
import mmap
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
from xxhash import xxh3_128_digest

from tfglm.distribute.executor import Arrays, Call, Executor, Shared, State
from tfglm.distribute.tasks import Task

KEY = "key"

DIGEST = 16
"""Bytes of a digest, the last of each file: ZIP has no more than a CRC of what it holds, and none of its own lists."""

LARGEST = 4e9
"""Largest size of a journal in bytes; an interrupted fit then resumes from there."""

SMALL = 1e7
"""Bytes of a result that is written in any case."""

BYTES_PER_SECOND = 3e8
"""The speed of writing results. Writing takes processor time that the workers could use."""

WORTH = 10
"""A larger result is written if making it took so many times as long as to write it; else a fit that resumes makes it again."""


class Journal:
    """The results of one fit in `folder`, one file per result. `key` identifies everything that they depend on; files with
    another key are removed. `note` receives messages about existing files. A full disk ends the writing, not the fit."""

    def __init__(
        self,
        folder: Path,
        key: str,
        note: Callable[[str], None],
        small: float = SMALL,
        bytes_per_second: float = BYTES_PER_SECOND,
    ) -> None:
        self._small, self._bytes_per_second = small, bytes_per_second
        self.folder, self._note, self._next, self._writing, self._bytes = folder, note, 0, True, 0.0
        self._key = key.encode()
        self._writer = ThreadPoolExecutor(1)
        self._pending: Future[None] | None = None
        written = folder / KEY
        if written.is_file() and written.read_bytes() == self._key:
            note(f"resuming from {len(self._files())} results of an earlier run in {folder}")
            return
        self.remove()
        try:
            folder.mkdir(parents=True)
            written.write_bytes(self._key)
        except OSError as error:
            self._stop_writing(error)

    def recall(self, question: str, make: Callable[[], Arrays]) -> tuple[Arrays, bool]:
        """The answer to the next question, and whether it was given before; else it is made, and kept."""
        self.settle()
        path, self._next = self.folder / f"{self._next:05}.npz", self._next + 1
        answer = self._read(path, question)
        if answer is not None:
            return answer, True
        began = time.monotonic()
        answer = make()
        size = sum(array.nbytes for array in answer.values())
        if size < self._small or time.monotonic() - began > WORTH * size / self._bytes_per_second:
            self._pending = self._writer.submit(self._write, path, {**answer, "": np.array(question)})
        return answer, False

    def settle(self) -> None:
        """Wait until the last answer is written; writing continues in the background while the answer is used."""
        if self._pending:
            self._pending.result()
            self._pending = None

    def remove(self) -> None:
        self.settle()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("*.npz"))

    def _read(self, path: Path, question: str) -> Arrays | None:
        if not path.is_file():
            return None
        try:
            content = path.read_bytes()
            if self._digest(memoryview(content)[:-DIGEST]) != content[-DIGEST:]:
                raise ValueError("it has changed since it was written")
            with np.load(io.BytesIO(content), allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
            if str(arrays.pop("")) == question:
                return arrays
            reason = "answers another question"
        except (OSError, ValueError) as error:
            reason = f"cannot be read ({error})"
        self._note(f"{path} {reason}; this result and all later ones are computed again")
        for later in self._files():
            if later >= path:
                later.unlink(missing_ok=True)
        return None

    def _write(self, path: Path, arrays: Arrays) -> None:
        if not self._writing:
            return
        partial = path.with_suffix(".partial")
        try:
            with partial.open("w+b") as file:
                np.savez(file, allow_pickle=False, **arrays)
                file.flush()
                with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                    digest = self._digest(content)
                file.seek(0, io.SEEK_END)
                file.write(digest)
            partial.rename(path)
            self._bytes += path.stat().st_size
            if self._bytes > LARGEST:
                self._writing = False
                self._note(
                    f"{self.folder} has {self._bytes / 1e9:.0f} GB, which is the most; later results are not kept"
                )
        except OSError as error:
            self._stop_writing(error)
            partial.unlink(missing_ok=True)

    def _digest(self, content: memoryview | mmap.mmap) -> bytes:
        """The end of a result: the digest of the content, and the digest of everything that the fit depends on."""
        return xxh3_128_digest(self._key + xxh3_128_digest(content))

    def _stop_writing(self, error: OSError) -> None:
        self._writing = False
        self._note(f"warning: {self.folder} cannot be written ({error.strerror}): an interrupted fit starts over")


Passed = Callable[[bool, float, Sequence[Call]], None]


class ResumingExecutor:
    """An executor that keeps its sums in a journal, and reads sums from it that an earlier fit has computed. For each sum,
    `passed` receives whether it was recalled, its seconds, and its calls; a result of several sums has no calls."""

    def __init__(self, executor: Executor, journal: Journal, passed: Passed) -> None:
        self._executor, self._journal, self._passed = executor, journal, passed
        self.workers, self.kept = executor.workers, str(journal.folder)

    def sum(self, task: Task, calls: Sequence[Call], state: State) -> np.ndarray:
        digest = hashlib.sha256(repr(task).encode())
        digest.update(repr([np.asarray(argument).shape for argument in calls[0]]).encode())
        for name, value in state.items():
            digest.update(name.encode() + np.ascontiguousarray(value, float).tobytes())
        question = f"{len(calls)} calls, {digest.hexdigest()}"
        return self._remember(question, lambda: {"sum": self._executor.sum(task, calls, state)}, calls)["sum"]

    def remember(self, question: str, make: Callable[[], Arrays]) -> Arrays:
        return self._remember(question, make, ())

    def _remember(self, question: str, make: Callable[[], Arrays], calls: Sequence[Call]) -> Arrays:
        began = time.monotonic()
        answer, recalled = self._journal.recall(question, make)
        self._passed(recalled, time.monotonic() - began, calls)
        return answer

    def map(self, calls: Sequence[tuple[Task, Call]], state: State) -> Iterator[np.ndarray]:
        """Run it by the executor, without storing the result."""
        return self._executor.map(calls, state)

    def share(self, array: np.ndarray) -> Shared:
        return self._executor.share(array)

    def update(
        self, calls: Sequence[tuple[Task, Call]], shared: Shared, weight: float
    ) -> Iterator[list[tuple[int, np.ndarray]]]:
        """Run it by the executor, without storing the result."""
        return self._executor.update(calls, shared, weight)
