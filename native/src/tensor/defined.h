// What every operator asks of the tensors that it is given.
#pragma once

#include <string_view>

#include "kael/tensor.h"

namespace kael {

// Throws when `x` is undefined. `name` is the operator's, for the error.
void check_defined(const Tensor& x, std::string_view name);

} // namespace kael
