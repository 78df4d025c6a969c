// A tensor beside what the reference knows of it, and operands made of one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "kael/tensor.h"

#include "number.h"
#include "operators/operator.h"
#include "shape.h"

namespace kael::fuzz {

struct Memory {
    std::vector<Number> elements;
    std::uint64_t version = 0;
};

// A view of `memory`: its i-th element in row-major order stands at places[i] there.
struct Tracked {
    Tensor tensor;
    std::shared_ptr<Memory> memory;
    std::vector<std::size_t> places;

    [[nodiscard]] const Shape& shape() const { return tensor.shape(); }
    [[nodiscard]] DType dtype() const { return tensor.dtype(); }
    [[nodiscard]] Number at(std::size_t i) const { return memory->elements[places[i]]; }
    [[nodiscard]] Number at(const Index& index) const { return at(position(shape(), index)); }
    // The element that broadcasting shows at an index into a larger shape.
    [[nodiscard]] Number broadcast(const Index& index) const {
        Index own(index.end() - static_cast<std::ptrdiff_t>(shape().size()), index.end());
        for (std::size_t d = 0; d < own.size(); ++d) {
            own[d] = shape()[d] == 1 ? 0 : own[d];
        }
        return at(own);
    }
    [[nodiscard]] std::vector<Number> values() const {
        std::vector<Number> all;
        for (std::size_t i = 0; i < places.size(); ++i) {
            all.push_back(at(i));
        }
        return all;
    }
};

// An operand of an elementwise operator: a tensor or a number.
struct Value {
    const Tracked* tracked = nullptr;
    Scalar number = false;

    [[nodiscard]] DType dtype() const {
        constexpr DType kDTypes[] = {DType::boolean, DType::int64, DType::float32};
        return tracked != nullptr ? tracked->dtype() : kDTypes[number.index()];
    }
    [[nodiscard]] Shape shape() const { return tracked != nullptr ? tracked->shape() : Shape{}; }
    [[nodiscard]] Argument argument() const {
        if (tracked != nullptr) {
            return tracked->tensor;
        }
        return std::visit([](auto value) -> Argument { return value; }, number);
    }
    // As `dtype`; a number keeps all of its digits beside floats.
    [[nodiscard]] Number at(const Index& index, DType dtype) const {
        if (tracked != nullptr) {
            return converted(tracked->broadcast(index), tracked->dtype(), dtype);
        }
        const double real = std::visit([](auto v) { return static_cast<double>(v); }, number);
        return is_real(dtype) ? Number{real, 0} : Number{0, static_cast<std::int64_t>(real)};
    }
    // Whether an integer number is one of the dtype.
    [[nodiscard]] bool fits(DType dtype) const {
        const auto* const integer = std::get_if<std::int64_t>(&number);
        return tracked != nullptr || integer == nullptr || is_real(dtype) ||
               wrapped(*integer, dtype) == *integer;
    }
};

// Tensors with dimensions decide, then tensors without, then numbers, each only where it is of a
// higher kind.
DType result_dtype(const std::vector<Value>& values);

// As it stands in the memory of the library, counted in row-major order.
Number element(const Tensor& tensor, std::size_t i);

} // namespace kael::fuzz
