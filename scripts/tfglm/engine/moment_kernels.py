"""The loop in which marginal effects of many rows spend their time (engine.binned_averages).

The MOMENTS sums of a bin fill one cache line and one vector register. This module requests vector instructions explicitly:
for a loop over so few numbers LLVM generated scalar instructions, which took twice as long. Each sum is added row by row.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tfglm.loops import compiled

MOMENTS = 8
"""Sums for each coefficient and bin."""

LINE = 64
"""Bytes of a line of the caches."""

ROWS = 256
"""Rows that are processed together, so that their intermediate arrays stay in the nearest cache."""


def zeros(shape: tuple[int, ...]) -> np.ndarray:
    """Zeros that begin with a line of the caches, float64."""
    size = int(np.prod(shape))
    room = np.zeros(size + LINE // 8)
    first = -room.ctypes.data % LINE // 8
    return room[first : first + size].reshape(shape)


@intrinsic
def add_vector(_, sums, place, values, row, number):
    """sums[place] += values[row] * number, where `sums` and `values` are in rows of MOMENTS numbers."""

    def generate(context, builder, signature, arguments):
        of_all, place, of_rows, row, number = arguments
        vector, length = ir.VectorType(ir.DoubleType(), MOMENTS), ir.Constant(ir.IntType(64), MOMENTS)
        index = ir.IntType(32)

        def pointer(array, type_, at):
            data = context.make_array(type_)(context, builder, array).data
            return builder.bitcast(builder.gep(data, [builder.mul(at, length)]), vector.as_pointer())

        to, of_row = pointer(of_all, signature.args[0], place), pointer(of_rows, signature.args[2], row)
        nothing = ir.Constant(vector, ir.Undefined)
        alone = builder.insert_element(nothing, number, ir.Constant(index, 0))
        repeated = builder.shuffle_vector(alone, nothing, ir.Constant(ir.VectorType(index, MOMENTS), [0] * MOMENTS))
        added = builder.fmul(builder.load(of_row, align=8), repeated)
        builder.store(builder.fadd(builder.load(to, align=8), added), to, align=8)
        return context.get_dummy_value()

    return types.void(sums, types.uint64, values, types.uint64, types.float64), generate


@compiled
def add_moments(sums, position, weight, parts, groups, numbers):
    """Add rows to `sums` [coefficients + 1, bins, MOMENTS] of Chebyshev polynomials.

    Row i adds weight[i] T_k(t) times its entry of the design matrix to the sums of each coefficient; the last sums are of
    the weight alone. `position` [rows] is the place of a row among the bins, and t runs from -1 to 1 within a bin. `parts`,
    `groups` and `numbers` are as in `kernels.add_linear_predictor`, without parts that have neither groups nor numbers.
    """
    values, bin = np.empty((ROWS, MOMENTS)), np.empty(ROWS, np.uint64)
    bins, last = np.uint64(sums.shape[1]), np.uint64(len(sums) - 1)
    for first in range(0, len(position), ROWS):
        rows = min(ROWS, len(position) - first)
        for i in range(rows):
            row = first + i
            bin[i] = np.uint64(position[row])
            t = 2 * (position[row] - bin[i]) - 1
            values[i, 0], values[i, 1] = weight[row], weight[row] * t
            for k in range(2, MOMENTS):
                values[i, k] = 2 * t * values[i, k - 1] - values[i, k - 2]
        for i in range(rows):
            add_vector(sums, last * bins + bin[i], values, np.uint64(i), 1.0)
        for part in range(len(parts)):
            start, grouping, multiplier = np.uint64(parts[part, 0]), parts[part, 1], parts[part, 2]
            if multiplier >= 0:
                for i in range(rows):
                    group = np.uint64(groups[grouping, first + i]) if grouping >= 0 else np.uint64(0)
                    number = numbers[multiplier, first + i]
                    add_vector(sums, (start + group) * bins + bin[i], values, np.uint64(i), number)
            else:
                for i in range(rows):
                    group = np.uint64(groups[grouping, first + i])
                    add_vector(sums, (start + group) * bins + bin[i], values, np.uint64(i), 1.0)
