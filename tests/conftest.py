"""In which order the tests run, and with how many threads."""

import os

# Two files of tests run at a time. Of threads of linear algebra that wait for a processor, one factorisation took twenty times
# as long. Read when NumPy is loaded, so before all else.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest

SLOWEST = (
    "test_slurm",
    "test_default_run",
    "test_network_runs",
    "test_digits_drill",
    "test_server_drills",
    "test_peer_drills",
    "test_slurm_networks",
    "test_slurm_drills",
    "test_identity_drill",
    "test_role_drills",
    "test_reruns",
    "test_asa",
    "test_other_runs",
    "test_chief_drills",
    "test_default_numbers",
    "test_strategies",
    "test_refusals",
    "test_networks",
    "test_coverage",
    "test_executor",
    "test_clustered",
    "test_online",
)
"""These files first, so that no process is left alone with one of them while the others are done."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: SLOWEST.index(item.path.stem) if item.path.stem in SLOWEST else len(SLOWEST))
