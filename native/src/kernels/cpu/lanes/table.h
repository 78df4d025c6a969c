// The kernels of this translation unit's instruction set as a table.
#pragma once

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/lanes/adam.h"
#include "kernels/cpu/lanes/attention.h"
#include "kernels/cpu/lanes/exponential.h"
#include "kernels/cpu/lanes/few_rows.h"
#include "kernels/cpu/lanes/limits.h"
#include "kernels/cpu/lanes/normalize.h"
#include "kernels/cpu/lanes/packed_bfloat16.h"
#include "kernels/cpu/lanes/packed_integers.h"
#include "kernels/cpu/lanes/rows.h"
#include "kernels/cpu/lanes/transpose.h"

namespace kael::kernels::KAEL_INSTRUCTION_SET {
namespace {

template <typename Format>
constexpr PackedKernels integer_kernels() {
    return {.panel_size = integer_panel_size<Format>,
            .pack = pack_integers<Format>,
            .pack_scratch = integer_pack_scratch<Format>,
            .unpack_column = unpack_integer_column<Format>,
            .prepared_size = prepared_integers_size<Format>,
            .prepare = prepare_integers<Format>,
            .multiply = multiply_integers<Format>,
            .multiply_add_loop = integer_multiply_add_loop};
}

constexpr CpuKernels make_table(const char* name) {
    return CpuKernels{
        .name = name,
        .matmul = matmul,
        .matmul_add = matmul_add,
        .matmul_panel = kPanel,
        .matmul_scratch = matmul_scratch,
        .transpose = transpose,
        .vector_matrix = vector_matrix,
        .matmul_rows = matmul_rows,
        .layer_norm = layer_norm,
        .gelu_tanh = gelu_tanh,
        .gelu_erf = gelu_erf,
        .relu = relu,
        .gelu_tanh_gradient = gelu_tanh_gradient,
        .add = add,
        .adam = adam,
        .add_halves = add_halves,
        .store_key = store_key,
        .attention_scores = attention_scores,
        .softmax = softmax,
        .attention_mix = attention_mix,
        .attention_rows = attention_rows,
        .attention_scratch = attention_scratch,
        .multiplies_bfloat16 = kMultipliesBfloat16,
        .bfloat16 = {.panel_size = bfloat16_panel_size,
                     .pack = pack_bfloat16,
                     .pack_scratch = bfloat16_pack_scratch,
                     .unpack_column = unpack_bfloat16_column,
                     .prepared_size = prepared_bfloat16_size,
                     .prepare = prepare_bfloat16,
                     .multiply = multiply_bfloat16,
                     .multiply_add_loop = bfloat16_multiply_add_loop},
        .int8 = integer_kernels<Int8>(),
        .int4 = integer_kernels<Int4>(),
        .read_stream = read_stream,
        .multiply_add_loop = multiply_add_loop,
    };
}

} // namespace
} // namespace kael::kernels::KAEL_INSTRUCTION_SET
