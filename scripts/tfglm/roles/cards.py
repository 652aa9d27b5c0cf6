"""The GPUs of a machine, and which process computes on which: each process takes cards that no other process has.

Only the standard library: the Snakefile imports this, and a process takes its cards before TensorFlow looks for some.
"""

import fcntl
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

from tfglm.errors import UserError

VISIBLE = "CUDA_VISIBLE_DEVICES"
"""The variable that says which GPUs a process sees. The driver reads it when the process first asks for GPUs."""

PATIENCE = 60.0
"""Seconds to wait for cards that others have: the processes of a run that was killed live on for a while."""


def visible() -> list[str]:
    """Return the GPUs that this process may use, in words for CUDA_VISIBLE_DEVICES.

    If the variable is set, by SLURM or by the user, it decides. Otherwise these are all GPUs of the machine, by their UUIDs: the
    numbers that the driver and CUDA give to GPUs may differ.
    """
    if VISIBLE in os.environ:
        words = [word.strip() for word in os.environ[VISIBLE].split(",")]
        # As in CUDA: what follows an invalid word does not count. A card that is named twice is one card.
        valid = takewhile(lambda word: word and not word.startswith("-") and word != "NoDevFiles", words)
        return list(dict.fromkeys(valid))
    try:
        line = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"]
        asked = subprocess.run(line, capture_output=True, encoding="utf-8", errors="replace", timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        # Some containers have the driver without its program.
        return [str(number) for number, _ in enumerate(Path("/dev").glob("nvidia[0-9]*"))]
    return [line.strip() for line in asked.stdout.splitlines() if line.startswith("GPU-")]


def check(needed: int, where: str, what: str = "this process needs") -> list[str]:
    """Return the `visible` GPUs. Raises UserError, which begins with `where`, the key, if fewer than `needed` are there."""
    found = visible() if needed else []
    if needed > len(found):
        by = f" ({VISIBLE} is `{os.environ[VISIBLE]}`)" if VISIBLE in os.environ else ""
        raise UserError(
            f"{where}: {what} {needed}, and this machine has {len(found)}{by}\n"
            "  ask for fewer; a GPU needs its driver, whose program `nvidia-smi` lists it"
        )
    return found


def take(count: int, where: str, patience_seconds: float = PATIENCE) -> list[str]:
    """Take so many GPUs for this process until it ends: it sees these, by CUDA_VISIBLE_DEVICES, and no others.

    Call it before TensorFlow looks for GPUs. Other processes of this user on this machine take others. If a process dies, its
    GPUs are free again.

    Raises UserError, which begins with `where`, the key, if there are not so many, or if others keep them.
    """
    found = check(count, where)
    deadline = time.monotonic() + patience_seconds
    try:
        while (taken := _free(found, count)) is None:
            if time.monotonic() > deadline:
                raise UserError(
                    f"{where}: other trainings of yours keep the {len(found)} GPUs of this machine; wait for them, or give "
                    f"each run GPUs of its own by {VISIBLE}"
                )
            time.sleep(0.2)
    except OSError as error:
        raise UserError(f"{where}: cannot note which GPUs are in use: {error}; is TMPDIR a folder of yours?") from error
    os.environ[VISIBLE] = ",".join(taken)
    return taken


def _free(cards: Sequence[str], count: int) -> list[str] | None:
    """Lock `count` of these GPUs, and return them; None, and no lock, if fewer are free."""
    if not count:
        return []
    locks: dict[str, int] = {}
    folder = Path(tempfile.gettempdir(), f"tfglm-gpus-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    # Of two processes that need several, one chooses after the other. SLURM may call the first GPU of each of its jobs 0.
    choosing = _opened(folder / "choosing")
    fcntl.flock(choosing, fcntl.LOCK_EX)
    for card in cards:
        name = "-".join([socket.gethostname(), os.environ.get("SLURM_JOB_ID", ""), card.replace("/", "-")])
        lock = _opened(folder / name)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        locks[card] = lock
        if len(locks) == count:
            break
    if len(locks) < count:
        for lock in locks.values():
            os.close(lock)
    os.close(choosing)
    # The descriptors stay open until the process ends.
    return list(locks) if len(locks) == count else None


def _opened(path: Path) -> int:
    """The descriptor of a file to lock."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
