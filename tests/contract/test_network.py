"""What a machine has to offer to the processes of a fit: a network of their own, with real namespaces of the kernel; memory."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from runs import ENVIRONMENT as RUN
from runs import command_line, configure, snakemake
from tfglm.errors import UserError
from tfglm.roles import memory, network

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(SCRIPTS)}
ISOLATE = [sys.executable, str(SCRIPTS / "isolate.py")]
STRANGER = 65534

# One process starts two, as Snakemake does: the first makes the network and serves in it, the second enters it. All have
# imported what they need before they give up being root, for Python may lie where only root can read it.
FIT = """
import ctypes, encodings.idna, json, os, signal, socket, sys
from pathlib import Path
from tfglm.roles import probe
from tfglm.roles import network
folder, user, isolate = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
if user != os.geteuid():
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
    # As after any start of a program.
    ctypes.CDLL(None).prctl(4, 1)  # PR_SET_DUMPABLE
parent = os.getpid()

def child(work):
    pid = os.fork()
    if not pid:
        work()
        os._exit(0)
    return pid

def serve():
    network.make(folder / "network.json", isolate, parent)
    server = socket.create_server(("0.0.0.0", 0))
    (folder / "port.part").write_text(str(server.getsockname()[1]))
    (folder / "port.part").rename(folder / "port")
    signal.pause()

def enter():
    network.follow(folder / "network.json", parent, 20)
    while not (folder / "port").exists():
        pass
    reached = probe.ask("127.0.0.1:" + (folder / "port").read_text(), 1.0) != "refused"
    user = os.geteuid(), (folder / "port").stat().st_uid
    print(json.dumps({"inside": reached, "user": user}), flush=True)

