"""A page of memory that the chief and its watchdog share: three numbers, written without a lock, a system call or a wait."""

import mmap
import os

SIZE = 24
WAITS, DEPTH, ALIVE = range(3)


def make() -> int:
    """The file descriptor of a new one, for `Page` in both processes."""
    descriptor = os.memfd_create("tfglm")
    os.ftruncate(descriptor, SIZE)
    return descriptor


class Page:
    """The page behind a file descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._numbers = memoryview(mmap.mmap(descriptor, SIZE)).cast("q")

    def begin(self) -> None:
        """The chief begins to wait for a call."""
        self._numbers[WAITS] += 1
        self._numbers[DEPTH] += 1

    def end(self) -> None:
        """It has come back, or failed."""
        self._numbers[DEPTH] -= 1

    def wait(self) -> int | None:
        """The number of the wait that the chief is in, None if it is in none."""
        return self._numbers[WAITS] if self._numbers[DEPTH] else None

    @property
    def workers_alive(self) -> int:
        """The number of workers that answer the watchdog."""
        return self._numbers[ALIVE]

    @workers_alive.setter
    def workers_alive(self, number: int) -> None:
        self._numbers[ALIVE] = number
