// Operators that compute each element of the result from the elements at the same place. Shapes
// broadcast, dtypes are promoted (docs/tensors.md); the result is a new contiguous tensor. Names
// and values are PyTorch's. Nothing is recorded for gradients: kael/operators.h has the same
// functions, recording.
#pragma once

#include <initializer_list>
#include <span>

#include "kael/promotion.h"
#include "kael/tensor.h"

// neg abs sign floor ceil round (to even) trunc relu square: the dtype of x.
// exp to erf: floats; of integers and bools a float32.
// gelu (by erf) and gelu_tanh: of floats only.
// logical_not isnan isinf isfinite: bool.
// clang-format off: it would move one more name to a line of its own each time
#define KAEL_UNARY_OPERATORS(X)                                                                    \
    X(neg) X(abs) X(sign) X(floor) X(ceil) X(round) X(trunc) X(relu) X(square)                     \
    X(exp) X(expm1) X(log) X(log1p) X(sqrt) X(rsqrt) X(reciprocal) X(sin) X(cos) X(tanh)           \
    X(sigmoid) X(erf) X(gelu) X(gelu_tanh)                                                         \
    X(logical_not) X(isnan) X(isinf) X(isfinite)
// clang-format on

// div: integers and bools are divided as float32. floor_divide, trunc_divide: the quotient, rounded
// down, and towards zero. remainder has the sign of y, fmod that of x. An integer divided by 0, or
// raised to a negative power, is an error. maximum, minimum, clamp_min (x, least) and clamp_max (x,
// most) answer NaN where either is NaN. eq to ge and logical_*: bool.
// clang-format off
#define KAEL_BINARY_OPERATORS(X)                                                                   \
    X(add) X(sub) X(mul) X(div) X(floor_divide) X(trunc_divide) X(remainder) X(fmod) X(pow)        \
    X(maximum) X(minimum) X(clamp_min) X(clamp_max)                                                \
    X(eq) X(ne) X(lt) X(le) X(gt) X(ge)                                                            \
    X(logical_and) X(logical_or) X(logical_xor)
// clang-format on

namespace kael::forward {

// name(x) and, in place, name_(x). An in-place operator writes its result over its first operand
// and returns it. It refuses a shape that is not the result's, a dtype that can_store refuses,
// elements that share memory (a tensor that was expanded) and read-only memory; then nothing is
// written. Every view of the memory sees the new values and one version more. Another operand may
// overlap with x: it is read as it was before.
#define KAEL_DECLARE_UNARY(name)                                                                   \
    [[nodiscard]] Tensor name(const Operand& x);                                                   \
    Tensor& name##_(Tensor& x);
KAEL_UNARY_OPERATORS(KAEL_DECLARE_UNARY)
#undef KAEL_DECLARE_UNARY

// name(x, y) and name_(x, y).
#define KAEL_DECLARE_BINARY(name)                                                                  \
    [[nodiscard]] Tensor name(const Operand& x, const Operand& y);                                 \
    Tensor& name##_(Tensor& x, const Operand& y);
KAEL_BINARY_OPERATORS(KAEL_DECLARE_BINARY)
#undef KAEL_DECLARE_BINARY

// least where x is below it, most where x is above it or least is above most.
[[nodiscard]] Tensor clamp(const Operand& x, const Operand& least, const Operand& most);
Tensor& clamp_(Tensor& x, const Operand& least, const Operand& most);

// x where the bools of `condition` are true, y elsewhere.
[[nodiscard]] Tensor where(const Operand& condition, const Operand& x, const Operand& y);

// Writes `source`, broadcast and converted as by Tensor::to, over x.
Tensor& copy_(Tensor& x, const Operand& source);

} // namespace kael::forward
