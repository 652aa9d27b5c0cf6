"""What holds of the project as a whole: pins that agree, imports that run one way."""

import ast
import graphlib
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Collection
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

import tfglm

REPOSITORY = Path(__file__).parents[2]
PACKAGE = REPOSITORY / "scripts" / "tfglm"

MAY_IMPORT = {
    "formula": {"formula"},
    "config": {"config", "formula"},
    "data": {"config", "data"},
    "families": {"families"},
    "design": {"config", "data", "design", "families", "formula"},
    "roles": {"roles"},
    "distribute": {"distribute", "roles"},
    "engine": {"data", "design", "distribute", "engine", "families", "formula"},
    "inference": {"design", "inference"},
    "solvers": {"config", "data", "design", "distribute", "engine", "families", "formula", "inference", "solvers"},
    "resume": {"distribute"},
    "checkpoint": {"design", "inference"},
    "fitting": {
        *("checkpoint", "config", "data", "design", "distribute", "engine", "provenance", "results", "resume", "roles"),
        "solvers",
    },
    "raw_columns": {"config", "data"},
    "export": {"data", "design", "engine", "inference", "raw_columns", "results"},
    "networks": {
        "checkpoint",
        "config",
        "data",
        "design",
        "distribute",
        "engine",
        "export",
        "families",
        "fitting",
        "inference",
        "networks",
        "provenance",
        "results",
        "roles",
        "solvers",
    },
    "provenance": {"data"},
    "results": {
        "checkpoint",
        "config",
        "data",
        "design",
        "engine",
        "families",
        "formula",
        "inference",
        "provenance",
        "results",
        "solvers",
    },
    "report": {"config", "data", "design", "families", "formula", "report", "results"},
    "model": {"config", "data", "design", "families", "formula", "networks", "report", "results"},
    "survey": {"config", "data", "design", "families", "formula", "survey"},
    "call": {
        "call",
        "config",
        "data",
        "design",
        "distribute",
        "families",
        "fitting",
        "formula",
        "model",
        "report",
        "results",
        "roles",
        "survey",
    },
    "console": {"call", "config", "roles"},
    "workflow": {"config", "data", "design", "formula", "roles", "workflow"},
}
"""Rooms (folders, and files that are rooms of their own), and those that they may know."""

STORY = ["formula", "config", "data", "design", "engine", "inference", "solvers", "results", "report"]
"""The rooms from a config to a page: each may know those before it."""

COMMON = {"addresses", "bundle", "command", "crc32c", "digests", "errors", "loops", "protobuf", "tensorflow_setup"}


