"""Jobs that a fork server starts behave like programs of their own."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from processes import ENVIRONMENT, SCRIPTS, alive, wait_until
from tfglm import tensorflow_setup
from tfglm.roles import fork_server

PARENT = """
import os, subprocess, sys
from pathlib import Path
import forked
from tfglm.roles import fork_server
os.environ[forked.ADDRESS] = fork_server.Started(Path(sys.argv[1]), sys.argv[2:]).address
print(os.environ[forked.ADDRESS], flush=True)
sys.stdin.read()
"""

IMPORT = """
import sys
from pathlib import Path
from tfglm.roles import fork_server
for script in sys.argv[1:]:
    for _ in fork_server.steps_of(script):
        pass
child = fork_server.fork()
if child != 0:
    print(child is not None or [thread.read_text() for thread in Path("/proc/self/task").glob("*/comm")])
"""

TELL = """
import json, os, sys
facts = {"line": sys.argv[1:], "folder": os.getcwd(), "x": os.environ.get("X"), "pid": os.getpid(), "parent": os.getppid()}
mask = os.umask(0)
if __name__ == "__main__":
    print(json.dumps(facts | {"umask": mask, "shown": open("/proc/self/cmdline").read().split(chr(0))}))
    print("to stderr", file=sys.stderr)
    sys.exit(int(sys.argv[1]))
"""

WAIT = """
import os, sys, time
if __name__ == "__main__":
    print(os.getpid(), flush=True)
    time.sleep(60)
"""


LONG = """
import sys
from pathlib import Path
IS_PREPARED = []
def prepare():
    Path(__file__).with_name("begun").touch()
    while not Path(__file__).with_name("enough").exists():
        yield
    IS_PREPARED.append(True)
if __name__ == "__main__":
    import long
    sys.exit(3 if long.IS_PREPARED else 4)
