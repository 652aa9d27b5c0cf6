"""A fitted model as a TensorFlow checkpoint: written by TensorFlow, read without it.

The chief writes a checkpoint that `tf.train.load_checkpoint` opens. Later readers need its arrays and nothing else from
TensorFlow, whose import takes longer than writing a table of coefficients. No Python package was
found that reads it without TensorFlow. So `read` parses the format, which has two kinds of files:

- `<prefix>.index` is a sorted table of keys and values (tensorflow/core/lib/io/table_format.txt). A footer of 48 bytes has
  the position of the index block, which has the positions of the data blocks. A key is stored as its difference from the
  previous key. The value of the key "" is a BundleHeaderProto; the value of a tensor's name is a BundleEntryProto
  (core/protobuf/tensor_bundle.proto).
- `<prefix>.data-?????-of-?????` hold the concatenated bytes of the arrays (core/util/tensor_bundle/tensor_bundle.h).

The checksums inside both kinds are ignored: fit.json has the digests of the files, which are checked before.
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tfglm import digests, tensorflow_setup
from tfglm.design.design import Design
from tfglm.errors import UserError, writing
from tfglm.solvers.fitted import Fitted

PREFIX, NETWORK = "fitted", "network"
"""The first part of the names of the files, for a regression and for a network."""

BY_TERM = ("coefficients", "status", "rows", "responses")
"""Attributes with a variable for each term: `coefficients/<term>` ..."""

COVARIANCE = (
    *("dense", "eliminated", "schur_inverse", "loadings", "diagonal", "null_vectors", "dispersion"),
    *("correction", "meat_dense", "meat_mixed", "meat_diagonal", "scores"),
    *("cluster_scores", "cluster_information", "cluster_design", "cluster_constant", "cluster_rho"),
    *("score_columns", "score_signs", "cluster_sums", "cluster_within", "cluster_sizes", "lags"),
    *("null_schur_inverse", "null_loadings", "null_diagonal", "of_lambda", "penalty", "cluster_penalty"),
    *("random_penalties", "variance_root"),
)
"""Blocks with a variable `covariance/<block>`."""

SEPARATION = ("separating", "separated_rows")
"""Attributes with a variable `separation/<name>`, if terms separate rows together."""

PATH = ("penalties", "coefficients")
"""Attributes with a variable `path/<name>`."""


def save(fitted: Fitted, design: Design, folder: Path) -> None:
    """Write a checkpoint into `folder`. Numbers keep their types: float64 and whole numbers."""
    values = {f"covariance/{name}": getattr(fitted, name) for name in COVARIANCE}
    values |= {f"path/{name}": getattr(fitted, f"path_{name}") for name in PATH}
    if len(fitted.separating):
        values |= {f"separation/{name}": getattr(fitted, name) for name in SEPARATION}
    for name in BY_TERM:
        values |= {f"{name}/{term}": getattr(fitted, name)[where] for term, where in design.slices.items()}
    write(values, folder / PREFIX)
    # The file named "checkpoint", by which tf.train.load_checkpoint(folder) finds the newest prefix.
    (folder / "checkpoint").write_text(
        f'model_checkpoint_path: "{PREFIX}"\nall_model_checkpoint_paths: "{PREFIX}"\n', encoding="utf-8"
    )


def write(values: Mapping[str, Any], prefix: Path) -> None:
    """Write a checkpoint with these numbers and arrays, which `read` reads.

    SaveV2 gives the variables just their names; tf.train.Checkpoint would add the path of a Python object to each, and a
    description of these objects.
    """
    with tensorflow_setup.quiet():
        from tensorflow.python.eager import context
        from tensorflow.python.framework import constant_op, errors_impl
        from tensorflow.python.ops import gen_io_ops

    size = sum(np.asarray(value).nbytes for value in values.values())
    with writing(prefix.parent, size), context.eager_mode():
        tensors = [
            constant_op.constant(np.asarray(value)) for value in values.values()
        ]  # a Python float would be a float32
        prefix.parent.mkdir(parents=True, exist_ok=True)
        try:
            gen_io_ops.save_v2(str(prefix), list(values), [""] * len(values), tensors)
        except errors_impl.OpError as error:
            # Between the name of a function and the name of the operation.
            raise OSError(error.message.rpartition("; ")[2].partition(" [Op:")[0]) from error


def load(design: Design, folder: Path) -> Fitted:
    """Read what `save` wrote. Raises UserError as `read` does, and for a checkpoint of another design."""
    arrays = read(folder / PREFIX)
    try:
        by_term: dict[str, Any] = {
            name: np.concatenate([arrays[f"{name}/{term}"] for term in design.slices]) for name in BY_TERM
        }
        of_path: dict[str, Any] = {f"path_{name}": arrays[f"path/{name}"] for name in PATH}
        covariance: dict[str, Any] = {name: arrays[f"covariance/{name}"] for name in COVARIANCE}
        separation: dict[str, Any] = {"separating": np.zeros((0, design.size))}
        if "separation/separating" in arrays:
            separation = {name: arrays[f"separation/{name}"] for name in SEPARATION}
        return Fitted(**by_term, **of_path, **covariance, **separation)
    except KeyError as error:
        raise UserError(f"{folder}: the checkpoint has no variable {error}\n  {digests.remedy(folder)}") from error


# The format -----------------------------------------------------------------------------------------------------------

MAGIC = 0xDB4775248B80FB57.to_bytes(8, "little")
FOOTER = 48
"""Bytes at the end of an index file: the places of two blocks, padded, and MAGIC."""

TYPES = {1: "<f4", 2: "<f8", 3: "<i4", 4: "|u1", 5: "<i2", 6: "|i1", 8: "<c8", 9: "<i8", 10: "|b1"} | {
    17: "<u2",
    18: "<c16",
    19: "<f2",
    22: "<u4",
    23: "<u8",
}
"""DataType of TensorFlow (core/framework/types.proto) -> dtype of NumPy, for those that have a fixed size."""

SHARDS, BIG_ENDIAN = 1, 2
"""Numbers of fields of a BundleHeaderProto."""

TYPE, SHAPE, SHARD, OFFSET, SIZE, SLICES = 1, 2, 3, 4, 5, 7
"""Fields of a BundleEntryProto; its shape is a TensorShapeProto with the field DIMENSIONS."""

DIMENSIONS = 2


def read(prefix: Path) -> dict[str, np.ndarray]:
    """The arrays of a checkpoint, by name.

    Parameters
    ----------
    prefix
        The path of the checkpoint's files without `.index` and `.data-00000-of-00001`.

    Raises
    ------
    UserError
        Names the file that is missing, damaged, or of a kind that TensorFlow may write and `save` does not: compressed blocks,
        big-endian numbers, strings, variables in slices.
    """
    path = index = prefix.with_name(f"{prefix.name}.index")
    remedy = digests.remedy(prefix.parent)
    arrays = {}
    try:
        entries = dict(_table(index.read_bytes()))
        header = _fields(entries.pop(b""))
        if header.get(BIG_ENDIAN, [0])[0]:
            raise ValueError("its numbers are big-endian")
        for key, value in entries.items():
            path, name = index, key.decode(errors="replace")  # the key of a slice is not text
            entry = _entry(name, _fields(value))
            path = prefix.with_name(f"{prefix.name}.data-{entry.shard:05d}-of-{header[SHARDS][0]:05d}")
            if path.stat().st_size < entry.offset + entry.size:
                raise ValueError(f"it ends before the end of `{name}`")
            array = np.fromfile(path, entry.dtype, entry.size // entry.dtype.itemsize, offset=entry.offset)
            arrays[name] = array.reshape(entry.shape)[()]  # without dimensions: a number
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}\n  {remedy}") from error
    except LookupError as error:
        raise UserError(f"{path}: the checkpoint is damaged\n  {remedy}") from error
    except ValueError as error:
        raise UserError(f"{path}: the checkpoint cannot be read: {error}\n  {remedy}") from error
    return arrays


class _Entry(NamedTuple):
    """The position, type and shape of the bytes of an array."""

    dtype: np.dtype
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int


def _entry(name: str, fields: Mapping[int, list]) -> _Entry:
    """Return the content of a BundleEntryProto. Raises ValueError if it does not describe a whole array of numbers."""
    if fields[TYPE][0] not in TYPES:
        raise ValueError(f"the values of `{name}` are no numbers")
    if SLICES in fields:
        raise ValueError(f"`{name}` is stored in slices")
    dtype = np.dtype(TYPES[fields[TYPE][0]])
    dimensions = _fields(fields[SHAPE][0]).get(DIMENSIONS, [])
    shape = tuple(_fields(dimension).get(1, [0])[0] for dimension in dimensions)
    # A field that is 0 is left out.
    shard, offset, size = (fields.get(number, [0])[0] for number in (SHARD, OFFSET, SIZE))
    if math.prod(shape) * dtype.itemsize != size:
        raise ValueError(f"`{name}` has the shape {shape} and {size} bytes")
    return _Entry(dtype, shape, shard, offset, size)


def _table(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The keys and values of a table, in order."""
    if len(content) < FOOTER or not content.endswith(MAGIC):
        raise ValueError("the file is cut short or is no index of a checkpoint")
    footer = content[-FOOTER:]
    _, place = _handle(footer, 0)  # of the block about blocks, which is empty
    index, _ = _handle(footer, place)
    for _, handle in _block(content, *index):
        block, _ = _handle(handle, 0)
        yield from _block(content, *block)


