"""A throw-away SLURM on this machine: every node is a network namespace with an address and a host name of its own.

Nothing is written outside the folder it is given, nothing is left in /etc or /run, and only what it started is stopped. It needs
root, iproute2, util-linux, and Debian's slurmctld, slurmd, slurm-client and munge (`apt-get install`, 20 s); with accounting
slurmdbd and mariadb-server too. The links of its nodes can be made as slow as real ones (`link_rates.py`).
"""

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import link_rates

PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge", "iproute2")
PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "srun", "squeue", "ip", "nsenter", "unshare")
ACCOUNTING_PACKAGES = ("slurmdbd", "mariadb-server")
ACCOUNTING_PROGRAMS = ("slurmdbd", "sacctmgr", "mariadbd", "mariadb-install-db")

CONFIGURATION = """
ClusterName=throwaway
SlurmctldHost=controller({network}.254)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
ProctrackType=proctrack/pgid
TaskPlugin={tasks}
JobAcctGatherType=jobacct_gather/none
{accounting}
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
# The nodes may claim more processors than this machine has.
SlurmdParameters=config_overrides
SelectType=select/cons_tres
GresTypes=gpu
SelectTypeParameters={consumed}
SchedulerParameters=sched_interval=1,sched_min_interval=0,bf_interval=1
MinJobAge=600
KillWait=2
{nodes}
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=DEFAULT Nodes=ALL State=UP OverSubscribe={sharing} PriorityTier=5 PreemptMode=OFF
PartitionName=main Default=YES MaxTime=1-0
PartitionName=hour MaxTime=60
PartitionName=requeued MaxTime=60 PriorityTier=1 PreemptMode=REQUEUE
PartitionName=cancelled MaxTime=60 PriorityTier=1 PreemptMode=CANCEL
"""


CGROUPS = Path("/sys/fs/cgroup/memory")
"""Where the kernel limits the memory of processes, in version 1 of its control groups."""

MEMORY_LIMITED = """CgroupPlugin=cgroup/v1
CgroupAutomount=no
ConstrainRAMSpace=yes
"""

WITHOUT_ACCOUNTS = "AccountingStorageType=accounting_storage/none"
WITH_ACCOUNTS = """AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageEnforce=limits,qos
AccountingStorageHost={network}.254
AccountingStoragePass={folder}/munge.socket"""

ACCOUNTING = """
DbdHost=controller
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmUser=root
PidFile={folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StorageLoc=accounts
StorageUser=slurm
StoragePass=throwaway
"""
DATABASE = """CREATE USER slurm@'127.0.0.1' IDENTIFIED BY 'throwaway';
GRANT ALL ON *.* TO slurm@'127.0.0.1';
"""


def missing(accounting: bool = False) -> str:
    """What this machine lacks to run one, and the way out; '' if nothing."""
    if os.geteuid() != 0:
        return "a SLURM of its own needs root, for the network namespaces"
    programs, packages = (*PROGRAMS, *ACCOUNTING_PROGRAMS * accounting), (*PACKAGES, *ACCOUNTING_PACKAGES * accounting)
    lacking = [program for program in programs if not shutil.which(program)]
    return f"no {', '.join(lacking)} here: apt-get install {' '.join(packages)}" if lacking else ""


@dataclass(frozen=True)
class Cluster:
    """A running one; `environment` makes sbatch, srun, squeue and Snakemake talk to it."""

    folder: Path
    addresses: dict[str, str]  # of the nodes, by host name
    namespaces: dict[str, str]
    environment: dict[str, str]
    cables: dict[str, str]  # the other ends of their `eth0`, on the bridge
    daemons: dict[str, "Daemon"] = field(default_factory=dict)

    def shape(self, gigabits: float | None) -> None:
        """From now on each node sends and receives no more than so many Gbit/s; None stands for what the machine can do. The
        controller's link stays as it is."""
        for node in self.addresses:
            link_rates.shape(self.namespaces[node], self.cables[node], gigabits)

    @contextlib.contextmanager
    def controller_away(self) -> Iterator[None]:
        """slurmctld ends, and comes back."""
        self.daemons["controller"].__exit__()
        yield
        self.daemons["controller"].__enter__()
        wait(self, lambda: bool(self.ask("sinfo", "--noheader")))

    def ask(self, *line: str) -> str:
        """What a SLURM command prints."""
        return subprocess.run(line, env=self.environment, check=True, capture_output=True, text=True).stdout.strip()

    def jobs(self, folder: Path) -> list[dict[str, str]]:
        """All jobs submitted from a folder, with SLURM's names for their properties."""
        lines = self.ask("scontrol", "--oneliner", "show", "jobs").splitlines()
        jobs = [dict(word.split("=", 1) for word in line.split() if "=" in word) for line in lines]
        return [job for job in jobs if job.get("WorkDir") == str(folder)]

    def processes(self, node: str) -> set[int]:
        """The processes that run on a node, without SLURM's daemon."""
        pids = {int(pid) for pid in run("ip", "netns", "pids", self.namespaces[node]).split()}
        return {pid for pid in pids if name_of(pid) not in ("", "slurmd")}


