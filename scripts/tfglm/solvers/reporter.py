"""What a solver tells while it works."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass


def _nobody(*_: object) -> None:
    pass


@dataclass(frozen=True)
class Reporter:
    """`tell` is for who waits, a line now and then; `live` too, a line that the next one replaces; `note` for the log;
    `record(step, values)` for curves; `advance(done, of)` says how many of the iterations, epochs or penalties are done."""

    tell: Callable[[str], None] = _nobody
    live: Callable[[str], None] = _nobody
    note: Callable[[str], None] = _nobody
    record: Callable[[int, Mapping[str, float]], None] = _nobody
    advance: Callable[[int, int], None] = _nobody