def _handle(data: bytes, place: int) -> tuple[tuple[int, int], int]:
    """The offset and the size of a block, and the place after them."""
    offset, place = _varint(data, place)
    size, place = _varint(data, place)
    return (offset, size), place


def _block(content: bytes, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    """The keys and values of a block. After its `size` bytes come how it is compressed, one byte, and a checksum."""
    if content[offset + size]:
        raise ValueError("its blocks are compressed")
    block = content[offset : offset + size]
    # At its end is a list of positions of keys that are stored in full, each in 4 bytes, and its length.
    end = size - 4 * (1 + int.from_bytes(block[-4:], "little"))
    key, place = b"", 0
    while place < end:
        shared, place = _varint(block, place)
        further, place = _varint(block, place)
        length, place = _varint(block, place)
        key = key[:shared] + block[place : place + further]
        place += further
        yield key, block[place : place + length]
        place += length


def _fields(message: bytes) -> dict[int, list]:
    """The values of the fields of a protocol buffer, by number: whole numbers, or bytes."""
    fields: dict[int, list] = {}
    place = 0
    value: int | bytes
    while place < len(message):
        tag, place = _varint(message, place)
        match tag & 7:
            case 0:
                value, place = _varint(message, place)
            case 2:  # bytes, or a message in the message
                length, place = _varint(message, place)
                value, place = message[place : place + length], place + length
            case 5:  # a number of 4 bytes, such as a checksum
                value, place = message[place : place + 4], place + 4
            case kind:
                raise ValueError(f"a field of kind {kind}")
        fields.setdefault(tag >> 3, []).append(value)
    return fields


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """A whole number, 7 bits a byte, the lowest first, and the place after it."""
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7