def imports(path: Path) -> set[str]:
    """The modules that a file imports, those inside functions too."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_imports_run_one_way(folder):
    files = list((PACKAGE / folder).glob("*.py")) or [PACKAGE / f"{folder}.py"]
    for path in files:
        inside = {name.split(".")[1] for name in imports(path) if name.startswith("tfglm.")}
        assert inside <= MAY_IMPORT[folder] | COMMON, path.name


def test_what_rooms_may_know_is_what_comes_before_them():
    for number, room in enumerate(STORY):
        assert not MAY_IMPORT[room] & set(STORY[number + 1 :]), room
    for room in ("distribute", "roles"):
        assert MAY_IMPORT[room] <= {"distribute", "roles"}, f"{room} knows statistics"


def test_tensorflow_is_imported_where_it_computes_and_nowhere_else():
    allowed = {"checkpoint.py", "distribute", "export.py", "networks", "raw_columns.py", "roles", "tensorflow_setup.py"}
    importing = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if any(name.split(".")[0] == "tensorflow" for name in imports(path))
    }
    assert {name for name in importing if name not in allowed and name.split("/")[0] not in allowed} == set()


def test_the_package_has_no_other_parts():
    rooms = {
        path.stem
        for path in PACKAGE.iterdir()
        if path.name not in ("__pycache__", "__init__.py", "layouts", "py.typed")
    }
    assert rooms == set(MAY_IMPORT) | COMMON


def test_what_the_snakefile_imports_is_light():
    allowed = {"pydantic", "yaml", "tfglm", *sys.stdlib_module_names}
    for path in [
        PACKAGE / "__init__.py",
        PACKAGE / "addresses.py",
        PACKAGE / "errors.py",
        *(PACKAGE / "config").glob("*.py"),
        *(PACKAGE / "formula").glob("*.py"),
    ]:
        assert {module.split(".")[0] for module in imports(path)} <= allowed, path.name
    for path in (PACKAGE / "workflow").glob("*.py"):
        modules = {node.module for node in ast.parse(path.read_text()).body if isinstance(node, ast.ImportFrom)}
        light = {"snakemake", "snakemake_logger_plugin_tfglm", *allowed}
        assert {str(module).split(".")[0] for module in modules} <= light, path.name
    for name in ("announce", "launch", "memory", "network", "pending", "tpu"):
        modules = imports(PACKAGE / "roles" / f"{name}.py")
        assert {module.split(".")[0] for module in modules} <= {"tfglm", *sys.stdlib_module_names}


def compiled_parts(module: ast.Module) -> list[ast.AST]:
    """What numba compiles of a module: bodies of functions, and functions of other modules."""
    parts: list[ast.AST] = []
    for node in module.body:
        if isinstance(node, ast.FunctionDef) and {"compiled", "intrinsic"} & {
            ast.unparse(d) for d in node.decorator_list
        }:
            parts += node.body
        elif (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Call)
            and ast.unparse(node.value.func) == "compiled"
        ):
            parts += node.value.args
    return parts


def test_a_compiled_loop_uses_nothing_of_another_file():
    """numba, which keeps what it compiled, would not see a change there (tfglm/loops.py)."""
    files, used = set(), set()
    for path in PACKAGE.rglob("*.py"):
        module = ast.parse(path.read_text())
        elsewhere = {
            alias.asname or alias.name
            for node in module.body
            if isinstance(node, ast.ImportFrom) and node.module.startswith("tfglm")
            for alias in node.names
        }
        for part in compiled_parts(module):
            files.add(path.name)
            used |= {
                f"{path.name}: {name.id}"
                for name in ast.walk(part)
                if isinstance(name, ast.Name) and name.id in elsewhere
            }
    assert len(files) >= 9
    # Where a hash table puts its keys changes no result.
    assert used == {"tally_loops.py: GOLDEN", "tally_loops.py: folds"}


OPENS_TEXT = {"open", "fdopen", "read_text", "write_text", "TextIOWrapper", "NamedTemporaryFile"}
OTHERS = {"os.open", "tarfile.open", "archive.open", "indexed_bzip2.open", "digests.write_text", "write_text"}
"""Functions of such a name that open no text, or have its encoding themselves."""


def without_encoding(text: str) -> list[str]:
    """The calls in Python code that open text, or read what a program prints, in the encoding of the locale."""
    found = []
    for call in (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)):
        function, keys = ast.unparse(call.func), {key.arg for key in call.keywords}
        values = [
            each.value for each in (*call.args, *(key.value for key in call.keywords)) if isinstance(each, ast.Constant)
        ]
        is_binary = any(re.fullmatch(r"[rwax+]*b[rwax+]*", str(value)) for value in values)
        opens = function.rpartition(".")[2] in OPENS_TEXT and function not in OTHERS and not is_binary
        if (opens or "text=True" in map(ast.unparse, call.keywords)) and "encoding" not in keys:
            found.append(ast.unparse(call))
    return found


def test_every_text_has_its_encoding_whatever_the_locale():
    bad = "open(p); open(p, 'w'); Path(p).read_text(); os.fdopen(2, 'w'); run(line, text=True); path.open('w', newline='')"
    good = (
        "open(p, 'rb'); os.open(p, os.O_RDONLY); path.open('r+b'); p.write_text(t, encoding='utf-8'); tarfile.open(p)"
    )
    assert len(without_encoding(bad)) == 6 and not without_encoding(good)
    for path in REPOSITORY.glob("scripts/**/*.py"):
        assert not without_encoding(path.read_text()), path
    for path in REPOSITORY.glob("workflow/**/*.smk"):
        calls = re.findall(r".*(?:(?<!tarfile[.])\bopen\(|read_text\(|write_text\(|text=True).*", path.read_text())
        assert all("encoding=" in line for line in calls), path


def test_no_files_import_each_other_in_a_circle():
    """Imports inside functions, and those for types alone, count too. `tfglm` itself loads what a user asks for."""
    scripts = REPOSITORY / "scripts"
    files = [*(scripts / "tfglm").rglob("*.py"), *(scripts / "snakemake_logger_plugin_tfglm").rglob("*.py")]
    modules = {
        ".".join(path.relative_to(scripts).with_suffix("").parts).removesuffix(".__init__"): path for path in files
    }
    needs = {
        name: {
            longest for imported in imports(path) if (longest := module_of(imported, modules)) not in ("tfglm", name)
        }
        for name, path in modules.items()
    }
    assert len(needs["tfglm.solvers.fit"]) > 10
    graphlib.TopologicalSorter(needs).prepare()  # raises CycleError, which names the circle


def module_of(imported: str, modules: Collection[str]) -> str:
    """The module that a name is imported from; `tfglm` if it is of no file of the project."""
    while imported and imported not in modules:
        imported = imported.rpartition(".")[0]
    return imported or "tfglm"


def locked_versions(name: str) -> dict[str, str]:
    """The versions in a lock file."""
    lines = (REPOSITORY / name).read_text().splitlines()
    return dict(line.split("==") for line in lines if "==" in line)


def test_all_pins_agree():
    """The lock files pin all that pyproject.toml declares, to versions that it allows."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    extras, locked = project["optional-dependencies"], locked_versions("requirements.txt")
    for extra, declared in {"": project["dependencies"], **extras}.items():
        pinned = locked | (locked_versions("requirements-dev.txt") if extra == "dev" else {})
        for requirement in map(Requirement, declared):
            if requirement.name == "tfglm":
                assert requirement.extras <= extras.keys()
            else:
                assert requirement.specifier.contains(pinned[requirement.name]), requirement
    lock = [f"{package}=={version}" for package, version in locked.items()]
    of_conda = {"environment.yml": ["-r requirements.txt"], "workflow/envs/tfglm.yaml": lock}
    for name, pins in of_conda.items():
        python, pip, packages = yaml.safe_load((REPOSITORY / name).read_text())["dependencies"]
        assert (python, pip) == ("python=3.11", "pip") and packages == {"pip": pins}, name


