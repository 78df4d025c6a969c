// Small float32 tensors for tests of gradients, and their elements.
#pragma once

#include <cstdint>
#include <vector>

#include "kael/tensor.h"

namespace kael::test {

using Values = std::vector<float>;

inline Tensor constant(const Values& values, const Shape& shape) {
    return Tensor::from_bytes(values.data(), static_cast<std::int64_t>(4 * values.size()), shape,
                              DType::float32);
}

inline Tensor leaf(const Values& values, const Shape& shape) {
    return constant(values, shape).set_requires_grad(true);
}

inline Tensor leaf(const Values& values) {
    return leaf(values, {static_cast<std::int64_t>(values.size())});
}

// In row-major order; none of an undefined tensor.
inline Values values_of(const Tensor& tensor) {
    if (!tensor.defined()) {
        return {};
    }
    const Tensor flat = tensor.detach().contiguous();
    const float* const data = flat.data<float>();
    return {data, data + flat.numel()};
}

} // namespace kael::test
