#include "gpt/recorded_pass.h"

#include <cmath>
#include <limits>

#include "kael/creation.h"
#include "kael/operators.h"

namespace kael::gpt {

namespace {

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
    return matmul(x, weight) + bias;
}

// [B, T, D] to [B, H, T, D / H].
Tensor by_head(const Tensor& x, std::int64_t heads) {
    const Shape& shape = x.shape();
    return x.reshape({shape[0], shape[1], heads, shape[2] / heads}).transpose(1, 2);
}

// True where a position [T, 1] would see one [1, T] that comes after it.
Tensor future(std::int64_t length) {
    const Tensor positions = arange(std::int64_t{0}, length, std::int64_t{1});
    return lt(positions.unsqueeze(1), positions.unsqueeze(0));
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
                 const Tensor& x, const Tensor& hidden) {
    const Tensor qkv = linear(x, layer.attn_qkv_weight, layer.attn_qkv_bias);
    const std::vector<Tensor> parts = chunk(qkv, 3, -1);
    const Tensor query = by_head(parts[0], config.heads);
    const Tensor key = by_head(parts[1], config.heads);
    const Tensor value = by_head(parts[2], config.heads);
    const Tensor scores = matmul(query, key.transpose(2, 3)) * score_scale(config, index);
    const Tensor shares =
        softmax(masked_fill(scores, hidden, -std::numeric_limits<double>::infinity()), -1);
    const Tensor mixed = matmul(shares, value).transpose(1, 2).reshape(x.shape());
    return linear(mixed, layer.attn_proj_weight, layer.attn_proj_bias);
}

} // namespace

Tensor recorded_logits(const Config& config, const Weights& weights, const Tensor& ids,
                       Dropout dropout) {
    const std::int64_t length = ids.size(1);
    const auto normalized = [&](const Tensor& rows, const Tensor& weight, const Tensor& bias) {
        return layer_norm(rows, weight.shape(), weight, bias, config.layer_norm_epsilon);
    };
    const Tensor hidden = future(length);
    Tensor x = dropout(embedding(ids, weights.token_embedding) +
                       weights.position_embedding.slice(0, 0, length));
    for (std::int64_t index = 0; index < config.layers; ++index) {
        const LayerWeights& layer = weights.layers[static_cast<std::size_t>(index)];
        x = x + dropout(attention(config, layer, index,
                                  normalized(x, layer.ln_1_weight, layer.ln_1_bias), hidden));
        const Tensor inner =
            activated(config.activation, linear(normalized(x, layer.ln_2_weight, layer.ln_2_bias),
                                                layer.mlp_fc_weight, layer.mlp_fc_bias));
        x = x + dropout(linear(inner, layer.mlp_proj_weight, layer.mlp_proj_bias));
    }
    const Tensor last = normalized(x, weights.ln_f_weight, weights.ln_f_bias);
    return matmul(last, weights.head.transpose(0, 1));
}

} // namespace kael::gpt
