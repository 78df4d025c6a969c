// Products of one row or a few with a matrix of weights, at the speed of reading it: k
// is outside, kRowsAtOnce rows of W stream past in full length, and the sums, a few KB, stay in a
// cache.
#pragma once

#include "kernels/cpu/lanes/exponential.h"
#include "kernels/cpu/lanes/linear.h"
#include "kernels/cpu/lanes/vector.h"

namespace kael::kernels::KAEL_INSTRUCTION_SET {
namespace {

constexpr Index kRowsAtOnce = 8; // of W
// More rows than this are faster with packed panels.
constexpr Index kFewRows = kWidth == 16 ? 16 : 10;

// Calls body(i, load, store) for the columns i of Depth rows of W, a register at a time, and
// fetches the beginnings of the rows that lie `ahead` floats further.
template <int Depth, typename Body>
inline void for_each_line(const float* w, Index ldw, Index n, Index ahead, Body body) {
    const auto get = [](const float* p) { return load(p); };
    const auto put = [](float* p, Vector v) { store(p, v); };
    Index i = 0;
    for (; i + kLanes <= n; i += kLanes) {
        if (i < kFetchedAhead) {
            KAEL_UNROLLED
            for (int k = 0; k < Depth; ++k) {
                prefetch(w + k * ldw + i + ahead);
            }
        }
        for (int part = 0; part < kParts; ++part) {
            body(i + part * kWidth, get, put);
        }
    }
    for (; i < n; i += kWidth) {
        const Index rest = smaller(n - i, kWidth);
        body(
            i, [rest](const float* p) { return load_first(p, rest); },
            [rest](float* p, Vector v) { store_first(p, v, rest); });
    }
}

// Continues a chain for each of the sums [rows, n): Depth steps of k, with x [rows, Depth]. From
// zero when First. Meanwhile the beginnings of the rows that lie `ahead` floats further in W are
// fetched.
template <int Depth, bool First>
inline void add_weight_rows(const float* x, Index rows, const float* w, Index ldw, Index n,
                            Index ahead, float* sums, Index lds) {
    const auto add_columns = [&](Index i, auto get, auto put) {
        Vector weights[Depth];
        KAEL_UNROLLED
        for (int k = 0; k < Depth; ++k) {
            weights[k] = get(w + k * ldw + i);
        }
        for (Index row = 0; row < rows; ++row) {
            float* const place = sums + row * lds + i;
            Vector sum{};
            if constexpr (!First) {
                sum = get(place);
            }
            KAEL_UNROLLED
            for (int k = 0; k < Depth; ++k) {
                sum = fused(broadcast(x[row * Depth + k]), weights[k], sum);
            }
            put(place, sum);
        }
    };
    for_each_line<Depth>(w, ldw, n, ahead, add_columns);
}

// The same for one row, with the values of x in registers.
template <int Depth, bool First>
inline void add_weight_rows_to_one(const float* x, const float* w, Index ldw, Index n, Index ahead,
                                   float* sums) {
    Vector values[Depth];
    KAEL_UNROLLED
    for (int k = 0; k < Depth; ++k) {
        values[k] = broadcast(x[k]);
    }
    const auto add_columns = [&](Index i, auto get, auto put) {
        Vector sum{};
        if constexpr (!First) {
            sum = get(sums + i);
        }
        KAEL_UNROLLED
        for (int k = 0; k < Depth; ++k) {
            sum = fused(values[k], get(w + k * ldw + i), sum);
        }
        put(sums + i, sum);
    };
    for_each_line<Depth>(w, ldw, n, ahead, add_columns);
}

template <int Depth, bool First>
struct Steps {};

// sums[m, 0..n) = the chain over k in [0, depth) of x[m, k] W[k, 0..n), for at most kFewRows rows.
inline void stream_weights(const float* x, Index ldx, Index rows, const float* w, Index ldw,
                           Index depth, Index n, float* sums, Index lds) {
    // The values of x that the loop over columns uses again and again, side by side: rows of x may
    // lie a multiple of 4 KB apart, and would then throw each other out of the cache.
    float values[kFewRows * kRowsAtOnce];
    const auto gather = [&](Index k, Index count) {
        for (Index row = 0; row < rows; ++row) {
            for (Index i = 0; i < count; ++i) {
                values[row * count + i] = x[row * ldx + k + i];
            }
        }
    };
    Index k = 0;
    const auto add = [&]<int Depth, bool First>(Steps<Depth, First>) {
        const float* const rows_of_w = w + k * ldw;
        if (rows == 1) {
            add_weight_rows_to_one<Depth, First>(x + k, rows_of_w, ldw, n, Depth * ldw, sums);
        } else {
            gather(k, Depth);
            add_weight_rows<Depth, First>(values, rows, rows_of_w, ldw, n, Depth * ldw, sums, lds);
        }
        k += Depth;
    };
    if (depth >= kRowsAtOnce) {
        add(Steps<kRowsAtOnce, true>{});
    } else {
        for (Index row = 0; row < rows; ++row) {
            for_each_vector(n, [&](auto, auto put) { put(sums + row * lds, Vector{}); });
        }
    }
    while (k + kRowsAtOnce <= depth) {
        add(Steps<kRowsAtOnce, false>{});
    }
    while (k < depth) {
        add(Steps<1, false>{});
    }
}

void vector_matrix(const float* x, const float* w, Index ldw, Index k0, Index k1, Index n0,
                   Index n1, float* y) {
    stream_weights(x + k0, 0, 1, w + k0 * ldw + n0, ldw, k1 - k0, n1 - n0, y + n0, 0);
}

// Floats of one half's sums: more columns at once make longer runs of W, fewer stay in the cache.
constexpr Index kSums = Index{16} * 1024;
constexpr Index kFewScratch = 2 * (kSums + kFewRows * 2 * kLanes);

// Of w whose rows have no gaps.
inline void multiply_few_rows(const Linear& linear, float* scratch) {
    const Index strip = larger(kSums / linear.rows / kLanes, 1) * kLanes;
    const Index lds = strip + kLanes; // no multiple of 4 KB
    float* const second = scratch + linear.rows * lds;
    const Index middle = linear.depth / 2;
    const Index ldw = linear.w.row_stride;
    for (Index n = linear.n0; n < linear.n1; n += strip) {
        const Index columns = smaller(linear.n1 - n, strip);
        stream_weights(linear.x, linear.ldx, linear.rows, linear.w.data + n, ldw, middle, columns,
                       scratch, lds);
        stream_weights(linear.x + middle, linear.ldx, linear.rows, linear.w.data + middle * ldw + n,
                       ldw, linear.depth - middle, columns, second, lds);
        for (Index row = 0; row < linear.rows; ++row) {
            float* const y = linear.y + row * linear.ldy + n;
            if (linear.add) {
                add(y, scratch + row * lds, columns);
                add(y, second + row * lds, columns);
            } else {
                add_halves(scratch + row * lds, second + row * lds,
                           linear.bias == nullptr ? nullptr : linear.bias + n, columns, y);
            }
        }
    }
}

Index matmul_scratch(Index depth) {
    return larger(packed_scratch(depth), kFewScratch);
}

inline void multiply(const Linear& linear, float* scratch) {
    if (linear.rows <= kFewRows && linear.w.column_stride == 1) {
        multiply_few_rows(linear, scratch);
    } else {
        multiply_packed(linear, scratch);
    }
}

void matmul(const float* x, Index ldx, Index rows, const Matrix& w, Index depth, const float* bias,
            Index n0, Index n1, float* y, Index ldy, float* scratch) {
    multiply({x, ldx, rows, w, depth, bias, false, n0, n1, y, ldy}, scratch);
}

void matmul_add(const float* x, Index ldx, Index rows, const Matrix& w, Index depth, Index n0,
                Index n1, float* y, Index ldy, float* scratch) {
    multiply({x, ldx, rows, w, depth, nullptr, true, n0, n1, y, ldy}, scratch);
}

} // namespace
} // namespace kael::kernels::KAEL_INSTRUCTION_SET
