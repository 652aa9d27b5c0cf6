"""Snakemake in forks of a process that has loaded it: to load it takes longer than most dry runs."""

import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

LOADED = multiprocessing.get_context("forkserver")
LOADED.set_forkserver_preload(["snakemake.cli", "snakemake.report", "snakemake_storage_plugin_s3", "smart_open"])
"""With what each run imports later, which would take 0.3 s of a processor each time."""


def snakemake(
    folder: Path, arguments: Sequence[str], environment: Mapping[str, str], seconds: float
) -> subprocess.CompletedProcess:
    """`snakemake` in `folder`; what it prints on both streams is in stdout. Raises TimeoutError after so many seconds."""
    with tempfile.NamedTemporaryFile("r") as printed:
        process = LOADED.Process(target=_main, args=(folder, arguments, environment, printed.name))
        process.start()
        process.join(seconds)
        if process.is_alive():
            process.kill()
            raise TimeoutError(f"snakemake {' '.join(arguments)}\n{printed.read()}")
        return subprocess.CompletedProcess(["snakemake", *arguments], process.exitcode, printed.read())


def _main(folder: Path, arguments: Sequence[str], environment: Mapping[str, str], printed: str) -> None:
    from snakemake.cli import main

    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    file = os.open(printed, os.O_WRONLY | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(file, stream)
    sys.argv = ["snakemake", *arguments]
    main()
