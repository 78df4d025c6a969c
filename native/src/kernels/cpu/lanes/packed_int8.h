// Weights as whole numbers of 8 bits, with a scale for each column of each group of 64 k. A panel
// is for each group [64 / 4][64 columns][4] weights + 128, unsigned, then 64 scales as bfloat16. A
// prepared row of x is whole numbers of 8 bits, then a scale for each group, then what the sum of
// each group starts with: -128 times the sum of its numbers, which takes the 128 out again.
#pragma once

#include "kernels/cpu/lanes/packed_panel.h"

namespace kael::kernels::KAEL_INSTRUCTION_SET {
namespace {

constexpr Index kGroup = 64;
constexpr Index kQuad = 4;
constexpr Index kQuadRowSize = kPackedPanel * kQuad;
constexpr Index kGroupWeights = kGroup / kQuad * kQuadRowSize;
constexpr Index kGroupSize = kGroupWeights + kPackedPanel * 2;
constexpr float kLargest = 127;

constexpr Index groups_of(Index depth) {
    return round_up(depth, kGroup) / kGroup;
}

Index int8_panel_size(Index depth) {
    return groups_of(depth) * kGroupSize;
}

Index int8_pack_scratch(Index depth) {
    return groups_of(depth) * kGroup * kPackedPanel;
}

// The nearest whole number, ties to even, of at most 8 bits.
inline IntVector round_to_int(Vector v) {
    // So large that the last bit of the sum counts ones.
    constexpr float kShift = 12582912.0F;
    return as_int(v + kShift) - as_int(Vector{} + kShift);
}

// Scales as floats whose lower halves are 0: the next bfloat16 away from 0, so that the largest
// weight stays within 127 of them.
inline IntVector scale_bits(Vector scale) {
    return (as_int(scale) + 0xffff) & static_cast<std::int32_t>(0xffff0000);
}

// One group of kWidth columns: `w` is [kGroup, kPackedPanel].
inline void pack_int8_group(const float* w, std::uint8_t* weights, std::uint8_t* scales) {
    Vector largest{};
    Vector finite{}; // 0, or NaN where a weight is not finite
    for (Index k = 0; k < kGroup; ++k) {
        const Vector value = load(w + k * kPackedPanel);
        largest = at_least(absolute(value), largest);
        finite += value * 0.0F;
    }
    const IntVector bits = scale_bits(largest / kLargest + finite);
    typedef std::uint16_t Halves __attribute__((vector_size(kWidth * 2), aligned(2), may_alias));
    *reinterpret_cast<Halves*>(scales) = __builtin_convertvector((bits >> 16) & 0xffff, Halves);
    const IntVector is_zero = bits == 0;
    const Vector divisor = as_float((is_zero & as_int(Vector{} + 1.0F)) | (~is_zero & bits));
    for (Index k = 0; k < kGroup; k += kQuad) {
        IntVector quad{};
        for (Index i = 0; i < kQuad; ++i) {
            const IntVector value = round_to_int(load(w + (k + i) * kPackedPanel) / divisor);
            quad |= ((value + 128) & 0xff) << static_cast<std::int32_t>(8 * i);
        }
        store_ints(weights + k / kQuad * kQuadRowSize, quad);
    }
}

void pack_int8(const Matrix& w, Index depth, Index n0, Index n1, std::uint8_t* packed,
               float* scratch) {
    const Index groups = groups_of(depth);
    std::uint8_t* out = packed + n0 / kPackedPanel * int8_panel_size(depth);
    for (Index n = n0; n < n1; n += kPackedPanel) {
        gather_panel({w.data + n * w.column_stride, w.row_stride, w.column_stride}, depth,
                     groups * kGroup, smaller(n1 - n, kPackedPanel), scratch);
        for (Index group = 0; group < groups; ++group) {
            for (Index column = 0; column < kPackedPanel; column += kWidth) {
                pack_int8_group(scratch + group * kGroup * kPackedPanel + column,
                                out + column * kQuad, out + kGroupWeights + column * 2);
            }
            out += kGroupSize;
        }
    }
}

inline float bfloat16_at(const std::uint8_t* p) {
    return __builtin_bit_cast(float, std::uint32_t{p[0]} << 16 | std::uint32_t{p[1]} << 24);
}

void unpack_int8_column(const PackedMatrix& w, Index column, float* out) {
    const std::uint8_t* const panel = w.data + column / kPackedPanel * int8_panel_size(w.depth);
    const Index place = column % kPackedPanel;
    for (Index k = 0; k < w.depth; ++k) {
        const std::uint8_t* const group = panel + k / kGroup * kGroupSize;
        const Index quad = k % kGroup / kQuad;
        const int weight = group[quad * kQuadRowSize + place * kQuad + k % kQuad] - 128;
        out[k] = static_cast<float>(weight) * bfloat16_at(group + kGroupWeights + place * 2);
    }
}

struct PreparedInt8 {
    explicit PreparedInt8(Index depth)
        : scales(groups_of(depth) * kGroup), starts(scales + groups_of(depth) * 4),
          size(round_up(starts + groups_of(depth) * 4, 64)) {}

