#include "kael/promotion.h"

#include <algorithm>
#include <optional>
#include <sstream>

#include "kael/error.h"

namespace kael {

namespace {

enum class Kind { boolean, integer, real };

Kind kind(DType dtype) {
    if (dtype == DType::boolean) {
        return Kind::boolean;
    }
    return is_floating_point(dtype) ? Kind::real : Kind::integer;
}

// `first` decides, unless `second` is of a higher kind. Either may be absent.
std::optional<DType> prefer(std::optional<DType> first, std::optional<DType> second) {
    if (!first.has_value() || !second.has_value()) {
        return first.has_value() ? first : second;
    }
    return kind(*second) > kind(*first) ? second : first;
}

} // namespace

DType promote(DType a, DType b) {
    if (a == b) {
        return a;
    }
    if (kind(a) != kind(b)) {
        return kind(a) > kind(b) ? a : b;
    }
    if (item_size(a) != item_size(b)) {
        return item_size(a) > item_size(b) ? a : b;
    }
    return kind(a) == Kind::real ? DType::float32 : DType::int32;
}

bool can_store(DType from, DType to) {
    return kind(from) <= kind(to);
}

std::string_view storable(DType to) {
    switch (kind(to)) {
    case Kind::boolean:
        return "a bool";
    case Kind::integer:
        return "an integer or a bool";
    case Kind::real:
        break;
    }
    return "a number";
}

double as_double(const Scalar& number) {
    return std::visit([](auto value) { return static_cast<double>(value); }, number);
}

std::string to_string(const Scalar& number) {
    std::ostringstream text;
    text << std::boolalpha;
    std::visit([&](auto value) { text << value; }, number);
    return text.str();
}

void check_fits(const Scalar& number, DType dtype, const std::string& name) {
    const std::int64_t* const integer = std::get_if<std::int64_t>(&number);
    if (integer == nullptr || is_floating_point(dtype) || dtype == DType::int64) {
        return;
    }
    const std::int64_t bits = dtype == DType::boolean ? 1 : 8 * item_size(dtype);
    const bool has_sign = dtype == DType::int32 || dtype == DType::int8;
    const std::int64_t most = (std::int64_t{1} << (has_sign ? bits - 1 : bits)) - 1;
    const std::int64_t least = has_sign ? -most - 1 : 0;
    KAEL_CHECK(*integer >= least && *integer <= most,
               name << ": the number " << *integer << " does not fit the dtype "
                    << kael::name(dtype) << ", expected " << least << " to " << most);
}

DType Operand::dtype() const {
    if (!is_number()) {
        return tensor().dtype();
    }
    constexpr DType kDTypes[] = {DType::boolean, DType::int64, kDefaultFloat};
    return kDTypes[number().index()];
}

DType result_type(std::span<const Operand> operands) {
    // Tensors with dimensions, tensors without, numbers.
    std::optional<DType> groups[3];
    for (const Operand& operand : operands) {
        std::optional<DType>& group = operand.is_number()            ? groups[2]
                                      : operand.tensor().rank() == 0 ? groups[1]
                                                                     : groups[0];
        group = group.has_value() ? promote(*group, operand.dtype()) : operand.dtype();
    }
    const std::optional<DType> result = prefer(groups[0], prefer(groups[1], groups[2]));
    KAEL_CHECK(result.has_value(), "result_type: no operands, expected at least one");
    return *result;
}

Shape broadcast_shapes(std::span<const Shape> shapes, const std::string& name) {
    std::size_t rank = 0;
    for (const Shape& shape : shapes) {
        rank = std::max(rank, shape.size());
    }
    Shape result(rank, 1);
    for (const Shape& shape : shapes) {
        const std::size_t missing = rank - shape.size();
        for (std::size_t i = 0; i < shape.size(); ++i) {
            std::int64_t& size = result[missing + i];
            size = size == 1 ? shape[i] : size;
        }
    }
    for (std::size_t i = 0; i < rank; ++i) {
        for (const Shape& shape : shapes) {
            const std::size_t missing = rank - shape.size();
            const std::int64_t size = i < missing ? 1 : shape[i - missing];
            if (size == 1 || size == result[i]) {
                continue;
            }
            std::ostringstream all;
            for (const Shape& other : shapes) {
                all << (all.tellp() > 0 ? " and " : "") << to_string(other);
            }
            KAEL_CHECK(false, name << ": the shapes " << all.str()
                                   << " do not broadcast: dimension -" << rank - i << " has "
                                   << result[i] << " and " << size
                                   << ", expected equal sizes or 1");
        }
    }
    return result;
}

} // namespace kael
