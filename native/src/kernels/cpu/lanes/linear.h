// Products of many rows with a matrix of weights: per output, two chains over k.
#pragma once

#include "kernels/cpu/lanes/transpose.h"
#include "kernels/cpu/lanes/vector.h"

namespace kael::kernels::KAEL_INSTRUCTION_SET {
namespace {

// Y[m, n0..n1) = X[m, :] W[:, n0..n1) + bias, or added to Y; see kernels.h.
struct Linear {
    const float* x;
    Index ldx;
    Index rows;
    Matrix w;
    Index depth;
    const float* bias; // may be null
    bool add;
    Index n0;
    Index n1;
    float* y;
    Index ldy;
};

// A tile of the product is kTileRows x kPanel outputs, whose accumulators fill most registers:
// 8 x 3 of 32, 6 x 2 or 4 x 2 of 16.
constexpr int kTileRows = kManyRegisters ? 8 : (kWidth == 8 ? 6 : 4);
constexpr int kPanelVectors = kManyRegisters ? 3 : 2;
constexpr Index kPanel = kPanelVectors * kWidth;

// One tile, over one half of k.
struct Tile {
    const float* x; // first row, at the first k
    Index ldx;
    Index depth;
    const float* w; // not null: the panel is still to be copied from here
    Index ldw;
    float* panel;      // [depth, kPanel]
    const float* next; // rows of W to fetch meanwhile, at most `depth`
    Index next_rows;
    float* y;
    Index ldy;
    Index columns;     // at most kPanel
    bool add;          // to what is in y
    const float* bias; // added to that sum; may be null
};

template <int Rows>
struct MultiplyTile {
    static void run(const Tile& tile) {
        if (tile.w == nullptr) {
            multiply<false>(tile);
        } else {
            multiply<true>(tile);
        }
    }

private:
    template <bool Copy>
    static void multiply(const Tile& tile) {
        Vector sums[Rows][kPanelVectors] = {};
        const float* x[Rows];
        for (int row = 0; row < Rows; ++row) {
            x[row] = tile.x + row * tile.ldx;
        }
        const float* w = tile.w;
        float* panel = tile.panel;
        const float* next = tile.next;
        const Index depth = tile.depth;
        const Index ldw = tile.ldw;
        // Before each stretch a row of the next panel is fetched; before the last one, y.
        const Index stretch = (depth + tile.next_rows) / (tile.next_rows + 1);
        for (Index k = 0; k < depth;) {
            const Index end = smaller(k + stretch, depth);
            if (end == depth) {
                prefetch_outputs(tile);
            } else {
                for (Index line = 0; line < kPanel; line += kLanes) {
                    prefetch(next + line);
                }
                prefetch(next + kPanel - 1); // weights need not begin with a line
                next += ldw;
            }
            for (; k < end; ++k) {
                Vector weights[kPanelVectors];
                KAEL_UNROLLED
                for (int v = 0; v < kPanelVectors; ++v) {
                    if constexpr (Copy) {
                        weights[v] = load(w + v * kWidth);
                        store(panel + v * kWidth, weights[v]);
                    } else {
                        weights[v] = load(panel + v * kWidth);
                    }
                }
                KAEL_UNROLLED
                for (int row = 0; row < Rows; ++row) {
                    const Vector value = broadcast(x[row][k]);
                    KAEL_UNROLLED
                    for (int v = 0; v < kPanelVectors; ++v) {
                        sums[row][v] = fused(value, weights[v], sums[row][v]);
                    }
                }
                panel += kPanel;
                if constexpr (Copy) {
                    w += ldw;
                }
            }
        }
        if (tile.columns == kPanel) {
            KAEL_UNROLLED
            for (int row = 0; row < Rows; ++row) {
                KAEL_UNROLLED
                for (int v = 0; v < kPanelVectors; ++v) {
                    finish(
                        tile, row * tile.ldy + v * kWidth, v * kWidth, sums[row][v],
                        [](const float* p) { return load(p); },
                        [](float* p, Vector sum) { store(p, sum); });
                }
            }
        } else {
            float buffer[Rows * kPanel];
            KAEL_UNROLLED
            for (int row = 0; row < Rows; ++row) {
                KAEL_UNROLLED
                for (int v = 0; v < kPanelVectors; ++v) {
                    store(buffer + row * kPanel + v * kWidth, sums[row][v]);
                }
            }
            finish_narrow(tile, buffer);
        }
    }

