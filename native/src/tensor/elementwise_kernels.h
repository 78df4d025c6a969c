// The table of elementwise operators: what each accepts and answers, and its loops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kael {

// Over `count` elements. Inputs are of the type that the kernel is for; those of a condition, and
// results of ResultKind::boolean, are bytes. Nothing overlaps.
using ElementwiseKernel = void (*)(const std::byte* const* inputs, std::byte* output,
                                   std::int64_t count);

// float16 and bfloat16 are computed as float32, every integer and bool as int64, of which the
// result keeps the low bits (a bool: whether it is not 0).
struct ElementwiseKernels {
    ElementwiseKernel float32;
    ElementwiseKernel float64;
    ElementwiseKernel int64; // null: for floats only
};

enum class ResultKind {
    common,  // the operands' common dtype
    real,    // the same; for integers and bools kDefaultFloat, in which they are computed then
    boolean, // bool; an integer number is compared as it is, whether the tensor's dtype holds it or
             // not
};

enum class Bools { refused, accepted };

// What the second operand must be when it is an integer.
enum class IntegerRule { none, not_zero, not_negative };

struct ElementwiseRow {
    const char* name;
    int arity;
    ResultKind result;
    Bools bools; // whether bool may be the common dtype
    ElementwiseKernels kernels;
    IntegerRule rule = IntegerRule::none;
    bool first_is_condition = false; // bools that have no part in the common dtype
};

[[nodiscard]] std::span<const ElementwiseRow> elementwise_rows();

} // namespace kael