def distributions(*folders: str) -> dict[str, str]:
    """Of the packages that the Python files and rules below some folders import, each with a file."""
    known = packages_distributions()
    found = {}
    for folder in folders:
        for path in (REPOSITORY / folder).rglob("*"):
            modules = set()
            if path.suffix == ".py":
                modules = {name.split(".")[0] for name in imports(path)}
            elif path.suffix == ".smk" or path.name == "Snakefile":
                modules = set(re.findall(r"^ *(?:import|from) (\w+)", path.read_text(), re.MULTILINE))
            # A file of the project may have the name of a package that something else has installed.
            for module in modules & known.keys() - {"snakemake_logger_plugin_tfglm", "tfglm"}:
                found |= {name.lower().replace("_", "-"): str(path) for name in known[module]}
    return found


def test_what_is_imported_is_declared():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    developing = extras.pop("dev")
    of_runs = {Requirement(each).name for declared in [project["dependencies"], *extras.values()] for each in declared}
    used = distributions("scripts", "workflow", "config/examples")
    assert len(used) > 25 and {name: file for name, file in used.items() if name not in of_runs} == {}
    of_tests = of_runs | {Requirement(each).name for each in developing}
    used = distributions("tests", "docs/site", ".ci")
    assert {name: file for name, file in used.items() if name not in of_tests} == {}


