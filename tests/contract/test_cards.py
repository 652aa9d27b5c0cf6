"""Which process computes on which GPU: real processes, which report what they were given, with a stand-in for `nvidia-smi`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from processes import ENVIRONMENT, SCRIPTS, end, stand_in_for_tensorflow, start_roles, wait_until
from tfglm.errors import UserError
from tfglm.roles import announce, cards

CARDS = ["GPU-a1", "GPU-b2", "GPU-c3"]
TAKE = """
import sys
from tfglm.errors import UserError
from tfglm.roles import cards
try:
    print(*cards.take(int(sys.argv[1]), "networks.m.gpus", float(sys.argv[2])), cards.os.environ[cards.VISIBLE], flush=True)
except UserError as error:
    print(error, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """The environment of processes on a machine with CARDS."""
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\n" + "".join(f"echo {card}\n" for card in CARDS))
    program.chmod(0o755)
    (tmp_path / "tmp").mkdir()
    stand_in_for_tensorflow(tmp_path / "stand_in")
    without = {name: text for name, text in ENVIRONMENT.items() if name not in (cards.VISIBLE, "SLURM_JOB_ID")}
    return without | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "TMPDIR": str(tmp_path / "tmp"),
        "PYTHONPATH": f"{tmp_path / 'stand_in'}:{SCRIPTS}",
    }


def test_each_worker_has_a_gpu_and_its_successor_takes_it(tmp_path: Path, machine: dict[str, str]) -> None:
    roles = start_roles(tmp_path, "worker", 3, "--gpus", "1", environment=machine)

    def listening() -> list[announce.Announcement]:
        members = [announce.read(tmp_path / f"workers-{index}.json") for index in range(3)]
        return [each for each in members if isinstance(each, announce.Announcement) and each.state == "listening"]

    def given() -> list[str]:
        """What the logs say, by process."""
        lines = [line for log in sorted(tmp_path.glob("workers-*.log")) for line in log.read_text().splitlines()]
        return [line.partition(" has the GPUs ")[2] for line in lines if " has the GPUs " in line]

    wait_until(lambda: len(listening()) == 3, 30, "three workers")
    assert sorted(given()) == CARDS
    (first,) = (each for each in listening() if each.index == 1)
    os.kill(first.pid, 9)
    wait_until(lambda: len(given()) == 4, 30, "a successor")
    logs = [(tmp_path / name).read_text() for name in ("workers-1.log", "workers-1.restart1.log")]
    assert len({log.partition(" has the GPUs ")[2].split("\n")[0] for log in logs}) == 1
    assert end(roles) == 0


def test_what_is_not_there_or_taken_is_refused_by_name(machine: dict[str, str]) -> None:
    machine[cards.VISIBLE] = "7, 9,MIG-1/0/2"

    def start(*words: object) -> subprocess.Popen:
        line = [sys.executable, "-c", TAKE, *map(str, words)]
        return subprocess.Popen(line, env=machine, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    processes = [start(2, 0.5), start(2, 0.5), start(4, 60), start(0, 60)]
    said = [each.stdout.readline().strip() for each in processes]
    taken, refused = sorted(said[:2], key=len)
    assert taken == "7 9 7,9"
    assert refused.startswith(
        "networks.m.gpus: other trainings of yours keep the 3 GPUs of this machine; wait for them"
    )
    assert (
        said[2]
        == "networks.m.gpus: this process needs 4, and this machine has 3 (CUDA_VISIBLE_DEVICES is `7, 9,MIG-1/0/2`)"
    )
    assert said[3] == ""  # and it sees none
    one = start(1, 60)
    assert one.stdout.readline().strip() == "MIG-1/0/2 MIG-1/0/2"
    for each in (*processes, one):
        each.communicate("")
    # Those of processes that have ended are free.
    last = start(3, 5)
    assert last.communicate("")[0].startswith("7 9 MIG-1/0/2 ")


@pytest.mark.parametrize(
    ("words", "found"),
    [("0,1", ["0", "1"]), ("", []), ("-1", []), ("1,-1,2", ["1"]), ("NoDevFiles", []), ("0,0", ["0"])],
)
def test_the_words_of_cuda(words: str, found: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cards.VISIBLE, words)
    assert cards.visible() == found
    with pytest.raises(
        UserError, match=r"^networks.m.gpus: 3 workers with 2 each need 6, and this machine has \d \(CUDA"
    ):
        cards.check(6, "networks.m.gpus", "3 workers with 2 each need")
