"""Files in a storage, which a plugin of Snakemake fetches: an S3 server of the tests."""

import time
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
import yaml
from moto.server import ThreadedMotoServer

from runs import ENVIRONMENT, planned, read_json, snakemake, succeed

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


def configure(folder: Path, *files: str) -> None:
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
    files = ["s3://sales/years/2007.csv", "s3://sales/years/2008.csv"]
    configure(tmp_path, *files)
    fit = "results/flights/models/sold/fit.json"
    printed = succeed(tmp_path, "--verbose", fit)
    assert read_json(tmp_path, "models", "sold", "fit.json")["rows"] == 72
    assert (tmp_path / "results/data/fetched/2007.csv").read_text() == ROWS
    assert not [*(tmp_path / ".snakemake" / "storage").rglob("*.csv")], "a second copy"
    assert planned(tmp_path, fit) == {}
    # Times in S3 are whole seconds.
    time.sleep(1.1)
    bucket.put_object(Key="years/2008.csv", Body=(ROWS + "9.5,A\n").encode())
    assert planned(tmp_path, fit)["fetch_from_storage"] == 1
    printed += succeed(tmp_path, fit)
    assert read_json(tmp_path, "models", "sold", "fit.json")["rows"] == 73
    configure(tmp_path, *files, "s3://sales/years/2009.csv")
    missing = snakemake(tmp_path, fit)
    assert missing.returncode == 1 and "s3://sales/years/2009.csv" in missing.stdout
    texts = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(SECRET.encode() in text for text in [*texts, printed.encode(), missing.stdout.encode()])


def test_an_address_that_no_plugin_takes_is_refused(tmp_path):
    configure(tmp_path, "gs://sales/2007.csv")
    refused = snakemake(tmp_path, "--dry-run")
    assert refused.returncode == 1
    assert "data.files: `gs://sales/2007.csv`: No storage provider found for query" in refused.stdout
    assert "install the plugin beside Snakemake" in refused.stdout


def test_results_in_a_storage_are_refused(tmp_path):
    (tmp_path / "2007.csv").write_text(ROWS)
    configure(tmp_path, "2007.csv")
    asked = [
        "--shared-fs-usage",
        "none",
        "--default-storage-provider",
        "s3",
        "--default-storage-prefix",
        "s3://sales/run",
    ]
    refused = snakemake(tmp_path, *asked, "--dry-run")
    assert refused.returncode == 1 and not (tmp_path / "results").exists()
    assert "--default-storage-provider: the jobs of a run read each other's files" in refused.stdout
    assert "run snakemake itself on one machine or in one pod" in refused.stdout
