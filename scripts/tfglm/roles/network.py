"""A private network for the processes of one fit on one machine: ps, workers and chief, or peers and chief.

A TensorFlow server listens on all interfaces, authenticates nobody, and runs every graph that it receives, with operations
that read and write files. So any user of the machine could act as the user of the fit. TensorFlow has no other way of
serving. Therefore the kernel isolates the processes: a network namespace (network_namespaces(7)) contains only a loopback
interface of its own, which only its processes reach. A user who is not root creates it inside a user namespace, in which
only this user exists. Other users cannot enter it, and files keep their owners.

The ps, or the peers, create the namespace and report it in a file; the other processes enter it. All of them are started by
the same process, which identifies them to each other. Only the standard library, and no threads: the kernel admits only a
process with a single thread.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from tfglm import digests
from tfglm.errors import UserError

Isolate = Literal["auto", "always", "never"]

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
"""Flags for unshare(2)."""

SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
"""The requests to ioctl for the flags of an interface, and the flag of an active interface (netdevice(7))."""

GONE = 30.0
"""Seconds after which the maker of the namespace, if it is seen to have ended, is not replaced by another any more."""

REMEDY = "set `cluster: {isolate: never}` to run without; README.md (Security) says what that means"


@dataclass(frozen=True)
class Network:
    """The report of the processes that create the namespace. `identity` identifies processes."""

    parent: str  # who has started them, and starts the others
    process: str
    isolated: bool


def identity(pid: int) -> str:
    """The number of a process and the time of its start, which no later one has; '' if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return "" if fields[0] == "Z" else f"{pid} {fields[19]}"


def shut_off() -> None:
    """Leave for a network namespace of its own, with a loopback that is up. Raises OSError where that is not allowed."""
    user, group = os.geteuid(), os.getegid()
    # Root needs no user namespace; in it root would lose access to the files of others.
    _call("unshare", CLONE_NEWNET if user == 0 else CLONE_NEWUSER | CLONE_NEWNET)
    if user != 0:
        Path("/proc/self/setgroups").write_text("deny", encoding="utf-8")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="utf-8")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="utf-8")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        (flags,) = struct.unpack_from("h", fcntl.ioctl(asking, SIOCGIFFLAGS, struct.pack("16sh22x", b"lo", 0)), 16)
        fcntl.ioctl(asking, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", flags | IFF_UP))


def enter(pid: int) -> None:
    """Enter the network namespace of another process of the same user. Raises OSError."""
    with contextlib.ExitStack() as stack:
        kinds = ("user", "net") if _namespace(pid, "user") != _namespace("self", "user") else ("net",)
        opened = [os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in kinds]
        for descriptor in opened:
            stack.callback(os.close, descriptor)
        for descriptor in opened:
            _call("setns", descriptor, 0)


def _namespace(pid: int | str, kind: str) -> str:
    return str(Path(f"/proc/{pid}/ns/{kind}").readlink())


def _call(name: str, *arguments: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def refusal() -> str:
    """Return why processes cannot have a private network here, '' if they can. Children try it out, because a process that
    is refused half-way keeps no rights at all."""
    if sys.platform != "linux":
        return "only Linux has network namespaces"
    with _child(shut_off) as (maker, reason):
        if reason:
            return reason

        def use() -> None:
            enter(maker)
            with socket.create_server(("127.0.0.1", 0)) as server:
                socket.create_connection(server.getsockname(), 2).close()

        with _child(use) as (_, reason):
            return reason


@contextlib.contextmanager
def _child(work: Callable[[], None]) -> Iterator[tuple[int, str]]:
    """A child that has done this and waits: its number, and why it could not do it, or ''."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            work()
            os.write(writing, b".")
        except Exception as error:
            os.write(writing, f"{type(error).__name__}: {error}".encode())
        finally:
            signal.pause()
            os._exit(0)
    os.close(writing)
    try:
        problem = os.read(reading, 1000).decode() or "the process that tried was ended"
        yield pid, "" if problem == "." else problem
    finally:
        os.close(reading)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def make(path: Path, isolate: Isolate, parent: int) -> None:
    """The part of the ps or the peers: isolate this process if possible, and report at `path` whether it is. Raises
    UserError if isolation is required and impossible."""
    reason = "" if isolate == "never" else refusal()
    if reason and isolate == "always":
        raise UserError(f"the processes of a fit cannot have a network of their own: {reason}; {REMEDY}")
    isolated = isolate != "never" and not reason
    if isolated:
        try:
            shut_off()
        except OSError as error:
            raise UserError(f"the processes of a fit cannot have a network of their own: {error}; {REMEDY}") from error
    report = Network(identity(parent), identity(os.getpid()), isolated)
    digests.replace(path, json.dumps(asdict(report)) + "\n")


def follow(
    path: Path, parent: int, patience: float, trouble: Callable[[], str] = lambda: "", gone: float = GONE
) -> None:
    """The part of the other processes: enter the namespace of the processes with the same parent, once they have reported it
    at `path`. Raises UserError if they do not report within `patience` seconds, if they have been gone for `gone` seconds,
    or if the namespace cannot be entered. It also raises the error that `trouble` returns, which is called often."""
    ours = identity(parent)
    deadline, seen = time.monotonic() + patience, 0.0
    while os.getppid() == parent:
        network = _read(path)
        now = time.monotonic()
        if reason := trouble():
            raise UserError(reason)
        if network and network.parent == ours:
            if identity(int(network.process.split()[0])) == network.process:
                return _follow(network)
            # A second attempt of the same parent meets what the first one has left.
            seen = seen or now
        if now > deadline or (seen and now - seen > gone):
            what = "have ended" if seen else f"have not started within {patience:.0f} s"
            raise UserError(f"the ps, or the peers, {what}: {path} names none that is alive; their log may say why")
        time.sleep(0.05)
    raise UserError("ending: the parent process is gone")


def _read(path: Path) -> Network | None:
    try:
        return Network(**json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise UserError(f"{path} does not say where the network of the fit is: {error}; delete it") from error


def _follow(network: Network) -> None:
    if not network.isolated:
        return
    try:
        enter(int(network.process.split()[0]))
    except OSError as error:
        raise UserError(f"the network of the fit cannot be entered: {error}; {REMEDY}") from error
