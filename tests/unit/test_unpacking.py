"""Packed files hold what the standard library says they hold, or are refused with the place of what is wrong."""

import bz2
import gzip
import io
from pathlib import Path

import numpy as np
import pytest

from tfglm.data import unpacking
from tfglm.data.packing import opened, reported
from tfglm.errors import UserError

TEXT = b"".join(b"%d,AA,%d\n" % (number, number**2 % 8191) for number in range(40_000))
STREAM = bz2.compress(TEXT, 1)  # of several blocks
EMPTY = bz2.compress(b"")
END = f"{len(STREAM):,}"


def content(folder: Path, packed: bytes, threads: int = 1) -> bytes:
    path = folder / "flights.csv"
    path.write_bytes(packed)
    with opened(path, threads) as stream, reported(path):
        return stream.read()


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_bz2_file_may_have_several_streams_and_empty_ones_and_zeros_behind(tmp_path, threads):
    assert len(TEXT) > 300_000
    for packed in (
        *(STREAM, STREAM + bz2.compress(TEXT), EMPTY, EMPTY + STREAM, STREAM + EMPTY + STREAM),
        *(STREAM + EMPTY, STREAM + EMPTY * 20_000 + bytes(300_000)),
    ):
        assert content(tmp_path, packed, threads) == bz2.decompress(packed.rstrip(b"\0") + bytes(4))


WRONG = {
    "some text": (STREAM + b"some text", f"(something else follows its compressed data, after byte {END})"),
    "text behind zeros": (
        STREAM + bytes(9) + b"text",
        f"(something else follows its compressed data, after byte {len(STREAM) + 9:,})",
    ),
    "half an empty stream": (STREAM + EMPTY[:-2], "after byte"),
    "half a block": (STREAM[: len(STREAM) // 2], "(its compressed data end, or make no sense, after byte"),
    "no end": (STREAM[:-9], "(its compressed data end, or make no sense, after byte"),
    "a wrong checksum": (STREAM[:-5] + bytes(5), "(its compressed data end, or make no sense, after byte"),
    **{f"{size} bytes of a stream": (STREAM[:size], "after byte") for size in (4, 6, 9, 13, 40)},
    **{f"{size} bytes of another stream": (STREAM + STREAM[:size], "after byte") for size in (1, 3, 5, 10, 14, 40)},
}


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("what", WRONG)
def test_a_bz2_file_that_is_cut_or_goes_on_is_refused_with_its_place(tmp_path, what, threads):
    packed, message = WRONG[what]
    with pytest.raises(UserError) as error:
        content(tmp_path, packed, threads)
    assert str(error.value).startswith(f"{tmp_path / 'flights.csv'}: is damaged or cut short and cannot be unpacked (")
    assert message in str(error.value) and str(error.value).endswith("\n  fetch the file again")


@pytest.mark.parametrize("threads", [1, 2])
def test_a_flipped_bit_of_a_bz2_file_is_seen(tmp_path, threads):
    random = np.random.default_rng(4)
    for at in random.integers(4, len(STREAM), 10):
        packed = bytearray(STREAM)
        packed[at] ^= 1 << int(random.integers(8))
        with pytest.raises(UserError, match=r"cannot be unpacked \(.*after byte"):
            content(tmp_path, bytes(packed), threads)


def member(text: bytes, level: int = 6) -> bytes:
    """With a name and a time, as `gzip` writes it."""
    stream = io.BytesIO()
    with gzip.GzipFile("2006.csv", "wb", level, stream) as file:
        file.write(text)
    return stream.getvalue()


@pytest.mark.parametrize("at_once", [1, 7, 1000])
def test_members_of_a_gz_file_may_end_anywhere(tmp_path, monkeypatch, at_once):
    monkeypatch.setattr(unpacking, "AT_ONCE", at_once)
    random = np.random.default_rng(4)
    texts = [TEXT[: random.integers(0, 300)] for _ in range(60)]
    packed = b"".join(member(text, int(random.integers(10))) + bytes(int(random.integers(3))) for text in texts)
    assert content(tmp_path, packed) == b"".join(texts)


@pytest.mark.slow
@pytest.mark.parametrize("level", [0, 1, 9])
def test_a_damaged_gz_file_is_refused_with_its_place(tmp_path, level):
    random = np.random.default_rng(4)
    whole = member(TEXT, level)
    for at in random.integers(20, len(whole) - 1, 20):
        flipped = bytearray(whole)
        flipped[at] ^= 1 << int(random.integers(8))
        for packed in (bytes(flipped), whole[:at], whole + whole[:at]):
            with pytest.raises(UserError, match=r"cannot be unpacked \(.*after byte .*\)\n  fetch the file again"):
                content(tmp_path, packed)
