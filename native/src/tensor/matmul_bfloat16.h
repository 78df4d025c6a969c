// Products of float32 matrices in bfloat16, with float32 sums.
#pragma once

#include "tensor/matmul_product.h"

namespace kael::forward {

// Whether the processor multiplies bfloat16 and the product is large enough to be converted.
// Depends on shapes alone, not on threads.
[[nodiscard]] bool pays_in_bfloat16(const Product& product);

// One product, not a batch. An output is one chain over k ascending within each 4096 of k, and the
// sums of these are added in order.
void multiply_in_bfloat16(const Product& product, const float* a, const float* b, float* y);

} // namespace kael::forward