"""


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    """A folder of scripts with the command beside them."""
    shutil.copy(SCRIPTS / "forked.py", tmp_path)
    (tmp_path / "tell.py").write_text(TELL)
    (tmp_path / "wait.py").write_text(WAIT)
    (tmp_path / "long.py").write_text(LONG)
    (tmp_path / "threaded.py").write_text(
        f"import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start(){TELL}"
    )
    (tmp_path / "broken.py").write_text("import no_such_module")
    return tmp_path


@pytest.fixture
def parent(scripts: Path) -> Iterator[tuple[subprocess.Popen, dict[str, str]]]:
    """A process with a fork server, and the environment of its commands."""
    environment = ENVIRONMENT | {"PYTHONPATH": f"{scripts}:{SCRIPTS}"}
    line = [sys.executable, "-c", PARENT, str(scripts), "long.py"]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout
        address = process.stdout.readline().strip()
        yield process, environment | {"TFGLM_FORK_SERVER": address}
        process.kill()


def line(scripts: Path, *words: str) -> list[str]:
    return [sys.executable, str(scripts / "forked.py"), *words]


@pytest.mark.parametrize("served", [True, False])
def test_a_job_has_the_surroundings_of_its_command(scripts, parent, served):
    process, environment = parent
    environment = environment | {"X": "ä\n"}
    if not served:
        del environment["TFGLM_FORK_SERVER"]
    folder = scripts / "elsewhere"
    folder.mkdir()
    words = ["tell.py", "3", "b c", ""]
    done = subprocess.run(
        line(scripts, *words), cwd=folder, env=environment, capture_output=True, text=True, umask=0o27
    )
    told = json.loads(done.stdout)
    assert done.returncode == 3 and done.stderr == "to stderr\n"
    assert told["line"] == words[1:] and told["folder"] == str(folder) and told["x"] == "ä\n" and told["umask"] == 0o27
    (server,) = psutil.Process(process.pid).children()
    assert (told["parent"] == server.pid) == served
    assert told["shown"][:5] == [sys.executable, str(scripts / "tell.py"), *words[1:]]


def test_a_server_with_threads_starts_no_job(scripts, parent):
    for script in ("threaded.py", "tell.py"):
        done = subprocess.run(line(scripts, script, "0"), env=parent[1], capture_output=True, text=True)
        assert json.loads(done.stdout)["parent"] == os.getpid()


def test_no_import_of_a_job_starts_a_thread():
    """The server would fork no job any more."""
    rules = "".join(path.read_text() for path in (SCRIPTS.parent / "workflow" / "rules").glob("*.smk"))
    names = sorted(set(re.findall(r'forked[.]py" (\w+[.]py)', rules)))
    assert {"build_design.py", "fit.py", "ingest.py", "write_tables.py"} <= set(names)
    environment = tensorflow_setup.environment(ENVIRONMENT) | {"PYTHONPATH": str(SCRIPTS)}
    done = subprocess.run([sys.executable, "-c", IMPORT, *names], env=environment, capture_output=True, text=True)
    assert done.stdout == "True\n" and "not prepared" not in done.stderr, done.stdout + done.stderr


def test_an_error_of_an_import_is_one_of_the_job(scripts, parent):
    done = subprocess.run(line(scripts, "broken.py"), env=parent[1], capture_output=True, text=True)
    assert done.returncode == 1 and "ModuleNotFoundError: No module named 'no_such_module'" in done.stderr
    assert subprocess.run(line(scripts, "tell.py", "0"), env=parent[1], capture_output=True).returncode == 0


def test_a_script_that_cannot_be_prepared_is_named(scripts, monkeypatch, capfd):
    monkeypatch.syspath_prepend(scripts)
    list(fork_server.steps_of("broken.py"))
    told = (
        "broken.py: not prepared, so its jobs take longer: ModuleNotFoundError(\"No module named 'no_such_module'\")\n"
    )
    assert capfd.readouterr().err == told


def test_jobs_start_and_end_between_the_steps_that_prepare_another(scripts, parent):
    wait_until((scripts / "begun").exists, 5, "the first step")
    prepared = subprocess.Popen(line(scripts, "long.py"), env=parent[1])
    killed = subprocess.Popen(line(scripts, "long.py"), env=parent[1])
    for _ in range(2):
        assert subprocess.run(line(scripts, "tell.py", "0"), env=parent[1], capture_output=True).returncode == 0
    killed.kill()
    assert prepared.poll() is None
    (scripts / "enough").touch()
    assert prepared.wait(5) == 3 and killed.wait(5) == -signal.SIGKILL


def waiting(scripts: Path, environment: dict[str, str]) -> tuple[subprocess.Popen, int]:
    """A command whose job waits, and the id of the job."""
    command = subprocess.Popen(
        line(scripts, "wait.py"), env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert command.stdout
    return command, int(command.stdout.readline())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_signal_to_the_command_ends_the_job(scripts, parent, number):
    command, job = waiting(scripts, parent[1])
    command.send_signal(number)
    wait_until(lambda: not alive(job), 5, "the end of the job")
    assert command.wait(5) == -number


def test_a_job_that_is_killed_ends_its_command_alike(scripts, parent):
    command, job = waiting(scripts, parent[1])
    os.kill(job, signal.SIGSEGV)
    assert command.wait(5) == -signal.SIGSEGV


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_server_and_jobs_end_with_the_parent(scripts, parent, number):
    process, environment = parent
    command, job = waiting(scripts, environment)
    (server,) = psutil.Process(process.pid).children()
    process.send_signal(number)
    wait_until(lambda: not alive(server.pid) and not alive(job), 5, "the end of server and job")
    assert command.wait(5) == 1 and "has ended" in command.stderr.read()
    wait_until(lambda: not Path(environment["TFGLM_FORK_SERVER"]).parent.exists(), 5, "the end of the socket")


def test_a_parent_ends_its_server_and_deletes_its_socket(scripts, parent):
    process, environment = parent
    (server,) = psutil.Process(process.pid).children()
    process.stdin.close()
    assert process.wait(5) == 0 and not alive(server.pid)
    assert not Path(environment["TFGLM_FORK_SERVER"]).parent.exists()
