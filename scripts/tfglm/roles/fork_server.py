"""A process that imports what jobs need once, and forks each job of a run on this machine.

Otherwise each job imports for 0.3 to 2 s of a processor. The server starts while Snakemake checks the config. It imports what
the scripts of a run need while it waits for jobs, and what they import at their top when a job comes. Each job is a process of
its own, with the folder, environment and open files of the command that asked for it (`scripts/forked.py`).

The server ends with Snakemake, and the jobs end with the server. A job also ends if its command is killed. If the server cannot
fork, the command runs the script itself.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfglm import tensorflow_setup
from tfglm.roles import ending, forking

PADDING = 4000
"""Characters at the end of the server's command line, which each job overwrites with its own (`forking.show`)."""

SPARED = {"jemalloc_bg_thd", "polars-ooc-clea"}
"""Threads that a forked process does not need. jemalloc starts its own again after a fork. The thread of polars deletes what it
has moved from memory to disk, which no job asks of it."""


class Started:
    """A server for the jobs of this process. It ends with this process, if `stop` does not end it earlier. While it waits,
    it makes the imports of the `scripts` in the folder. Raises OSError if this system has no such server."""

    def __init__(self, folder: Path, scripts: Sequence[str] = ()) -> None:
        os.close(os.pidfd_open(os.getpid()))  # not on each system and in each sandbox
        address = Path(tempfile.mkdtemp(prefix="tfglm-"), "fork-server")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(address))
            listener.listen(128)
            serve = ["--serve", str(listener.fileno()), str(os.getpid()), " " * PADDING]
            self._process = subprocess.Popen(
                [sys.executable, str(folder / "forked.py"), *serve],
                cwd="/",
                # Memory and threads of the jobs are those of a fit in one process.
                env=tensorflow_setup.environment(os.environ) | {"POLARS_ALLOW_FORKING_THREAD": "1"},
                stdin=subprocess.PIPE,
                bufsize=0,
                stdout=subprocess.DEVNULL,
                pass_fds=[listener.fileno()],
                # Ctrl-C reaches jobs through their commands.
                start_new_session=True,
            )
        self.address = str(address)
        """The path of its socket."""
        atexit.register(self.stop)
        self.prepare(scripts)

    def prepare(self, scripts: Sequence[str]) -> None:
        """Let the server import next what these scripts need, in their order."""
        assert self._process.stdin
        with contextlib.suppress(OSError):  # it has ended
            self._process.stdin.write(json.dumps(list(scripts)).encode() + b"\n")

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()
        shutil.rmtree(Path(self.address).parent, ignore_errors=True)


@dataclass(frozen=True)
class JobRequest:
    """A job to start: its command line, script first, where it runs, and its standard input and outputs."""

    line: list[str]
    folder: str
    environment: dict[str, str]
    umask: int
    files: list[int]

    @property
    def script(self) -> str:
        return Path(self.line[0]).name


@dataclass(frozen=True, eq=False)
class Forked:
    """A job that runs: its process, a descriptor that is ready at its end, and the connection to its command."""

    pid: int
    ended: int
    command: socket.socket


def main(listener: str, parent: str, _: str) -> None:
    """Fork jobs until the parent ends; in a job, run its script."""
    status: list[int] = []
    # The function that is registered first runs last.
    atexit.register(lambda: leave(*status))
    server = Server(socket.socket(fileno=int(listener)), int(parent))
    if request := server.serve():
        sys.argv = request.line
        forking.show(request.line[1:])
        try:
            runpy.run_path(request.line[0], run_name="__main__")
            status.append(0)
        except SystemExit as exit_:
            status.append(exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None))
            raise


def leave(status: int | None = None) -> None:
    """End a job with this exit status, if there is one, without the usual destruction of all objects. Their memory is shared with
    the server, and would be copied for it: 0.1 s of a processor."""
    if status is not None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


