"""Files in a storage, which a plugin of Snakemake fetches: an S3 server of the tests."""

import io
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
import yaml
from moto.server import ThreadedMotoServer

from runs import ENVIRONMENT, REPOSITORY, jobs_in, planned, read_json, read_table, snakemake, succeed

SECRET = "nobody-should-read-this"
ROWS = "sold,shop\n" + "3.5,A\n4.5,B\n1.5,A\n2.5,B\n" * 9


@pytest.fixture
def bucket(monkeypatch) -> Iterator:
    """A bucket `sales` of a server on this machine, which Snakemake has the keys to."""
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    keys = {"ACCESS_KEY": "user", "SECRET_KEY": SECRET, "ENDPOINT_URL": f"http://{host}:{port}", "REGION": "us-east-1"}
    for name, value in keys.items():
        monkeypatch.setitem(ENVIRONMENT, f"SNAKEMAKE_STORAGE_S3_{name}", value)
    as_user = {"aws_access_key_id": "user", "aws_secret_access_key": SECRET, "region_name": "us-east-1"}
    bucket = boto3.resource("s3", endpoint_url=f"http://{host}:{port}", **as_user).Bucket("sales")
    bucket.create()
    yield bucket
    server.stop()


def configure(folder: Path, *files: str | dict) -> None:
    (folder / "config").mkdir(exist_ok=True)
    (folder / "sales.layout.yaml").write_text("columns: {sold: number, shop: string}\n")
    data = {
        "files": list(files),
        "layout": "sales.layout.yaml",
        "columns": ["sold", "shop"],
        "split": {"train": "TRUE"},
    }
    models = {"sold": {"family": "gaussian", "formula": "sold ~ shop"}}
    config = {"results": "results/flights", "data": data, "models": models, "cluster": {"strategy": "one_device"}}
    (folder / "config" / "config.yaml").write_text(yaml.safe_dump(config))


def test_objects_of_a_storage_are_fetched_once_and_again_when_they_change(bucket, tmp_path):
    bucket.put_object(Key="years/2007.csv", Body=ROWS.encode())
    bucket.put_object(Key="years/2008.csv", Body=ROWS.encode())
    bucket.put_object(Key="years/read.me", Body=b"Sales of all years.")
    configure(tmp_path, "s3://sales/years/*.csv")
    fit = "results/flights/models/sold/fit.json"
    printed = succeed(tmp_path, "--verbose", fit)
    assert read_json(tmp_path, "models", "sold", "fit.json")["rows"] == 72
    assert (tmp_path / "results/data/fetched/2007.csv").read_text() == ROWS
    assert not [*(tmp_path / ".snakemake" / "storage").rglob("*.csv")], "a second copy"
    assert planned(tmp_path, fit) == {}
    # Times in S3 are whole seconds.
    time.sleep(1.1)
    bucket.put_object(Key="years/2008.csv", Body=(ROWS + "9.5,A\n").encode())
    assert planned(tmp_path, fit)["fetch"] == 1
    printed += succeed(tmp_path, fit)
    assert read_json(tmp_path, "models", "sold", "fit.json")["rows"] == 73
    bucket.put_object(Key="years/2009.csv", Body=ROWS.encode())
    assert planned(tmp_path, fit)["fetch"] == 1
    configure(tmp_path, "s3://nobody/years/*.csv")
    unknown = snakemake(tmp_path, "--dry-run", fit)
    assert "`s3://nobody/years/`: the storage cannot be listed: An error occurred (NoSuchBucket)" in unknown.stdout
    configure(tmp_path, "s3://sales/years/2009.csv", "s3://sales/years/2010.csv")
    missing = snakemake(tmp_path, fit)
    assert missing.returncode == 1 and "s3://sales/years/2010.csv" in missing.stdout
    texts = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(SECRET.encode() in text for text in [*texts, f"{printed}{unknown}{missing}".encode()])


def test_an_address_that_no_plugin_takes_is_refused(tmp_path):
    configure(tmp_path, "gs://sales/2007.csv")
    refused = snakemake(tmp_path, "--dry-run")
    assert refused.returncode == 1
    assert "data.files: `gs://sales/2007.csv`: No storage provider found for query" in refused.stdout
    assert "install the plugin beside Snakemake" in refused.stdout


WITHOUT_SHARED_FILES = [
    *("--executor", "standin", "--jobs", "1", "--seconds-between-status-checks", "1"),
    *("--default-storage-provider", "s3", "--default-storage-prefix", "s3://sales/run"),
]