def name_of(pid: int) -> str:
    """The name of a process, '' if it has ended."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def run(*line: str) -> str:
    return subprocess.run(line, check=True, capture_output=True, text=True).stdout


@contextlib.contextmanager
def cluster(
    folder: Path,
    environment: dict[str, str],
    nodes: int = 3,
    processors: int = 4,
    megabytes: int = 16_000,
    accounting: bool = False,
    sharing: str = "NO",
    gigabits: float | None = None,
    memory: bool = False,
) -> Iterator[Cluster]:
    """Bring up a cluster with the nodes `node1`, `node2`, ... and take it down again. With `accounting` it remembers its jobs;
    with `sharing` EXCLUSIVE no two jobs share a node; with `gigabits` each node's link has that rate, in Gbit/s; with `memory`
    jobs are held to the memory that they ask for.

    Raises RuntimeError, with the end of the daemons' logs, if it does not get ready within 30 s.
    """
    # Distinct for each that may run at the same time on this machine; a socket's path has 107 characters at most.
    tag, network = f"tg{os.getpid()}", f"10.77.{os.getpid() % 250}"
    addresses = {f"node{i}": f"{network}.{i}" for i in range(1, nodes + 1)}
    hosts = {"controller": f"{network}.254", **addresses}
    folder.joinpath("state").mkdir(parents=True)
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    described = (
        f"NodeName={name} NodeAddr={address} CPUs={processors} RealMemory={megabytes} Gres=gpu:2 State=UNKNOWN"
        for name, address in addresses.items()
    )
    configuration = folder / "etc" / "slurm.conf"
    configuration.parent.mkdir()
    # GPUs by name: nothing is there to compute on. SLURM sets CUDA_VISIBLE_DEVICES for devices alone.
    devices = [f"Name=gpu File=/dev/{name}\n" for name in ("null", "zero")]
    configuration.with_name("gres.conf").write_text("".join(devices))
    accounts = (WITH_ACCOUNTS if accounting else WITHOUT_ACCOUNTS).format(network=network, folder=folder)
    configuration.write_text(
        CONFIGURATION.format(
            network=network,
            folder=folder,
            nodes="\n".join(described),
            accounting=accounts,
            sharing=sharing,
            tasks="task/cgroup" if memory else "task/none",
            consumed="CR_Core_Memory" if memory else "CR_Core",
        )
    )
    if memory:
        configuration.with_name("cgroup.conf").write_text(MEMORY_LIMITED)
    environment = {**environment, "SLURM_CONF": str(configuration)}
    namespaces = {name: f"{tag}-{name}" for name in hosts}
    cables = {name: f"{tag}v{number}" for number, name in enumerate(hosts)}
    running = Cluster(folder, addresses, namespaces, environment, cables)

    with contextlib.ExitStack() as stack:
        for name in ("socket", "pid"):
            stack.callback((folder / f"munge.{name}").unlink, missing_ok=True)
        authentication = ("--socket", folder / "munge.socket", "--key-file", key, "--seed-file", folder / "munge.seed")
        authentication += ("--pid-file", folder / "munge.pid", "--log-file", folder / "munged.log")
        stack.enter_context(
            Daemon(folder / "munged.out", environment, "munged", "--foreground", "--force", *authentication)
        )
        wait(running, (folder / "munge.socket").exists)  # without it slurmctld gives up
        run("ip", "link", "add", tag, "type", "bridge")
        stack.callback(run, "ip", "link", "delete", tag)
        run("ip", "address", "add", f"{network}.253/24", "dev", tag)
        run("ip", "link", "set", tag, "up")
        for name, address in hosts.items():
            stack.enter_context(namespace(namespaces[name], address, tag, cables[name]))
        running.shape(gigabits)
        if memory:
            stack.callback(remove_control_groups, addresses)
        if accounting:
            keep_accounts(running, configuration.parent, stack)
        for name in hosts:
            # Not `ip netns exec`, which mounts /sys anew: slurmd dies for want of its cgroup.
            there = (
                "nsenter",
                f"--net=/run/netns/{running.namespaces[name]}",
                "unshare",
                "--uts",
                "--mount",
                "sh",
                "-c",
            )
            # The executor takes SLURM_CONF from its jobs, so what these start has to find the file where SLURM looks.
            begin = f"hostname {name} && mount --bind {configuration.parent} /etc/slurm"
            program = "slurmctld -D" if name == "controller" else f"slurmd -D -N {name}"
            daemon = Daemon(folder / f"{name}.log", environment, *there, f"{begin} && exec {program}")
            running.daemons[name] = stack.enter_context(daemon)
        stack.callback(end_jobs, running)
        wait(
            running, lambda: running.ask("sinfo", "--noheader", "--partition=main", "--format=%T %D") == f"idle {nodes}"
        )
        yield running


def remove_control_groups(nodes: Iterable[str]) -> None:
    """Remove the control groups that slurmd has left, unless another SLURM has jobs in them."""
    for node in nodes:
        for group in sorted(CGROUPS.glob(f"slurm_{node}/**/"), reverse=True):
            with contextlib.suppress(OSError):
                group.rmdir()


def keep_accounts(running: Cluster, etc: Path, stack: contextlib.ExitStack) -> None:
    """Start a database and slurmdbd beside where slurmctld will be. There is an account `root`."""
    data, begin = running.folder / "database", running.folder / "database.sql"
    begin.write_text(DATABASE)
    run("mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={data}", "--skip-test-db")
    there = ("nsenter", f"--net=/run/netns/{running.namespaces['controller']}")
    database = (
        "mariadbd",
        "--no-defaults",
        "--user=root",
        f"--datadir={data}",
        f"--socket={running.folder}/database.socket",
    )
    options = (
        "--bind-address=127.0.0.1",
        "--skip-name-resolve",
        f"--pid-file={running.folder}/database.pid",
        f"--init-file={begin}",
    )
    stack.enter_context(Daemon(running.folder / "database.log", running.environment, *there, *database, *options))
    wait(running, lambda: "ready for connections" in (running.folder / "database.log").read_text())
    secret = etc / "slurmdbd.conf"
    secret.write_text(ACCOUNTING.format(folder=running.folder))
    secret.chmod(0o600)
    begin = f"hostname controller && mount --bind {etc} /etc/slurm && exec slurmdbd -D"
    line = (*there, "unshare", "--uts", "--mount", "sh", "-c", begin)
    stack.enter_context(Daemon(running.folder / "slurmdbd.log", running.environment, *line))
    # It answers once it is there.
    wait(running, lambda: running.ask("sacctmgr", "--immediate", "add", "cluster", "throwaway") != "")


@contextlib.contextmanager
def namespace(name: str, address: str, bridge: str, cable: str) -> Iterator[None]:
    """A network namespace whose `eth0` hangs on the bridge; whatever still runs in it at the end is killed."""
    run("ip", "netns", "add", name)
    try:
        run("ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", name)
        run("ip", "link", "set", cable, "master", bridge, "up")
        run("ip", "-n", name, "address", "add", f"{address}/24", "dev", "eth0")
        for device in ("eth0", "lo"):
            run("ip", "-n", name, "link", "set", device, "up")
        yield
    finally:
        for pid in run("ip", "netns", "pids", name).split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), 9)
        run("ip", "netns", "delete", name)


class Daemon:
    """A daemon in the foreground, ended by SIGTERM and after 10 s by SIGKILL; it may be started again."""

    def __init__(self, log: Path, environment: dict[str, str], *line: object):
        self.log, self.environment, self.line = log, environment, list(map(str, line))

    def __enter__(self) -> "Daemon":
        with self.log.open("a") as opened:
            # A session of its own: Ctrl-C must not end it before the jobs are cancelled.
            self.process = subprocess.Popen(
                self.line, env=self.environment, stdout=opened, stderr=opened, start_new_session=True
            )
        return self

    def __exit__(self, *error: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def wait(cluster: Cluster, ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with contextlib.suppress(subprocess.CalledProcessError):
            if ready():
                return
        time.sleep(0.2)
    ends = [f"{log.name}: {log.read_text()[-1000:]}" for log in sorted(cluster.folder.glob("*.log"))]
    raise RuntimeError("the SLURM of the tests does not get ready\n" + "\n".join(ends))


def end_jobs(cluster: Cluster) -> None:
    """Cancel what still runs, and leave it 10 s to end."""
    with contextlib.suppress(subprocess.CalledProcessError):
        running = cluster.ask("squeue", "--noheader", "--format=%i").split()
        if running:
            cluster.ask("scancel", *running)
        for _ in range(50):
            if not cluster.ask("squeue", "--noheader"):
                return
            time.sleep(0.2)
