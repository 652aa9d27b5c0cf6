"""Compiled loops are kept, and a damaged file of them stops nothing."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from processes import SCRIPTS
from tfglm import loops

TWICE = "from tfglm.loops import compiled\n\n@compiled\ndef twice(number):\n    return number + number\n"

CALL = """
import json, sys
sys.path[:0] = sys.argv[1:]
import tiny
results = [tiny.twice(2), tiny.twice(0.25)]
hits = sum(tiny.twice.stats.cache_hits.values())
# What code may call, which takes numba 0.2 s to load, is needed to compile alone.
assert ("numba.np.linalg" in sys.modules) == (hits < 2)
print(json.dumps([results, hits, str(tiny.twice.stats.cache_path)]))
"""


def load(folder: Path, name: str = "tiny") -> Callable:
    """The loop as another process has it, which has compiled nothing yet."""
    path = folder / f"{name}.py"
    namespace: dict = {"__name__": name}
    exec(compile(path.read_text(), path, "exec"), namespace)
    return namespace["twice"]


def call(twice: Callable) -> tuple[int, int]:
    """Call it with two types: how many were kept, and how many compiled."""
    assert (twice(2), twice(0.25)) == (4, 0.5)
    return sum(twice.stats.cache_hits.values()), sum(twice.stats.cache_misses.values())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(loops.numba.config, "CACHE_DIR", "")
    (tmp_path / "tiny.py").write_text(TWICE)
    return tmp_path


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("tiny.*") if path.suffix != ".py" and ".pyc" not in path.suffixes)


def swap(paths: list[Path]) -> None:
    """Each has the content of the other, as of processes that took the same name."""
    first, second = (path.read_bytes() for path in paths)
    paths[0].write_bytes(second)
    paths[1].write_bytes(first)


def each(change: Callable[[bytes], bytes]) -> Callable[[list[Path]], None]:
    def damage(paths: list[Path]) -> None:
        for path in paths:
            path.write_bytes(change(path.read_bytes()))

    return damage


DAMAGE = {
    "emptied": each(lambda content: b""),
    "zeroed": each(lambda content: bytes(len(content))),
    "zeroed at the end": each(lambda content: content[:-4096] + bytes(4096)),
    "cut": each(lambda content: content[: len(content) // 2]),
    "cut in the digest": each(lambda content: content[:10]),
    "longer": each(lambda content: content + b"\n"),
    "one bit": each(lambda content: content[:5000] + bytes([content[5000] ^ 1]) + content[5001:]),
    "of something else": each(lambda content: b"\x80\x04N." * 2000),
    "swapped": swap,
}


@pytest.mark.slow
def test_a_damaged_file_of_a_loop_is_compiled_again(folder: Path) -> None:
    assert call(load(folder)) == (0, 2)
    assert call(load(folder)) == (2, 0)
    kept = files(folder)
    assert len(kept) == 2
    for name, damage in DAMAGE.items():
        damage(kept)
        assert call(load(folder)) == (0, 2), name
        assert files(folder) == kept, name
        assert call(load(folder)) == (2, 0), name


def test_a_changed_loop_is_compiled_again(folder: Path) -> None:
    assert call(load(folder)) == (0, 2)
    (folder / "tiny.py").write_text(TWICE.replace("number + number", "2 * number"))
    assert call(load(folder)) == (0, 2)
    assert len(files(folder)) == 2


def test_who_waits_at_a_terminal_is_told_why(folder: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    for lines in (1, 0):
        monkeypatch.setattr(loops, "told", threading.Lock())
        call(load(folder))
        assert capsys.readouterr().err.count("compiles its loops for this machine") == lines


def test_a_loop_that_cannot_be_kept_is_compiled(folder: Path, monkeypatch, capsys) -> None:
    """As on a full disk."""
    twice = load(folder)
    shutil.rmtree(folder / "__pycache__")
    (folder / "__pycache__").write_text("")
    monkeypatch.setattr(loops, "logged", threading.Lock())
    assert call(twice) == (0, 2)
    assert capsys.readouterr().out.count("cannot be kept") == 1


def run(folder: Path, environment: dict[str, str]) -> tuple[list, str, str]:
    """In a process to which nothing but TMPDIR can be written: what it computed, its cache folder and what it logged."""
    script = f'mount --bind {folder}/program {folder}/program && mount -o remount,ro,bind {folder}/program && exec "$@"'
    line = [sys.executable, "-c", CALL, str(folder / "program"), str(SCRIPTS)]
    mounted = ["unshare", "--mount", "sh", "-c", script, "sh"]
    done = subprocess.run([*mounted, *line], env=environment, cwd="/", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *logged, last = done.stdout.splitlines()
    results, hits, path = json.loads(last)
    return [results, hits], path, "\n".join(filter(None, logged))


@pytest.mark.processes
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a folder read-only")
def test_a_read_only_program_without_a_home_compiles_in_tmpdir(tmp_path: Path) -> None:
    for name in ("program", "tmp"):
        (tmp_path / name).mkdir()
    (tmp_path / "program" / "tiny.py").write_text(TWICE)
    environment = {"HOME": "/dev/null", "TMPDIR": str(tmp_path / "tmp"), "PATH": os.environ["PATH"]}
    top = tmp_path / "tmp" / f"tfglm-loops-{os.geteuid()}"

    results, path, logged = run(tmp_path, environment)
    assert results == [[4, 0.5], 0]
    assert Path(path).parent == top and top.stat().st_mode & 0o777 == 0o700
    assert logged.count("are kept in") == 1 and str(top) in logged
    results, _, logged = run(tmp_path, environment)
    assert (results, logged) == ([[4, 0.5], 2], "")

    top.chmod(0o777)  # as of a stranger, who may have written what would run
    results, path, logged = run(tmp_path, environment)
    assert (results, path) == ([[4, 0.5], 0], "None")
    assert logged.count("NUMBA_CACHE_DIR") == 1


ATTACK = """
import os, pickle, sys
sys.path[:0] = sys.argv[1:3]
victim, marker = int(sys.argv[3]), sys.argv[4]
from tfglm import loops
os.geteuid = lambda: victim

