"""The memory of a process of a cluster: what it has used stays with it."""

import os
import subprocess
import sys
from pathlib import Path

from tfglm import tensorflow_setup

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
TOUCHED = 1 << 26

PROGRAM = f"""
import sys
sys.path.insert(0, sys.argv[1])
import numpy
from tfglm.tensorflow_setup import touch

def held():
    (line,) = [line for line in open("/proc/self/status") if line.startswith("VmRSS")]
    return 1024 * int(line.split()[1])

before = held()
touch({TOUCHED})
print(held() - before)
"""


def test_what_is_touched_is_kept() -> None:
    environment = {**os.environ, **tensorflow_setup.ENVIRONMENT}
    line = [sys.executable, "-c", PROGRAM, str(SCRIPTS)]
    grown = int(subprocess.run(line, env=environment, capture_output=True, text=True, check=True).stdout)
    assert grown > 0.9 * TOUCHED
