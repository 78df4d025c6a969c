// Which elements share memory: what an operator must know before it writes over one of its
// operands.
#pragma once

#include <string>

#include "kael/tensor.h"

namespace kael {

// False when two elements of the tensor may stand at the same place, as those that expand repeats.
[[nodiscard]] bool has_distinct_elements(const Tensor& tensor);

// Whether both may have bytes in common.
[[nodiscard]] bool overlap(const Tensor& a, const Tensor& b);

// Whether writing the elements of `written` in order, each after the one of `read` at the same
// index was read, changes an element of `read` before its turn. Not so for the same elements in the
// same order.
[[nodiscard]] bool spoils(const Tensor& written, const Tensor& read);

// What every in-place operator asks of the tensor that it writes: elements that are distinct, in
// memory that may be written. `name` is the operator's, for the error.
void check_destination(const Tensor& tensor, const std::string& name);

} // namespace kael
