"""The compiled loops over CSV. Of plain CSV: 64 bytes at a time to places of separators, then entries of eight bytes at a time to
numbers. And one that removes blanks around fields.

LLVM compares 64 bytes by one to four vector instructions, whatever the processor has; numba offers no such, so the three
operations are written in LLVM's language.
"""

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from tfglm.loops import compiled

VECTOR = 64
"""Bytes that are compared together. As many bytes must be readable behind the lines."""

WORD = 8
"""Bytes of an entry that fit into one machine word, which then identifies it."""

NEWLINE, RETURN, QUOTE, BLANK, TAB = 10, 13, 34, 32, 9

FREE = 0x0A0A0A0A0A0A0A0A
"""Marks a free bucket: no entry has line ends."""

FACTOR = np.uint64(0x9E3779B97F4A7C15)
"""The multiplier of Fibonacci hashing (Knuth, The Art of Computer Programming, 6.4): 2^64 divided by the golden ratio."""

LOAD = 16
"""Buckets for each distinct entry, as far as there are so many: where two entries meet, the processor has foreseen wrongly."""

PLACES = 2**12
"""Places of separators that are found before their entries are read: these are still in the nearest cache then."""


ENTRY_BITS = np.array([(1 << 8 * size) - 1 for size in range(WORD + 1)], np.uint64)
"""The bits of a word that an entry of 0 to 8 bytes has."""


def pointer_into(context, builder, signature, args):
    """The address of an element of an array of bytes: the first two arguments of an intrinsic."""
    array = context.make_array(signature.args[0])(context, builder, args[0])
    return builder.gep(array.data, [args[1]])


@intrinsic
def equal_bytes(typing_context, data, at, byte):
    """Which of the VECTOR bytes from a place on equal one: bit i for that at place + i. For uint8 array, uint64 and uint8."""

    def generate(context, builder, signature, args):
        vector = ir.VectorType(ir.IntType(8), VECTOR)
        address = builder.bitcast(pointer_into(context, builder, signature, args), vector.as_pointer())
        undefined = ir.Constant(vector, ir.Undefined)
        first = builder.insert_element(undefined, args[2], ir.Constant(ir.IntType(32), 0))
        everywhere = ir.Constant(ir.VectorType(ir.IntType(32), VECTOR), [0] * VECTOR)
        wanted = builder.shuffle_vector(first, undefined, everywhere)
        equal = builder.icmp_unsigned("==", builder.load(address, align=1), wanted)
        return builder.bitcast(equal, ir.IntType(VECTOR))

    return types.uint64(data, at, byte), generate


@intrinsic
def word_at(typing_context, data, at):
    """The WORD bytes from a place on, the first one lowest. For uint8 array and uint64."""

    def generate(context, builder, signature, args):
        word = ir.IntType(8 * WORD)
        address = builder.bitcast(pointer_into(context, builder, signature, args), word.as_pointer())
        return builder.load(address, align=1)

    return types.uint64(data, at), generate


