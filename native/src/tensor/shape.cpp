#include <algorithm>
#include <sstream>

#include "kael/error.h"
#include "kael/tensor.h"

#include "base/checked_arithmetic.h"

namespace kael {

namespace {

// The product of the dimensions that are not 0, times `factor`.
std::int64_t checked_product(const Shape& shape, std::int64_t factor, const char* unit) {
    KAEL_CHECK(shape.size() <= std::size_t{kMaxRank},
               "a shape with " << shape.size() << " dimensions, expected at most " << kMaxRank);
    std::int64_t product = factor;
    for (const std::int64_t dimension : shape) {
        KAEL_CHECK(dimension >= 0, "the shape "
                                       << to_string(shape)
                                       << " has a negative dimension, expected sizes of 0 or more");
        const std::optional<std::int64_t> next =
            try_multiply(product, std::max<std::int64_t>(dimension, 1));
        KAEL_CHECK(next.has_value(), "the shape "
                                         << to_string(shape) << " is too large: its " << unit
                                         << " do not fit in 64 bits, expected fewer than 2^63");
        product = *next;
    }
    return product;
}

bool has_zero(const Shape& shape) {
    return std::find(shape.begin(), shape.end(), 0) != shape.end();
}

} // namespace

std::string to_string(const Shape& shape) {
    std::ostringstream text;
    text << '[';
    for (std::size_t i = 0; i < shape.size(); ++i) {
        text << (i == 0 ? "" : ", ") << shape[i];
    }
    text << ']';
    return text.str();
}

std::int64_t element_count(const Shape& shape) {
    const std::int64_t product = checked_product(shape, 1, "elements");
    return has_zero(shape) ? 0 : product;
}

std::int64_t byte_count(const Shape& shape, DType dtype) {
    const std::int64_t product = checked_product(shape, item_size(dtype), "bytes");
    return has_zero(shape) ? 0 : product;
}

Shape contiguous_strides(const Shape& shape) {
    Shape strides(shape.size());
    std::int64_t stride = checked_product(shape, 1, "elements");
    for (std::size_t i = 0; i < shape.size(); ++i) {
        stride /= std::max<std::int64_t>(shape[i], 1);
        strides[i] = stride;
    }
    return strides;
}

} // namespace kael
