"""What a solver tells while it works."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass


def _nobody(*_) -> None:
    pass


@dataclass(frozen=True)
class Reporter:
    """`tell` is for who waits, a line now and then; `note` for the log; `record(step, values)` for curves."""

    tell: Callable[[str], None] = _nobody
    note: Callable[[str], None] = _nobody
    record: Callable[[int, Mapping[str, float]], None] = _nobody
