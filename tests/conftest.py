"""The order of the tests, their threads, and which of them `make check` runs."""

import multiprocessing.process
import os
import sys

# Two files of tests run at a time. Of threads of linear algebra that wait for a processor, one factorisation took twenty times
# as long. Read when NumPy is loaded, so before all else.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest

SLOWEST = (
    *("test_slurm", "test_default_run", "test_network_runs", "test_digits_drill", "test_server_drills"),
    *("test_peer_drills", "test_slurm_networks", "test_slurm_drills", "test_identity_drill", "test_role_drills"),
    *("test_reruns", "test_asa", "test_other_runs", "test_chief_drills", "test_default_numbers", "test_strategies"),
    *("test_refusals", "test_networks", "test_coverage", "test_executor", "test_clustered", "test_online"),
)
"""These files first, so that no process is left alone with one of them while the others are done."""


QUICK = ("unit", "statistics")
"""Folders of tests that run in this process, unless they are marked with `processes`."""

STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"}
"""What Python's audit hooks call the start of a process."""

OF_LIBRARIES = ("grep", "uname")
"""What starts where a test is the first to need a library: a filter of TensorFlow's lines (tfglm.tensorflow_setup), and Python's
`platform.processor`."""

started: list[str] = []
"""The processes that the test has started so far."""


def pytest_configure() -> None:
    """Follow which processes are started. The audit hooks see none of a fork server."""

    def note(event: str, words: tuple) -> None:
        if event in STARTS and words[0] not in OF_LIBRARIES:
            started.append(f"{event} {words}")

    sys.addaudithook(note)
    start = multiprocessing.process.BaseProcess.start

    def start_and_note(process: multiprocessing.process.BaseProcess) -> None:
        started.append(repr(process))
        start(process)

    multiprocessing.process.BaseProcess.start = start_and_note


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: SLOWEST.index(item.path.stem) if item.path.stem in SLOWEST else len(SLOWEST))
    for item in items:
        if item.path.parent.name not in QUICK:
            item.add_marker(pytest.mark.processes)


def refuse_processes(item: pytest.Item) -> None:
    """Raise AssertionError if a test without the marker, or a fixture that it is the first to use, has started a process."""
    if started and not item.get_closest_marker("processes"):
        raise AssertionError(f"`make check` runs this test: mark it with `processes`, as it starts {started[0]:.300}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item):
    started.clear()
    result = yield
    refuse_processes(item)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item):
    result = yield
    refuse_processes(item)
    return result
