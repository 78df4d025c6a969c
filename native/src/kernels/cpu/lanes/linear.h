// Products with a weight matrix stored [in, out]: per output, two chains over k.
#pragma once

#include "kernels/cpu/lanes/vector.h"

namespace kael::kernels::KAEL_INSTRUCTION_SET {
namespace {

// A tile of the product is kTileRows x kPanel outputs, whose accumulators fill most registers:
// 8 x 3 of 32, 6 x 2 or 4 x 2 of 16.
constexpr int kTileRows = kManyRegisters ? 8 : (kWidth == 8 ? 6 : 4);
constexpr int kPanelVectors = kManyRegisters ? 3 : 2;
constexpr int kPanel = kPanelVectors * kWidth;

// Where one tile reads and writes.
struct Tile {
    const float* x; // first row, at the first k
    Index ldx;
    const float* b; // [depth, kPanel], rows ldb apart
    Index ldb;
    Index depth;
    float* y;
    Index ldy;
    Index columns;     // at most kPanel
    bool second;       // the second half of k: y holds the first
    const float* bias; // added in the second half; may be null
};

template <int Rows>
struct MultiplyTile {
    static void run(const Tile& tile) {
        Vector sums[Rows][kPanelVectors] = {};
        const float* x[Rows];
        for (int row = 0; row < Rows; ++row) {
            x[row] = tile.x + row * tile.ldx;
        }
        const float* b = tile.b;
        for (Index k = 0; k < tile.depth; ++k) {
            Vector weights[kPanelVectors];
            for (int v = 0; v < kPanelVectors; ++v) {
                weights[v] = load(b + v * kWidth);
            }
            for (int row = 0; row < Rows; ++row) {
                const Vector value = broadcast(x[row][k]);
                for (int v = 0; v < kPanelVectors; ++v) {
                    sums[row][v] = fused(value, weights[v], sums[row][v]);
                }
            }
            b += tile.ldb;
        }
        for (int v = 0; v < kPanelVectors; ++v) {
            const Index columns = smaller(tile.columns - v * kWidth, kWidth);
            if (columns <= 0) {
                return;
            }
            for (int row = 0; row < Rows; ++row) {
                finish(tile, row, v * kWidth, columns, sums[row][v]);
            }
        }
    }

    static void finish(const Tile& tile, Index row, Index column, Index columns, Vector sum) {
        float* y = tile.y + row * tile.ldy + column;
        const bool whole = columns == kWidth;
        if (tile.second) {
            sum = (whole ? load(y) : load_first(y, columns)) + sum;
            if (tile.bias != nullptr) {
                const float* bias = tile.bias + column;
                sum += whole ? load(bias) : load_first(bias, columns);
            }
        }
        if (whole) {
            store(y, sum);
        } else {
            store_first(y, sum, columns);
        }
    }
};

// Copies W[k0..k1, n..n + columns) to [k1 - k0, kPanel], missing columns as zeros.
inline void pack_panel(const float* w, Index ldw, Index depth, Index columns, float* panel) {
    if (columns == kPanel) {
        for (Index k = 0; k < depth; ++k) {
            for (int v = 0; v < kPanelVectors; ++v) {
                store(panel + k * kPanel + v * kWidth, load(w + k * ldw + v * kWidth));
            }
        }
        return;
    }
    for (Index k = 0; k < depth; ++k) {
        for (int v = 0; v < kPanelVectors; ++v) {
            const Index rest = larger(smaller(columns - v * kWidth, kWidth), 0);
            store(panel + k * kPanel + v * kWidth, load_first(w + k * ldw + v * kWidth, rest));
        }
    }
}

constexpr Index kAlignment = 16; // floats in a cache line

Index matmul_scratch(Index depth) {
    return (depth - depth / 2) * kPanel + kAlignment;
}

inline float* align_up(float* p) {
    return reinterpret_cast<float*>((reinterpret_cast<std::uintptr_t>(p) + 63) / 64 * 64);
}

void matmul(const float* x, Index ldx, Index rows, const float* w, Index ldw, Index depth,
            const float* bias, Index n0, Index n1, float* y, Index ldy, float* scratch) {
    // Below this many rows copying a panel costs more than it saves.
    constexpr Index kRowsToPack = 16;
    float* const panel = align_up(scratch);
    for (Index n = n0; n < n1; n += kPanel) {
        const Index columns = smaller(n1 - n, kPanel);
        for (int half = 0; half < 2; ++half) {
            const bool second = half == 1;
            const Index k0 = second ? depth / 2 : 0;
            const Index k1 = second ? depth : depth / 2;
            const float* source = w + k0 * ldw + n;
            const bool in_place = rows < kRowsToPack && columns == kPanel;
            if (!in_place) {
                pack_panel(source, ldw, k1 - k0, columns, panel);
            }
            for (Index m = 0; m < rows; m += kTileRows) {
                run_tile<MultiplyTile, kTileRows>(
                    rows - m, Tile{x + m * ldx + k0, ldx, in_place ? source : panel,
                                   in_place ? ldw : kPanel, k1 - k0, y + m * ldy + n, ldy, columns,
                                   second, bias == nullptr ? nullptr : bias + n});
            }
        }
    }
}

// y[0..n) += x[0..Depth) W[0..Depth, 0..n), each output a chain; from zero when First.
template <int Depth, bool First>
inline void add_weight_rows(const float* x, const float* w, Index ldw, Index n, float* y) {
    Vector values[Depth];
    for (int k = 0; k < Depth; ++k) {
        values[k] = broadcast(x[k]);
    }
    for_each_vector(n, [&](auto get, auto put) {
        Vector sum{};
        if constexpr (!First) {
            sum = get(y);
        }
        for (int k = 0; k < Depth; ++k) {
            sum = fused(values[k], get(w + k * ldw), sum);
        }
        put(y, sum);
    });
}

// k outside: Depth rows of W stream past while y, a few KB, stays in the first-level cache.
void vector_matrix(const float* x, const float* w, Index ldw, Index k0, Index k1, Index n0,
                   Index n1, float* y) {
    constexpr int kDepth = 8;
    const Index n = n1 - n0;
    y += n0;
    w += n0;
    Index k = k0;
    if (k + kDepth <= k1) {
        add_weight_rows<kDepth, true>(x + k, w + k * ldw, ldw, n, y);
        k += kDepth;
    } else {
        for_each_vector(n, [&](auto, auto put) { put(y, Vector{}); });
    }
    for (; k + kDepth <= k1; k += kDepth) {
        add_weight_rows<kDepth, false>(x + k, w + k * ldw, ldw, n, y);
    }
    for (; k < k1; ++k) {
        add_weight_rows<1, false>(x + k, w + k * ldw, ldw, n, y);
    }
}

} // namespace
} // namespace kael::kernels::KAEL_INSTRUCTION_SET
