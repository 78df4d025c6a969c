// Sums of whole columns, read row by row: what the gradient of a bias is.
#pragma once

#include <vector>

#include "kael/tensor.h"

namespace kael::forward {

// Whether `dimensions` (ascending) of `x` are its first ones and the memory is read faster by rows:
// float32 or float64 without gaps.
[[nodiscard]] bool are_columns(const Tensor& x, const std::vector<int>& dimensions);

// The sums over the first `count` dimensions as [rest], in the dtype of x and with the bits of
// sum(): 8 lanes within a block of rows, blocks in pairs.
[[nodiscard]] Tensor column_sums(const Tensor& x, int count);

} // namespace kael::forward
