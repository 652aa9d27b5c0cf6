"""The checksums of checkpoints: CRC-32C (Castagnoli), eight bytes at a time (RFC 3720, appendix B.4)."""

import numpy as np

from tfglm.loops import compiled

POLYNOMIAL = 0x82F63B78
"""Its bits in reverse order."""

MASK = 0xA282EAD8
"""What TensorFlow adds to a checksum that is stored beside its data (tensorflow/core/lib/hash/crc32c.h)."""


def masked(data: bytes | np.ndarray) -> int:
    """The checksum of these bytes as a checkpoint stores it."""
    checksum = int(checked(np.frombuffer(data, np.uint8), TABLES))
    return ((checksum >> 15 | checksum << 17) + MASK) & 0xFFFFFFFF


def tables() -> np.ndarray:
    """Return what a byte adds to the checksum, by the number of bytes that follow it, [8, 256]."""
    of_byte = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        of_byte = np.where(of_byte & 1, of_byte >> 1 ^ POLYNOMIAL, of_byte >> 1).astype(np.uint32)
    result = [of_byte]
    for _ in range(7):
        result.append(result[-1] >> 8 ^ of_byte[result[-1] & 0xFF])
    return np.stack(result)


TABLES = tables()


@compiled
def checked(data, tables):
    """The checksum of bytes."""
    result = np.uint32(0xFFFFFFFF)
    whole = len(data) // 8 * 8
    for place in range(0, whole, 8):
        low = result ^ (
            np.uint32(data[place])
            | np.uint32(data[place + 1]) << np.uint32(8)
            | np.uint32(data[place + 2]) << np.uint32(16)
            | np.uint32(data[place + 3]) << np.uint32(24)
        )
        result = (
            tables[7, low & np.uint32(0xFF)]
            ^ tables[6, low >> np.uint32(8) & np.uint32(0xFF)]
            ^ tables[5, low >> np.uint32(16) & np.uint32(0xFF)]
            ^ tables[4, low >> np.uint32(24)]
            ^ tables[3, data[place + 4]]
            ^ tables[2, data[place + 5]]
            ^ tables[1, data[place + 6]]
            ^ tables[0, data[place + 7]]
        )
    for place in range(whole, len(data)):
        result = tables[0, (result ^ data[place]) & np.uint32(0xFF)] ^ result >> np.uint32(8)
    return result ^ np.uint32(0xFFFFFFFF)
