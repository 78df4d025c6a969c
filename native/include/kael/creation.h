// New tensors. Tensor::empty, zeros and from_bytes are in tensor.h.
#pragma once

#include <cstdint>
#include <optional>

#include "kael/promotion.h"
#include "kael/tensor.h"

namespace kael {

// Filled with one number; of its own dtype (bool, int64 or kDefaultFloat) when none is given.
[[nodiscard]] Tensor full(const Shape& shape, const Scalar& value, std::optional<DType> dtype = {});

// start, start + step, ... up to but without end, each computed in float64 or, from integers alone,
// in int64, which is the dtype then when none is given. The step must lead from start to end.
// Integers cannot be made of floats.
[[nodiscard]] Tensor arange(const Scalar& start, const Scalar& end, const Scalar& step,
                            std::optional<DType> dtype = {});

// `count` numbers at equal distances from start to end, both exact. One number is start.
[[nodiscard]] Tensor linspace(double start, double end, std::int64_t count,
                              DType dtype = kDefaultFloat);

// Ones where both indices are equal, else zeros.
[[nodiscard]] Tensor eye(std::int64_t rows, std::int64_t columns, DType dtype = kDefaultFloat);

// Floats from the stream of manual_seed: evenly from [0, 1), and normal with mean 0 and standard
// deviation 1. The number of threads changes nothing.
[[nodiscard]] Tensor rand(const Shape& shape, DType dtype = kDefaultFloat);
[[nodiscard]] Tensor randn(const Shape& shape, DType dtype = kDefaultFloat);

} // namespace kael