class Code:
    def __reduce__(self):
        return os.system, (f"id -u >> {marker}",)

loops.CheckedFiles._dump = lambda self, data: pickle.dumps(Code())
loops.make_private = lambda folder: folder.mkdir(parents=True, exist_ok=True)
os.umask(0)
import tiny
tiny.twice(2)
for path in loops.Path(tiny.twice.stats.cache_path).iterdir():
    path.chmod(0o777)
"""


@pytest.mark.processes
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may run programs as two users")
@pytest.mark.parametrize("mode", [0o777, 0o1777])
def test_what_another_user_has_kept_in_a_shared_folder_never_runs(mode: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for each, permissions in {".": 0o755, "program": 0o755, "shared": mode, "tmp": 0o1777, "seen": 0o777}.items():
            (folder / each).mkdir(exist_ok=True)
            (folder / each).chmod(permissions)
        (folder / "program" / "tiny.py").write_text(TWICE)
        environment = {"HOME": "/dev/null", "PATH": os.environ["PATH"], "TMPDIR": str(folder / "tmp")}
        environment |= {"NUMBA_CACHE_DIR": str(folder / "shared"), "PYTHONDONTWRITEBYTECODE": "1"}

        def run_as(user: int, script: str, *arguments: str) -> str:
            line = ["setpriv", f"--reuid={user}", "--regid=60000", "--clear-groups", sys.executable, "-c", script]
            line += [str(folder / "program"), str(SCRIPTS), *arguments]
            done = subprocess.run(line, env=environment, cwd="/", capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            return done.stdout.splitlines()[-1] if done.stdout else ""

        run_as(60001, ATTACK, "60002", str(folder / "seen" / "users"))
        assert list((folder / "shared").rglob("*.nbc"))
        for hits in (0, 2):
            results, kept, place = json.loads(run_as(60002, CALL))
            assert (results, kept) == ([4, 0.5], hits)
        assert not (folder / "seen" / "users").exists()
        assert Path(place).stat().st_uid == 60002


def test_a_file_that_another_user_has_put_into_the_place_of_a_loop_is_not_read(folder: Path, monkeypatch) -> None:
    twice = load(folder)
    assert call(twice) == (0, 2)
    status = os.stat_result

    def of_a_stranger(descriptor: int) -> os.stat_result:
        found = list(os.stat(descriptor))
        found[4] += 1  # its owner
        return status(found)

    monkeypatch.setattr(loops.os, "fstat", of_a_stranger)
    assert call(load(folder)) == (0, 2)
