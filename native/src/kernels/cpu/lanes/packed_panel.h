// What the formats of packed weights share: panels as floats before they are packed, tiles of
// outputs, and how outputs are written.
#pragma once

#include "kernels/cpu/lanes/dot.h"
#include "kernels/cpu/lanes/transpose.h"
#include "kernels/cpu/packed.h"

namespace kael::kernels::KAEL_INSTRUCTION_SET {
namespace {

// Rows of a tile, and registers of columns beside each other for so many rows: sums, weights and
// one value of x fit the registers, where int8 needs a second set of sums for a single row.
constexpr int kPackedTileRows = kManyRegisters ? 6 : 4;
constexpr int packed_vectors(int rows) {
    return kManyRegisters || rows == 1 ? 4 : 2;
}

// How far ahead of what is read the next bytes of a panel are asked for.
constexpr Index kFetchedPanelAhead = 2048;

// W[0..depth, 0..columns) to [padded_depth, kPackedPanel], filled up with zeros.
inline void gather_panel(const Matrix& w, Index depth, Index padded_depth, Index columns,
                         float* panel) {
    if (w.column_stride != 1) {
        transpose_to(w.data, w.column_stride, columns, depth, panel, kPackedPanel, kPackedPanel);
    } else {
        for (Index k = 0; k < depth; ++k) {
            for (Index column = 0; column < kPackedPanel; column += kWidth) {
                const Index rest = larger(smaller(columns - column, kWidth), 0);
                store(panel + k * kPackedPanel + column,
                      load_first(w.data + k * w.row_stride + column, rest));
            }
        }
    }
    for (Index i = depth * kPackedPanel; i < padded_depth * kPackedPanel; i += kWidth) {
        store(panel + i, Vector{});
    }
}

// The outputs of a few rows in some columns of one panel.
struct PackedTile {
    const std::uint8_t* x; // the first prepared row
    Index x_size;          // bytes of each
    Index depth;
    const std::uint8_t* panel;
    Index first_column; // in the panel
    Index columns;      // of the panel that are wanted
    const float* bias;  // of the panel's first column; may be null
    float* y;           // the panel's first column
    Index ldy;
};

template <int Rows, int Vectors>
inline void write_outputs(const PackedTile& tile, const Vector (&sums)[Rows][Vectors]) {
    KAEL_UNROLLED
    for (int v = 0; v < Vectors; ++v) {
        const Index column = tile.first_column + v * kWidth;
        const Index rest = larger(smaller(tile.columns - column, kWidth), 0);
        const Vector bias =
            tile.bias == nullptr || rest == 0 ? Vector{} : load_first(tile.bias + column, rest);
        KAEL_UNROLLED
        for (int row = 0; row < Rows; ++row) {
            if (rest > 0) {
                store_first(tile.y + row * tile.ldy + column, sums[row][v] + bias, rest);
            }
        }
    }
}

// Calls Tile<rows>::run for all rows and columns of the product.
template <template <int> class Tile>
inline void multiply_panels(const std::uint8_t* prepared, Index prepared_size, Index rows,
                            const PackedMatrix& w, Index panel_size, const float* bias, Index n0,
                            Index n1, float* y, Index ldy) {
    for (Index n = n0; n < n1; n += kPackedPanel) {
        PackedTile tile{.x = prepared,
                        .x_size = prepared_size,
                        .depth = w.depth,
                        .panel = w.data + n / kPackedPanel * panel_size,
                        .first_column = 0,
                        .columns = smaller(n1 - n, kPackedPanel),
                        .bias = bias == nullptr ? nullptr : bias + n,
                        .y = y + n,
                        .ldy = ldy};
        for (Index m = 0; m < rows; m += kPackedTileRows) {
            const Index left = rows - m;
            const Index step =
                packed_vectors(static_cast<int>(smaller(left, kPackedTileRows))) * kWidth;
            for (tile.first_column = 0; tile.first_column < tile.columns;
                 tile.first_column += step) {
                run_tile<Tile, kPackedTileRows>(left, tile);
            }
            tile.x += kPackedTileRows * prepared_size;
            tile.y += kPackedTileRows * ldy;
        }
    }
}

} // namespace
} // namespace kael::kernels::KAEL_INSTRUCTION_SET