serving = child(serve)
os.waitpid(child(enter), 0)
outside = probe.ask("127.0.0.1:" + (folder / "port").read_text(), 1.0) != "refused"
owner = os.stat(folder / "port").st_uid
os.kill(serving, signal.SIGTERM)  # it can be ended from outside
_, status = os.waitpid(serving, 0)
print(json.dumps({"outside": outside, "owner": owner, "ended": os.WTERMSIG(status)}))
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that all users may write to."""
    with tempfile.TemporaryDirectory(prefix="tfglm-network-") as name:
        Path(name).chmod(0o777)
        yield Path(name)


def tried(user: int, isolate: str, folder: Path) -> dict:
    line = [sys.executable, "-c", FIT, str(folder), str(user), isolate]
    done = subprocess.run(line, env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    first, second = map(json.loads, done.stdout.splitlines())
    return first | second


@pytest.fixture
def possible() -> None:
    reason = subprocess.run([*ISOLATE, "--try"], capture_output=True, text=True, check=True).stdout.strip()
    if reason:
        pytest.skip(f"no network namespaces here: {reason}")


@pytest.mark.parametrize("user", [os.geteuid(), STRANGER])
def test_who_is_outside_does_not_reach_a_port(user: int, possible: None, folder: Path) -> None:
    if user != os.geteuid() != 0:
        pytest.skip("only root can be somebody else")
    actual = tried(user, "always", folder)
    # Inside he is himself, and so are his files.
    assert actual == {"inside": True, "outside": False, "user": [user, user], "owner": user, "ended": 15}
    assert json.loads((folder / "network.json").read_text())["isolated"] is True


def test_without_it_everybody_does(folder: Path) -> None:
    actual = tried(os.geteuid(), "never", folder)
    assert (actual["inside"], actual["outside"]) == (True, True)


def test_where_the_kernel_refuses_a_fit_goes_on_or_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "refusal", lambda: "unshare: Operation not permitted")
    network.make(tmp_path / "network.json", "auto", os.getppid())
    assert json.loads((tmp_path / "network.json").read_text())["isolated"] is False
    network.follow(tmp_path / "network.json", os.getppid(), 0)
    with pytest.raises(UserError, match=r"unshare: Operation not permitted; set `cluster: \{isolate: never\}`"):
        network.make(tmp_path / "network.json", "always", os.getppid())


def record(path: Path, parent: str, process: str) -> None:
    path.write_text(json.dumps({"parent": parent, "process": process, "isolated": False}))


def test_what_an_earlier_run_has_left_is_not_believed(tmp_path: Path) -> None:
    path, parent, here = tmp_path / "network.json", os.getppid(), network.identity(os.getpid())
    with pytest.raises(UserError, match=r"ps, or the peers, have not started within 0 s: .*network.json"):
        network.follow(path, parent, 0)
    record(path, f"{parent} 1", here)  # another process that had the same number
    with pytest.raises(UserError, match="have not started"):
        network.follow(path, parent, 0)
    record(path, network.identity(parent), f"{os.getpid()} 1")
    begin = time.monotonic()
    with pytest.raises(UserError, match="ps, or the peers, have ended"):
        network.follow(path, parent, 300, gone=0.2)
    assert time.monotonic() - begin < 5
    record(path, network.identity(parent), here)
    network.follow(path, parent, 0)
    path.write_text("{")
    with pytest.raises(UserError, match="does not say where"):
        network.follow(path, parent, 0)


def test_a_refusal_is_said_in_the_log_and_on_the_terminal(tmp_path: Path) -> None:
    squeue = tmp_path / "squeue"
    squeue.write_text("#!/bin/sh\necho 2\n")
    squeue.chmod(0o755)
    environment = ENVIRONMENT | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_ID": "7"}
    line = ["--isolate", "always", "--launcher", "srun", "chief.py", "--log", str(tmp_path / "log")]
    done = subprocess.run([*ISOLATE, *line], env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    message = "error: `cluster: {isolate: always}` is impossible on several nodes"
    assert done.stderr.startswith(message) and message in (tmp_path / "log").read_text()


# ------------------------------------------------------------------------------------------- before anything of a run starts


def test_more_processes_than_there_is_memory_for_are_refused_before_anything_starts(tmp_path: Path) -> None:
    configure(tmp_path)
    done = snakemake(tmp_path, "--config", "cluster={workers: 2000}")
    assert done.returncode == 1, done.stdout
    assert (
        "1 ps, 2000 workers and the chief are 2002 processes of 0.7 to 2 GB each, in total at least 1401 GB"
        in done.stdout
    )
    assert "Traceback" not in done.stdout and not (tmp_path / "results").exists()


def test_memory_is_that_of_the_container_if_there_is_one(tmp_path: Path) -> None:
    groups = tmp_path / "cgroup"
    groups.write_text("9:name=systemd:/\n4:memory:/batch/job\n0::/slice/unit\n")
    for name, limit in {
        "memory/batch/memory.limit_in_bytes": "3000000000",
        "memory/batch/job/memory.limit_in_bytes": "9223372036854771712",
        "slice/memory.max": "max",
        "slice/unit/memory.max": "4000000000",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{limit}\n")
    assert min(memory._limits(groups, tmp_path)) == 3_000_000_000
    assert 0 < memory.machine_memory() <= psutil.virtual_memory().total
    memory.check(1, 2, 0, 3_000_000_000)
    memory.check(0, 0, 3, 3_000_000_000)
    with pytest.raises(
        UserError, match=r"20 processes .* at least 14 GB; this machine has 4 GB .*\n  ask for 2 workers"
    ):
        memory.check(2, 17, 0, 3_500_000_000)
    with pytest.raises(UserError, match=r"cluster: 5 workers are 5 processes .*\n  ask for 4 workers at most"):
        memory.check(0, 0, 4, 3_000_000_000)
    assert list(memory._limits(tmp_path / "none", tmp_path)) == []


def test_always_is_kept_or_nothing_starts(possible: None, tmp_path: Path) -> None:
    """A user namespace may allow no network namespaces at all, as some machines do."""
    configure(tmp_path, lambda config: config["cluster"].update(isolate="always"))
    none = ("unshare", "--map-root-user", "sh", "-c", 'echo 0 > /proc/sys/user/max_net_namespaces && exec "$@"', "sh")
    done = subprocess.run([*none, *command_line()], cwd=tmp_path, env=RUN, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "a fit cannot have a network of its own here: OSError: [Errno 28] unshare: " in done.stderr
    assert "Traceback" not in done.stderr and not (tmp_path / "results").exists()
