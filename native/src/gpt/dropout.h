// Dropout (Srivastava et al.: "Dropout: a simple way to prevent neural networks from overfitting",
// 2014) for one recorded forward pass.
#pragma once

#include <cstdint>

#include "kael/tensor.h"

namespace kael::gpt {

// Not thread-safe. What it drops depends on the seed and on the sizes of the tensors that it was
// given so far: not on the number of threads.
class Dropout {
public:
    // `share` is at least 0 and below 1.
    Dropout(double share, std::uint64_t seed) : share_(share), seed_(seed) {}

    // `x`, float32, with each element 0 at a probability of `share` and the others scaled by
    // 1 / (1 - share), recorded; for a share of 0 `x` itself.
    [[nodiscard]] Tensor operator()(const Tensor& x);

private:
    double share_;
    std::uint64_t seed_;
    std::uint64_t next_block_ = 0; // of the random stream of `seed_`
};

} // namespace kael::gpt
