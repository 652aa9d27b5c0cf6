"""A role on the nodes of a SLURM allocation: what to ask for, where its processes go, the `srun` that starts them.

The first node holds the chief and the ps, which wait most of the time; the others hold the workers. A single node holds all.
Workers with GPUs are on all nodes, because SLURM gives each node of an allocation the same number of GPUs.
Like `announce`, only the standard library: the Snakefile imports this.
"""

import fcntl
import os
import signal
import socket
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from tfglm.errors import UserError
from tfglm.roles.announce import Role

SIOCGIFADDR = 0x8915
"""The request to ioctl for the IPv4 address of an interface (netdevice(7))."""


FEWEST_TASKS = 2
"""On a node: snakemake-executor-plugin-slurm 2.8 refuses 1 for a job with `mpi`, in the thread that submits, and the run would
wait for ever."""


@dataclass(frozen=True)
class Allocation:
    """The size of an allocation for ps, workers or peers, and chief, the same on each of its nodes."""

    nodes: int
    processes: int  # on the fullest node
    gpus: int = 0  # the same


def request(ps: int, workers: int, peers: int, nodes: int, gpus: int = 0) -> Allocation:
    """The allocation for these processes, on `nodes` nodes or on as many as can each be given something to do. Each worker,
    or else the chief and each of its peers, has so many `gpus`."""
    others: Role = "peer" if peers else "worker"
    nodes = min(nodes, workers if workers and gpus else workers + peers + 1)
    load, busy = [ps + 1, *[0] * (nodes - 1)], [int(not workers), *[0] * (nodes - 1)]
    first, spread = place(others, workers + peers, nodes, gpus)
    for index in range(workers + peers):
        load[first + index % spread] += 1
        busy[first + index % spread] += 1
    return Allocation(nodes, max(load) if nodes == 1 else max(FEWEST_TASKS, *load), gpus * max(busy))


def place(role: Role, processes: int, nodes: int, gpus: int = 0) -> tuple[int, int]:
    """The first node, counted from 0, and the number of nodes of a role in an allocation of `nodes` nodes. Each of the
    processes has so many `gpus`."""
    if role == "ps" or nodes == 1:
        return 0, 1
    return (0, min(processes, nodes)) if role == "worker" and gpus else (1, min(processes, nodes - 1))


def allocated_nodes() -> int:
    """The number of nodes of the SLURM job that this process runs in. Asked of SLURM: of its variables Snakemake's executor
    leaves the job's id only. Raises UserError without an answer."""
    job = os.environ.get("SLURM_JOB_ID")
    if not job:
        raise UserError(
            "the processes should be started by srun, but this is no SLURM job; `mpi: srun` belongs in a profile "
            "with `executor: slurm`, as in profiles/slurm/config.yaml"
        )
    line = ["squeue", "--noheader", "--jobs", job, "--format", "%D"]
    try:
        answer = subprocess.run(line, capture_output=True, encoding="utf-8", errors="replace", timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(
            f"cannot ask SLURM for the number of nodes of job {job}: {error}\n  squeue must be on the PATH of the nodes"
        ) from error
    # Checked, because a number that srun cannot use is not refused by all: --nodes=-1 crashed slurmctld 22.05.
    if not answer.stdout.strip().isdecimal():
        reply = (answer.stderr or answer.stdout).strip() or "nothing"
        raise UserError(f"cannot tell the nodes of SLURM job {job}: `{' '.join(line)}` said: {reply}")
    return int(answer.stdout)


def launcher(asked: str) -> str:
    """Return how to start the processes: `local` if `srun` was requested on a single node, which also runs the chief. There
    they can have a network of their own. Raises UserError outside of SLURM."""
    return "local" if asked == "srun" and allocated_nodes() == 1 else asked


class Step:
    """All processes of a role as one job step. `command` runs once for each, with its index in SLURM_PROCID."""

    def __init__(self, role: Role, processes: int, command: Sequence[str], gpus: int = 0) -> None:
        first, nodes = place(role, processes, allocated_nodes(), gpus)
        # Several steps share the processors and the memory of the allocation, and SLURM may have spread the processors
        # unevenly; so all that it would count or bind here is turned off.
        options = ["--overlap", "--overcommit", "--mem=0", "--mpi=none", "--distribution=cyclic"]
        options += [f"--relative={first}", f"--nodes={nodes}", f"--ntasks={processes}", "--kill-on-bad-exit=1"]
        self.name = f"{role} 0 to {processes - 1}" if processes > 1 else f"{role} 0"
        # Said in the environment: as an option it draws a warning where SLURM binds nothing anyway.
        environment = {**os.environ, "SLURM_CPU_BIND": "none"}
        self.process = subprocess.Popen(["srun", *options, *command], stdin=subprocess.DEVNULL, env=environment)

    def end(self) -> None:
        """Ask the processes to end: srun passes this signal on, while it answers SIGTERM by killing them."""
        self.process.send_signal(signal.SIGUSR1)

    def kill(self) -> None:
        self.process.terminate()

    def __str__(self) -> str:
        return f"srun of {self.name} (pid {self.process.pid})"


def own_address(interface: str) -> str:
    """Return the IPv4 address of this node: the address of the network interface, or with `auto` the address that the first
    node sees. Raises UserError if there is no such interface, if it has no address, or if the other nodes cannot reach the
    address."""
    remedy = "Give an interface that all nodes have, as `interface` in the profile"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        if interface == "auto":
            # Connecting a datagram socket sends nothing; it chooses the route, and with it the address of this end.
            probe.connect((os.environ["SLURM_LAUNCH_NODE_IPADDR"], 9))
            address = str(probe.getsockname()[0])
            if address.startswith("127.") and os.environ.get("SLURM_JOB_NUM_NODES", "1") != "1":
                raise UserError(f"SLURM reaches {socket.gethostname()} at {address}, and other nodes cannot. {remedy}")
            return address
        try:
            reply = fcntl.ioctl(probe, SIOCGIFADDR, struct.pack("256s", interface.encode()[:15]))
        except OSError as error:
            there = ", ".join(name for _, name in socket.if_nameindex())
            raise UserError(
                f"no address of the network interface `{interface}` on {socket.gethostname()}: {error.strerror}; it has "
                f"{there}. {remedy}, or `auto`"
            ) from error
    return socket.inet_ntoa(reply[20:24])
