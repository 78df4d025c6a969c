// Layers and losses, each in one pass over memory, and their gradients in another. float64 is
// computed in float64, all else in float32. The same bits for any number of threads.
#pragma once

#include <cstdint>

#include "kael/tensor.h"

namespace kael::forward {

// Of every row, which is the last dimension of a tensor.
struct NormalizedRows {
    Tensor result; // of the shape and dtype of x
    Tensor mean;   // [rows], in the dtype that is computed in
    Tensor scale;  // [rows]: 1 / sqrt(variance + epsilon)
};

// (x - mean) * scale * weight + bias. x of one dimension or more, weight and bias [width] of its
// dtype.
[[nodiscard]] NormalizedRows layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                        double epsilon);

struct LayerNormGradients {
    Tensor x; // undefined where it is not wanted
    Tensor weight;
    Tensor bias;
};
[[nodiscard]] LayerNormGradients layer_norm_gradients(const Tensor& gradient, const Tensor& x,
                                                      const Tensor& mean, const Tensor& scale,
                                                      const Tensor& weight, bool of_x,
                                                      bool of_parameters);

// The mean of -log(softmax(logits)) at the targets, a tensor without dimensions: logits [N, C],
// targets int64 [N], each 0 to C - 1 or `ignored`, which leaves a row out. NaN when all are left
// out.
[[nodiscard]] Tensor cross_entropy(const Tensor& logits, const Tensor& targets,
                                   std::int64_t ignored);

// Of the logits, for the gradient of that mean.
[[nodiscard]] Tensor cross_entropy_gradient(const Tensor& gradient, const Tensor& logits,
                                            const Tensor& targets, std::int64_t ignored);

// Of x, of one shape with the gradient, where the gradient is that of gelu_tanh(x).
[[nodiscard]] Tensor gelu_tanh_gradient(const Tensor& gradient, const Tensor& x);

} // namespace kael::forward
