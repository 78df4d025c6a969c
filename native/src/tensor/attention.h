// Self-attention of float32 heads in which a position sees itself and those before it, without ever
// holding all scores. The same bits for any number of threads.
#pragma once

#include <cstdint>

#include "kael/tensor.h"

namespace kael::forward {

// qkv float32 [batch, positions, 3 * width]: queries, keys and values, each width = heads * size.
// The result, [batch, positions, width], is softmax(scale * query . key) . value for each head.
[[nodiscard]] Tensor causal_attention(const Tensor& qkv, std::int64_t heads, double scale);

// The gradient of qkv for that of the result. Scores are computed again.
[[nodiscard]] Tensor causal_attention_gradient(const Tensor& gradient, const Tensor& qkv,
                                               std::int64_t heads, double scale);

} // namespace kael::forward
