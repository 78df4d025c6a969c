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

const float* data_of(const Tensor& tensor) {
    return tensor.defined() ? tensor.data<float>() : nullptr;
}

LinearView linear_view(const Tensor& weight, const kernels::PackedMatrix* packed,
                       const Tensor& bias, std::int64_t depth) {
    return {.depth = depth,
            .columns = bias.numel(),
            .weight = data_of(weight),
            .packed = packed == nullptr ? kernels::PackedMatrix{} : *packed,
            .bias = bias.data<float>()};
}

LayerView layer_view(const Config& config, const LayerWeights& layer,
                     const PackedWeights::Layer* packed, float scale) {
    const std::int64_t width = config.dimension;
    const auto part = [&](kernels::PackedMatrix PackedWeights::Layer::* matrix) {
        return packed == nullptr ? nullptr : &(packed->*matrix);
    };
    using Packed = PackedWeights::Layer;
    return {
        .ln_1_gain = layer.ln_1_weight.data<float>(),
        .ln_1_bias = layer.ln_1_bias.data<float>(),
        .qkv = linear_view(layer.attn_qkv_weight, part(&Packed::qkv), layer.attn_qkv_bias, width),
        .proj =
            linear_view(layer.attn_proj_weight, part(&Packed::proj), layer.attn_proj_bias, width),
        .ln_2_gain = layer.ln_2_weight.data<float>(),
        .ln_2_bias = layer.ln_2_bias.data<float>(),
        .fc = linear_view(layer.mlp_fc_weight, part(&Packed::fc), layer.mlp_fc_bias, width),
        .mlp_proj = linear_view(layer.mlp_proj_weight, part(&Packed::mlp_proj), layer.mlp_proj_bias,
                                config.mlp_dimension()),
        .score_scale = scale,
    };
}

} // namespace

ModelView::ModelView(const Config& config, const Weights& weights, const PackedWeights* packed)
    : kernels(kernels::cpu_kernels()),
      packed_kernels(packed == nullptr ? nullptr : &packed->kernels()),
      activation(activation_kernel(config.activation, kernels)), vocabulary(config.vocab_size),
      positions(config.max_positions), width(config.dimension), inner(config.mlp_dimension()),
      heads(config.heads), head_dimension(config.head_dimension()),
      epsilon(static_cast<float>(config.layer_norm_epsilon)), layers(weights.layers.size()) {
    find_weights(config, weights, packed);
}

void ModelView::find_weights(const Config& config, const Weights& weights,
                             const PackedWeights* packed) {
    token_embedding = data_of(weights.token_embedding);
    packed_token_embedding = packed == nullptr ? kernels::PackedMatrix{} : packed->embedding();
    position_embedding = weights.position_embedding.data<float>();
    for (std::size_t index = 0; index < layers.size(); ++index) {
        layers[index] = layer_view(config, weights.layers[index],
                                   packed == nullptr ? nullptr : &packed->layers()[index],
                                   score_scale(config, static_cast<std::int64_t>(index)));
    }
    ln_f_gain = weights.ln_f_weight.data<float>();
    ln_f_bias = weights.ln_f_bias.data<float>();
    head = {.depth = width,
            .columns = vocabulary,
            .weight = data_of(weights.head),
            .packed = packed == nullptr ? kernels::PackedMatrix{} : packed->head(),
            .bias = nullptr};
}

std::int64_t ModelView::weights_read() const {
    const auto count = static_cast<std::int64_t>(layers.size());
    return count * width * (4 * width + 2 * inner) + vocabulary * width;
}

void ModelView::embed_token(std::int64_t id, float* out) const {
    if (packed_kernels != nullptr) {
        packed_kernels->unpack_column(packed_token_embedding, id, out);
    } else {
        std::copy_n(token_embedding + id * width, width, out);
    }
}

void ModelView::embed(std::int64_t id, std::int64_t position, float* out) const {
    embed_token(id, out);
    kernels.add(out, position_embedding + position * width, width);
}

} // namespace kael::gpt
