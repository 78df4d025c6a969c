// Products of matrices. Nothing is recorded for gradients: kael/operators.h has the same function,
// recording.
#pragma once

#include <cstdint>

#include "kael/tensor.h"

namespace kael {

// What float32 matrices are multiplied in.
enum class MatmulPrecision : std::int32_t {
    highest = 0, // float32
    medium = 1,  // bfloat16 with float32 sums, where the processor has instructions for it and the
                 // matrices are large; else float32
};

// Of the whole process; highest at first. Any thread; a product that is being computed keeps what
// it began with. Results of medium differ between processors.
void set_float32_matmul_precision(MatmulPrecision precision);
[[nodiscard]] MatmulPrecision float32_matmul_precision() noexcept;

} // namespace kael

namespace kael::forward {

// The product over the last dimension of `a` and the last but one of `b`, for every index into the
// dimensions before them, which broadcast. A vector is a row on the left and a column on the right,
// and leaves no dimension behind: two vectors give their dot product, without dimensions. Zeros
// where there is nothing to add up.
//
// Both have the same dtype, not bool. float16 and bfloat16 are multiplied as float32 and rounded
// once, integers wrap. The order of additions depends on the length of the sum alone.
[[nodiscard]] Tensor matmul(const Tensor& a, const Tensor& b);

} // namespace kael::forward
