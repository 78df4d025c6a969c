#include "gpt/recorded_pass.h"

#include <cmath>

#include "kael/operators.h"

namespace kael::gpt {

namespace {

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
    return matmul(x, weight) + bias;
}

double score_scale(const Config& config, std::int64_t layer) {
    double scale = 1.0;
    if (config.scale_attention) {
        scale /= std::sqrt(static_cast<double>(config.head_dimension()));
    }
    if (config.scale_attention_by_inverse_layer) {
        scale /= static_cast<double>(layer + 1);
    }
    return scale;
}

Tensor activated(Activation activation, const Tensor& x) {
    switch (activation) {
    case Activation::gelu_tanh:
        return gelu_tanh(x);
    case Activation::gelu_erf:
        return gelu(x);
    case Activation::relu:
        break;
    }
    return relu(x);
}

Tensor attention(const Config& config, const LayerWeights& layer, std::int64_t index,
                 const Tensor& x) {
    const Tensor qkv = linear(x, layer.attn_qkv_weight, layer.attn_qkv_bias);
    const Tensor mixed = causal_attention(qkv, config.heads, score_scale(config, index));
    return linear(mixed, layer.attn_proj_weight, layer.attn_proj_bias);
}

} // namespace

Tensor recorded_logits(const Config& config, const Weights& weights, const Tensor& ids,
                       Dropout dropout) {
    const std::int64_t length = ids.size(1);
    const auto normalized = [&](const Tensor& rows, const Tensor& weight, const Tensor& bias) {
        return layer_norm(rows, weight.shape(), weight, bias, config.layer_norm_epsilon);
    };
    Tensor x = dropout(embedding(ids, weights.token_embedding) +
                       weights.position_embedding.slice(0, 0, length));
    for (std::int64_t index = 0; index < config.layers; ++index) {
        const LayerWeights& layer = weights.layers[static_cast<std::size_t>(index)];
        x = x + dropout(attention(config, layer, index,
                                  normalized(x, layer.ln_1_weight, layer.ln_1_bias)));
        const Tensor inner =
            activated(config.activation, linear(normalized(x, layer.ln_2_weight, layer.ln_2_bias),
                                                layer.mlp_fc_weight, layer.mlp_fc_bias));
        x = x + dropout(linear(inner, layer.mlp_proj_weight, layer.mlp_proj_bias));
    }
    const Tensor last = normalized(x, weights.ln_f_weight, weights.ln_f_bias);
    return matmul(last, weights.head.transpose(0, 1));
}

} // namespace kael::gpt
