"""How a process runs TensorFlow: quietly, with one thread an operation, and keeping its memory."""

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from tfglm import command

ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": str(4 << 30), "MALLOC_TRIM_THRESHOLD_": str(8 << 30)}
"""Environment that makes glibc keep what is freed instead of returning it to the kernel. Page faults are dear on
virtual machines: large temporaries, mapped and unmapped at every block, took 5 to 10 times as long without it. glibc
reads these before the program begins, so they must be set by whoever starts the process."""

NOISE = ("absl::InitializeLog() is called", "cudart_stub.cc")
"""What libtensorflow_framework says at every import without a GPU. It is said from static initialisers, before any
setting can be read: TF_CPP_MIN_LOG_LEVEL does not reach it (TensorFlow 2.21)."""


def keep_memory() -> None:
    """Start this program once more, in this process, with ALLOCATOR in its environment, unless it is there already."""
    if ALLOCATOR.items() - os.environ.items():
        os.execve(sys.executable, sys.orig_argv, {**os.environ, **ALLOCATOR})


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Import TensorFlow inside this, so that a log without errors holds nothing of it.

    `grep`, another process, does the filtering: what a crash during the import says still comes through.
    Set TF_CPP_MIN_LOG_LEVEL=0 yourself to hear everything later on.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    # With no legacy Keras installed, TensorFlow then imports no Keras at all, which was half of its import time.
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
    # Parallelism comes from the number of workers. Snakemake exports OMP_NUM_THREADS=0 to a job with `threads: 0`.
    os.environ["OMP_NUM_THREADS"] = "1"
    if "tensorflow" in sys.modules:
        yield
        return
    patterns = [word for noise in NOISE for word in ("-e", noise)]
    with subprocess.Popen(["grep", "-vF", "--line-buffered", *patterns], stdin=subprocess.PIPE, stdout=2) as grep:
        assert grep.stdin
        heard = os.dup(2)
        os.dup2(grep.stdin.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(heard, 2)
            os.close(heard)


def limit_threads() -> Any:
    """Give this process one thread an operation, two operations at a time; return the same as a ConfigProto.

    Parallelism comes from the number of workers. And the order in which several threads add is not determined, so a
    second one could change the last bits of a sum.
    """
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    return tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=2)


def end_with_parent(period_seconds: float = 0.5) -> None:
    """From now on, end this process when the one that started it is gone: after a SIGKILL of Snakemake nobody else would.

    Polled, by a thread: the kernel's parent-death signal comes when the *thread* ends that started the process.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(period_seconds)
        command.log("ending: the process that started this one is gone")
        os._exit(1)

    threading.Thread(target=watch, name="end_with_parent", daemon=True).start()
