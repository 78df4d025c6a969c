// Products with weights that are packed in fewer bits than float32; docs/formats/packed-weights.md
// gives the formats and how they round.
//
// A packed matrix [depth, columns] is a row of panels of kPackedPanel columns, the last one filled
// up with zeros; each lies in memory in the order in which a product reads it. A row of x is first
// prepared: brought to the type that the weights are multiplied with.
//
// Bits. An output is one chain over k ascending (over groups of k ascending for int8 and int4,
// whose sums within a group are whole numbers and exact), then + bias. So it does not depend on the
// number of rows, of columns or of threads. Tables whose instruction sets multiply pairs of
// bfloat16 differ from those that do not; int8 and int4 have the same bits wherever a multiply-add
// is fused.
#pragma once

#include <cstdint>

namespace kael::kernels {

struct Matrix;

inline constexpr std::int64_t kPackedPanel = 64;

struct PackedMatrix {
    const std::uint8_t* data; // begins with a cache line
    std::int64_t depth;
    std::int64_t columns;
};

struct PackedKernels {
    // Bytes of a panel of `depth` rows, a multiple of 64.
    std::int64_t (*panel_size)(std::int64_t depth);
    // Writes the panels of the columns [n0, n1) of W [depth, columns], n0 a multiple of
    // kPackedPanel, to the matrix at `packed`. `scratch` has pack_scratch(depth) floats. Columns
    // with a weight that is not finite become NaN, at least in the group that it stands in.
    void (*pack)(const Matrix& w, std::int64_t depth, std::int64_t n0, std::int64_t n1,
                 std::uint8_t* packed, float* scratch);
    std::int64_t (*pack_scratch)(std::int64_t depth);
    // out[depth] = one column as floats.
    void (*unpack_column)(const PackedMatrix& w, std::int64_t column, float* out);

    // Bytes of a prepared row, a multiple of 64.
    std::int64_t (*prepared_size)(std::int64_t depth);
    void (*prepare)(const float* x, std::int64_t depth, std::uint8_t* prepared);
    // Y[m, n0..n1) = X[m, :] W[:, n0..n1) + bias for all m in [0, rows), X prepared rows that
    // follow each other without gaps. n0 is a multiple of kPackedPanel; `bias` may be null.
    void (*multiply)(const std::uint8_t* prepared, std::int64_t rows, const PackedMatrix& w,
                     const float* bias, std::int64_t n0, std::int64_t n1, float* y,
                     std::int64_t ldy);

    // `iterations` rounds, in registers, of what a product spends its time on; returns how many
    // multiplications and additions of weights one round makes.
    std::int64_t (*multiply_add_loop)(std::int64_t iterations);
};

} // namespace kael::kernels
