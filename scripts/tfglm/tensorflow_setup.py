"""The setup of a process that runs TensorFlow: few messages, one thread per operation, and memory that is kept."""

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
"""The environment of the processes of a cluster. The process that starts them sets it, because libraries read it when they
are loaded.

With these settings glibc keeps freed memory instead of returning it to the kernel. Page faults are expensive on virtual
machines: without the settings, large temporaries, which were mapped and unmapped at every block, took 5 to 10 times as
long. glibc returns the memory areas of threads in any case, so there is a single area for all.

Linear algebra has one thread, because parallelism comes from the number of workers. Snakemake would set as many threads as
the job has, and the workers' job has all processors. Then OpenBLAS kept a second thread in each worker busy with waiting,
which made fits 3 to 7 times as slow, and it added in another order.
"""

FIXED = {
    # Without legacy Keras, TensorFlow imports no Keras at all, which was half of its import time.
    "TF_USE_LEGACY_KERAS": "1",
    # Keras 3, which trains networks, then reads no settings of the user's, and writes none.
    "KERAS_BACKEND": "tensorflow",
    "KERAS_HOME": os.devnull,
    # TensorFlow computes nothing that oneDNN would speed up, and it may say at any time that it is there, at whatever log level.
    "TF_ENABLE_ONEDNN_OPTS": "0",
}
"""The environment of each process that imports TensorFlow; it overrides the settings of the user."""

REMOVED = re.compile(
    # gRPC sends through a proxy even what is for 127.0.0.1, and the processes of a cluster never meet.
    r"(?i:\w+_proxy)"
    # Settings of gRPC, TensorFlow, its compiler and Keras that select other kernels, other arithmetic, another cluster or
    # another backend.
    r"|(GRPC|TF|TF2|TENSORFLOW|XLA|MLIR|KERAS)_.*"
    # Settings of numba: no compilation, or other instructions.
    r"|NUMBA_.*"
    # `PYTHONWARNINGS=error` ends the import of a package that warns; PYTHONSAFEPATH hides `tfglm` beside a script.
    r"|PYTHON(WARNINGS|OPTIMIZE|SAFEPATH)"
)
"""Variables that no process which runs TensorFlow sees: its result depends on the config alone. No job sees those of numba and
Python. The others stay for `fetch`, which needs a proxy, and for what the user runs."""

KEPT = re.compile(
    # These only log.
    r"TF_CPP_.*"
    # The location of GPU libraries, and the sharing of GPU memory, depend on the machine.
    r"|TF_FORCE_GPU_ALLOW_GROWTH|TF_FORCE_UNIFIED_MEMORY|TF_GPU_ALLOCATOR|TF_GPU_HOST_MEM_LIMIT_IN_MB"
    # The location of compiled loops, and their processor.
    r"|NUMBA_CACHE_DIR|NUMBA_CPU_(NAME|FEATURES)"
)
"""Those of REMOVED that stay. CUDA_VISIBLE_DEVICES, TPU_NAME, LD_LIBRARY_PATH, OPENBLAS_CORETYPE and the like are none of them:
they say what the machine has."""

PAGE = 4096
"""Smallest size of a memory page in bytes."""

NOISE = ("absl::InitializeLog() is called", "cudart_stub.cc")
"""The messages of libtensorflow_framework at every import without a GPU. Static initialisers print them before any setting
can be read, so TF_CPP_MIN_LOG_LEVEL has no effect (TensorFlow 2.21)."""


def touch(size: int) -> None:
    """Use so many bytes of memory once. With ENVIRONMENT they are kept for what comes later, which then need not wait for the
    kernel: 53 MB took 0.13 s the first time, and 8 ms the next."""
    import numpy as np

    np.empty(size, np.uint8)[::PAGE] = 0


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a process that runs TensorFlow, from the environment of the user."""
    return {name: text for name, text in given.items() if not _is_removed(name)} | FIXED | ENVIRONMENT


def _is_removed(name: str) -> bool:
    return bool(REMOVED.fullmatch(name)) and not KEPT.fullmatch(name)


def remove(prefix: str = "") -> None:
    """Take those of REMOVED with this prefix from the environment of this process, before what reads them is loaded."""
    for name in list(os.environ):
        if name.startswith(prefix) and _is_removed(name):
            del os.environ[name]


HAS_STARTED_WITH_IT = environment(os.environ) == dict(os.environ)
"""Whether this process started with its `environment`, as jobs of a fork server did: libraries read it when they are loaded."""


def set_environment() -> None:
    """Give this process its `environment`. Start its program once more, in this process, if it started with another one."""
    wanted = environment(os.environ)
    if not HAS_STARTED_WITH_IT:
        os.execve(sys.executable, sys.orig_argv, wanted)
    os.environ.clear()
    os.environ.update(wanted)


def prepare_environment(gpus: bool = False) -> None:
    """Set what TensorFlow reads at its import, and later when it first computes."""
    remove()
    os.environ.update(FIXED)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if not gpus:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


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
    prepare_environment(gpus)
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
"""Return a ConfigProto with one thread per operation, and two operations at a time.

Parallelism comes from the number of workers. The order in which several threads add is not determined, so a second thread
could change the last bits of a sum.
"""


def limit_threads() -> None:
    """Give this process THREADS."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(THREADS["intra_op_parallelism_threads"])
    tf.config.threading.set_inter_op_parallelism_threads(THREADS["inter_op_parallelism_threads"])
