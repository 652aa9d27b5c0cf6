"""How the roles of a cluster find each other: small JSON files in a shared folder.

A *role* (a ps, a worker or a peer) knows only itself. It announces itself in a file of its own: `starting` before it
imports TensorFlow (the import takes 4 to 22 s), `listening` once it serves. A *roster* lists the announcements that the
processes of `scripts/roles.py` will write. It is written first, because Snakemake waits only `latency-wait` seconds for the
output of a service job. The chief gathers the announcements, so ports need no agreement in advance.

Only the standard library: this runs before TensorFlow is imported.
"""

import json
import os
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from tfglm import digests
from tfglm.errors import UserError

Role = Literal["ps", "worker", "peer"]


@dataclass(frozen=True)
class Announcement:
    """The announcement of a role; with state `absent`, what is known of a role that has announced nothing yet."""

    role: str
    index: int
    run: str  # id of the start of this process; distinguishes a new file from the file of an earlier run
    state: Literal["absent", "starting", "listening"]
    address: str = ""  # host:port
    node: str = field(default_factory=socket.gethostname)
    pid: int = field(default_factory=os.getpid)
    log: str = ""  # '' when the process prints to its terminal

    @property
    def name(self) -> str:
        return f"{self.role} {self.index}"

    @property
    def place(self) -> str:
        """Where to find a role that was listening before."""
        return f"{self.name} at {self.address} on {self.node}, log: {self.log or 'its terminal'}"

    def __str__(self) -> str:
        facts: list[str] = [self.state]
        facts += [f"at {self.address}"] if self.address else []
        facts += [f"on {self.node}"] if self.node else []
        facts += [f"log: {self.log}"] if self.log else []
        return f"{self.name} ({', '.join(facts)})"


@dataclass(frozen=True)
class Roster:
    """The announcements that belong to one start of `scripts/roles.py`."""

    role: str
    run: str
    members: tuple[str, ...]  # file names, relative to the roster; the place is the index
    logs: tuple[str, ...] = ()  # '' or one log a member
    failed: str = ""  # why no member will come any more
    signs: str = ""  # file, relative to the roster, that its process touches as long as it lives; '' for none
    node: str = field(default_factory=socket.gethostname)
    pid: int = field(default_factory=os.getpid)
    log: str = ""  # '' when the process prints to its terminal

    @property
    def supervisor(self) -> str:
        """The process that has written this."""
        return f"roles.py {self.role} (pid {self.pid} on {self.node})"


def write(path: Path, content: Announcement | Roster) -> None:
    """Replace the file at `path`."""
    digests.replace(path, json.dumps(asdict(content), indent=1) + "\n")


def read(path: Path) -> Announcement | Roster | None:
    """The announcement or roster at `path`, None if there is no such file. Raises UserError if the file is neither."""
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        if "members" not in fields:
            return Announcement(**fields)
        return Roster(**fields | {"members": tuple(fields["members"]), "logs": tuple(fields["logs"])})
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError) as error:
        raise UserError(f"{path} is neither the announcement of a role nor a roster: {error}") from error


def _members(path: Path) -> list[Announcement]:
    """All that the file at `path` promises, as far as announced; what an earlier run has left is `absent`."""
    promised = read(path)
    if promised is None:
        return [Announcement(str(path), 0, run="", state="absent", node="", pid=0)]
    if isinstance(promised, Announcement):
        return [promised]
    if promised.failed:
        raise UserError(promised.failed)
    members = []
    for index, name in enumerate(promised.members):
        member = read(path.parent / name)
        if not isinstance(member, Announcement) or member.run != promised.run:
            log = promised.logs[index] if promised.logs else ""
            member = Announcement(promised.role, index, promised.run, state="absent", node="", pid=0, log=log)
        members.append(member)
    return members


def gather(files: Sequence[Path], deadline_seconds: float, tell: Callable[[str], None]) -> list[Announcement]:
    """Wait until every role that `files` (announcements and rosters, mixed) promise is listening.

    Every five seconds, `tell` receives the roles that the chief still waits for. Raises UserError when the deadline has
    passed, or when the roles of a roster have given up. It names the missing roles, their states and their logs.
    """
    begin = time.monotonic()
    telling, pause = begin + 5, 0.01
    while True:
        members = [member for path in files for member in _members(path)]
        missing = [member for member in members if member.state != "listening"]
        if not missing:
            return members
        whom = "; ".join(map(str, missing))
        now = time.monotonic()
        if now - begin > deadline_seconds:
            raise UserError(
                f"the cluster is not complete after {deadline_seconds:.0f} s; still missing: {whom}. Their logs say "
                "why; if they are only slow, raise `cluster.patience`."
            )
        if now > telling:
            tell(f"waiting for {whom}")
            telling = now + 5
        time.sleep(pause)
        pause = min(0.2, 1.2 * pause)


def addresses(members: Iterable[Announcement], role: Role) -> list[str]:
    """The addresses of one role in the order of the indices, as a TensorFlow ClusterSpec wants them. Raises UserError unless
    the indices are 0, 1, 2 ..."""
    ordered = sorted((member for member in members if member.role == role), key=lambda member: member.index)
    indices = [member.index for member in ordered]
    if not indices or indices != list(range(len(indices))):
        raise UserError(f"the cluster needs {role} 0, 1, 2 ... once each; announced are: {indices or 'none'}")
    return [member.address for member in ordered]
