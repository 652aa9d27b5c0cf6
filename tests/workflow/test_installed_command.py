"""The command `tfglm`, installed from a wheel as for a user without a checkout."""

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from importlib.metadata import PathDistribution
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest

from browser import broken_links
from packages import linked_packages
from runs import REPOSITORY, contents
from tfglm.call import fit

PACKED = (
    "LICENSE",
    "README.md",
    "Snakefile",
    "config",
    "profiles",
    "pyproject.toml",
    "scripts",
    "setup.py",
    "workflow",
)
"""What a wheel is made of."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """A wheel of the files as they are here."""
    folder = tmp_path_factory.mktemp("wheel")
    (folder / "source").mkdir()
    for name in PACKED:
        source, copy = REPOSITORY / name, folder / "source" / name
        if source.is_dir():
            shutil.copytree(source, copy, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*pip, "--wheel-dir", folder, folder / "source"], cwd=folder, check=True)
    (file,) = folder.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def tfglm(wheel, tmp_path_factory) -> Path:
    """The command in a new environment, which borrows the other packages of this one."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib"))
    pip = [sys.executable, "-m", "pip", "--quiet", "--python", folder / "bin" / "python"]
    subprocess.run([*pip, "install", "--no-deps", "--no-index", wheel], check=True)
    return folder / "bin" / "tfglm"


def test_the_wheel_has_the_files_of_the_checkout(wheel):
    with zipfile.ZipFile(wheel) as packed:
        inside = {name: packed.read(name) for name in packed.namelist()}
    places = {f"scripts/{package}": package for package in ("tfglm", "snakemake_logger_plugin_tfglm")}
    places |= {name: f"tfglm/checkout/{name}" for name in ("Snakefile", "workflow", "profiles", "scripts")}
    places["config/layouts"] = "tfglm/layouts"
    for source, place in places.items():
        top = REPOSITORY / source
        files = [top] if top.is_file() else [*top.glob("*.py")] if source == "scripts" else [*top.rglob("*")]
        for file in files:
            if file.is_file() and "__pycache__" not in file.parts:
                assert inside[(Path(place) / file.relative_to(top)).as_posix()] == file.read_bytes(), file
    assert not any(name.split("/")[0] in ("tests", "docs", "scripts", "workflow") for name in inside)


READS = """
import sys, pandas, tfglm
model = tfglm.load("results/sales__all/models/sold_yes")
frame = pandas.DataFrame({"shop": ["a", "b"], "price": [8.0, 9.5]})
print(len(str(model.summary())), *model.predict(frame, interval=0.95).shape, model.tidy().shape[0])
print(model.glance().shape[0], model.vcov().shape[0], model.metrics["rows"] > 0, "snakemake" in sys.modules)
print(model._repr_html_().count("<tr>") - len(model.tidy()))
"""


def assert_the_packages_of_reading_suffice(tfglm: Path, folder: Path, packages: Path) -> None:
    """With the packages that `pip install tfglm` needs and no others, a model is read, and a run is refused."""
    (site,) = tfglm.parent.parent.glob("lib/python*/site-packages")
    (installed,) = site.glob("tfglm-*.dist-info")
    requirements = PathDistribution(installed).requires or []
    linked_packages([each for each in requirements if "extra ==" not in each], packages)
    for name in ("tensorflow", "keras", "snakemake", "matplotlib", "sklearn"):
        assert not (packages / name).exists(), name
    for top in ("tfglm", "snakemake_logger_plugin_tfglm"):
        (packages / top).symlink_to(site / top)
    # -P: not the files of this folder; -S: not the packages of this environment.
    line = [sys.executable, "-S", "-P", "-c"]
    environment = {"PATH": "/usr/bin:/bin", "HOME": os.environ["HOME"], "PYTHONPATH": str(packages)}
    read = subprocess.run([*line, READS], cwd=folder, env=environment, capture_output=True, text=True)
    assert read.returncode == 0, read.stderr
    assert read.stdout.split()[1:] == ["2", "6", "3", "1", "3", "True", "False", "1"], read.stdout
    command = "import sys; from tfglm.console import main; sys.argv[1:] = ['run']; main()"
    refused = subprocess.run([*line, command], cwd=folder, env=environment, capture_output=True, text=True)
    assert refused.returncode == 2 and refused.stderr.endswith("-m pip install 'tfglm[workflow]'\n"), refused.stderr


def call(tfglm: Path, folder: Path, *words: str) -> str:
    """What `tfglm` prints, without the environment of this checkout."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": os.environ["HOME"]}
    line = [tfglm, *words]
    done = subprocess.run(
        line, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_a_file_becomes_tables_and_pages_without_a_checkout(tfglm, tmp_path):
    folder = tmp_path / "my folder"
    folder.mkdir()
    random = np.random.default_rng(5)
    sales = pd.DataFrame({"shop": random.choice(["a", "b"], 400), "price": random.normal(9, 2, 400).round(2)})
    sales["sold"] = np.where(random.random(400) < 1 / (1 + np.exp(sales["price"] - 9)), "yes", "no")
    sales.to_csv(folder / "sales: all.csv", index=False)
    # Files that Python would take for packages, if it looked here.
    for name in ("snakemake.py", "tfglm.py", "numpy.py"):
        (folder / name).write_text("raise SystemExit(3)\n")
    printed = call(tfglm, folder, "init", "sales: all.csv", "--response", "sold")
    assert "Next: tfglm run config/sales__all.yaml" in printed
    printed = call(tfglm, folder, "run", "--cores", "2")
    assert "The page to open: results/sales__all/index.html" in printed
    results = folder / "results" / "sales__all"
    assert "tfglm run config/sales__all.yaml</pre>" in (results / "index.html").read_text()
    assert list(broken_links(sorted(results.rglob("*.html")))) == []
    table = pd.read_csv(results / "models" / "sold_yes" / "coefficients.csv")
    assert set(table["term"]) == {"Intercept", "shop", "price"}
    read = duckdb.read_parquet(str(results / "models" / "sold_yes" / "coefficients.parquet"))
    assert (
        read.columns == list(table.columns)
        and read.limit(1).fetchall()[0][0] == "Intercept"
        and len(read) == len(table)
    )
    for log in (folder / "logs").rglob("*.log"):
        assert str(REPOSITORY) not in log.read_text().replace(sysconfig.get_path("purelib"), ""), log
    assert_the_packages_of_reading_suffice(tfglm, folder, tmp_path / "packages")
    before = contents(results)
    call(tfglm, folder, "report")
    assert contents(results).keys() - before.keys() == {"report.html"}
    assert {name: digest for name, digest in contents(results).items() if name != "report.html"} == before
    formula, table = "log(price) ~ shop + sold", "results/again/models/model/coefficients.csv"
    call(tfglm, folder, "fit", "sales: all.csv", formula, "--config", "config/again.yaml")
    call(tfglm, folder, "run", "config/again.yaml", "--", table)
    fitted = fit(formula, folder / "sales: all.csv")
    assert (folder / table).read_bytes() == (fitted.folder / "coefficients.csv").read_bytes()
    call(tfglm, folder, "clean")
    left = {"config", "sales: all.csv", "snakemake.py", "tfglm.py", "numpy.py"}
    assert {path.name for path in folder.iterdir()} == left