@intrinsic
def lowest_bit(typing_context, bits):
    """The place of the lowest bit of a uint64 that is set; of 0, 64."""

    def generate(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(bits), generate


@intrinsic
def count_of_bits(typing_context, bits):
    """Return the number of set bits of a uint64."""

    def generate(context, builder, signature, args):
        return builder.ctpop(args[0])

    return types.uint64(bits), generate


@compiled
def bucket_of(word, bits):
    """Return the bucket, among 2^bits, where the search for an entry begins."""
    return (word * FACTOR) >> np.uint64(np.int64(64) - bits)


@compiled
def number_of(word, slot, buckets, numbers, entries, known, bits):
    """Return the number of an entry among the distinct entries of its slot, adding a new entry; -1 if there is no room.
    `buckets`, uint64 [slots, buckets], and `numbers`, uint16 [slots, buckets], are the hash table; `entries`, uint64 [slots,
    most], holds the distinct entries; the first `known`, int64 [slots], are filled. 2^`bits` buckets are in use."""
    one = np.uint64(1)
    bucket = bucket_of(word, bits[slot])
    last = (one << np.uint64(bits[slot])) - one
    while buckets[slot, bucket] != FREE:
        if buckets[slot, bucket] == word:
            return np.int64(numbers[slot, bucket])
        bucket = (bucket + one) & last
    number = known[slot]
    if number == entries.shape[1]:
        return np.int64(-1)
    buckets[slot, bucket], numbers[slot, bucket] = word, number
    entries[slot, number] = word
    known[slot] = number + 1
    if known[slot] * LOAD > 1 << bits[slot] and 1 << bits[slot] < buckets.shape[1]:
        bits[slot] += 1
        buckets[slot, : 1 << bits[slot]] = FREE
        last = (one << np.uint64(bits[slot])) - one
        for other in range(known[slot]):
            bucket = bucket_of(entries[slot, other], bits[slot])
            while buckets[slot, bucket] != FREE:
                bucket = (bucket + one) & last
            buckets[slot, bucket], numbers[slot, bucket] = entries[slot, other], other
    return number


@compiled
def read_entries(data, places, rows, field, fields, slot, buckets, numbers, entries, known, bits, out):
    """Number the entries of a field with `number_of`, uint16 [rows]. Return whether all are short and find room. Entry f of
    row r lies between the `places` (uint32) with the numbers fields * r + f and fields * r + f + 1, both excluded."""
    one, longest = np.uint64(1), np.uint64(0)
    used = bits[slot]
    for row in range(rows):
        before = np.uint64(row) * fields + field
        start = np.uint64(np.uint32(places[before] + one))  # of -1, 0
        size = places[before + one] - start
        longest = max(longest, size)
        word = word_at(data, start) & ENTRY_BITS[min(size, np.uint64(WORD))]
        bucket = bucket_of(word, used)
        if buckets[slot, bucket] == word:
            out[row] = numbers[slot, bucket]
        else:
            number = number_of(word, slot, buckets, numbers, entries, known, bits)
            if number < 0:
                return False
            out[row], used = number, bits[slot]
    return longest <= WORD


@compiled
def parse(data, size, separator, fields, wanted, buckets, numbers, entries, known, bits, out):
    """Number the entries of the lines `data[:size]`, uint8, in the fields `wanted`. Returns the number of rows, or -1 if the
    lines are not plain. `out`, uint16 [wanted, most rows], receives the number of each entry. The distinct entries are kept
    from call to call: see `number_of`."""
    one, vector, fields = np.uint64(1), np.uint64(VECTOR), np.uint64(fields)
    most = max(np.uint64(PLACES), fields)
    places = np.empty(most + 2 * VECTOR, np.uint32)
    places[0] = np.uint32(0xFFFFFFFF)  # the line end before the first line, at -1
    found, rows, lines, odd = one, np.uint64(0), np.uint64(0), np.uint64(0)
    for at in range(np.uint64(0), np.uint64(size), vector):
        ends = equal_bytes(data, at, np.uint8(NEWLINE))
        stops = equal_bytes(data, at, np.uint8(separator)) | ends
        others = equal_bytes(data, at, np.uint8(QUOTE)) | equal_bytes(data, at, np.uint8(RETURN))
        others |= equal_bytes(data, at, np.uint8(0))
        if size - at < vector:
            there = (one << (size - at)) - one
            ends, stops, others = ends & there, stops & there, others & there
        odd |= others
        lines += count_of_bits(ends)
        next_found = found + count_of_bits(stops)
        while stops:
            # Eight without asking whether there are so many: the processor could not foresee the answer.
            for step in range(8):
                places[found + np.uint64(step)] = np.uint32(at + lowest_bit(stops))
                stops &= stops - one
            found += np.uint64(8)
        found = next_found
        if found <= most and at + vector < size:
            continue
        whole = (found - one) // fields
        if odd or rows + whole > np.uint64(out.shape[1]):
            return -1
        for row in range(whole):
            if data[places[(np.uint64(row) + one) * fields]] != NEWLINE:
                return -1
        for slot in range(len(wanted)):
            of_tile = out[slot, np.int64(rows) : np.int64(rows + whole)]
            field = np.uint64(wanted[slot])
            if not read_entries(
                data, places, whole, field, fields, slot, buckets, numbers, entries, known, bits, of_tile
            ):
                return -1
        rows += whole
        # The rest of this tile begins the next one.
        for place in range(found - whole * fields):
            places[np.uint64(place)] = places[whole * fields + np.uint64(place)]
        found -= whole * fields
    return np.int64(rows) if found == one and lines == rows else -1


@compiled
def strip_blanks(data, size, separator):
    """Remove blanks and tabs around the fields of the lines `data[:size]`, uint8, in place, and return how many bytes are
    left. Blanks within quotes stay, and a quote behind blanks opens a quoted field."""
    at_start, bare, quoted, closed = 0, 1, 2, 3
    state, written, kept = at_start, 0, 0
    for at in range(size):
        byte = data[at]
        ends_line = byte == NEWLINE or (byte == RETURN and at + 1 < size and data[at + 1] == NEWLINE)
        if ends_line or (byte == separator and state != quoted):
            data[kept] = byte
            written = kept = kept + 1
            state = at_start
            continue
        is_blank = byte in (BLANK, TAB) and state != quoted
        if state == at_start:
            if is_blank:
                continue
            state = quoted if byte == QUOTE else bare
        elif byte == QUOTE and state == quoted:
            state = closed
        elif state == closed:
            state = quoted if byte == QUOTE else bare
        data[written] = byte
        written += 1
        if not is_blank:
            kept = written
    return kept