    Index scales; // bytes before them
    Index starts;
    Index size;
};

Index prepared_int8_size(Index depth) {
    return PreparedInt8(depth).size;
}

void prepare_int8(const float* x, Index depth, std::uint8_t* prepared) {
    typedef float Float __attribute__((may_alias));
    typedef std::int32_t Int __attribute__((may_alias));
    typedef std::int8_t Bytes __attribute__((vector_size(kWidth), aligned(1), may_alias));
    const PreparedInt8 layout(depth);
    for (Index group = 0; group < groups_of(depth); ++group) {
        constexpr Index kVectors = kGroup / kWidth;
        Vector values[kVectors];
        Vector largest{};
        Vector finite{};
        for (Index v = 0; v < kVectors; ++v) {
            const Index k = group * kGroup + v * kWidth;
            values[v] = load_first(x + k, larger(smaller(depth - k, kWidth), 0));
            largest = at_least(absolute(values[v]), largest);
            finite += values[v] * 0.0F;
        }
        float most = 0;
        float poison = 0;
        for (Index i = 0; i < kWidth; ++i) {
            most = largest[i] > most ? largest[i] : most;
            poison += finite[i];
        }
        const float inverse = most > 0 ? kLargest / most : 0;
        IntVector sums{};
        for (Index v = 0; v < kVectors; ++v) {
            const IntVector value = round_to_int(values[v] * broadcast(inverse));
            *reinterpret_cast<Bytes*>(prepared + group * kGroup + v * kWidth) =
                __builtin_convertvector(value, Bytes);
            sums += value;
        }
        std::int32_t sum = 0;
        for (Index i = 0; i < kWidth; ++i) {
            sum += sums[i];
        }
        reinterpret_cast<Float*>(prepared + layout.scales)[group] = most / kLargest + poison;
        reinterpret_cast<Int*>(prepared + layout.starts)[group] = -128 * sum;
    }
}

template <int Rows>
struct Int8Tile {
    static void run(const PackedTile& tile) {
        constexpr int kVectors = packed_vectors(Rows);
        const PreparedInt8 layout(tile.depth);
        Vector sums[Rows][kVectors] = {};
        for (Index group = 0; group < groups_of(tile.depth); ++group) {
            const std::uint8_t* const block = tile.panel + group * kGroupSize;
            IntVector dots[Rows][kVectors];
            KAEL_UNROLLED
            for (int row = 0; row < Rows; ++row) {
                const IntVector start =
                    broadcast_bytes(tile.x + row * tile.x_size + layout.starts + group * 4);
                KAEL_UNROLLED
                for (int v = 0; v < kVectors; ++v) {
                    dots[row][v] = start;
                }
            }
            add_group<kVectors>(tile, block + tile.first_column * kQuad, group, dots);
            const std::uint8_t* const scales = block + kGroupWeights + tile.first_column * 2;
            KAEL_UNROLLED
            for (int v = 0; v < kVectors; ++v) {
                const Vector scale = load_scales(scales + v * kWidth * 2);
                KAEL_UNROLLED
                for (int row = 0; row < Rows; ++row) {
                    const Vector x_scale = as_float(
                        broadcast_bytes(tile.x + row * tile.x_size + layout.scales + group * 4));
                    sums[row][v] = fused(__builtin_convertvector(dots[row][v], Vector),
                                         scale * x_scale, sums[row][v]);
                }
            }
        }
        write_outputs(tile, sums);
    }

private:
    static Vector load_scales(const std::uint8_t* p) {
        typedef std::uint16_t Halves
            __attribute__((vector_size(kWidth * 2), aligned(2), may_alias));
        return as_float(__builtin_convertvector(*reinterpret_cast<const Halves*>(p), IntVector)
                        << 16);
    }

    template <int Vectors>
    static void add_group(const PackedTile& tile, const std::uint8_t* weights, Index group,
                          IntVector (&dots)[Rows][Vectors]) {
        const std::uint8_t* x = tile.x + group * kGroup;
        for (Index quad = 0; quad < kGroup / kQuad; ++quad) {
            IntVector w[Vectors];
            KAEL_UNROLLED
            for (int v = 0; v < Vectors; ++v) {
                w[v] = load_ints(weights + v * kWidth * kQuad);
                if constexpr (Rows == 1) {
                    __builtin_prefetch(weights + v * kWidth * kQuad + kFetchedPanelAhead);
                }
            }
            KAEL_UNROLLED
            for (int row = 0; row < Rows; ++row) {
                const IntVector value = broadcast_bytes(x + row * tile.x_size);
                KAEL_UNROLLED
                for (int v = 0; v < Vectors; ++v) {
                    dots[row][v] = add_quad_products(dots[row][v], w[v], value);
                }
            }
            weights += kQuadRowSize;
            x += kQuad;
        }
    }
};

void multiply_int8(const std::uint8_t* prepared, Index rows, const PackedMatrix& w,
                   const float* bias, Index n0, Index n1, float* y, Index ldy) {
    multiply_panels<Int8Tile>(prepared, prepared_int8_size(w.depth), rows, w,
                              int8_panel_size(w.depth), bias, n0, n1, y, ldy);
}

} // namespace
} // namespace kael::kernels::KAEL_INSTRUCTION_SET
