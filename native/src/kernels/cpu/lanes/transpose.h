// Rows to columns, a square of registers at a time.
#pragma once

#include "kernels/cpu/lanes/vector.h"

namespace kael::kernels::KAEL_INSTRUCTION_SET {
namespace {

// Swaps, in each square of 2 x 2 groups of `Group` lanes, the group above the diagonal with the one
// below it. Done for every power of two below kWidth, it transposes.
template <int Group, int... Lane>
inline void swap_groups(Vector& upper, Vector& lower) {
    const Vector a = upper;
    const Vector b = lower;
    // Lanes of b are counted from kWidth on.
    upper = __builtin_shufflevector(
        a, b, ((Lane & Group) == 0 ? Lane : static_cast<int>(kWidth) + Lane - Group)...);
    lower = __builtin_shufflevector(
        a, b, ((Lane & Group) == 0 ? Lane + Group : static_cast<int>(kWidth) + Lane)...);
}

template <int Group>
inline void swap_groups(Vector (&rows)[kWidth]) {
    KAEL_UNROLLED
    for (int i = 0; i < kWidth; ++i) {
        if ((i & Group) == 0) {
            if constexpr (kWidth == 16) {
                swap_groups<Group, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15>(
                    rows[i], rows[i + Group]);
            } else if constexpr (kWidth == 8) {
                swap_groups<Group, 0, 1, 2, 3, 4, 5, 6, 7>(rows[i], rows[i + Group]);
            } else {
                swap_groups<Group, 0, 1, 2, 3>(rows[i], rows[i + Group]);
            }
        }
    }
    if constexpr (Group > 1) {
        swap_groups<Group / 2>(rows);
    }
}

// out[j, i] = x[i, j] for i in [0, rows), j in [0, columns). Columns of `out` from `rows` to
// `padded`, which is at least `rows`, become zeros.
inline void transpose_to(const float* x, Index ldx, Index rows, Index columns, float* out,
                         Index ldo, Index padded) {
    for (Index i = 0; i < padded; i += kWidth) {
        const Index height = larger(smaller(rows - i, kWidth), 0);
        const Index written = smaller(padded - i, kWidth);
        for (Index j = 0; j < columns; j += kWidth) {
            const Index width = smaller(columns - j, kWidth);
            Vector square[kWidth] = {};
            if (height == kWidth && width == kWidth) {
                KAEL_UNROLLED
                for (int row = 0; row < kWidth; ++row) {
                    square[row] = load(x + (i + row) * ldx + j);
                }
                swap_groups<kWidth / 2>(square);
                KAEL_UNROLLED
                for (int column = 0; column < kWidth; ++column) {
                    store(out + (j + column) * ldo + i, square[column]);
                }
                continue;
            }
            KAEL_UNROLLED
            for (int row = 0; row < kWidth; ++row) {
                if (row < height) {
                    square[row] = load_first(x + (i + row) * ldx + j, width);
                }
            }
            swap_groups<kWidth / 2>(square);
            KAEL_UNROLLED
            for (int column = 0; column < kWidth; ++column) {
                if (column < width) {
                    store_first(out + (j + column) * ldo + i, square[column], written);
                }
            }
        }
    }
}

void transpose(const float* x, Index ldx, Index rows, Index columns, float* out, Index ldo) {
    transpose_to(x, ldx, rows, columns, out, ldo, rows);
}

} // namespace
} // namespace kael::kernels::KAEL_INSTRUCTION_SET