def test_the_version_is_that_of_the_citation():
    citation = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text())
    assert citation["version"] == tfglm.__version__
    assert f"## {tfglm.__version__}" in (REPOSITORY / "CHANGELOG.md").read_text()


def test_the_page_of_benchmarks_has_the_figures_that_were_measured():
    done = subprocess.run(
        [sys.executable, "benchmarks/page.py", "--check"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_hosted_checks_run_those_of_the_repository_and_nothing_else():
    checks = yaml.safe_load((REPOSITORY / ".github" / "workflows" / "ci.yml").read_text())
    commands = {"lint": "make lint PYTHON=python", "check": "make check PYTHON=python", "test": ".ci/run"}
    assert checks["jobs"].keys() == commands.keys() and os.access(REPOSITORY / ".ci" / "run", os.X_OK)
    for name, job in checks["jobs"].items():
        checkout, run = job["steps"]
        assert run == {"run": commands[name]}
        action, _, commit = checkout["uses"].partition("@")
        assert action == "actions/checkout" and len(commit) == 40 and set(commit) <= set("0123456789abcdef")
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    tried = checks["jobs"]["check"]["strategy"]["matrix"]["python"]
    assert [f"Programming Language :: Python :: {version}" for version in tried] == project["classifiers"]
    assert checks["permissions"] == {"contents": "read"}


def test_the_container_has_the_locked_packages_and_all_that_a_run_needs():
    lines = (REPOSITORY / "Containerfile").read_text().splitlines()
    copied = [line.split()[1] for line in lines if line.startswith("COPY")]
    ignored = (REPOSITORY / ".containerignore").read_text().split()
    assert {"requirements.txt", "Snakefile", "config", "profiles", "scripts", "workflow"} == set(copied)
    assert all((REPOSITORY / path).exists() for path in copied) and not set(copied) & set(ignored)
    assert "RUN pip install --no-cache-dir --requirement requirements.txt" in lines
    assert any(f'image.version="{tfglm.__version__}"' in line for line in lines)


OF_CHECK = """
import multiprocessing, subprocess, sys
import pytest

def test_nothing(): pass

def test_a_program(): subprocess.run([sys.executable, "-c", ""])

def test_a_fork_of_a_server():
    begun = multiprocessing.get_context("forkserver").Process(target=print)
    begun.start()
    begun.join()

@pytest.fixture(scope="module")
def program(): subprocess.run([sys.executable, "-c", ""])

def test_with_a_fixture(program): pass

@pytest.mark.processes
def test_marked(): subprocess.run([sys.executable, "-c", ""])
"""


def test_a_test_that_starts_a_process_without_the_mark_fails(tmp_path):
    tests = REPOSITORY / "tests"
    for folder in ("unit", "contract"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"test_{folder}.py").write_text(OF_CHECK)
    (tmp_path / "conftest.py").write_text((tests / "conftest.py").read_text())
    line = [sys.executable, "-m", "pytest", "-c", REPOSITORY / "pyproject.toml", "-p", "no:cacheprovider", "-rA", "."]
    done = subprocess.run([*map(str, line)], cwd=tmp_path, capture_output=True, text=True, check=False)
    told = re.findall(r"^(PASSED|FAILED|ERROR) \S*test_unit\.py::test_(\w+)", done.stdout, re.MULTILINE)
    assert sorted(told) == [
        ("ERROR", "with_a_fixture"),
        ("FAILED", "a_fork_of_a_server"),
        ("FAILED", "a_program"),
        ("PASSED", "marked"),
        ("PASSED", "nothing"),
    ], done.stdout
    assert len(re.findall(r"^PASSED \S*test_contract\.py", done.stdout, re.MULTILINE)) == 5, done.stdout


def test_a_result_job_of_several_threads_has_one_for_linear_algebra():
    rules = [
        rule for path in (REPOSITORY / "workflow" / "rules").glob("*.smk") for rule in path.read_text().split("\nrule ")
    ]
    several = [
        rule
        for rule in rules
        if re.search(r"^    threads: ", rule, re.MULTILINE)
        and re.search("{input.checkpoint}|{OPTIONS_OF_FITTED}", rule)
    ]
    assert several
    for rule in several:
        assert "OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 exec python" in rule


SCRIPTS = [*(REPOSITORY / "scripts").rglob("*.py")]

VAGUE = re.compile(r"_?(?:of_\w+|one|made|said|told|asked|heard)")


def definitions(kind: type[ast.AST] | tuple[type[ast.AST], ...]) -> list[tuple[str, str]]:
    """The names of all classes or functions of scripts/, each with its file."""
    return [
        (node.name, path.relative_to(REPOSITORY / "scripts").as_posix())
        for path in SCRIPTS
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, kind)
    ]


def test_a_class_name_has_one_meaning():
    files: dict[str, list[str]] = {}
    for name, file in definitions(ast.ClassDef):
        files.setdefault(name, []).append(file)
    several = {name: found for name, found in files.items() if len(found) > 1}
    assert several == {}


def test_names_of_functions_are_verbs_or_nouns():
    """`of_levels` or `said` do not tell what a function returns."""
    found = [
        f"{file}: {name}"
        for name, file in definitions((ast.FunctionDef, ast.AsyncFunctionDef))
        if VAGUE.fullmatch(name)
    ]
    assert not found


def glossary() -> list[tuple[list[str], str, str]]:
    """The terms of each entry of the glossary, their meaning, and what has this name in the code."""
    lines = (REPOSITORY / "docs" / "glossary.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split(" |")] for line in lines if line.startswith("| ")]
    return [(re.sub(r" \(.*?\)", "", terms).split(", "), meaning, code.strip("`")) for terms, meaning, code in rows[1:]]


def test_the_glossary_names_what_is_in_the_code():
    entries = glossary()
    assert len(entries) > 100
    for _, _, code in entries:
        if not code:
            continue
        module, _, name = code.rpartition(".")
        if (PACKAGE / f"{code.replace('.', '/')}.py").is_file() or (PACKAGE / code).is_dir():
            continue
        tree = ast.parse((PACKAGE / f"{module.replace('.', '/')}.py").read_text())
        defined = {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
        defined |= {
            target.id
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if hasattr(target, "id")
        }
        assert name in defined, code


def test_a_class_with_the_name_of_a_term_is_what_the_glossary_means():
    terms = {term.lower(): code for terms, _, code in glossary() for term in terms}
    for name, file in definitions(ast.ClassDef):
        words = " ".join(re.findall(r"[A-Z][a-z0-9]*", name)).lower()
        if words in terms and name[0] != "_":
            assert terms[words] == file.removeprefix("tfglm/").removesuffix(".py").replace("/", ".") + f".{name}", name


def test_the_terms_of_the_glossary_are_used():
    folders = {"scripts": {".py", ".j2", ".txt"}, "workflow": {".smk"}, "docs": {".md"}, "config": {".yaml", ".md"}}
    texts = [
        path.read_text()
        for folder, suffixes in folders.items()
        for path in (REPOSITORY / folder).rglob("*")
        if path.suffix in suffixes and path.name != "glossary.md"
    ]
    text = re.sub(r"\s+#?\s*", " ", " ".join([*texts, (REPOSITORY / "README.md").read_text()])).lower()
    entries = glossary()
    unused = [term for terms, _, _ in entries for term in terms if not re.search(rf"\b{re.escape(term.lower())}", text)]
    assert unused == []