class Server:
    """The fork server of a parent process. Commands connect to the listener."""

    def __init__(self, listener: socket.socket, parent: int) -> None:
        self._pid, self._parent, self._listener = os.getpid(), parent, listener
        self._jobs: set[Forked] = set()
        self._waiting = selectors.DefaultSelector()
        self._asked: list[tuple[socket.socket, JobRequest]] = []
        self._steps: dict[str, Iterator[None]] = {}
        self._waiting.register(listener, selectors.EVENT_READ)
        self._waiting.register(sys.stdin, selectors.EVENT_READ)
        self._waiting.register(os.pidfd_open(parent), selectors.EVENT_READ)

    def serve(self) -> JobRequest | None:
        """Fork jobs until the parent ends. Return its request in each job. Prepare scripts while no job comes."""
        while os.getppid() == self._parent:
            ready = self._waiting.select(0 if self._steps else None)
            for key, _ in ready:
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj is sys.stdin:
                    self._take_scripts()
                elif key.data in self._jobs:
                    (self._pass_on if key.fileobj is key.data.command else self._reap)(key.data)
            if self._steps and not ready:
                self._take_step()
            if request := self._start_jobs():
                return request
        shutil.rmtree(Path(self._listener.getsockname()).parent, ignore_errors=True)
        return None

    def _take_scripts(self) -> None:
        """Take the scripts to prepare next from the parent."""
        lines = os.read(0, 65536).splitlines()
        if lines:
            self._steps = {script: self._steps.get(script) or steps_of(script) for script in json.loads(lines[-1])}
        else:
            self._waiting.unregister(sys.stdin)

    def _take_step(self) -> None:
        """Take a step of a script that a job waits for, or else of the first one in the list."""
        asked = [request.script for _, request in self._asked]
        script = next((script for script in self._steps if script in asked), next(iter(self._steps)))
        for _ in self._steps[script]:
            return
        del self._steps[script]

    def _accept(self) -> None:
        """Take the request of a command."""
        command, _ = self._listener.accept()
        if request := received(command):
            self._asked.append((command, request))
        else:
            command.close()

    def _start_jobs(self) -> JobRequest | None:
        """Fork the jobs that commands have asked for; return its request in each job. A job waits while its script is to be
        prepared, because it would make the same imports again."""
        for command, request in [asked for asked in self._asked if asked[1].script not in self._steps]:
            self._asked.remove((command, request))
            with contextlib.suppress(BaseException):  # the job fails too, and reports it
                load(request.script)
            if self._fork(command, request):
                return request
        return None

    def _fork(self, command: socket.socket, request: JobRequest) -> bool:
        """Fork a job; return whether this process is the job."""
        pid = fork()
        if pid == 0:
            self._waiting.close()
            waiting = [other for other, _ in self._asked]
            for connection in (self._listener, command, *waiting, *(job.command for job in self._jobs)):
                connection.close()
            for descriptor in (descriptor for _, asked in self._asked for descriptor in asked.files):
                os.close(descriptor)
            become(request, self._pid)
            return True
        for descriptor in request.files:
            os.close(descriptor)
        if pid is None:
            answer(command, None)
            return False
        job = Forked(pid, os.pidfd_open(pid), command)
        self._jobs.add(job)
        for file in (job.ended, job.command):
            self._waiting.register(file, selectors.EVENT_READ, job)
        return False

    def _pass_on(self, job: Forked) -> None:
        """Pass on the signals of the command to the job, and its end."""
        numbers = job.command.recv(64)
        for number in numbers or [signal.SIGKILL]:
            os.kill(job.pid, number)
        if not numbers:
            self._waiting.unregister(job.command)

    def _reap(self, job: Forked) -> None:
        """Tell the command the exit status of its job."""
        self._jobs.remove(job)
        self._waiting.unregister(job.ended)
        os.close(job.ended)
        with contextlib.suppress(KeyError):
            self._waiting.unregister(job.command)
        answer(job.command, os.waitstatus_to_exitcode(os.waitpid(job.pid, 0)[1]))


def received(command: socket.socket) -> JobRequest | None:
    """Return what a command asks for; None if it has been killed meanwhile."""
    size, files, *_ = socket.recv_fds(command, 8, 3)
    text = command.makefile("rb").read(int.from_bytes(size, "big"))
    try:
        return JobRequest(**json.loads(text), files=files)
    except ValueError:
        for descriptor in files:
            os.close(descriptor)
        return None


def answer(command: socket.socket, code: int | None) -> None:
    """Tell a command the exit status of its job; None if it shall run the script itself."""
    with command, contextlib.suppress(OSError):
        command.sendall(json.dumps(code).encode() + b"\n")


def load(script: str) -> None:
    """Import what a script imports."""
    importlib.import_module(script.removesuffix(".py"))


def steps_of(script: str) -> Iterator[None]:
    """Import what a script imports, and take the steps of its `prepare`. At each yield the server can fork jobs. If a step fails,
    jobs only become slower, so this reports it."""
    try:
        load(script)
        yield
        yield from getattr(sys.modules[script.removesuffix(".py")], "prepare", tuple)()
        load(script)
    except GeneratorExit:
        raise
    except BaseException as error:
        with contextlib.suppress(OSError):  # nobody reads it
            print(f"{script}: not prepared, so its jobs take longer: {error!r}", file=sys.stderr, flush=True)


def fork() -> int | None:
    """Return what os.fork returns; None if this process cannot fork, or has threads that the forked process would lack."""
    threads = [
        thread.joinpath("comm").read_text(encoding="utf-8").strip() for thread in Path("/proc/self/task").iterdir()
    ]
    if len([name for name in threads if name not in SPARED]) > 1:
        return None
    gc.freeze()
    try:
        return os.fork()
    except OSError:
        return None


def become(request: JobRequest, server: int) -> None:
    """Take the place of the process that the command would have been. It ends with the server."""
    ending.kill_with_parent()
    if os.getppid() != server:
        os._exit(1)
    for descriptor, standard in zip(request.files, (0, 1, 2), strict=True):
        os.dup2(descriptor, standard)
        os.close(descriptor)
    os.umask(request.umask)
    os.environ.clear()
    os.environ.update(request.environment)
    os.chdir(request.folder)
