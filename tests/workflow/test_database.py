"""Rows of a PostgreSQL database as an input file. The tests start a server on this machine, from Debian's `postgresql`;
TFGLM_REQUIRE_POSTGRESQL=1 makes a missing one a failure."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from adbc_driver_postgresql import dbapi
from pyarrow import parquet

from runs import ENVIRONMENT, planned, read_json, snakemake, succeed
from tfglm.data.databases import fetch
from tfglm.errors import UserError

PASSWORD = "nobody-should-read-this"
ROWS = """CREATE TABLE sales AS SELECT i AS id, i % 7 / 2.0::numeric AS sold, i::numeric / 3 AS third, chr(65 + i % 3)::char(1) AS
  shop, i % 2 = 0 AS open, date '2026-01-01' + i % 30 AS day, time '07:41' AS at, timestamptz '2026-03-01 12:00+02' AS seen,
  '{"a": 1}'::jsonb AS more, CASE WHEN i > 9 THEN i END::float4 AS late, gen_random_uuid() AS key
  FROM generate_series(1, 90) i"""


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    """The address of a database with a table `sales`. Its password is in the environment."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not programs:
        required = os.environ.get("TFGLM_REQUIRE_POSTGRESQL") == "1"
        (pytest.fail if required else pytest.skip)("no postgres here: apt-get install postgresql")
    # PostgreSQL does not run as root, and no other user enters the folders of pytest.
    who = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.getuid() == 0 else {}
    with tempfile.TemporaryDirectory(prefix="tfglm-postgresql-") as name:
        folder = Path(name)
        (folder / "password").write_text(PASSWORD)
        if who:
            shutil.chown(folder, "postgres", "postgres")
        yield from served(folder, programs[-1], who)


def served(folder: Path, programs: Path, who: dict) -> Iterator[str]:
    """The address of the database in `folder`, until the server ends."""
    data = ["-D", str(folder / "data")]
    start = [programs / "initdb", *data, "-A", "scram-sha-256", "-U", "clerk", f"--pwfile={folder / 'password'}"]
    subprocess.run([*start, "--no-sync"], check=True, stdout=subprocess.DEVNULL, cwd="/", **who)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off"]
    log = (folder / "log").open("w")
    server = subprocess.Popen(
        [programs / "postgres", *data, "-p", str(port), *settings], stdout=log, stderr=log, cwd="/", **who
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGPASSWORD", PASSWORD)
        patch.setitem(ENVIRONMENT, "PGPASSWORD", PASSWORD)
        address = f"postgresql://clerk@127.0.0.1:{port}/postgres"
        try:
            connected(address, server, folder / "log").close()
            yield address
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(30)


def connected(address: str, server: subprocess.Popen, log: Path):
    """A connection, once the server takes it. The table is there then."""
    for _ in range(300):
        assert server.poll() is None, log.read_text()
        try:
            connection = dbapi.connect(address)
        except dbapi.Error:
            time.sleep(0.1)
            continue
        with connection.cursor() as cursor:
            cursor.execute(ROWS)
        connection.commit()
        return connection
    raise AssertionError(log.read_text())


def configure(folder: Path, address: str, query: str) -> None:
    (folder / "config").mkdir(exist_ok=True)
    columns = {"sold": "number", "shop": "string", "open": "integer", "day": "date"}
    (folder / "sales.layout.yaml").write_text(yaml.safe_dump({"columns": columns}))
    data = {
        "files": [{"path": address, "query": query, "name": "sales"}],
        "layout": "sales.layout.yaml",
        "columns": list(columns),
        "split": {"train": "TRUE"},
    }
    models = {"sold": {"family": "gaussian", "formula": "sold ~ shop + open + day"}}
    config = {"results": "results/flights", "data": data, "models": models, "cluster": {"strategy": "one_device"}}
    (folder / "config" / "config.yaml").write_text(yaml.safe_dump(config))


def test_rows_of_a_query_are_fetched_once_and_again_if_it_changes(database, tmp_path):
    fit = "results/flights/models/sold/fit.json"
    configure(tmp_path, database, "SELECT *\nFROM sales WHERE shop <> '{x}' AND id <= 60 -- 'all' of them\n;")
    printed = succeed(tmp_path, "--verbose", fit)
    assert read_json(tmp_path, "models", "sold", "fit.json")["rows"] == 60
    assert planned(tmp_path, fit) == {}
    configure(tmp_path, database, "SELECT * FROM sales")
    assert planned(tmp_path, fit)["fetch"] == 1
    printed += succeed(tmp_path, fit)
    assert read_json(tmp_path, "models", "sold", "fit.json")["rows"] == 90
    configure(tmp_path, database, "SELECT * FROM purchases")
    failed = snakemake(tmp_path, fit)
    assert failed.returncode == 1 and 'relation "purchases" does not exist' in failed.stdout
    texts = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(PASSWORD.encode() in text for text in [*texts, printed.encode(), failed.stdout.encode()])


def test_values_arrive_as_the_database_has_them(database, tmp_path):
    fetch(database, "TABLE sales ORDER BY id", tmp_path / "sales.parquet")
    table = parquet.read_table(tmp_path / "sales.parquet")
    assert table["third"].to_pylist() == [number / 3 for number in range(1, 91)]
    assert table["sold"].to_pylist() == [number % 7 / 2 for number in range(1, 91)]
    assert table["late"].null_count == 9 and str(table["open"].type) == "bool"
    first = table.slice(0, 1).to_pylist()[0]
    assert (first["shop"], first["day"].isoformat(), first["more"]) == ("B", "2026-01-02", '{"a": 1}')
    assert first["seen"].isoformat() == "2026-03-01T10:00:00+00:00" and len(first["key"]) == 36


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT id, sold AS id FROM sales", "two columns `id`"),
        ("SELECT id, ARRAY[1, id] AS both FROM sales", "column `both` has a type that no layout has"),
        ("SELECT INTERVAL '1 day' AS span", "column `span` has a type that no layout has"),
        ("INSERT INTO sales (id) VALUES (0) RETURNING id", "read-only transaction"),
        ("SELECT 1; SELECT 2", "multiple commands"),
        ("SELECT 1 / (id - 50) FROM sales", "division by zero"),
    ],
)
def test_a_query_that_is_not_usable_is_refused(database, tmp_path, query, words):
    with pytest.raises(UserError, match=words) as refusal:
        fetch(database, query, tmp_path / "sales.parquet")
    assert PASSWORD not in str(refusal.value) and "postgresql://***@127.0.0.1" in str(refusal.value)


def test_no_server_no_password(database, tmp_path, monkeypatch):
    with pytest.raises(UserError, match="Connection refused"):
        fetch("postgresql://clerk@127.0.0.1:1/postgres", "SELECT 1", tmp_path / "sales.parquet")
    monkeypatch.delenv("PGPASSWORD")
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))
    with pytest.raises(UserError, match="no password supplied"):
        fetch(database, "SELECT 1", tmp_path / "sales.parquet")
