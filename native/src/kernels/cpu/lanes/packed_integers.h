// Weights as whole numbers of 8 or 4 bits, with a scale for each column of each group of k. A panel
// is for each group rows of 256 bytes, then 64 scales as bfloat16. A row holds, for each of the 64
// columns, four consecutive k of 8 bits side by side, or eight of 4 bits: the first four in the
// lower halves of four bytes. Zero is added to them, so that they have no sign.
//
// A prepared row of x is whole numbers of 8 bits, then a scale for each group, then what the sum of
// each group starts with: -zero times the sum of its numbers, which takes the zero out again.
#pragma once

#include "kernels/cpu/lanes/packed_panel.h"

namespace kael::kernels::KAEL_INSTRUCTION_SET {
namespace {

struct Int8 {
    static constexpr Index kGroup = 64;
    static constexpr Index kBits = 8;
};
struct Int4 {
    static constexpr Index kGroup = 32;
    static constexpr Index kBits = 4;
};

constexpr Index kQuad = 4; // bytes that are multiplied at once
constexpr Index kWeightRow = kPackedPanel * kQuad;
constexpr float kLargest = 127; // of 8 bits; -128 is not used

template <typename Format>
struct Layout {
    static constexpr Index kGroup = Format::kGroup;
    static constexpr Index kQuads = 8 / Format::kBits; // in a row
    static constexpr std::int32_t kZero = 1 << (Format::kBits - 1);
    static constexpr std::int32_t kMask = (1 << Format::kBits) - 1;
    static constexpr Index kRows = kGroup / (kQuad * kQuads);
    static constexpr Index kGroupWeights = kRows * kWeightRow; // bytes
    static constexpr Index kGroupSize = kGroupWeights + kPackedPanel * 2;

    static constexpr Index groups(Index depth) { return round_up(depth, kGroup) / kGroup; }
};

template <typename Format>
Index integer_panel_size(Index depth) {
    return round_up(Layout<Format>::groups(depth) * Layout<Format>::kGroupSize, 64);
}

template <typename Format>
Index integer_pack_scratch(Index depth) {
    return Layout<Format>::groups(depth) * Layout<Format>::kGroup * kPackedPanel;
}

// The nearest whole number, ties to even, of at most 8 bits.
inline IntVector round_to_int(Vector v) {
    // So large that the last bit of the sum counts ones.
    constexpr float kShift = 12582912.0F;
    return as_int(v + kShift) - as_int(Vector{} + kShift);
}

inline Vector select(IntVector condition, Vector yes, Vector no) {
    return as_float((condition & as_int(yes)) | (~condition & as_int(no)));
}

// The whole numbers of one group of kWidth columns, w [kGroup, kPackedPanel], and their scales.
template <typename Format>
struct RoundedGroup {
    Vector scale; // its lower half is 0
    IntVector numbers[Format::kGroup];

