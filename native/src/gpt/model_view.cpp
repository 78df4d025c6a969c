#include "gpt/model_view.h"

#include <algorithm>
#include <cmath>

namespace kael::gpt {

namespace {

auto activation_kernel(Activation activation, const kernels::CpuKernels& table) {
    switch (activation) {
    case Activation::gelu_erf:
        return table.gelu_erf;
    case Activation::relu:
        return table.relu;
    case Activation::gelu_tanh:
        break;
    }
    return table.gelu_tanh;
}

float score_scale(const Config& config, std::int64_t layer) {
    double scale = 1;
    if (config.scale_attention) {
        scale /= std::sqrt(static_cast<double>(config.head_dimension()));
    }
    if (config.scale_attention_by_inverse_layer) {
        scale /= static_cast<double>(layer + 1);
    }
    return static_cast<float>(scale);
}

LayerView view_of(const LayerWeights& layer, float scale) {
    return {
        .ln_1_gain = layer.ln_1_weight.data<float>(),
        .ln_1_bias = layer.ln_1_bias.data<float>(),
        .qkv = layer.attn_qkv_weight.data<float>(),
        .qkv_bias = layer.attn_qkv_bias.data<float>(),
        .proj = layer.attn_proj_weight.data<float>(),
        .proj_bias = layer.attn_proj_bias.data<float>(),
        .ln_2_gain = layer.ln_2_weight.data<float>(),
        .ln_2_bias = layer.ln_2_bias.data<float>(),
        .fc = layer.mlp_fc_weight.data<float>(),
        .fc_bias = layer.mlp_fc_bias.data<float>(),
        .mlp_proj = layer.mlp_proj_weight.data<float>(),
        .mlp_proj_bias = layer.mlp_proj_bias.data<float>(),
        .score_scale = scale,
    };
}

} // namespace

ModelView::ModelView(const Config& config, const Weights& weights)
    : kernels(kernels::cpu_kernels()), activation(activation_kernel(config.activation, kernels)),
      vocabulary(config.vocab_size), positions(config.max_positions), width(config.dimension),
      inner(config.mlp_dimension()), heads(config.heads), head_dimension(config.head_dimension()),
      epsilon(static_cast<float>(config.layer_norm_epsilon)),
      token_embedding(weights.token_embedding.data<float>()),
      position_embedding(weights.position_embedding.data<float>()),
      ln_f_gain(weights.ln_f_weight.data<float>()), ln_f_bias(weights.ln_f_bias.data<float>()),
      head(weights.head.data<float>()) {
    for (const LayerWeights& layer : weights.layers) {
        const auto index = static_cast<std::int64_t>(layers.size());
        layers.push_back(view_of(layer, score_scale(config, index)));
    }
}

std::int64_t ModelView::weights_read() const {
    const auto count = static_cast<std::int64_t>(layers.size());
    return count * width * (4 * width + 2 * inner) + vocabulary * width;
}

void ModelView::embed(std::int64_t id, std::int64_t position, float* out) const {
    std::copy_n(token_embedding + id * width, width, out);
    kernels.add(out, position_embedding + position * width, width);
}

} // namespace kael::gpt
