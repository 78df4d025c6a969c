// Inner loops over float32, one table per instruction set, chosen once at run time.
//
// Bits. Every kernel fixes the order of its float operations independent of vector width, blocking,
// number of rows and number of threads, so that one-row and many-row kernels agree to the bit:
//  - linear: per output one chain of fused multiply-adds over k ascending for k < K/2, started from
//    zero, another over the rest, then (first + second) + bias.
//  - rows (the head, x . table[v]): 16 lanes over k (lane = k mod 16), each a chain from zero over
//    x and table as if zeros continued them to a multiple of 16; the lanes are then added in
//    halves: l[i] + l[i+8], then +4, +2, +1.
//  - attention: a score is a chain over d ascending, times the scale; the sum of exponentials runs
//    in 16 lanes by position (lane = t mod 16), added in halves as above; an output element is a
//    chain over t ascending.
// Instruction sets with fused multiply-add agree with each other; the baseline of x86-64, which has
// none, does not: there a multiply-add is rounded twice.
//
// Pointers may have any alignment. Nothing outside the given ranges is read or written, but lines
// beyond them may be prefetched. Sizes are 0 or more, and small enough for their products.
#pragma once

#include <cstdint>

#include "kernels/cpu/packed.h"

namespace kael::kernels {

// Keys are kept in blocks of 16 positions, [block][head_dimension][16], so that scores need no
// horizontal sums. Values are rows [position][head_dimension]. Both are per layer and head.
inline constexpr std::int64_t kKeyBlock = 16;

// A matrix where it lies: element [i, j] is data[i * row_stride + j * column_stride]. One of the
// two strides is 1: rows or columns have no gaps.
struct Matrix {
    const float* data;
    std::int64_t row_stride;
    std::int64_t column_stride;
};

// What a step of Adam multiplies by. For each element, in multiply-adds of the last factor written:
//   change = gradient + decay * parameter
//   mean = (keep_mean * mean) + take_mean * change
//   square = (keep_square * square) + (take_square * change) * change
//   parameter = (kept * parameter) + (-rate) * (mean / (sqrt(square) + epsilon))
struct AdamFactors {
    float decay;
    float keep_mean;
    float take_mean;
    float keep_square;
    float take_square;
    float kept;
    float rate;
    float epsilon;
};

struct CpuKernels {
    // "x86-64-v4-bf16", "x86-64-v4-vnni", "x86-64-v4", "x86-64-v3", "baseline"
    const char* name;

    // Y[m, n0..n1) = X[m, :] W[:, n0..n1) + bias for all m in [0, rows), W [K, N]. `bias` may
    // be null. `scratch` has matmul_scratch(K) floats, per thread. n0 must be a multiple of
    // matmul_panel. The wider the range, the better: a few rows read it in long runs, many rows
    // fetch the next panel while they use one.
    void (*matmul)(const float* x, std::int64_t ldx, std::int64_t rows, const Matrix& w,
                   std::int64_t depth, const float* bias, std::int64_t n0, std::int64_t n1,
                   float* y, std::int64_t ldy, float* scratch);
    // The same, added to what is in Y: (Y + first half) + second half. So is the rest of a product
    // over a K that is too long for a cache.
    void (*matmul_add)(const float* x, std::int64_t ldx, std::int64_t rows, const Matrix& w,
                       std::int64_t depth, std::int64_t n0, std::int64_t n1, float* y,
                       std::int64_t ldy, float* scratch);
    std::int64_t matmul_panel;
    std::int64_t (*matmul_scratch)(std::int64_t depth);

    // out[j, i] = x[i, j] for i in [0, rows), j in [0, columns).
    void (*transpose)(const float* x, std::int64_t ldx, std::int64_t rows, std::int64_t columns,
                      float* out, std::int64_t ldo);

    // One half of a one-row linear: y[n0..n1) = sum over k in [k0, k1) of x[k] W[k, n0..n1), a
    // chain from zero. The caller adds the halves: (first + second) + bias.
    void (*vector_matrix)(const float* x, const float* w, std::int64_t ldw, std::int64_t k0,
                          std::int64_t k1, std::int64_t n0, std::int64_t n1, float* y);

