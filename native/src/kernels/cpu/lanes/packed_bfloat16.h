// Weights as bfloat16. A panel is [depth / 2][64 columns][2]: pairs of k side by side. x is
// prepared as pairs of bfloat16 where these are multiplied as they are, else it stays float32 and
// the weights are widened.
#pragma once

#include "kernels/cpu/lanes/packed_panel.h"

namespace kael::kernels::KAEL_INSTRUCTION_SET {
namespace {

constexpr Index kPair = 2;
constexpr Index kPairSize = kPair * 2;                   // bytes
constexpr Index kPairRowSize = kPackedPanel * kPairSize; // of one pair in all columns of a panel

#if defined(__AVX512BF16__)
constexpr bool kMultipliesBfloat16 = true;
#else
constexpr bool kMultipliesBfloat16 = false;
#endif
constexpr Index kPreparedPairSize = kMultipliesBfloat16 ? kPairSize : kPair * 4;

Index bfloat16_panel_size(Index depth) {
    return round_up(depth, kPair) / kPair * kPairRowSize;
}

Index bfloat16_pack_scratch(Index depth) {
    return round_up(depth, kPair) * kPackedPanel;
}

void pack_bfloat16(const Matrix& w, Index depth, Index n0, Index n1, std::uint8_t* packed,
                   float* scratch) {
    const Index padded = round_up(depth, kPair);
    std::uint8_t* out = packed + n0 / kPackedPanel * bfloat16_panel_size(depth);
    for (Index n = n0; n < n1; n += kPackedPanel) {
        gather_panel({w.data + n * w.column_stride, w.row_stride, w.column_stride}, depth, padded,
                     smaller(n1 - n, kPackedPanel), scratch);
        for (const float* row = scratch; row < scratch + padded * kPackedPanel;
             row += kPair * kPackedPanel) {
            for (Index column = 0; column < kPackedPanel; column += kWidth) {
                const IntVector first = to_bfloat16(load(row + column));
                const IntVector second = to_bfloat16(load(row + kPackedPanel + column));
                store_ints(out, first | second << 16);
                out += kWidth * kPairSize;
            }
        }
    }
}

void unpack_bfloat16_column(const PackedMatrix& w, Index column, float* out) {
    const std::uint8_t* panel = w.data + column / kPackedPanel * bfloat16_panel_size(w.depth) +
                                column % kPackedPanel * kPairSize;
    for (Index k = 0; k < w.depth; ++k) {
        const std::uint8_t* place = panel + k / kPair * kPairRowSize + k % kPair * 2;
        const std::uint32_t bits = std::uint32_t{place[0]} | std::uint32_t{place[1]} << 8;
        out[k] = __builtin_bit_cast(float, bits << 16);
    }
}

Index prepared_bfloat16_size(Index depth) {
    return round_up(round_up(depth, kPair) / kPair * kPreparedPairSize, 64);
}

void prepare_bfloat16(const float* x, Index depth, std::uint8_t* prepared) {
    const Index padded = round_up(depth, kPair);
    if constexpr (kMultipliesBfloat16) {
        typedef std::uint16_t Half __attribute__((may_alias));
        typedef std::uint16_t Halves
            __attribute__((vector_size(kWidth * 2), aligned(2), may_alias));
        Index k = 0;
        for (; k + kWidth <= depth; k += kWidth) {
            *reinterpret_cast<Halves*>(prepared + k * 2) =
                __builtin_convertvector(to_bfloat16(load(x + k)), Halves);
        }
        const IntVector last = to_bfloat16(load_first(x + k, depth - k));
        for (Index i = 0; k + i < padded; ++i) {
            reinterpret_cast<Half*>(prepared)[k + i] = static_cast<std::uint16_t>(last[i]);
        }
    } else {
        typedef float Float __attribute__((may_alias));
        Float* const out = reinterpret_cast<Float*>(prepared);
        for (Index k = 0; k < padded; ++k) {
            out[k] = k < depth ? x[k] : 0;
        }
    }
}

template <int Rows>
struct Bfloat16Tile {
    static void run(const PackedTile& tile) {
        constexpr int kVectors = packed_vectors(Rows);
        Vector sums[Rows][kVectors] = {};
        const std::uint8_t* weights = tile.panel + tile.first_column * kPairSize;
        const std::uint8_t* x = tile.x;
        const Index pairs = round_up(tile.depth, kPair) / kPair;
        for (Index pair = 0; pair < pairs; ++pair) {
            IntVector w[kVectors];
            KAEL_UNROLLED
            for (int v = 0; v < kVectors; ++v) {
                w[v] = load_ints(weights + v * kWidth * kPairSize);
                if constexpr (Rows == 1) {
                    __builtin_prefetch(weights + v * kWidth * kPairSize + kFetchedPanelAhead);
                }
            }
            KAEL_UNROLLED
            for (int row = 0; row < Rows; ++row) {
                add_products<kVectors>(x + row * tile.x_size, w, sums[row]);
            }
            weights += kPairRowSize;
            x += kPreparedPairSize;
        }
        write_outputs(tile, sums);
    }

private:
    template <int Vectors>
    static void add_products(const std::uint8_t* x, const IntVector (&w)[Vectors],
                             Vector (&sums)[Vectors]) {
#if defined(__AVX512BF16__)
        const IntVector pair = broadcast_bytes(x);
        KAEL_UNROLLED
        for (int v = 0; v < Vectors; ++v) {
            sums[v] = add_pair_products(sums[v], w[v], pair);
        }
#else
        const Vector first = as_float(broadcast_bytes(x));
        const Vector second = as_float(broadcast_bytes(x + 4));
        KAEL_UNROLLED
        for (int v = 0; v < Vectors; ++v) {
            sums[v] =
                fused(second, upper_bfloat16(w[v]), fused(first, lower_bfloat16(w[v]), sums[v]));
        }
#endif
    }
};

void multiply_bfloat16(const std::uint8_t* prepared, Index rows, const PackedMatrix& w,
                       const float* bias, Index n0, Index n1, float* y, Index ldy) {
    multiply_panels<Bfloat16Tile>(prepared, prepared_bfloat16_size(w.depth), rows, w,
                                  bfloat16_panel_size(w.depth), bias, n0, n1, y, ldy);
}

} // namespace
} // namespace kael::kernels::KAEL_INSTRUCTION_SET
