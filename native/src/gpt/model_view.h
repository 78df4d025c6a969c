// A model as the decoder's loops see it: plain pointers and sizes.
#pragma once

#include <cstdint>
#include <vector>

#include "kael/gpt.h"

#include "kernels/cpu/kernels.h"

namespace kael::gpt {

struct LayerView {
    const float* ln_1_gain;
    const float* ln_1_bias;
    const float* qkv; // [width, 3 * width]
    const float* qkv_bias;
    const float* proj; // [width, width]
    const float* proj_bias;
    const float* ln_2_gain;
    const float* ln_2_bias;
    const float* fc; // [width, inner]
    const float* fc_bias;
    const float* mlp_proj; // [inner, width]
    const float* mlp_proj_bias;
    float score_scale;
};

// Valid while the weights it was made from are.
struct ModelView {
    ModelView(const Config& config, const Weights& weights);

    const kernels::CpuKernels& kernels;
    void (*activation)(float*, std::int64_t);
    std::int64_t vocabulary;
    std::int64_t positions; // the most there can be
    std::int64_t width;
    std::int64_t inner;
    std::int64_t heads;
    std::int64_t head_dimension;
    float epsilon;
    const float* token_embedding;
    const float* position_embedding;
    std::vector<LayerView> layers;
    const float* ln_f_gain;
    const float* ln_f_bias;
    const float* head; // [vocabulary, width]

    // Numbers multiplied with each position.
    [[nodiscard]] std::int64_t weights_read() const;
    // out[width] = the token's embedding + the position's.
    void embed(std::int64_t id, std::int64_t position, float* out) const;
};

} // namespace kael::gpt
