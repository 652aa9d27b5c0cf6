"""How a process runs TensorFlow: quietly, with one thread an operation, and keeping its memory."""

import contextlib
import gc
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping

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

FIXED = {
    # With no legacy Keras installed, TensorFlow then imports no Keras at all, which was half of its import time.
    "TF_USE_LEGACY_KERAS": "1",
    # Keras 3, which trains networks, then reads no settings of the user's, and writes none.
    "KERAS_BACKEND": "tensorflow",
    "KERAS_HOME": os.devnull,
    # TensorFlow computes nothing that oneDNN would speed up, and it may say at any time that it is there, at whatever log level.
    "TF_ENABLE_ONEDNN_OPTS": "0",
}
"""Of each process that imports TensorFlow, in place of what the user has set."""

REMOVED = re.compile(
    # gRPC sends through a proxy even what is for 127.0.0.1, and the processes of a cluster never meet.
    r"(?i:\w+_proxy)"
    # Of gRPC, TensorFlow, its compiler and Keras: other kernels, other arithmetic, another cluster, another back end.
    r"|(GRPC|TF|TF2|TENSORFLOW|XLA|MLIR|KERAS)_.*"
    # Of numba: no compilation, or other instructions.
    r"|NUMBA_.*"
    # `PYTHONWARNINGS=error` ends the import of a package that warns; PYTHONSAFEPATH hides `tfglm` beside a script.
    r"|PYTHON(WARNINGS|OPTIMIZE|SAFEPATH)"
)
"""Variables that no process which runs TensorFlow sees: its result depends on the config alone. No job sees those of numba and
Python. The others stay for `fetch`, which needs a proxy, and for what the user runs."""

KEPT = re.compile(
    # These only log.
    r"TF_CPP_.*"
    # Where the libraries of a GPU are, and how its memory is shared with others, depends on the machine.
    r"|TF_FORCE_GPU_ALLOW_GROWTH|TF_FORCE_UNIFIED_MEMORY|TF_GPU_ALLOCATOR|TF_GPU_HOST_MEM_LIMIT_IN_MB"
    # Where compiled loops are kept, and for which processor.
    r"|NUMBA_CACHE_(DIR|LOCATOR_CLASSES)|NUMBA_CPU_(NAME|FEATURES)"
)
"""Those of REMOVED that stay. CUDA_VISIBLE_DEVICES, TPU_NAME, LD_LIBRARY_PATH, OPENBLAS_CORETYPE and the like are none of them:
they say what the machine has."""

PAGE = 4096
"""Bytes that the kernel gives at once, or more."""

NOISE = ("absl::InitializeLog() is called", "cudart_stub.cc")
"""What libtensorflow_framework says at every import without a GPU. It is said from static initialisers, before any
setting can be read: TF_CPP_MIN_LOG_LEVEL does not reach it (TensorFlow 2.21)."""


def touch(size: int) -> None:
    """Use so many bytes of memory once. With ENVIRONMENT they are kept for what comes later, which then need not wait for the
    kernel: 53 MB took 0.13 s the first time, and 8 ms the next."""
    import numpy as np

    np.empty(size, np.uint8)[::PAGE] = 0


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process that runs TensorFlow, made of the one that the user has given."""
    return {name: text for name, text in given.items() if not _is_removed(name)} | FIXED | ENVIRONMENT


def _is_removed(name: str) -> bool:
    return bool(REMOVED.fullmatch(name)) and not KEPT.fullmatch(name)


def remove(prefix: str = "") -> None:
    """Take those of REMOVED with this prefix from the environment of this process, before what reads them is loaded."""
    for name in list(os.environ):
        if name.startswith(prefix) and _is_removed(name):
            del os.environ[name]


def set_environment() -> None:
    """Start this program once more, in this process, with its `environment`, unless it has that already."""
    if (wanted := environment(os.environ)) != dict(os.environ):
        os.execve(sys.executable, sys.orig_argv, wanted)


@contextlib.contextmanager
def quiet(gpus: bool = False) -> Iterator[None]:
    """Import TensorFlow inside this, so that a log without errors holds nothing of it. Without `gpus` it sees none: it would take
    all memory of each, also where nothing is to be computed on it.

    `grep`, another process, does the filtering: what a crash during the import says still comes through.
    Set TF_CPP_MIN_LOG_LEVEL=0 yourself to hear everything later on.
    """
    if "tensorflow" in sys.modules:
        yield
        return
    remove()
    os.environ.update(FIXED)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if not gpus:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
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


def in_parts() -> None:
    """From now on, the import of a module of TensorFlow brings that and what it needs, not all of TensorFlow: for a process that
    makes no graphs. `import tensorflow` then gives a package with nothing in it."""
    if "tensorflow" not in sys.modules and (spec := importlib.util.find_spec("tensorflow")):
        sys.modules["tensorflow"] = importlib.util.module_from_spec(spec)


THREADS = {"intra_op_parallelism_threads": 1, "inter_op_parallelism_threads": 2}
"""Of a ConfigProto: one thread an operation, two operations at a time. Parallelism comes from the number of workers. And the
order in which several threads add is not determined, so a second one could change the last bits of a sum."""


def limit_threads() -> None:
    """Give this process THREADS."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(THREADS["intra_op_parallelism_threads"])
    tf.config.threading.set_inter_op_parallelism_threads(THREADS["inter_op_parallelism_threads"])
