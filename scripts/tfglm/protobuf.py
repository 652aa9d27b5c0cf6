"""Protocol buffers, written and read by the numbers of their fields, as nothing that defines their messages is imported
(https://protobuf.dev/programming-guides/encoding)."""

import struct
from collections.abc import Mapping

VARINT, EIGHT_BYTES, BYTES, FOUR_BYTES = 0, 1, 2, 5
"""The kinds of fields: whole numbers, 8 bytes such as a float64, anything with a length, and 4 bytes."""


def message(fields: Mapping[int, int | float | bytes]) -> bytes:
    """A message with these fields, which leaves out whole numbers that are 0. A message in it is bytes."""
    content = b""
    for number, value in fields.items():
        match value:
            case bytes():
                content += tag(number, BYTES) + integer(len(value)) + value
            case float():
                content += tag(number, EIGHT_BYTES) + struct.pack("<d", value)
            case int() if value:
                content += tag(number, VARINT) + integer(value)
    return content


def tag(number: int, kind: int) -> bytes:
    """What stands before the value of a field."""
    return integer(number << 3 | kind)


def integer(value: int) -> bytes:
    """A whole number, 7 bits a byte, the lowest first."""
    content = bytearray()
    while value > 0x7F:
        content.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*content, value])


def fields_of(message: bytes) -> dict[int, list]:
    """The values of the fields of a protocol buffer, by number: whole numbers, or bytes."""
    found: dict[int, list] = {}
    place = 0
    value: int | bytes
    while place < len(message):
        key, place = varint(message, place)
        match key & 7:
            case 0:  # VARINT
                value, place = varint(message, place)
            case 2:  # bytes, or a message in the message
                length, place = varint(message, place)
                value, place = message[place : place + length], place + length
            case 5:  # a number of 4 bytes, such as a checksum
                value, place = message[place : place + 4], place + 4
            case kind:
                raise ValueError(f"a field of kind {kind}")
        found.setdefault(key >> 3, []).append(value)
    return found


def varint(data: bytes, place: int) -> tuple[int, int]:
    """A whole number, 7 bits a byte, the lowest first, and the place after it."""
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7
