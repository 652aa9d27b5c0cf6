"""Into how many calls the rows of a split are cut, and which rows are in which call.

It depends on the files alone, not on who is there to run the calls: so a sum is the same for any number of workers.
"""

import math
from dataclasses import dataclass
from itertools import accumulate, pairwise

from tfglm.data.shards import BLOCK_ROWS


@dataclass(frozen=True)
class Cutting:
    """How long calls are."""

    rows_per_sum: float = 0.4
    """Rows of a call for each number that it sums: to bring one to the chief costs 10 ns, and a row 115."""
    rows_per_call: int = 2**20
    """Aimed at: a tenth of a second, where each call has its own cost of a hundredth."""
    few_calls: int = 4
    """So many calls at least, for more than one worker, if each has `fewest_rows`."""
    fewest_rows: int = 2**17
    evenly_spread: int = 16
    """With fewer calls than that their number is a power of two, so that no worker waits long for another."""
    rows_per_update: int = 2**20
    """Of a call of an online solver, which takes 50 ns a row and some milliseconds besides."""
    reads_to_shuffle: int = 8
    """Times that each call of an online solver has to read, if it is to read several blocks at once: few would hardly be
    shuffled."""

    def calls(self, sums: int, rows: int) -> int:
        """Into how many calls to cut so many rows for a pass that sums so many numbers."""
        wanted = max(rows / self.rows_per_call, min(self.few_calls, rows / self.fewest_rows))
        number = max(1.0, min(wanted, rows / (self.rows_per_sum * sums)))
        return 2 ** round(math.log2(number)) if number < self.evenly_spread else math.ceil(number)


def cut(used: list[tuple], number: int) -> list[list[tuple]]:
    """Shards (file, shard, checksums, rows) in pieces (file, shard, checksums, rows, first), those of each call with as many
    blocks as those of another, or one more: what all wait for is the longest call."""
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
