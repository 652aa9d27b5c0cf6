"""Whether a machine has the memory for the processes of a fit. Only the standard library: the Snakefile imports this."""

import os
from collections.abc import Iterator
from pathlib import Path

from tfglm.errors import UserError

LEAST, MOST = 0.7e9, 2e9
"""Bytes that a process of a fit holds: with a few hundred coefficients, and with 8,800 at its fullest."""


def machine_memory() -> int:
    """Return the bytes that processes here may use together: the memory of the machine, or the limit of the container or
    job."""
    return min([os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), *_limits()])


def _limits(groups: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> Iterator[int]:
    """The limits of the control groups that this process is in, and of those around them (cgroups(7))."""
    try:
        lines = groups.read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, kinds, inside = line.split(":", 2)
        if kinds not in ("", "memory"):
            continue
        name = "memory.limit_in_bytes" if kinds else "memory.max"
        group = root / kinds / inside.lstrip("/")
        for folder in (group, *group.parents):
            try:
                limit = (folder / name).read_text(encoding="utf-8").strip()
            except OSError:
                continue
            if limit.isdecimal():
                yield int(limit)


def check(ps: int, workers: int, peers: int, there: int) -> None:
    """Raises UserError if these processes and the chief cannot have the memory that they hold at the very least."""
    processes = ps + workers + peers + 1
    if processes * LEAST <= there:
        return
    whom = f"{processes} workers" if peers else f"{ps} ps, {workers} workers and the chief"
    fits = max(1, int(there / LEAST) - (0 if peers else ps + 1))
    raise UserError(
        f"cluster: {whom} are {processes} processes of {LEAST / 1e9:.1f} to {MOST / 1e9:.0f} GB each, in total at "
        f"least {processes * LEAST / 1e9:.0f} GB; this machine has {there / 1e9:.0f} GB of memory and "
        f"{os.cpu_count()} processors\n"
        f"  ask for {fits} workers at most; more workers than processors make no fit faster"
    )
