// The kernels of this translation unit's instruction set as a table.
#pragma once

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/lanes/adam.h"
#include "kernels/cpu/lanes/attention.h"
#include "kernels/cpu/lanes/exponential.h"
#include "kernels/cpu/lanes/few_rows.h"
#include "kernels/cpu/lanes/limits.h"
#include "kernels/cpu/lanes/normalize.h"
#include "kernels/cpu/lanes/rows.h"
#include "kernels/cpu/lanes/transpose.h"

namespace kael::kernels::KAEL_INSTRUCTION_SET {
namespace {

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
        .read_stream = read_stream,
        .multiply_add_loop = multiply_add_loop,
    };
}

} // namespace
} // namespace kael::kernels::KAEL_INSTRUCTION_SET
