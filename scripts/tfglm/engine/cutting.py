"""Cut the rows of a split into calls.

The cut depends on the files alone, not on the workers that run the calls. So a sum is the same for any number of workers.
"""

import math
from dataclasses import dataclass
from itertools import accumulate, pairwise

from tfglm.data.shards import BLOCK_ROWS


@dataclass(frozen=True)
class Cutting:
    """The length of calls."""

    rows_per_sum: float = 0.4
    """Rows of a call for each number that it sums: sending a number to the chief costs 10 ns, and a row 115 ns."""
    rows_per_call: int = 2**20
    """The target: a call takes a tenth of a second, and its overhead is a hundredth."""
    few_calls: int = 4
    """Least number of calls, so that several workers have work, if each call has `fewest_rows`."""
    fewest_rows: int = 2**17
    evenly_spread: int = 16
    """Below this number of calls, their number is a power of two, so that no worker waits long for another."""
    rows_per_update: int = 2**20
    """Rows of a call of an online solver, which takes 50 ns a row and some milliseconds of overhead."""
    reads_to_shuffle: int = 8
    """Reads that each call of an online solver needs, if a read is of several blocks: with fewer reads the rows would
    hardly be shuffled."""

    def calls(self, sums: int, rows: int) -> int:
        """Into how many calls to cut so many rows for a pass that sums so many numbers."""
        wanted = max(rows / self.rows_per_call, min(self.few_calls, rows / self.fewest_rows))
        number = max(1.0, min(wanted, rows / (self.rows_per_sum * sums)))
        return 2 ** round(math.log2(number)) if number < self.evenly_spread else math.ceil(number)


def cut(used: list[tuple], number: int) -> list[list[tuple]]:
    """Combine shards (file, shard, checksums, rows) into calls, in pieces (file, shard, checksums, rows, first). All calls
    have the same number of blocks, or one more: everyone waits for the longest call."""
    bounds = list(accumulate((-(-rows // BLOCK_ROWS) for *_, rows in used), initial=0))
    number = min(number, bounds[-1])
    calls: list[list[tuple]] = []
    for first, last in pairwise(bounds[-1] * call // number for call in range(number + 1)):
        calls.append([])
        for (file, shard, checksums, rows), (begin, end) in zip(used, pairwise(bounds), strict=True):
            if begin < last and first < end:
                stop = min(rows, (last - begin) * BLOCK_ROWS)
                calls[-1].append((file, shard, checksums, stop, max(first - begin, 0) * BLOCK_ROWS))
    return calls
