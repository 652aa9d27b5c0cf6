"""A file that changes while it is read is refused; later its content decides whether it is the one that was read."""

import bz2
import gzip
import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tfglm.config import Layout, SelectionConfig, load_layout
from tfglm.data import editions
from tfglm.data.editions import FileStatus, Record, edition_of
from tfglm.data.ingest import ingest
from tfglm.errors import UserError

LAYOUT = Layout.model_validate({"columns": {"delay": "number", "carrier": "string"}})
TABLE = SelectionConfig.model_validate({"split": {"train": "TRUE"}, "columns": ["delay", "carrier"]})
IMAGES = SelectionConfig.model_validate({"split": {"train": "TRUE"}, "columns": ["label"]})


def frame(rows: int) -> pl.DataFrame:
    return pl.DataFrame({"delay": np.arange(rows) + 0.5, "carrier": np.array(["AA", "BB"])[np.arange(rows) % 2]})


def as_csv(rows: int) -> bytes:
    return frame(rows).write_csv().encode()


def as_zip(rows: int) -> bytes:
    with zipfile.ZipFile(packed := io.BytesIO(), "w") as archive:
        archive.writestr("a.csv", as_csv(rows))
    return packed.getvalue()


def as_parquet(rows: int) -> bytes:
    frame(rows).write_parquet(written := io.BytesIO())
    return written.getvalue()


def as_images(rows: int) -> bytes:
    np.savez(written := io.BytesIO(), images=np.zeros((rows, 2, 2), np.uint8), labels=np.arange(rows))
    return written.getvalue()


CONTENTS = {
    "a.csv": as_csv,
    "a.csv.gz": lambda rows: gzip.compress(as_csv(rows)),
    "a.csv.bz2": lambda rows: bz2.compress(as_csv(rows)),
    "a.zip": as_zip,
    "a.parquet": as_parquet,
    "a.npz": as_images,
}


def in_its_place(path: Path, content: bytes) -> None:
    """As `mv`."""
    other = path.with_name("other")
    other.write_bytes(content)
    os.utime(other, ns=(0, path.stat().st_mtime_ns))
    other.replace(path)


def overwritten(path: Path, content: bytes) -> None:
    """As `cp -p`."""
    modified = path.stat().st_mtime_ns
    path.write_bytes(content)
    os.utime(path, ns=(0, modified))


def read(path: Path, meanwhile: Callable[[], None] = lambda: None, edition: int = 0):
    """Ingest; `meanwhile` is called when the header has been read, before the rows."""
    layout, settings = (load_layout("images"), IMAGES) if path.suffix == ".npz" else (LAYOUT, TABLE)

    def log(message: str) -> None:
        if "column" in message:
            meanwhile()

    return ingest(path, "a", {"layout": layout}, settings, path.parent / "out", log=log, edition=edition)


@pytest.mark.parametrize("replace", [in_its_place, overwritten])
@pytest.mark.parametrize("rows", [40, 90], ids=["shrinks", "grows"])
@pytest.mark.parametrize("name", CONTENTS)
def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path, name, rows, replace):
    path = tmp_path / name
    path.write_bytes(CONTENTS[name](60))
    with pytest.raises(UserError, match=rf"{name}: the file changed while it was read\n  run snakemake again"):
        read(path, lambda: replace(path, CONTENTS[name](rows)))
    assert not (tmp_path / "out").exists()
    assert read(path).read == rows


def test_a_file_that_becomes_unreadable_meanwhile_is_called_changed(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(as_csv(60))
    with pytest.raises(UserError, match="the file changed while it was read"):
        read(path, lambda: path.write_text("delay,carrier\nAA\n"))
    with pytest.raises(UserError, match=r"a.csv, line 2: "):
        read(path)


def test_a_touch_meanwhile_is_no_change(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(as_csv(60))
    assert read(path, path.touch).read == 60
    assert edition_of(path, tmp_path / "out" / editions.RECORD, tmp_path / "out" / "manifest.json") == (0, True)


@pytest.mark.parametrize("replace", [in_its_place, overwritten])
@pytest.mark.parametrize("name", CONTENTS)
def test_the_content_says_whether_a_file_is_the_one_that_was_read(tmp_path, name, replace, monkeypatch):
    path, out = tmp_path / name, tmp_path / "out"
    good, other = CONTENTS[name](60), CONTENTS[name](60).replace(b"AA", b"CC").replace(b"\x3b", b"\x3c")
    other = other if other != good else CONTENTS[name](61)
    path.write_bytes(good)
    manifest = read(path)
    looked = [path, out / editions.RECORD, out / "manifest.json"]
    summed = []
    monkeypatch.setattr(editions, "checksum_of", lambda path, of=editions.checksum_of: summed.append(path) or of(path))
    assert edition_of(*looked) == (0, True) and not summed
    replace(path, good)
    assert edition_of(*looked) == (0, True) and len(summed) == 1
    assert edition_of(*looked) == (0, True) and len(summed) == 1, "the record is renewed"
    replace(path, other)
    assert edition_of(*looked) == edition_of(*looked) == (1, False)
    replace(path, good)
    assert edition_of(*looked) == (0, True)
    replace(path, other)
    if name == "a.csv":
        assert read(path, edition=1).digest != manifest.digest
        assert edition_of(*looked) == (1, True)
        replace(path, good)
        assert edition_of(*looked) == (2, False)


def test_a_link_is_what_it_leads_to(tmp_path):
    path, link, record = tmp_path / "a.csv", tmp_path / "link.csv", tmp_path / "record"
    path.write_text("a\n1\n")
    (tmp_path / "b.csv").write_text("a\n2\n")
    link.symlink_to("a.csv")
    Record(FileStatus.of(link), editions.checksum_of(link), 0).write(record)
    assert edition_of(link, record, path) == (0, True)
    link.unlink()
    link.symlink_to("b.csv")
    assert edition_of(link, record, path) == (1, False)


@pytest.mark.parametrize("damage", [b"", b"{}", b"[1]", b'{"state": {"size": 1}, "xxh128": "", "edition": 0}', None])
def test_without_a_record_what_was_made_is_not_trusted(tmp_path, damage):
    path, record, made = tmp_path / "a.csv", tmp_path / "record", tmp_path / "made"
    path.write_text("a\n1\n")
    if damage is not None:
        record.write_bytes(damage)
    assert edition_of(path, record, made) == (0, False)
    made.touch()
    edition, same = edition_of(path, record, made)
    assert edition == made.stat().st_mtime_ns and not same
