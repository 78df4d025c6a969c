// The kernels' arithmetic one float at a time, written from the comment of kernels.h alone.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace kael::kernels::model {

// How one instruction set computes a * b + c.
struct Arithmetic {
    bool is_fused;

    [[nodiscard]] float fused(float a, float b, float c) const {
        if (is_fused) {
            return std::fma(a, b, c);
        }
        const float product = a * b;
        return product + c;
    }

    // A chain over k in [k0, k1), from zero; `step` is the distance of two weights.
    [[nodiscard]] float chain(const float* x, const float* w, std::int64_t step, std::int64_t k0,
                              std::int64_t k1) const {
        float sum = 0.0f;
        for (std::int64_t k = k0; k < k1; ++k) {
            sum = fused(x[k], w[k * step], sum);
        }
        return sum;
    }

    [[nodiscard]] float linear(const float* x, const float* w, std::int64_t ldw, std::int64_t depth,
                               const float* bias) const {
        const float sum = chain(x, w, ldw, 0, depth / 2) + chain(x, w, ldw, depth / 2, depth);
        return bias == nullptr ? sum : sum + *bias;
    }

    [[nodiscard]] float dot_in_lanes(const float* x, const float* row, std::int64_t depth) const {
        std::array<float, 16> lanes{};
        for (std::int64_t k = 0; k < (depth + 15) / 16 * 16; ++k) {
            float& lane = lanes.at(static_cast<std::size_t>(k % 16));
            lane = k < depth ? fused(x[k], row[k], lane) : fused(0.0f, 0.0f, lane);
        }
        return in_halves(lanes);
    }

    [[nodiscard]] static float in_halves(std::array<float, 16> lanes) {
        for (std::size_t half = 8; half > 0; half /= 2) {
            for (std::size_t i = 0; i < half; ++i) {
                lanes.at(i) += lanes.at(i + half);
            }
        }
        return lanes[0];
    }

    void layer_norm(const float* x, const float* gain, const float* bias, float epsilon,
                    std::int64_t n, float* y) const {
        std::array<float, 16> sums{};
        for (std::int64_t i = 0; i < n; ++i) {
            sums.at(static_cast<std::size_t>(i % 16)) += x[i];
        }
        const float count = static_cast<float>(n);
        const float mean = in_halves(sums) / count;
        std::array<float, 16> differences{};
        std::array<float, 16> squares{};
        for (std::int64_t i = 0; i < n; ++i) {
            const float d = x[i] - mean;
            const auto lane = static_cast<std::size_t>(i % 16);
            differences.at(lane) += d;
            squares.at(lane) = fused(d, d, squares.at(lane));
        }
        const float residue = in_halves(differences) / count;
        const float square = residue * residue;
        const float variance = std::max(in_halves(squares) / count - square, 0.0f);
        const float inverse = 1.0f / std::sqrt(variance + epsilon);
        for (std::int64_t i = 0; i < n; ++i) {
            y[i] = fused(((x[i] - mean) - residue) * inverse, gain[i], bias[i]);
        }
    }

    // exp by the steps that lanes/exponential.h documents.
    [[nodiscard]] float exponential(float x) const {
        x = std::min(std::max(x, -104.0f), 89.0f);
        const float shifted = fused(x, 1.44269504088896341f, 12582912.0f);
        const float n = shifted - 12582912.0f;
        const float r = fused(n, 2.12194440e-4f, fused(n, -0.693359375f, x));
        float p = 0.001382193732f;
        for (const float c : {0.008362892033f, 0.04166780235f, 0.1666657964f, 0.4999999815f}) {
            p = fused(p, r, c);
        }
        const float square = r * r;
        p = fused(p, square, r) + 1.0f;
        return static_cast<float>(std::ldexp(static_cast<double>(p), static_cast<int>(n)));
    }

    void softmax(float* scores, std::int64_t positions) const {
        float most = -std::numeric_limits<float>::infinity();
        for (std::int64_t t = 0; t < positions; ++t) {
            most = std::max(most, scores[t]);
        }
        std::array<float, 16> sums{};
        for (std::int64_t t = 0; t < positions; ++t) {
            scores[t] = exponential(scores[t] - most);
            sums.at(static_cast<std::size_t>(t % 16)) += scores[t];
        }
        const float scale = 1.0f / in_halves(sums);
        for (std::int64_t t = 0; t < positions; ++t) {
            scores[t] *= scale;
        }
    }

    // One query over `keys` [positions][head_dimension] and `values` likewise.
    [[nodiscard]] std::vector<float> attend(const float* query, const float* keys,
                                            const float* values, std::int64_t head_dimension,
                                            std::int64_t positions, float scale) const {
        std::vector<float> weights(static_cast<std::size_t>(positions));
        for (std::int64_t t = 0; t < positions; ++t) {
            weights[static_cast<std::size_t>(t)] =
                chain(query, keys + t * head_dimension, 1, 0, head_dimension) * scale;
        }
        softmax(weights.data(), positions);
        std::vector<float> out;
        for (std::int64_t d = 0; d < head_dimension; ++d) {
            out.push_back(chain(weights.data(), values + d, head_dimension, 0, positions));
        }
        return out;
    }
};

} // namespace kael::kernels::model
