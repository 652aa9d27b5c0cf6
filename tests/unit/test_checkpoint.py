"""Checkpoints that TensorFlow or tfglm writes, read by both."""

from pathlib import Path

import numpy as np
import pytest

from tfglm import bundle
from tfglm.errors import UserError

ARRAYS = {
    "matrix": np.arange(6, dtype=np.float64).reshape(2, 3),
    "matrix/empty": np.zeros((0, 3)),
    "matrix/without_columns": np.zeros((2, 0)),
    "number": np.float64(-0.0),
    "not_finite": np.array([np.nan, np.inf, -np.inf, 5e-324]),
    "whole": np.array([-(2**63), 2**63 - 1]),
    "größe[ü, (x)]": np.array([1.5], np.float32),
    **{f"types/{name}": np.array([0, 1], name) for name in ("int32", "int16", "int8", "uint8", "bool", "float16")},
    **{f"types/{name}": np.array([0, 1], name) for name in ("uint16", "uint32", "uint64", "complex64", "complex128")},
    # More names than the table's blocks of 4 KiB have room for.
    **{f"many/{place:04d}": np.full(place % 3, place) for place in range(700)},
}


def written_by_tensorflow(arrays: dict, prefix: Path) -> None:
    import tensorflow as tf

    tensors = [tf.constant(np.asarray(array)) for array in arrays.values()]
    tf.raw_ops.SaveV2(
        prefix=str(prefix), tensor_names=list(arrays), shape_and_slices=[""] * len(arrays), tensors=tensors
    )


WRITERS = {"tensorflow": written_by_tensorflow, "tfglm": bundle.write}


@pytest.fixture(params=WRITERS)
def prefix(request, tmp_path: Path) -> Path:
    WRITERS[request.param](ARRAYS, tmp_path / "some")
    return tmp_path / "some"


def test_every_array_is_as_tensorflow_reads_it(prefix):
    import tensorflow as tf

    arrays, reader = bundle.read(prefix), tf.train.load_checkpoint(str(prefix))
    assert arrays.keys() == reader.get_variable_to_shape_map().keys() == ARRAYS.keys()
    for name, array in arrays.items():
        expected = reader.get_tensor(name)
        assert (np.dtype(array.dtype), np.shape(array)) == (np.dtype(expected.dtype), np.shape(expected)), name
        assert type(array) is type(expected), name
        assert array.tobytes() == expected.tobytes() == ARRAYS[name].tobytes(), name


def test_a_large_array_that_is_no_block_of_memory_keeps_its_numbers(tmp_path):
    import tensorflow as tf

    array = np.random.default_rng(0).normal(size=(300, 1001))[:, ::3].T
    bundle.write({"x": array, "one": 1.5, "whole": 7}, tmp_path / "some")
    reader = tf.train.load_checkpoint(str(tmp_path / "some"))
    assert (reader.get_tensor("x") == array).all() and (bundle.read(tmp_path / "some")["x"] == array).all()
    assert reader.get_tensor("one") == 1.5 and reader.get_tensor("whole") == 7
    path = tmp_path / "some.data-00000-of-00001"
    path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:])
    with pytest.raises(tf.errors.OpError, match="Checksum does not match"):
        tf.train.load_checkpoint(str(tmp_path / "some")).get_tensor("one")


def test_arrays_in_several_files_are_found(tmp_path):
    import tensorflow as tf

    for place in range(2):
        written_by_tensorflow({f"from/{place}": np.arange(3.0) + place}, tmp_path / f"part-{place}")
    tf.raw_ops.MergeV2Checkpoints(
        checkpoint_prefixes=[str(tmp_path / f"part-{place}") for place in range(2)],
        destination_prefix=str(tmp_path / "all"),
    )
    assert len(list(tmp_path.glob("all.data-*-of-00002"))) == 2
    arrays = bundle.read(tmp_path / "all")
    assert {name: array.tolist() for name, array in arrays.items()} == {"from/0": [0, 1, 2], "from/1": [1, 2, 3]}


@pytest.mark.parametrize("name", ["some.index", "some.data-00000-of-00001"])
def test_a_file_that_is_cut_or_missing_is_named(prefix, name):
    path = prefix.with_name(name)
    content = path.read_bytes()
    for size in (0, 10, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises(UserError, match=rf"^{path}: the checkpoint .*\n  delete {prefix.parent}; "):
            bundle.read(prefix)
    path.unlink()
    with pytest.raises(UserError, match=rf"^{path}: cannot be read: No such file"):
        bundle.read(prefix)


@pytest.mark.slow
def test_a_table_with_any_byte_changed_gives_arrays_or_an_error_that_names_a_file(tmp_path):
    written_by_tensorflow({"number": np.float64(1), "matrix": np.ones((2, 3))}, tmp_path / "some")
    path = tmp_path / "some.index"
    content, refused = path.read_bytes(), 0
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :])
        try:
            bundle.read(tmp_path / "some")
        except UserError as error:
            assert str(error).startswith(str(tmp_path / "some."))
            refused += 1
    assert refused > len(content) / 3


def test_what_is_no_array_of_numbers_is_refused(tmp_path):
    import tensorflow as tf

    written_by_tensorflow({"names": np.array([b"a", b"bc"], object)}, tmp_path / "texts")
    with pytest.raises(
        UserError, match=r"texts\.index: the checkpoint cannot be read: the values of `names` are no numbers"
    ):
        bundle.read(tmp_path / "texts")
    tf.raw_ops.SaveV2(
        prefix=str(tmp_path / "slices"),
        tensor_names=["x"],
        shape_and_slices=["4 0,2"],
        tensors=[tf.constant([1.0, 2.0])],
    )
    with pytest.raises(UserError, match=r"slices\.index: .* is stored in slices"):
        bundle.read(tmp_path / "slices")


def test_compressed_blocks_and_big_endian_numbers_are_refused(prefix):
    path = prefix.with_name("some.index")
    content = path.read_bytes()
    # The kind of compression of the last block, before its checksum and the footer.
    path.write_bytes(content[:-53] + b"\1" + content[-52:])
    with pytest.raises(UserError, match=r"some\.index: the checkpoint cannot be read: its blocks are compressed"):
        bundle.read(prefix)
    # The first value is the header: one file, [little-endian,] and which version has written it.
    path.write_bytes(content.replace(b"\x08\1\x1a\2\x08\1", b"\x08\1\x10\1\x18\1", 1))
    with pytest.raises(UserError, match=r"some\.index: the checkpoint cannot be read: its numbers are big-endian"):
        bundle.read(prefix)
