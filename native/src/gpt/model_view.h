// A model as the decoder's loops see it: plain pointers and sizes.
#pragma once

#include <cstdint>
#include <vector>

#include "kael/gpt.h"

#include "gpt/packed_weights.h"
#include "kernels/cpu/kernels.h"

namespace kael::gpt {

// y = x W + bias
struct LinearView {
    std::int64_t depth;
    std::int64_t columns;
    const float* weight; // [depth, columns]; null when packed
    kernels::PackedMatrix packed;
    const float* bias; // [columns]; null for the head
};

struct LayerView {
    const float* ln_1_gain;
    const float* ln_1_bias;
    LinearView qkv;  // [width, 3 * width]
    LinearView proj; // [width, width]
    const float* ln_2_gain;
    const float* ln_2_bias;
    LinearView fc;       // [width, inner]
    LinearView mlp_proj; // [inner, width]
    float score_scale;
};

// Valid while the weights it was made from are.
struct ModelView {
    // `packed` is null for a model whose matrices are float32.
    ModelView(const Config& config, const Weights& weights, const PackedWeights* packed);

    // Points to the same weights where they have moved to. Needs no memory.
    void find_weights(const Config& config, const Weights& weights, const PackedWeights* packed);

    const kernels::CpuKernels& kernels;
    const kernels::PackedKernels* packed_kernels; // null for float32
    void (*activation)(float*, std::int64_t);
    std::int64_t vocabulary;
    std::int64_t positions; // the most there can be
    std::int64_t width;
    std::int64_t inner;
    std::int64_t heads;
    std::int64_t head_dimension;
    float epsilon;
    const float* token_embedding = nullptr; // null when packed
    kernels::PackedMatrix packed_token_embedding{};
    const float* position_embedding = nullptr;
    std::vector<LayerView> layers;
    const float* ln_f_gain = nullptr;
    const float* ln_f_bias = nullptr;
    LinearView head{}; // weight [vocabulary, width]: its rows are columns

    // Numbers multiplied with each position.
    [[nodiscard]] std::int64_t weights_read() const;
    // out[width] = the token's embedding.
    void embed_token(std::int64_t id, float* out) const;
    // out[width] = the token's embedding + the position's.
    void embed(std::int64_t id, std::int64_t position, float* out) const;
};

} // namespace kael::gpt
