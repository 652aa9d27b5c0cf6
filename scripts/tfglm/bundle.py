"""TensorFlow's files of tensors, which checkpoints consist of, written and read without TensorFlow.

The chief writes a checkpoint that `tf.train.load_checkpoint` opens. A fit in one process and the readers need nothing else from
TensorFlow, whose import takes longer than fitting a small model. No Python package was found that knows the format without
TensorFlow. It has two kinds of files:

- `<prefix>.index` is a sorted table of keys and values (tensorflow/core/lib/io/table_format.txt). A footer of 48 bytes has
  the position of the index block, which has the positions of the data blocks. A key is stored as its difference from the
  previous key. The value of the key "" is a BundleHeaderProto; the value of a tensor's name is a BundleEntryProto
  (core/protobuf/tensor_bundle.proto).
- `<prefix>.data-?????-of-?????` hold the concatenated bytes of the arrays (core/util/tensor_bundle/tensor_bundle.h).

`read` ignores the checksums inside both kinds: fit.json has the digests of the files, which are checked before.
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tfglm import digests
from tfglm.errors import UserError, writing
from tfglm.protobuf import FOUR_BYTES, fields_of, integer, message, tag, varint

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

NUMBERS = {dtype: number for number, dtype in TYPES.items()}

UNCOMPRESSED, TRAILER = b"\0", 5
"""What a block says of its compression, and the bytes of this and of its checksum, which follow it."""

SHARDS, BIG_ENDIAN, VERSION = 1, 2, 3
"""Numbers of fields of a BundleHeaderProto; its version is a VersionDef with the field PRODUCER."""

TYPE, SHAPE, SHARD, OFFSET, SIZE, CHECKSUM, SLICES = 1, 2, 3, 4, 5, 6, 7
"""Fields of a BundleEntryProto; its shape is a TensorShapeProto with the field DIMENSIONS."""

PRODUCER, DIMENSIONS = 1, 2


def write(values: Mapping[str, Any], prefix: Path) -> None:
    """Write a checkpoint with these numbers and arrays, which `read` and TensorFlow read. Raises UserError if there is no
    room."""
    from tfglm.crc32c import masked

    arrays = {name.encode(): np.ascontiguousarray(value).reshape(np.shape(value)) for name, value in values.items()}
    entries = {b"": message({SHARDS: 1, VERSION: message({PRODUCER: 1})})}
    offset = 0
    with writing(prefix.parent, sum(array.nbytes for array in arrays.values())):
        prefix.parent.mkdir(parents=True, exist_ok=True)
        with prefix.with_name(f"{prefix.name}.data-00000-of-00001").open("wb") as stream:
            for name, array in sorted(arrays.items()):
                data = array.reshape(-1).view(np.uint8)
                stream.write(data.data)
                shape = b"".join(message({DIMENSIONS: message({1: length})}) for length in array.shape)
                entry: dict[int, int | float | bytes] = {
                    TYPE: NUMBERS[array.dtype.str],
                    SHAPE: shape,
                    OFFSET: offset,
                    SIZE: array.nbytes,
                }
                entries[name] = message(entry) + tag(CHECKSUM, FOUR_BYTES) + masked(data).to_bytes(4, "little")
                offset += array.nbytes
        prefix.with_name(f"{prefix.name}.index").write_bytes(_stored_table(entries))


def read(prefix: Path) -> dict[str, np.ndarray]:
    """The arrays of a checkpoint, by name. The prefix is the path of its files without `.index` and `.data-00000-of-00001`.
    Raises UserError, which names the file that is missing, damaged, or of a kind that TensorFlow may write and `save` does
    not: compressed blocks, big-endian numbers, strings, variables in slices."""
    path = index = prefix.with_name(f"{prefix.name}.index")
    remedy = digests.remedy(prefix.parent)
    arrays = {}
    try:
        entries = dict(_table(index.read_bytes()))
        header = fields_of(entries.pop(b""))
        if header.get(BIG_ENDIAN, [0])[0]:
            raise ValueError("its numbers are big-endian")
        for key, value in entries.items():
            path, name = index, key.decode(errors="replace")  # the key of a slice is not text
            entry = _entry(name, fields_of(value))
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
    dimensions = fields_of(fields[SHAPE][0]).get(DIMENSIONS, [])
    shape = tuple(fields_of(dimension).get(1, [0])[0] for dimension in dimensions)
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


def _stored_table(entries: Mapping[bytes, bytes]) -> bytes:
    """A table with these keys, in order, and values in one block."""
    data, about_blocks = _stored_block(entries), _stored_block({})
    index = _stored_block({max(entries): integer(0) + integer(len(data) - TRAILER)})
    places = (len(data), len(about_blocks) - TRAILER, len(data) + len(about_blocks), len(index) - TRAILER)
    footer = b"".join(map(integer, places)).ljust(FOOTER - len(MAGIC), b"\0")
    return data + about_blocks + index + footer + MAGIC


def _stored_block(entries: Mapping[bytes, bytes]) -> bytes:
    """A block with these keys, in order, and values, and what follows it. Each key is stored in full."""
    from tfglm.crc32c import masked

    block, places = b"", []
    for key, value in entries.items():
        places.append(len(block))
        block += integer(0) + integer(len(key)) + integer(len(value)) + key + value
    places = places or [0]
    block += b"".join(number.to_bytes(4, "little") for number in (*places, len(places))) + UNCOMPRESSED
    return block + masked(block).to_bytes(4, "little")


def _handle(data: bytes, place: int) -> tuple[tuple[int, int], int]:
    """The offset and the size of a block, and the place after them."""
    offset, place = varint(data, place)
    size, place = varint(data, place)
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
        shared, place = varint(block, place)
        further, place = varint(block, place)
        length, place = varint(block, place)
        key = key[:shared] + block[place : place + further]
        place += further
        yield key, block[place : place + length]
        place += length