    explicit RoundedGroup(const float* w) {
        Vector extreme{}; // the one furthest from 0
        Vector finite{};  // 0, or NaN where a weight is not finite
        for (Index k = 0; k < Format::kGroup; ++k) {
            const Vector value = load(w + k * kPackedPanel);
            extreme = select(absolute(value) > absolute(extreme), value, extreme);
            finite += value * 0.0F;
        }
        if constexpr (Format::kBits == 8) {
            // Rounded up, so that the largest weight stays within 127.
            const IntVector bits = as_int(absolute(extreme) / kLargest + finite) + 0xffff;
            scale = as_float(bits & static_cast<std::int32_t>(0xffff0000));
            round(w, kLargest);
        } else {
            // The extreme becomes -8, of which there is no positive counterpart. Then the scale
            // that brings these numbers nearest to the weights, by least squares, and its numbers.
            scale = as_float(to_bfloat16(extreme / -8.0F + finite) << 16);
            round(w, 7);
            Vector products{};
            Vector squares{};
            for (Index k = 0; k < Format::kGroup; ++k) {
                const Vector number = __builtin_convertvector(numbers[k], Vector);
                products = fused(load(w + k * kPackedPanel), number, products);
                squares = fused(number, number, squares);
            }
            const Vector best = products / select(squares == 0.0F, squares + 1.0F, squares);
            scale = as_float(to_bfloat16(best + finite) << 16);
            round(w, 7);
        }
    }

private:
    void round(const float* w, float most) {
        const Vector divisor = select(scale == 0.0F, Vector{} + 1.0F, scale);
        const Vector least = -most - (Format::kBits == 8 ? Vector{} : Vector{} + 1.0F);
        for (Index k = 0; k < Format::kGroup; ++k) {
            const Vector quotient = load(w + k * kPackedPanel) / divisor;
            numbers[k] = round_to_int(at_least(at_most(quotient, Vector{} + most), least));
        }
    }
};

template <typename Format>
inline void pack_group(const float* w, std::uint8_t* weights, std::uint8_t* scales) {
    using Group = Layout<Format>;
    const RoundedGroup<Format> rounded(w);
    typedef std::uint16_t Halves __attribute__((vector_size(kWidth * 2), aligned(2), may_alias));
    *reinterpret_cast<Halves*>(scales) =
        __builtin_convertvector((as_int(rounded.scale) >> 16) & 0xffff, Halves);
    for (Index row = 0; row < Group::kRows; ++row) {
        IntVector bytes{};
        for (Index i = 0; i < kQuad * Group::kQuads; ++i) {
            const Index shift = i % kQuad * 8 + i / kQuad * Format::kBits;
            const IntVector number = rounded.numbers[row * kQuad * Group::kQuads + i];
            bytes |= ((number + Group::kZero) & Group::kMask) << static_cast<std::int32_t>(shift);
        }
        store_ints(weights + row * kWeightRow, bytes);
    }
}

template <typename Format>
void pack_integers(const Matrix& w, Index depth, Index n0, Index n1, std::uint8_t* packed,
                   float* scratch) {
    using Group = Layout<Format>;
    const Index groups = Group::groups(depth);
    for (Index n = n0; n < n1; n += kPackedPanel) {
        std::uint8_t* out = packed + n / kPackedPanel * integer_panel_size<Format>(depth);
        gather_panel({w.data + n * w.column_stride, w.row_stride, w.column_stride}, depth,
                     groups * Group::kGroup, smaller(n1 - n, kPackedPanel), scratch);
        for (Index group = 0; group < groups; ++group) {
            for (Index column = 0; column < kPackedPanel; column += kWidth) {
                pack_group<Format>(scratch + group * Group::kGroup * kPackedPanel + column,
                                   out + column * kQuad, out + Group::kGroupWeights + column * 2);
            }
            out += Group::kGroupSize;
        }
    }
}

inline float bfloat16_at(const std::uint8_t* p) {
    return __builtin_bit_cast(float, std::uint32_t{p[0]} << 16 | std::uint32_t{p[1]} << 24);
}

template <typename Format>
void unpack_integer_column(const PackedMatrix& w, Index column, float* out) {
    using Group = Layout<Format>;
    const std::uint8_t* const panel =
        w.data + column / kPackedPanel * integer_panel_size<Format>(w.depth);
    const Index place = column % kPackedPanel;
    for (Index k = 0; k < w.depth; ++k) {
        const std::uint8_t* const group = panel + k / Group::kGroup * Group::kGroupSize;
        const Index quad = k % Group::kGroup / kQuad;
        const int byte = group[quad / Group::kQuads * kWeightRow + place * kQuad + k % kQuad];
        const int number = (byte >> (quad % Group::kQuads * Format::kBits)) & Group::kMask;
        out[k] = static_cast<float>(number - Group::kZero) *
                 bfloat16_at(group + Group::kGroupWeights + place * 2);
    }
}

template <typename Format>
struct PreparedIntegers {
    explicit PreparedIntegers(Index depth)
        : scales(Layout<Format>::groups(depth) * Format::kGroup),
          starts(scales + Layout<Format>::groups(depth) * 4),
          size(round_up(starts + Layout<Format>::groups(depth) * 4, 64)) {}

