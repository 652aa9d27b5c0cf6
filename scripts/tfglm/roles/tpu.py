"""Whether this machine has a TPU. Only the standard library: the Snakefile imports this."""

import importlib.util
from pathlib import Path

DEVICES = ("accel[0-9]*", "vfio/[0-9]*")
"""What the kernel of a TPU VM calls its TPU, in /dev: older ones, and those from v5e on."""


def lacking(folder: Path = Path("/dev"), library: str = "libtpu") -> str:
    """What is not there that a training on a TPU needs, or ''."""
    devices = [path for pattern in DEVICES for path in folder.glob(pattern)]
    return " and ".join(
        ["there is no TPU in /dev"] * (not devices)
        + [f"Python finds no package {library}"] * (importlib.util.find_spec(library) is None)
    )


def refused(where: str, reason: str) -> str:
    """What the user is told of a network, whose place in the config is `where`, that cannot be trained on a TPU."""
    return (
        f"{where}.strategy: `tpu` is for a machine with a TPU, and {reason}\n"
        "  run on a TPU VM with the package tensorflow-tpu in the place of tensorflow, or use `mirrored`"
    )
