// Views and plain copies that nothing records: what the methods of Tensor of the same name do,
// whose declarations describe them.
#pragma once

#include <string_view>
#include <vector>

#include "kael/tensor.h"

namespace kael {

// A dimension that `x` must have, counted from 0. Negative ones count from the end. `name` is the
// operator's, for the error.
[[nodiscard]] int existing_dimension(const Tensor& x, int dimension, std::string_view name);

namespace forward {

[[nodiscard]] Tensor transpose(const Tensor& x, int first, int second);
[[nodiscard]] Tensor permute(const Tensor& x, const std::vector<int>& dimensions);
[[nodiscard]] Tensor slice(const Tensor& x, int dimension, std::int64_t start, std::int64_t end,
                           std::int64_t step);
[[nodiscard]] Tensor select(const Tensor& x, int dimension, std::int64_t index);
[[nodiscard]] Tensor unsqueeze(const Tensor& x, int dimension);
[[nodiscard]] Tensor squeeze(const Tensor& x, int dimension);
[[nodiscard]] Tensor expand(const Tensor& x, const Shape& shape);
[[nodiscard]] Tensor diagonal(const Tensor& x, std::int64_t offset, int first, int second);
[[nodiscard]] Tensor view(const Tensor& x, const Shape& shape);
[[nodiscard]] Tensor reshape(const Tensor& x, const Shape& shape);
[[nodiscard]] Tensor clone(const Tensor& x);
[[nodiscard]] Tensor to(const Tensor& x, DType dtype);

} // namespace forward
} // namespace kael
