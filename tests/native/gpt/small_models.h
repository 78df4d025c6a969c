// Models for tests, small and with weights of a spread that lets a wrong step show, and a naive
// forward pass in double precision to hold them against.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kael/gpt.h"
#include "kael/random.h"

#include "gpt/weights.h"

namespace kael::gpt::testing {

inline void redraw(Tensor& tensor, RandomStream& stream, double mean, double deviation) {
    float* data = tensor.mutable_data<float>();
    for (std::int64_t index = 0; index < tensor.numel(); ++index) {
        data[index] = static_cast<float>(mean + deviation * stream.next_normal());
    }
}

inline Weights spread_weights(const Config& config, std::uint64_t seed) {
    Weights weights = random_weights(config, seed);
    RandomStream stream(seed);
    redraw(weights.token_embedding, stream, 0, 0.5);
    redraw(weights.position_embedding, stream, 0, 0.5);
    for (LayerWeights& layer : weights.layers) {
        const double deviation = 1 / std::sqrt(static_cast<double>(config.dimension));
        for (Tensor* matrix : {&layer.attn_qkv_weight, &layer.attn_proj_weight,
                               &layer.mlp_fc_weight, &layer.mlp_proj_weight}) {
            redraw(*matrix, stream, 0, 1.2 * deviation);
        }
        for (Tensor* bias : {&layer.ln_1_bias, &layer.attn_qkv_bias, &layer.attn_proj_bias,
                             &layer.ln_2_bias, &layer.mlp_fc_bias, &layer.mlp_proj_bias}) {
            redraw(*bias, stream, 0, 0.2);
        }
        redraw(layer.ln_1_weight, stream, 1, 0.2);
        redraw(layer.ln_2_weight, stream, 1, 0.2);
    }
    redraw(weights.ln_f_weight, stream, 1, 0.2);
    redraw(weights.ln_f_bias, stream, 0, 0.2);
    if (!config.tie_word_embeddings) {
        redraw(weights.head, stream, 0, 0.5);
    }
    return weights;
}

inline std::vector<std::int64_t> random_ids(std::int64_t count, std::int64_t vocabulary,
                                            std::uint64_t seed) {
    RandomStream stream(seed);
    std::vector<std::int64_t> ids(static_cast<std::size_t>(count));
    for (std::int64_t& id : ids) {
        id = static_cast<std::int64_t>(stream.next_uniform() * static_cast<double>(vocabulary));
    }
    return ids;
}

using Row = std::vector<double>;
using Rows = std::vector<Row>;

// GPT-2 written down once more, as slowly and plainly as possible.
class NaiveModel {
public:
    NaiveModel(const Config& config, const Weights& weights) : config_(config), weights_(weights) {}

    // [positions][vocabulary]
    [[nodiscard]] Rows logits(const std::vector<std::int64_t>& ids) const {
        Rows stream;
        for (std::size_t position = 0; position < ids.size(); ++position) {
            Row row(size(config_.dimension));
            for (std::size_t d = 0; d < row.size(); ++d) {
                row[d] = at(weights_.token_embedding, size(ids[position]), d) +
                         at(weights_.position_embedding, position, d);
            }
            stream.push_back(row);
        }
        for (std::size_t layer = 0; layer < weights_.layers.size(); ++layer) {
            run_layer(stream, layer);
        }
        Rows result;
        for (const Row& row : norm(stream, weights_.ln_f_weight, weights_.ln_f_bias)) {
            Row scores(size(config_.vocab_size));
            for (std::size_t v = 0; v < scores.size(); ++v) {
                for (std::size_t d = 0; d < row.size(); ++d) {
                    scores[v] += row[d] * at(weights_.head, v, d);
                }
            }
            result.push_back(scores);
        }
        return result;
    }

private:
    static std::size_t size(std::int64_t value) { return static_cast<std::size_t>(value); }

    static double at(const Tensor& matrix, std::size_t row, std::size_t column) {
        return static_cast<double>(matrix.data<float>()[row * size(matrix.size(1)) + column]);
    }
    static double at(const Tensor& vector, std::size_t index) {
        return static_cast<double>(vector.data<float>()[index]);
    }

