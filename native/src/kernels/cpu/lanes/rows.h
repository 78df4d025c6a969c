// Products with the rows of a table (the head): dot products in 16 lanes over k. The lanes of the
// last step that lie past the end count as zeros times zeros.
#pragma once

#include "kernels/cpu/lanes/vector.h"

namespace kael::kernels::KAEL_INSTRUCTION_SET {
namespace {

// From groups of `Group` lanes to groups half as long: the halves of each group are added, and
// the groups of `a` are followed by those of `b`.
template <int Group, int... Lane>
inline Vector fold(Vector a, Vector b) {
    constexpr int kHalf = Group / 2;
    // Lane i of the result belongs to group i / kHalf of a, then b.
    return __builtin_shufflevector(a, b, (Lane / kHalf * Group + Lane % kHalf)...) +
           __builtin_shufflevector(a, b, (Lane / kHalf * Group + Lane % kHalf + kHalf)...);
}

template <int Group>
inline Vector fold_pair(Vector a, Vector b) {
    if constexpr (kWidth == 16) {
        return fold<Group, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15>(a, b);
    } else if constexpr (kWidth == 8) {
        return fold<Group, 0, 1, 2, 3, 4, 5, 6, 7>(a, b);
    } else {
        return fold<Group, 0, 1, 2, 3>(a, b);
    }
}

template <int Count>
inline Vector fold_all(const Vector* sums) {
    if constexpr (Count == 1) {
        return sums[0];
    } else {
        Vector halves[Count / 2];
        KAEL_UNROLLED
        for (Index i = 0; i < Count / 2; ++i) {
            halves[i] = fold_pair<Count>(sums[2 * i], sums[2 * i + 1]);
        }
        return fold_all<Count / 2>(halves);
    }
}

// The 16 lanes of one sum, added in halves until they fit a register.
inline Vector fold_parts(const Vector (&lanes)[kParts]) {
    if constexpr (kParts == 1) {
        return lanes[0];
    } else if constexpr (kParts == 2) {
        return lanes[0] + lanes[1];
    } else {
        return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
    }
}

// The lanes [lane, lane + Parts * kWidth) of x[i] . table[j]. FetchNext: meanwhile the beginnings
// of the rows that follow in the table are fetched.
template <bool FetchNext, int Rows, int Columns, int Parts>
inline void multiply_rows(const float* const (&x)[Rows], const float* const (&table)[Columns],
                          Index depth, Index lane, Vector (&sums)[Rows][Columns][Parts]) {
    const auto step = [&](auto get) {
        KAEL_UNROLLED
        for (int part = 0; part < Parts; ++part) {
            Vector values[Rows];
            KAEL_UNROLLED
            for (int i = 0; i < Rows; ++i) {
                values[i] = get(x[i], lane + part * kWidth);
            }
            KAEL_UNROLLED
            for (int j = 0; j < Columns; ++j) {
                const Vector weights = get(table[j], lane + part * kWidth);
                KAEL_UNROLLED
                for (int i = 0; i < Rows; ++i) {
                    sums[i][j][part] = fused(values[i], weights, sums[i][j][part]);
                }
            }
        }
    };
    Index k = 0;
    for (; k + kLanes <= depth; k += kLanes) {
        if (FetchNext && k < kFetchedAhead) {
            KAEL_UNROLLED
            for (int j = 0; j < Columns; ++j) {
                prefetch(table[j] + k + Columns * depth);
            }
        }
        step([k](const float* p, Index offset) { return load(p + k + offset); });
    }
    if (k < depth) {
        step([k, depth](const float* p, Index offset) {
            return load_first(p + k + offset, larger(smaller(depth - k - offset, kWidth), 0));
        });
    }
}

// One row of x with kWidth rows of the table, a few of them at once.
inline void one_row(const float* x, const float* table, Index depth, Index v0, Index v1,
                    float* out) {
    constexpr int kAtOnce = kWidth < 8 ? 2 : 8;
    const float* const rows_of_x[1] = {x};
    for (Index v = v0; v < v1; v += kWidth) {
        Vector dots[kWidth];
        for (int j = 0; j < kWidth; j += kAtOnce) {
            const float* rows[kAtOnce];
            KAEL_UNROLLED
            for (int i = 0; i < kAtOnce; ++i) {
                // Past the end the last row stands in; its result is dropped.
                rows[i] = table + smaller(v + j + i, v1 - 1) * depth;
            }
            Vector sums[1][kAtOnce][kParts] = {};
            multiply_rows<true>(rows_of_x, rows, depth, 0, sums);
            KAEL_UNROLLED
            for (int i = 0; i < kAtOnce; ++i) {
                dots[j + i] = fold_parts(sums[0][i]);
            }
        }
        store_first(out + v, fold_all<kWidth>(dots), smaller(v1 - v, kWidth));
    }
}

// A tile is kTall rows of x and kWide rows of the table. Where 16 lanes are several registers, one
// of them is done at a time: the sums of a tile must fit in registers.
constexpr Index kTall = kManyRegisters ? 4 : 2;
constexpr Index kWide = kManyRegisters || kWidth == 8 ? 4 : 2;
static_assert(kTall * kWide % kWidth == 0);

template <bool FetchNext>
inline void multiply_tile(const float* const (&x)[kTall], const float* const (&table)[kWide],
                          Index depth, float (&results)[kTall * kWide]) {
    Vector lanes[kTall * kWide][kParts];
    for (int part = 0; part < kParts; ++part) {
        Vector sums[kTall][kWide][1] = {};
        multiply_rows<FetchNext>(x, table, depth, part * kWidth, sums);
        KAEL_UNROLLED
        for (Index i = 0; i < kTall; ++i) {
            KAEL_UNROLLED
            for (Index j = 0; j < kWide; ++j) {
                lanes[i * kWide + j][part] = sums[i][j][0];
            }
        }
    }
    Vector dots[kTall * kWide];
    KAEL_UNROLLED
    for (Index i = 0; i < kTall * kWide; ++i) {
        dots[i] = fold_parts(lanes[i]);
    }
    for (Index i = 0; i < kTall * kWide; i += kWidth) {
        store(results + i, fold_all<kWidth>(dots + i));
    }
}

inline void many_rows(const float* x, Index ldx, Index rows, const float* table, Index depth,
                      Index v0, Index v1, float* out, Index ldo) {
    constexpr Index kBlock = 64; // rows of the table that stay in the second-level cache
    for (Index block = v0; block < v1; block += kBlock) {
        const Index block_end = smaller(block + kBlock, v1);
        for (Index m = 0; m < rows; m += kTall) {
            const float* tall[kTall];
            KAEL_UNROLLED
            for (Index i = 0; i < kTall; ++i) {
                tall[i] = x + smaller(m + i, rows - 1) * ldx;
            }
            for (Index v = block; v < block_end; v += kWide) {
                const float* wide[kWide];
                KAEL_UNROLLED
                for (Index j = 0; j < kWide; ++j) {
                    wide[j] = table + smaller(v + j, v1 - 1) * depth;
                }
                float results[kTall * kWide];
                if (m == 0) { // the others find the block in the cache
                    multiply_tile<true>(tall, wide, depth, results);
                } else {
                    multiply_tile<false>(tall, wide, depth, results);
                }
                const Index height = smaller(rows - m, kTall);
                const Index width = smaller(block_end - v, kWide);
                for (Index i = 0; i < height; ++i) {
                    for (Index j = 0; j < width; ++j) {
                        out[(m + i) * ldo + v + j] = results[i * kWide + j];
                    }
                }
            }
        }
    }
}

void matmul_rows(const float* x, Index ldx, Index rows, const float* table, Index depth, Index v0,
                 Index v1, float* out, Index ldo) {
    if (rows == 1) {
        one_row(x, table, depth, v0, v1, out);
    } else {
        many_rows(x, ldx, rows, table, depth, v0, v1, out, ldo);
    }
}

} // namespace
} // namespace kael::kernels::KAEL_INSTRUCTION_SET
