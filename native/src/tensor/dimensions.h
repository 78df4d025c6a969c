// Arguments that name dimensions. A tensor without any takes 0 and -1, as if it had one.
#pragma once

#include <string>
#include <vector>

#include "kael/tensor.h"

namespace kael {

// 0 to rank - 1. `name` is the operator's, for the error.
[[nodiscard]] int wrap_dimension(const Tensor& x, int dimension, const std::string& name);

// Ascending and each once; all of them when none is named. None for a tensor without dimensions.
[[nodiscard]] std::vector<int> wrap_dimensions(const Tensor& x, const std::vector<int>& dimensions,
                                               const std::string& name);

} // namespace kael