    static Rows linear(const Rows& x, const Tensor& weight, const Tensor& bias) {
        Rows y;
        for (const Row& row : x) {
            Row out(size(weight.size(1)));
            for (std::size_t n = 0; n < out.size(); ++n) {
                out[n] = at(bias, n);
                for (std::size_t k = 0; k < row.size(); ++k) {
                    out[n] += row[k] * at(weight, k, n);
                }
            }
            y.push_back(out);
        }
        return y;
    }

    [[nodiscard]] Rows norm(const Rows& x, const Tensor& gain, const Tensor& bias) const {
        Rows y;
        for (const Row& row : x) {
            const auto count = static_cast<double>(row.size());
            double mean = 0;
            double variance = 0;
            for (const double value : row) {
                mean += value / count;
            }
            for (const double value : row) {
                variance += (value - mean) * (value - mean) / count;
            }
            Row out(row.size());
            for (std::size_t d = 0; d < row.size(); ++d) {
                out[d] = (row[d] - mean) / std::sqrt(variance + config_.layer_norm_epsilon) *
                             at(gain, d) +
                         at(bias, d);
            }
            y.push_back(out);
        }
        return y;
    }

    [[nodiscard]] double activate(double x) const {
        switch (config_.activation) {
        case Activation::gelu_tanh:
            return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
        case Activation::gelu_erf:
            return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
        case Activation::relu:
            break;
        }
        return std::max(x, 0.0);
    }

    static void add(Rows& stream, const Rows& x) {
        for (std::size_t row = 0; row < x.size(); ++row) {
            for (std::size_t d = 0; d < x[row].size(); ++d) {
                stream[row][d] += x[row][d];
            }
        }
    }

    void run_layer(Rows& stream, std::size_t index) const {
        const LayerWeights& layer = weights_.layers[index];
        const Rows qkv = linear(norm(stream, layer.ln_1_weight, layer.ln_1_bias),
                                layer.attn_qkv_weight, layer.attn_qkv_bias);
        double scale = config_.scale_attention
                           ? 1 / std::sqrt(static_cast<double>(config_.head_dimension()))
                           : 1.0;
        if (config_.scale_attention_by_inverse_layer) {
            scale /= static_cast<double>(index + 1);
        }
        add(stream, linear(attend(qkv, scale), layer.attn_proj_weight, layer.attn_proj_bias));
        Rows inner = linear(norm(stream, layer.ln_2_weight, layer.ln_2_bias), layer.mlp_fc_weight,
                            layer.mlp_fc_bias);
        for (Row& row : inner) {
            for (double& value : row) {
                value = activate(value);
            }
        }
        add(stream, linear(inner, layer.mlp_proj_weight, layer.mlp_proj_bias));
    }

    [[nodiscard]] Rows attend(const Rows& qkv, double scale) const {
        const std::size_t width = size(config_.dimension);
        const std::size_t each = size(config_.head_dimension());
        Rows mixed(qkv.size(), Row(width));
        for (std::size_t start = 0; start < width; start += each) {
            for (std::size_t row = 0; row < qkv.size(); ++row) {
                Row weights(row + 1);
                for (std::size_t seen = 0; seen <= row; ++seen) {
                    for (std::size_t d = start; d < start + each; ++d) {
                        weights[seen] += qkv[row][d] * qkv[seen][width + d] * scale;
                    }
                }
                const double largest = *std::max_element(weights.begin(), weights.end());
                double total = 0;
                for (double& weight : weights) {
                    weight = std::exp(weight - largest);
                    total += weight;
                }
                for (std::size_t seen = 0; seen <= row; ++seen) {
                    for (std::size_t d = start; d < start + each; ++d) {
                        mixed[row][d] += weights[seen] / total * qkv[seen][2 * width + d];
                    }
                }
            }
        }
        return mixed;
    }

    const Config& config_;
    const Weights& weights_;
};

} // namespace kael::gpt::testing
