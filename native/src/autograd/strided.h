// Views by shape, strides and offset: how a view finds its place again in its base, and in a
// gradient of its base.
#pragma once

#include <cstdint>

#include "kael/tensor.h"

namespace kael::autograd {

// Where the elements of a view stand, counted from the first one of its base.
struct Strided {
    Shape shape;
    Shape strides;
    std::int64_t offset;
};
[[nodiscard]] Strided place_in(const Tensor& base, const Tensor& view);

// The view of `base` at that place, recorded. The base has the strides of the one that the place
// was found in.
[[nodiscard]] Tensor as_strided(const Tensor& base, const Strided& place);

// A copy with these strides, recorded. Each element has a place of its own.
[[nodiscard]] Tensor copy_with_strides(const Tensor& tensor, const Shape& strides);

} // namespace kael::autograd
