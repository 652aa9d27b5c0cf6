"""Processes that a test starts, seen from outside."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

TESTS = Path(__file__).resolve().parent
SCRIPTS = TESTS.parent / "scripts"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(SCRIPTS)}


def start_roles(
    folder: Path, role: str, count: int, *more: str, environment=ENVIRONMENT, scripts: Path = SCRIPTS
) -> subprocess.Popen:
    """Start so many processes of a role, with its roster `<role>s.json` and its logs in the folder."""
    line = [sys.executable, scripts / "roles.py", role, "--count", count, "--roster", folder / f"{role}s.json"]
    return subprocess.Popen([*map(str, line), "--log", str(folder / f"{role}s.log"), *more], env=environment)


def end(process: subprocess.Popen) -> int:
    """Ask a process to end; its exit code."""
    process.terminate()
    return process.wait(10)


def wait_until(true: Callable[[], object], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.05)


def alive(pid: int) -> bool:
    """Whether the process runs; one that has ended and that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


SERVER = "python/training/server_lib.py"

STAND_IN = {
    "__init__.py": "",
    "core/protobuf/config_pb2.py": "ConfigProto = GPUOptions = lambda **_: None\n",
    "python/framework/dtypes.py": "float64 = int64 = None\n",
    "python/framework/ops.py": (
        "from contextlib import nullcontext\nfrom types import SimpleNamespace as Space\n"
        "Graph = lambda: Space(as_default=nullcontext)\n"
    ),
    "python/ops/array_ops.py": "placeholder = lambda _: None\n",
    "python/ops/script_ops.py": (
        "from types import SimpleNamespace as Space\n"
        "numpy_function = lambda *_: Space(op=Space(get_attr=lambda _: b'pyfunc_0'))\n"
    ),
    SERVER: (
        "from types import SimpleNamespace as Space\n"
        "def Server(cluster, job_name, task_index, **_):\n"
        "    host, port = cluster[job_name][task_index].split(':')\n"
        "    return Space(target=f'grpc://{host}:{port if int(port) else 4000 + task_index}')\n"
    ),
}
"""What a ps and a worker import of TensorFlow, by file; the server serves nothing."""


def stand_in_for_tensorflow(folder: Path) -> Path:
    """Put STAND_IN into a folder, for its path to be one of Python's; the file with the server, which all processes import."""
    for name, text in STAND_IN.items():
        path = folder / "tensorflow" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "tensorflow" / SERVER