    Index scales; // bytes before them
    Index starts;
    Index size;
};

template <typename Format>
Index prepared_integers_size(Index depth) {
    return PreparedIntegers<Format>(depth).size;
}

template <typename Format>
void prepare_integers(const float* x, Index depth, std::uint8_t* prepared) {
    constexpr Index kGroup = Format::kGroup;
    typedef float Float __attribute__((may_alias));
    typedef std::int32_t Int __attribute__((may_alias));
    typedef std::int8_t Bytes __attribute__((vector_size(kWidth), aligned(1), may_alias));
    const PreparedIntegers<Format> layout(depth);
    for (Index group = 0; group < Layout<Format>::groups(depth); ++group) {
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
        // Unsigned: what is not finite rounds to anything, and its sum need not fit.
        std::uint32_t sum = 0;
        for (Index i = 0; i < kWidth; ++i) {
            sum += static_cast<std::uint32_t>(sums[i]);
        }
        reinterpret_cast<Float*>(prepared + layout.scales)[group] = most / kLargest + poison;
        reinterpret_cast<Int*>(prepared + layout.starts)[group] =
            static_cast<Int>(0 - static_cast<std::uint32_t>(Layout<Format>::kZero) * sum);
    }
}

template <typename Format, int Rows>
struct IntegerTile {
    using Group = Layout<Format>;

    static void run(const PackedTile& tile) {
        constexpr int kVectors = packed_vectors(Rows);
        const PreparedIntegers<Format> layout(tile.depth);
        Vector sums[Rows][kVectors] = {};
        for (Index group = 0; group < Group::groups(tile.depth); ++group) {
            const std::uint8_t* const block = tile.panel + group * Group::kGroupSize;
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
            const std::uint8_t* const scales = block + Group::kGroupWeights + tile.first_column * 2;
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
        const std::uint8_t* x = tile.x + group * Group::kGroup;
        for (Index weight_row = 0; weight_row < Group::kRows; ++weight_row) {
            IntVector bytes[Vectors];
            KAEL_UNROLLED
            for (int v = 0; v < Vectors; ++v) {
                bytes[v] = load_ints(weights + v * kWidth * kQuad);
                if constexpr (Rows == 1) {
                    __builtin_prefetch(weights + v * kWidth * kQuad + kFetchedPanelAhead);
                }
            }
            KAEL_UNROLLED
            for (int quad = 0; quad < Group::kQuads; ++quad) {
                IntVector w[Vectors];
                KAEL_UNROLLED
                for (int v = 0; v < Vectors; ++v) {
                    w[v] =
                        Group::kQuads == 1
                            ? bytes[v]
                            : (bytes[v] >> (quad * static_cast<int>(Format::kBits))) & 0x0f0f0f0f;
                }
                KAEL_UNROLLED
                for (int row = 0; row < Rows; ++row) {
                    const IntVector value = broadcast_bytes(x + row * tile.x_size);
                    KAEL_UNROLLED
                    for (int v = 0; v < Vectors; ++v) {
                        dots[row][v] = add_quad_products(dots[row][v], w[v], value);
                    }
                }
                x += kQuad;
            }
            weights += kWeightRow;
        }
    }
};

template <typename Format>
struct IntegerTiles {
    template <int Rows>
    using Tile = IntegerTile<Format, Rows>;
};

template <typename Format>
void multiply_integers(const std::uint8_t* prepared, Index rows, const PackedMatrix& w,
                       const float* bias, Index n0, Index n1, float* y, Index ldy) {
    multiply_panels<IntegerTiles<Format>::template Tile>(
        prepared, prepared_integers_size<Format>(w.depth), rows, w,
        integer_panel_size<Format>(w.depth), bias, n0, n1, y, ldy);
}

} // namespace
} // namespace kael::kernels::KAEL_INSTRUCTION_SET
