"""End a process of a cluster immediately, whatever its threads are doing, and together with the process that started it."""

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import NoReturn

from tfglm import command


def leave(code: int, *last: Callable[[], object], seconds: float = 2.0) -> NoReturn:
    """End this process with `code` in any case. The `last` calls report the reason, in threads of their own with a time
    limit: a log may be on a disk that is full or gone, and the reader of a terminal may be busy."""

    def call(last_call: Callable[[], object]) -> None:
        with contextlib.suppress(BaseException):
            last_call()

    try:
        threads = [threading.Thread(target=call, args=(last_call,), daemon=True) for last_call in last]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + seconds
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
    finally:
        os._exit(code)


ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
"""Signals that ask a process to end; srun passes on SIGUSR1."""


def end_on_signals() -> None:
    """Let the kernel end this process on these signals: a handler in Python would wait until nobody computes or logs. Call
    it again after creating a TensorFlow strategy of several processes, which treats SIGTERM as the notice of a preemption."""
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def exit_at_once() -> Iterator[None]:
    """Run the chief's whole program inside this: it exits with the code of its SystemExit, 0 without one. The interpreter's
    own way out waits for the threads of TensorFlow, and these, for ever, for a worker that is lost."""
    end_on_signals()
    code, last = 2, []
    try:
        yield
        code = 0
    except SystemExit as exit_:
        code = exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
    except BaseException:
        error = sys.exc_info()
        last = [lambda: sys.excepthook(*error)]
    finally:
        leave(code, *last, sys.stdout.flush, sys.stderr.flush)


def end_with_parent(parent: int, period_seconds: float = 0.5) -> None:
    """From now on, end this process when the process that started it is gone. A thread polls for this: the kernel's
    parent-death signal is sent when the *thread* ends that started the process."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(period_seconds)
        leave(1, lambda: command.log("ending: the parent process is gone"))

    threading.Thread(target=watch, name="end_with_parent", daemon=True).start()


PR_SET_PDEATHSIG = 1
"""The request to prctl(2) for a signal when the parent ends."""


def kill_with_parent(number: int = signal.SIGKILL) -> None:
    """Let the kernel send this process a signal (0 for none) when the process whose main thread started it is gone: a
    frozen process polls nothing. As `preexec_fn` it takes effect before the program begins."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)
