"""Run a script of this folder as a job of the fork server of this run (`tfglm.roles.fork_server`), or else in this process.

`python forked.py SCRIPT ARGUMENTS...` behaves like `python SCRIPT ARGUMENTS...`: same folder, environment, output, signals and
exit status. Only the standard library: this runs before each job, to save the imports of the job.
"""

import json
import os
import signal
import socket
import sys
from pathlib import Path

ADDRESS = "TFGLM_FORK_SERVER"
"""The environment variable with the path of the server's socket."""

PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
"""Signals that the job gets when this process gets them."""


def run(line: list[str]) -> int | None:
    """Let the server run a command line, script first; return its exit status, negative for a signal. None without a server."""
    request = {"line": line, "folder": str(Path.cwd()), "environment": dict(os.environ), "umask": umask()}
    text = json.dumps(request).encode()
    with socket.socket(socket.AF_UNIX) as server:
        try:
            server.connect(os.environ[ADDRESS])
            socket.send_fds(server, [len(text).to_bytes(8, "big")], [0, 1, 2])
            server.sendall(text)
        except (KeyError, OSError):
            return None
        for number in PASSED_ON:
            signal.signal(number, lambda number, frame: server.send(bytes([number])))
        answer = server.makefile().readline()
    if not answer:
        print("error: the fork server of this run has ended, and its jobs with it", file=sys.stderr)
        return 1
    return json.loads(answer)


def umask() -> int:
    """Return the mask of permissions of this process."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def main(script: str, *arguments: str) -> None:
    line = [str(Path(__file__).with_name(script)), *arguments]
    code = run(line)
    if code is None:
        os.execv(sys.executable, [sys.executable, *line])
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        from tfglm.roles import fork_server

        fork_server.main(*sys.argv[2:])
    else:
        main(*sys.argv[1:])