    // out[m, v] = X[m, :] . table[v, :] for all m in [0, rows), v in [v0, v1). Rows of the table
    // follow each other without gaps.
    void (*matmul_rows)(const float* x, std::int64_t ldx, std::int64_t rows, const float* table,
                        std::int64_t depth, std::int64_t v0, std::int64_t v1, float* out,
                        std::int64_t ldo);

    // y = (x - mean) / sqrt(variance + epsilon) * gain + bias over n >= 1 elements; two passes, 16
    // lanes, the rounding of the mean corrected. y may be x.
    void (*layer_norm)(const float* x, const float* gain, const float* bias, float epsilon,
                       std::int64_t n, float* y);

    // In place, over n elements; NaN stays NaN. The limits of both GELUs at -infinity are (-)0.
    // Their absolute errors are below 1.5e-7 and 1e-7 times max(1, |x|).
    void (*gelu_tanh)(float* x, std::int64_t n);
    void (*gelu_erf)(float* x, std::int64_t n);
    void (*relu)(float* x, std::int64_t n);
    // out[i] = gradient[i] times the derivative of gelu_tanh at x[i], with an absolute error of the
    // derivative below 5e-7; NaN stays NaN. Each may be one of the others.
    void (*gelu_tanh_gradient)(const float* gradient, const float* x, std::int64_t n, float* out);
    // y += x
    void (*add)(float* y, const float* x, std::int64_t n);
    // One step of Adam over n elements; see AdamFactors.
    void (*adam)(float* parameter, const float* gradient, float* mean, float* square,
                 std::int64_t n, const AdamFactors& factors);
    // y = (a + b) + bias; bias may be null. Adds the halves of a one-row linear.
    void (*add_halves)(const float* a, const float* b, const float* bias, std::int64_t n, float* y);

    // Puts one key [head_dimension] at `position` of the blocked keys.
    void (*store_key)(const float* key, std::int64_t head_dimension, std::int64_t position,
                      float* key_blocks);
    // scores[t] = (q . key[t]) * scale for t in [0, positions); writes up to the next multiple
    // of 16.
    void (*attention_scores)(const float* query, const float* key_blocks,
                             std::int64_t head_dimension, std::int64_t positions, float scale,
                             float* scores);
    // Softmax in place over [0, positions), entries up to the next multiple of 16 become 0. A row
    // of -infinity alone becomes zeros; NaN or +infinity anywhere makes all of it NaN.
    void (*softmax)(float* scores, std::int64_t positions);
    // out[d] = sum over t of weights[t] values[t][d]; rows of values are ldv apart.
    void (*attention_mix)(const float* weights, const float* values, std::int64_t ldv,
                          std::int64_t head_dimension, std::int64_t positions, float* out);
    // The three steps above for `rows` consecutive queries (row stride ldq), the first at position
    // `first`: row i sees positions [0, first + i]. scratch: attention_scratch(first + rows)
    // floats. Same bits as row by row.
    void (*attention_rows)(const float* queries, std::int64_t ldq, std::int64_t rows,
                           std::int64_t first, const float* key_blocks, const float* values,
                           std::int64_t ldv, std::int64_t head_dimension, float scale, float* out,
                           std::int64_t ldo, float* scratch);
    std::int64_t (*attention_scratch)(std::int64_t positions);

    // Products with weights in fewer bits.
    bool multiplies_bfloat16; // by an instruction, several times as fast as float32
    PackedKernels bfloat16;
    PackedKernels int8;
    PackedKernels int4;

    // Reads `count` floats (a multiple of 1024) in four streams and returns something that depends
    // on all of them. `fetch_ahead` asks for what comes 1 KB later, which helps some processors and
    // hinders others.
    float (*read_stream)(const float* data, std::int64_t count, bool fetch_ahead);
    // `iterations` rounds of multiply-adds in registers; returns how many float operations one
    // round makes.
    std::int64_t (*multiply_add_loop)(std::int64_t iterations);
};

// The widest table that this processor runs; KAEL_ISA, one of the names above, asks for a
// narrower one, and an unknown or unavailable name is an error.
[[nodiscard]] const CpuKernels& cpu_kernels();

// Every table that this processor runs, widest first: tests compare them with each other.
struct CpuKernelTables {
    const CpuKernels* tables[5];
    int count;
};
[[nodiscard]] CpuKernelTables available_cpu_kernels();

} // namespace kael::kernels
