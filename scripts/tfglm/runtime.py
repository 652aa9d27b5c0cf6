"""How a process runs TensorFlow: quietly, with one thread an operation, and keeping its memory."""

import contextlib
import ctypes
import gc
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from tfglm import command

ENVIRONMENT = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(4 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(8 << 30),
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"),
}
"""Of the processes of a cluster, to be set by whoever starts them: libraries read it when they are loaded.

glibc then keeps what is freed instead of returning it to the kernel. Page faults are dear on virtual machines: large
temporaries, mapped and unmapped at every block, took 5 to 10 times as long without it. The areas that threads have of their
own are returned whatever it says, and so there is one for all.

Linear algebra has one thread, since parallelism comes from the number of workers. Snakemake says as many as the job has, and
the workers' job has all processors: in each worker OpenBLAS then kept a second thread busy with waiting, which made fits 3 to 7
times as slow, and it added in another order."""

NOISE = ("absl::InitializeLog() is called", "cudart_stub.cc")
"""What libtensorflow_framework says at every import without a GPU. It is said from static initialisers, before any
setting can be read: TF_CPP_MIN_LOG_LEVEL does not reach it (TensorFlow 2.21)."""


def set_environment() -> None:
    """Start this program once more, in this process, with ENVIRONMENT, unless that is set already."""
    if ENVIRONMENT.items() - os.environ.items():
        os.execve(sys.executable, sys.orig_argv, {**os.environ, **ENVIRONMENT})


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Import TensorFlow inside this, so that a log without errors holds nothing of it.

    `grep`, another process, does the filtering: what a crash during the import says still comes through.
    Set TF_CPP_MIN_LOG_LEVEL=0 yourself to hear everything later on.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    # With no legacy Keras installed, TensorFlow then imports no Keras at all, which was half of its import time.
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
    # TensorFlow computes nothing that oneDNN would speed up, and it may say at any time that it is there, at whatever log level.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    if "tensorflow" in sys.modules:
        yield
        return
    patterns = [word for noise in NOISE for word in ("-e", noise)]
    with subprocess.Popen(["grep", "-vF", "--line-buffered", *patterns], stdin=subprocess.PIPE, stdout=2) as grep:
        assert grep.stdin
        heard = os.dup(2)
        os.dup2(grep.stdin.fileno(), 2)
        # To look for garbage among what an import makes, again and again, takes a fifth of its time; none of it ever is.
        gc.disable()
        try:
            yield
        finally:
            gc.freeze()
            gc.enable()
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


def recorder(folder: Path | None) -> Callable[[int, Mapping[str, float]], None]:
    """A function of a step and values by name that writes them for TensorBoard; it does nothing without a folder, nor after it
    could not write, as on a full disk: curves are no reason to end a fit.

    `tf.summary.scalar` does the same, but only where the package tensorboard is installed.
    """
    if folder is None:
        return lambda step, values: None
    import tensorflow as tf

    shutil.rmtree(folder, ignore_errors=True)
    metadata = tf.compat.v1.SummaryMetadata(
        plugin_data=tf.compat.v1.SummaryMetadata.PluginData(plugin_name="scalars"), data_class=1
    )

    writer: Any = None
    lost = False

    def record(step: int, values: Mapping[str, float]) -> None:
        nonlocal writer, lost
        if lost:
            return
        try:
            writer = writer or tf.summary.create_file_writer(str(folder))
            with writer.as_default(step):
                for name, value in values.items():
                    tf.summary.write(name, tf.constant(value, tf.float32), metadata=metadata)
            writer.flush()
        except (tf.errors.OpError, OSError) as error:
            lost = True
            command.log(f"no more curves for TensorBoard, {folder} cannot be written: {error}")

    return record


def leave(code: int, *last: Callable[[], object], seconds: float = 2.0) -> NoReturn:
    """End this process with `code`, whatever else happens. The `last` calls say why, in threads of their own, which are waited
    for so long and no longer: a log may be on a disk that is full or away, and whoever reads the terminal may be busy."""

    def call(one: Callable[[], object]) -> None:
        with contextlib.suppress(BaseException):
            one()

    try:
        threads = [threading.Thread(target=call, args=(one,), daemon=True) for one in last]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + seconds
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
    finally:
        os._exit(code)


ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
"""What asks a process to end; SIGUSR1 is the one that srun passes on."""


@contextlib.contextmanager
def exit_at_once() -> Iterator[None]:
    """Run the chief's whole program inside this: it exits with the code of its SystemExit, 0 without one.

    The interpreter's own way out waits for the threads of TensorFlow, and these, for ever, for a worker that is lost. A signal
    that asks it to end is left to the kernel: a handler in Python would wait until nobody computes or logs.
    """
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)
    code, last = 2, []
    try:
        yield
        code = 0
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
    except BaseException:
        said = sys.exc_info()
        last = [lambda: sys.excepthook(*said)]
    finally:
        leave(code, *last, sys.stdout.flush, sys.stderr.flush)


def end_with_parent(parent: int, period_seconds: float = 0.5) -> None:
    """From now on, end this process when the one that started it is gone.

    Polled, by a thread: the kernel's parent-death signal comes when the *thread* ends that started the process.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(period_seconds)
        leave(1, lambda: command.log("ending: the process that started this one is gone"))

    threading.Thread(target=watch, name="end_with_parent", daemon=True).start()


PR_SET_PDEATHSIG = 1
"""The request to prctl(2) for a signal when the parent ends."""


def kill_with_parent(number: int = signal.SIGKILL) -> None:
    """Have the kernel send this process a signal, 0 for none, when the one that started it, from its main thread, is gone: who is
    frozen polls nothing. For `preexec_fn`: so it holds before the program begins."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)
