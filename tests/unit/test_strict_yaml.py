"""Files of settings: what YAML would lose, multiply or run in silence is refused, with the line."""

import subprocess
from pathlib import Path

import pytest

from runs import configure, snakemake
from tfglm.config import files
from tfglm.errors import UserError

BOMB = "a0: &a0 {k: v, l: w}\n" + "".join(f"a{i}: &a{i} {{x: *a{i - 1}, y: *a{i - 1}}}\n" for i in range(1, 60))
CODE = "__use_yte__: true\ncluster:\n  workers: ?open('ran', 'w').write('1') + 1\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\nb:\n  c: 1\n  d: 2\n  c: 3\n", ", line 5: the key `c` is in line 3 already, and only the last"),
        ("{a: 1, a: 1}", ", line 1: the key `a` is in line 1 already"),
        ("1: x\n01: y\n", ", line 2: the key `1` is in line 1 already"),
        ('{"a": 1, "a": 2}', ": the key `a` is given twice in one section"),
        (BOMB, "values, with those that aliases (`*...`) repeat, and a file of settings may have 100,000"),
        ("a: &a [*a]", ", line 1: an alias (`*...`) is inside of what it repeats"),
        ("a: &a {b: {c: *a}}", ", line 1: an alias (`*...`) is inside of what it repeats"),
        ("[" * 5000, ": its sections are nested too deeply"),
        ("a: " + "1" * 5000, ": a value cannot be read: "),
        ("a: 2024-13-45", ": a value cannot be read: month must be in 1..12; put it in quotes"),
        ("a: !!python/name:os.system", ", line 1: `!python/name:os.system` is a tag of YAML"),
        (
            "a:\n  b: !x [c]",
            ", line 2: `!x` is a tag of YAML, which config files do not have; put a text in quotes\n  b: !x [c]",
        ),
        (
            "a:\n  b: 1\n  c [d, e]\nf: 2",
            ", line 3: this is not YAML: a key has no colon after it; write `key: value`\n  c [d, e]",
        ),
        ("a\n  b: 1", ", line 1: this is not YAML: a key has no colon after it; write `key: value`\n  a"),
        ("a:\n  b: 1\n  c 2", ", line 3: this is not YAML: a key has no colon after it; write `key: value`\n  c 2"),
        (
            "a:\n  b: 1\n c: 2",
            ", line 3: this is not YAML: the line is not indented like the others of its section\n  c: 2",
        ),
        ("a:\n  b: c\n   d: 2", ", line 3: this is not YAML: a second colon, or a deeper indentation than"),
        ("a: [b,\nc: 2", ", line 1: this is not YAML: a list or mapping that begins here lacks a comma"),
        (
            "a: b\nc: 'd\ne: 1",
            ", line 2: this is not YAML: a text that begins here with a quote has no closing quote\n  c: 'd",
        ),
        ("a: 'b' = c", ", line 1: this is not YAML: text follows a text in quotes; put the whole value in quotes"),
        ("a: @b", ", line 1: this is not YAML: a text that begins with this sign must be in quotes\n  a: @b"),
        ("a: 1\n---\nb: 2", ", line 2: this is not YAML: "),
        (
            "a:\n  b: 1\n\tc: 2",
            ", line 3: this is not YAML: a tab, where YAML takes blanks alone; replace it with blanks",
        ),
        ("a: 1\n\tb: 2", ", line 2: this is not YAML: "),
        ("? [a, b]\n: 1", ", line 1: found unhashable key"),
        ("a: \x01", ": this is not YAML: unacceptable character"),
        ("a: '\xff'", ": byte 5 is not UTF-8"),
        (CODE, ": `__use_yte__` lets Snakemake run what the file says as Python"),
        ("# " + "x" * files.LARGEST_FILE, ": 2,000,002 bytes, and a file of settings may have 2,000,000"),
    ],
)
def test_refused_with_the_line(tmp_path, text, expected):
    path = tmp_path / "x.yaml"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(UserError) as refused:
        files.read(path)
    assert str(refused.value).startswith(str(path)) and expected in str(refused.value)


def test_what_a_merge_key_brings_may_be_overruled(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text("a: &a {b: 1, c: 2}\nd: {<<: *a, b: 3}\ne: *a\n")
    assert files.read(path) == {"a": {"b": 1, "c": 2}, "d": {"b": 3, "c": 2}, "e": {"b": 1, "c": 2}}


def test_a_folder_is_no_file_of_settings(tmp_path):
    with pytest.raises(UserError, match="cannot be read: Is a directory"):
        files.read(tmp_path)


def dry_run(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    done = snakemake(folder, "--dry-run", *arguments)
    assert done.returncode == 1 and "Traceback" not in done.stdout, done.stdout
    return done


@pytest.mark.processes
def test_the_workflow_reads_the_files_of_the_config_strictly(tmp_path):
    """The default one before Snakemake does: it would multiply the aliases, and run the code."""
    configure(tmp_path)
    config = tmp_path / "config" / "config.yaml"
    sound = config.read_text()
    config.write_text(sound + "cluster: {workers: 1}\n")
    assert "config/config.yaml, line " in (output := dry_run(tmp_path).stdout) and "the key `cluster` is in" in output
    config.write_text(BOMB)
    assert "config/config.yaml, line 15: 131,069 values" in dry_run(tmp_path).stdout
    config.write_text(CODE)
    assert "config/config.yaml: `__use_yte__` lets Snakemake run" in dry_run(tmp_path).stdout
    assert not (tmp_path / "ran").exists()
    config.write_text(sound)
    for name, text in {"mine.yaml": "fit: [late_arrival]\nfit: []\n", "mine.json": '{"fit": [], "fit": []}'}.items():
        (tmp_path / name).write_text(text)
        assert f"{tmp_path}/{name}" in (output := dry_run(tmp_path, "--configfile", name).stdout) and "`fit`" in output
    (tmp_path / "mine.yaml").write_text(CODE)
    output = dry_run(tmp_path, "--configfile", "mine.yaml").stdout
    assert f"{tmp_path}/mine.yaml: `__use_yte__` lets Snakemake run" in output
    output = dry_run(tmp_path, "--config", "cluster={workers: 1, workers: 2}").stdout
    assert "--config cluster, line 1: the key `workers` is in line 1 already" in output
