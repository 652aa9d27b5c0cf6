"""A chief that fits several designs one after another on the same ps and workers, and measures each pass; `links.py` starts it.

It goes the way of scripts/chief.py, but for the watchdog and for what stands between solver and executor: a note of each sum.
"""

import contextlib
import json
import os
import re
import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "scripts"))

import numpy as np

from tfglm import command, fitting, tensorflow_setup
from tfglm.roles import announce


def processor_seconds(pid: int) -> float:
    """What a process has used so far, system time too: by its processor clock (clock_getcpuclockid(3))."""
    return time.clock_gettime((~pid << 3) | 2)


def peak_mb(pid: int) -> float:
    """The most memory that a process has held since the last `forget_peak`."""
    found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


def forget_peak(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5")


class Meters:
    """What the chief (pid 0 stands for this process), the ps and the workers have used so far: processors, and their links.

    `cables` are the interfaces at the other ends of the links of the nodes, by role: what they send a node receives.
    """

    def __init__(self, pids: dict[str, list[int]], cables: dict[str, list[str]]) -> None:
        self.pids, self._cables = {**pids, "chief": [os.getpid()]}, cables

    def read(self) -> dict[str, np.ndarray]:
        seconds = {f"{role}_processor_s": np.array([*map(processor_seconds, pids)]) for role, pids in self.pids.items()}
        links = {
            f"{role}_{way}_bytes": np.array([self._bytes(cable, counter) for cable in cables])
            for role, cables in self._cables.items()
            for way, counter in (("in", "tx_bytes"), ("out", "rx_bytes"))
        }
        return {"seconds": np.array(time.perf_counter()), **seconds, **links}

    def _bytes(self, cable: str, counter: str) -> float:
        return float(Path(f"/sys/class/net/{cable}/statistics/{counter}").read_text())

    def peaks(self) -> dict[str, list[float]]:
        return {role: [*map(peak_mb, pids)] for role, pids in self.pids.items()}

    def forget_peaks(self) -> None:
        for pid in (pid for pids in self.pids.values() for pid in pids):
            forget_peak(pid)


class Measured:
    """An executor that notes what each sum takes: in all, and of the ps and of the workers what the busiest one does."""

    def __init__(self, executor: Any, meters: Meters) -> None:
        self._executor, self._meters = executor, meters
        self.passes: list[dict[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._executor, name)

    def sum(self, task: Any, calls: Sequence[tuple], state: Any) -> np.ndarray:
        before = self._meters.read()
        vector = self._executor.sum(task, calls, state)
        used = {key: value - before[key] for key, value in self._meters.read().items()}
        spent = used.pop("worker_processor_s")
        note: dict[str, Any] = {
            "pass": json.loads(task.settings).get("name", task.kind),
            "rows": int(sum(np.sum(call[3]) for call in calls)),
            "calls": len(calls),
            "sizes": sizes_of(task),
            "coefficients": sum(np.size(value) for value in state.values()),
            # A worker without work still answers that it is there.
            "workers_with_work": int(np.sum(used["worker_in_bytes"] > 1000)),
            "worker_processor_s": float(spent.sum()),
            "busiest_worker_processor_s": float(spent.max()),
        }
        for key, value in used.items():
            note[key if key.startswith(("seconds", "chief")) else f"busiest_{key}"] = float(np.max(value))
        note["ps_processor_s"] = float(np.sum(used["ps_processor_s"]))
        self.passes.append(note)
        return vector


def sizes_of(task: Any) -> tuple[int, ...]:
    """How many numbers each sum of a pass has."""
    from tfglm.engine.passes import pass_of

    return tuple(size for _, size in pass_of(task.design.text, json.loads(task.settings)).sums)


def fitted(order: dict[str, Any], executor: Measured, meters: Meters) -> dict[str, Any]:
    """Fit one design as a chief does; what it took."""
    folder = Path(order["folder"])
    line = ["--design", order["design"], "--manifests", order["manifest"], "--settings", "{}"]
    for name in ("history", "journal", "checkpoint", "fit"):
        line += [f"--{name}", str(folder / name)]
    folder.mkdir()
    arguments = fitting.parsed(fitting.parser(""), line)
    executor.passes = []
    meters.forget_peaks()
    began = time.perf_counter()
    fitting.watched(arguments, partial(fitting.fit, executor=executor), fitting.take_memory)
    seconds = time.perf_counter() - began
    report = json.loads((folder / "fit").read_text())
    told = re.findall(r"fitted in ([\d.]+) s", Path(order["log"]).read_text())
    return {
        "coefficients": report["coefficients"],
        "seconds": float(told[-1]),
        "seconds_with_files": seconds,
        "peak_mb": meters.peaks(),
        "passes": executor.passes,
        "checkpoint": report["checkpoint"],
    }


def main(arguments: Namespace) -> None:
    order = json.loads(arguments.order.read_text())
    with tensorflow_setup.quiet():
        from tfglm.distribute import parameter_server

    files = [Path(path) for path in order["announcements"]]
    members = announce.gather(files, 300.0, command.log)
    executor = parameter_server.connect(members, {path.parent for path in files}, 300.0, contextlib.nullcontext)
    pids = {role: [member.pid for member in members if member.role == role] for role in ("ps", "worker")}
    meters = Meters(pids, order["cables"])
    measured = Measured(executor, meters)
    fits = [fitted({**each, "log": str(arguments.log)}, measured, meters) for each in order["fits"]]
    Path(order["result"]).write_text(json.dumps(fits))
    sys.stdout.flush()
    os._exit(0)  # TensorFlow waits for servers that go on


if __name__ == "__main__":
    parser = command.parser(__doc__)
    parser.add_argument("--order", type=Path, required=True, help="JSON: whom to use, what to fit, where to write")
    given = parser.parse_args()
    tensorflow_setup.set_environment()
    command.run(main, given)