def test_without_a_shared_file_system_a_run_is_one_job(bucket, tmp_path):
    pods, here = tmp_path / "pods", tmp_path / "checkout"
    for name in ("scripts", "workflow"):
        shutil.copytree(REPOSITORY / name, here / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPOSITORY / "Snakefile", here)
    configure(here, "data/*.csv", "s3://sales/years/2008.csv")
    (here / "data").mkdir()
    (here / "data" / "-2007 'spring'.csv").write_text(ROWS)
    bucket.put_object(Key="years/2008.csv", Body=ROWS.encode())
    pods.mkdir()
    subprocess.run(["git", "init", "--quiet", here], check=True)

    def run(*options: str) -> subprocess.CompletedProcess:
        environment = {**ENVIRONMENT, "PYTHONPATH": str(REPOSITORY / "tests" / "plugins"), "PODS": str(pods)}
        line = [sys.executable, "-m", "snakemake", *WITHOUT_SHARED_FILES, *options]
        return subprocess.run(line, cwd=here, env=environment, capture_output=True, text=True)

    def unpacked(name: str) -> Path:
        (tmp_path / name).mkdir()
        packed = bucket.Object("run/results/flights.tar.gz").get()["Body"].read()
        with tarfile.open(fileobj=io.BytesIO(packed)) as files:
            files.extractall(tmp_path / name, filter="data")
        return tmp_path / name

    untracked = run()
    assert untracked.returncode == 1 and "Snakemake sends to its jobs what git tracks" in untracked.stderr
    subprocess.run(["git", "-C", here, "add", "Snakefile", "workflow", "scripts"], check=True)
    done = run()
    assert done.returncode == 0, done.stderr + "".join(path.read_text() for path in pods.glob("*.out"))
    assert "The results are in s3://sales/run/results/flights.tar.gz" in done.stdout
    first = unpacked("first")
    assert read_json(first, "models", "sold", "fit.json")["rows"] == 72
    estimates = read_table(first, "sold")["estimate"]
    assert list(estimates) == [2.5, 0.0, 1.0]
    assert "snakemake --cores 4 --configfile config/config.yaml</" in (first / "results/flights/index.html").read_text()
    assert (first / "logs/flights/models/sold/fit.log").exists()
    assert not (here / "results").exists() and not [*here.rglob("one_job.*/"), *pods.rglob("one_job.*/")]
    assert jobs_in(run("--dry-run").stdout) == {}
    # Only what has changed is sent again.
    configure(here, "data/*.csv", {"path": "s3://sales/years/2008.csv", "sha256": 64 * "a"})
    assert jobs_in(run("--dry-run").stdout) == {"pack": 1, "run_in_one_job": 1}
    failed = run()
    assert failed.returncode == 1 and "its log: s3://sales/run/results/flights.log" in failed.stderr
    assert "its sha256 is" in bucket.Object("run/results/flights.log").get()["Body"].read().decode()
    texts = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    stored = [entry.get()["Body"].read() for entry in bucket.objects.all()]
    assert not any(SECRET.encode() in text for text in [*texts, *stored, f"{done} {failed}".encode()])


@pytest.mark.parametrize("name", ["/elsewhere/2007.csv", "../2007.csv", "{2007}.csv"])
def test_a_file_that_the_one_job_would_not_find_is_refused(name, tmp_path):
    here = tmp_path / "run"
    here.mkdir()
    file = f"{tmp_path}{name}" if name.startswith("/") else name
    (here / file).parent.mkdir(exist_ok=True)
    (here / file).write_text(ROWS)
    configure(here, file)
    refused = snakemake(here, *WITHOUT_SHARED_FILES[6:], "--dry-run")
    assert refused.returncode == 1
    assert f"`{file}`: " in refused.stdout and ("link" in refused.stdout or "rename it" in refused.stdout)


def test_a_module_without_a_shared_file_system_is_refused(tmp_path):
    (tmp_path / "2007.csv").write_text(ROWS)
    configure(tmp_path, "2007.csv")
    module = f'module tfglm:\n    snakefile: "{REPOSITORY}/workflow/Snakefile"\n    config: config\n'
    (tmp_path / "Snakefile").write_text(f'configfile: "config/config.yaml"\n{module}\nuse rule * from tfglm\n')
    asked = [*WITHOUT_SHARED_FILES[6:], "--dry-run"]
    refused = snakemake(tmp_path, "--snakefile", str(tmp_path / "Snakefile"), *asked)
    assert refused.returncode == 1
    assert "--default-storage-provider: the jobs of these rules read each other's shards" in refused.stdout
