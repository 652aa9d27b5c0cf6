"""Whether this machine has a TPU. Only the standard library: the Snakefile imports this."""

import importlib.util
from pathlib import Path

DEVICES = ("accel[0-9]*", "vfio/[0-9]*")
"""Names of a TPU in /dev on a TPU VM: of older TPUs, and of TPUs from v5e on."""


def lacking(folder: Path = Path("/dev"), library: str = "libtpu") -> str:
    """Return what is missing for training on a TPU, or ''."""
    devices = [path for pattern in DEVICES for path in folder.glob(pattern)]
    return " and ".join(
        ["there is no TPU in /dev"] * (not devices)
        + [f"Python finds no package {library}"] * (importlib.util.find_spec(library) is None)
    )


def refused(where: str, reason: str) -> str:
    """The error for a network that cannot be trained on a TPU; `where` is its place in the config."""
    return (
        f"{where}.strategy: `tpu` is for a machine with a TPU, and {reason}\n"
        "  run on a TPU VM with the package tensorflow-tpu in the place of tensorflow, or use `mirrored`"
    )