    static void prefetch_outputs(const Tile& tile) {
        for (int row = 0; row < Rows; ++row) {
            for (Index line = 0; line < kPanel; line += kLanes) {
                __builtin_prefetch(tile.y + row * tile.ldy + line);
            }
        }
    }

    template <typename Get, typename Put>
    static void finish(const Tile& tile, Index place, Index column, Vector sum, Get get, Put put) {
        float* const y = tile.y + place;
        if (tile.add) {
            sum = get(y) + sum;
            if (tile.bias != nullptr) {
                sum += get(tile.bias + column);
            }
        }
        put(y, sum);
    }

    // Takes the sums from memory, so that nothing but registers need hold the array of them.
    static void finish_narrow(const Tile& tile, const float* buffer) {
        for (Index row = 0; row < Rows; ++row) {
            for (Index column = 0; column < tile.columns; column += kWidth) {
                const Index rest = smaller(tile.columns - column, kWidth);
                finish(
                    tile, row * tile.ldy + column, column, load(buffer + row * kPanel + column),
                    [rest](const float* p) { return load_first(p, rest); },
                    [rest](float* p, Vector sum) { store_first(p, sum, rest); });
            }
        }
    }
};

// Copies W[0..depth, 0..columns) to [depth, kPanel]; the columns that are missing become zeros.
inline void pack_panel(const Matrix& w, Index depth, Index columns, float* panel) {
    if (w.column_stride != 1) {
        transpose_to(w.data, w.column_stride, columns, depth, panel, kPanel, kPanel);
        return;
    }
    for (Index k = 0; k < depth; ++k) {
        for (int v = 0; v < kPanelVectors; ++v) {
            const Index rest = larger(smaller(columns - v * kWidth, kWidth), 0);
            store(panel + k * kPanel + v * kWidth,
                  load_first(w.data + k * w.row_stride + v * kWidth, rest));
        }
    }
}

// The first float at or after p that begins a cache line.
inline float* align_up(float* p) {
    const auto past = reinterpret_cast<std::uintptr_t>(p) / sizeof(float) % kLanes;
    return p + (kLanes - static_cast<Index>(past)) % kLanes;
}

constexpr Index packed_scratch(Index depth) {
    return (depth - depth / 2) * kPanel + kLanes;
}

// Half of k at a time, a panel of W is copied to `scratch`, where it stays in the second-level
// cache for all tiles of rows: by the first of them where rows of W have no gaps, and then the
// tiles share the fetching of the panel that follows.
inline void multiply_packed(const Linear& linear, float* scratch) {
    const Matrix& w = linear.w;
    const bool in_rows = w.column_stride == 1;
    const Index middle = linear.depth / 2;
    for (Index n = linear.n0; n < linear.n1; n += kPanel) {
        for (int half = 0; half < 2; ++half) {
            const bool second = half == 1;
            const Index k0 = second ? middle : 0;
            const float* const begin_of_panel = w.data + k0 * w.row_stride + n * w.column_stride;
            Tile tile{.x = linear.x + k0,
                      .ldx = linear.ldx,
                      .depth = second ? linear.depth - middle : middle,
                      .w = begin_of_panel,
                      .ldw = w.row_stride,
                      .panel = align_up(scratch),
                      .next = w.data + (second ? n + kPanel : middle * w.row_stride + n),
                      .next_rows = 0,
                      .y = linear.y + n,
                      .ldy = linear.ldy,
                      .columns = smaller(linear.n1 - n, kPanel),
                      .add = second || linear.add,
                      .bias = second && linear.bias != nullptr ? linear.bias + n : nullptr};
            if (tile.columns < kPanel || !in_rows) {
                pack_panel({begin_of_panel, w.row_stride, w.column_stride}, tile.depth,
                           tile.columns, tile.panel);
                tile.w = nullptr;
            }
            // Rows of the part that follows, as deep as this one, or one less or more; none after
            // the last, which may be another thread's.
            const bool follows = in_rows && !(second && n + kPanel >= linear.n1);
            const Index follow = follows ? tile.depth : 0;
            for (Index m = 0; m < linear.rows; m += kTileRows) {
                const Index begin = follow * m / linear.rows;
                const Index end = follow * smaller(m + kTileRows, linear.rows) / linear.rows;
                tile.next_rows = end - begin;
                run_tile<MultiplyTile, kTileRows>(linear.rows - m, tile);
                tile.next += tile.next_rows * tile.ldw;
                tile.x += kTileRows * tile.ldx;
                tile.y += kTileRows * tile.ldy;
                tile.w = nullptr;
            }
        }
    }
}

} // namespace
} // namespace kael::kernels::KAEL_INSTRUCTION_SET
