// Which dtype an operator computes in and answers with, and what its operands are: tensors, or
// numbers of the calling language. The table stands in docs/tensors.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "kael/dtype.h"
#include "kael/tensor.h"

namespace kael {

// The dtype of floating-point numbers that say nothing about their own.
inline constexpr DType kDefaultFloat = DType::float32;

// The smallest dtype that holds what `a` and `b` hold: within integers and within floats the wider
// one, across them the float. No dtype holds both float16 and bfloat16, nor both int8 and uint8:
// they become float32 and int32.
[[nodiscard]] DType promote(DType a, DType b);

// Whether a result of dtype `from` may be written into a tensor of dtype `to`, as in-place
// operators do: never from float to integer, nor from a number to bool.
[[nodiscard]] bool can_store(DType from, DType to);
// What can_store takes for `to`, for an error: "an integer or a bool".
[[nodiscard]] std::string_view storable(DType to);

// A number of the calling language. In an expression with a tensor it takes the tensor's dtype,
// unless it is of a higher kind: bool < integer < real.
using Scalar = std::variant<bool, std::int64_t, double>;

[[nodiscard]] double as_double(const Scalar& number);
// "2.5", "7", "true"
[[nodiscard]] std::string to_string(const Scalar& number);

// Refuses an integer that the dtype does not hold and would wrap. Floats are rounded, at worst to
// infinity. `name` is the operator's, for the error.
void check_fits(const Scalar& number, DType dtype, const std::string& name);

// A tensor or a number.
class Operand {
public:
    Operand(Tensor tensor) : value_(std::move(tensor)) {} // NOLINT(google-explicit-constructor)
    Operand(const Scalar& number) : value_(number) {}     // NOLINT(google-explicit-constructor)
    template <typename Number>
        requires std::is_arithmetic_v<Number>
    Operand(Number number) // NOLINT(google-explicit-constructor): add(x, 1) reads as it should
        : value_(scalar(number)) {}

    [[nodiscard]] bool is_number() const noexcept { return value_.index() == 1; }
    [[nodiscard]] const Tensor& tensor() const { return std::get<Tensor>(value_); }
    [[nodiscard]] const Scalar& number() const { return std::get<Scalar>(value_); }
    // Of a number: bool, int64 or kDefaultFloat.
    [[nodiscard]] DType dtype() const;
    [[nodiscard]] Shape shape() const { return is_number() ? Shape{} : tensor().shape(); }

private:
    template <typename Number>
    static Scalar scalar(Number number) {
        if constexpr (std::is_same_v<Number, bool>) {
            return number;
        } else if constexpr (std::is_floating_point_v<Number>) {
            return static_cast<double>(number);
        } else {
            static_assert(sizeof(Number) < 8 || std::is_signed_v<Number>, "beyond int64");
            return static_cast<std::int64_t>(number);
        }
    }

    std::variant<Tensor, Scalar> value_;
};

// The common dtype of operands. Tensors with dimensions decide. Tensors without any, and then
// numbers, count only where they are of a higher kind than those before them.
[[nodiscard]] DType result_type(std::span<const Operand> operands);

// The shape to which all of `shapes` broadcast: aligned at their last dimension, sizes are equal
// or 1. `name` is the operator's, for the error.
[[nodiscard]] Shape broadcast_shapes(std::span<const Shape> shapes, const std::string& name);

} // namespace kael
