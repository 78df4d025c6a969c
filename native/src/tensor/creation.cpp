#include "kael/creation.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <variant>
#include <vector>

#include "kael/error.h"
#include "kael/random.h"
#include "kael/threads.h"

#include "tensor/blocks.h"

namespace kael {

namespace {

constexpr std::int64_t kGrain = 32768;

// Element i becomes value(i), a double or an int64, converted to the dtype.
template <typename Value>
Tensor generate(const Shape& shape, DType dtype, Value&& value) {
    using T = decltype(value(std::int64_t{0}));
    constexpr DType kType = std::is_same_v<T, double> ? DType::float64 : DType::int64;
    Tensor result = Tensor::empty(shape, dtype);
    std::byte* const to = result.storage()->data();
    parallel_for(0, result.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
        std::vector<T> block(static_cast<std::size_t>(kBlock));
        for_each_block(begin, end, [&](std::int64_t first, std::int64_t count) {
            for (std::int64_t i = 0; i < count; ++i) {
                block[static_cast<std::size_t>(i)] = value(first + i);
            }
            convert_elements(kType, reinterpret_cast<const std::byte*>(block.data()), count, dtype,
                             to + first * item_size(dtype));
        });
    });
    return result;
}

bool is_integer(const Scalar& number) {
    return !std::holds_alternative<double>(number);
}

std::int64_t as_int64(const Scalar& number) {
    return std::holds_alternative<bool>(number) ? std::int64_t{std::get<bool>(number)}
                                                : std::get<std::int64_t>(number);
}

// How a range of numbers reads in an error.
std::string range(const Scalar& start, const Scalar& end, const Scalar& step) {
    return "from " + to_string(start) + " to " + to_string(end) + " in steps of " + to_string(step);
}

void check_direction(bool leads, const Scalar& start, const Scalar& end, const Scalar& step) {
    KAEL_CHECK(leads, "arange: " << range(start, end, step)
                                 << ", expected a step that leads from the start to the end");
}

Tensor arange_integers(const Scalar& first, const Scalar& last, const Scalar& by, DType dtype) {
    const std::int64_t start = as_int64(first);
    const std::int64_t end = as_int64(last);
    const std::int64_t step = as_int64(by);
    check_direction(step != 0 && (start == end || (start < end) == (step > 0)), first, last, by);
    // Distances of int64 need not be one themselves; without a sign they do not wrap.
    const auto distance = [](std::int64_t from, std::int64_t to) {
        return from < to ? static_cast<std::uint64_t>(to) - static_cast<std::uint64_t>(from)
                         : static_cast<std::uint64_t>(from) - static_cast<std::uint64_t>(to);
    };
    const std::uint64_t stride = distance(0, step);
    const std::uint64_t whole = distance(start, end);
    const std::uint64_t count = whole / stride + (whole % stride != 0 ? 1 : 0);
    KAEL_CHECK(count <= static_cast<std::uint64_t>(INT64_MAX),
               "arange: " << range(first, last, by) << " are " << count
                          << " numbers, expected fewer than 2^63");
    const auto element = [=](std::int64_t i) {
        return static_cast<std::int64_t>(static_cast<std::uint64_t>(start) +
                                         static_cast<std::uint64_t>(i) *
                                             static_cast<std::uint64_t>(step));
    };
    if (count > 0) { // what lies between the ends fits where they do
        check_fits(start, dtype, "arange");
        check_fits(element(static_cast<std::int64_t>(count) - 1), dtype, "arange");
    }
    return generate({static_cast<std::int64_t>(count)}, dtype, element);
}

DType floating(const std::string& operation, DType dtype) {
    KAEL_CHECK(is_floating_point(dtype),
               operation << ": the dtype " << name(dtype) << ", expected a floating-point one");
    return dtype;
}

// Digits of the fraction, the leading one included.
int precision(DType dtype) {
    switch (dtype) {
    case DType::float16:
        return 11;
    case DType::bfloat16:
        return 8;
    case DType::float32:
        return 24;
    default:
        return 53;
    }
}

// Numbers of one stream, one after the other.
template <typename Draw>
Tensor draw(const Shape& shape, DType dtype, Draw&& next) {
    Tensor numbers = Tensor::empty(shape, DType::float64);
    RandomStream stream(draw_seed());
    double* const to = numbers.mutable_data<double>();
    for (std::int64_t i = 0; i < numbers.numel(); ++i) {
        to[i] = next(stream);
    }
    return numbers.to(dtype);
}

} // namespace

Tensor full(const Shape& shape, const Scalar& value, std::optional<DType> dtype) {
    const DType result = dtype.value_or(Operand(value).dtype());
    check_fits(value, result, "full");
    if (is_integer(value)) {
        return generate(shape, result, [number = as_int64(value)](std::int64_t) { return number; });
    }
    return generate(shape, result, [number = as_double(value)](std::int64_t) { return number; });
}

Tensor arange(const Scalar& start, const Scalar& end, const Scalar& step,
              std::optional<DType> dtype) {
    const bool integers = is_integer(start) && is_integer(end) && is_integer(step);
    const DType result = dtype.value_or(integers ? DType::int64 : kDefaultFloat);
    KAEL_CHECK(result != DType::boolean, "arange: the dtype bool, expected numbers");
    if (integers) {
        return arange_integers(start, end, step, result);
    }
    static_cast<void>(floating("arange: of floats", result));
    const double first = as_double(start);
    const double last = as_double(end);
    const double by = as_double(step);
    KAEL_CHECK(std::isfinite(first) && std::isfinite(last) && std::isfinite(by),
               "arange: " << range(start, end, step) << ", expected finite numbers");
    check_direction(by != 0 && (first == last || (first < last) == (by > 0)), start, end, step);
    const double count = std::ceil((last - first) / by);
    KAEL_CHECK(count < 0x1p62, "arange: " << range(start, end, step) << " are " << count
                                          << " numbers, expected fewer than 2^62");
    return generate({static_cast<std::int64_t>(count)}, result,
                    [=](std::int64_t i) { return first + static_cast<double>(i) * by; });
}

Tensor linspace(double start, double end, std::int64_t count, DType dtype) {
    KAEL_CHECK(count >= 0, "linspace: " << count << " numbers, expected 0 or more");
    KAEL_CHECK(dtype != DType::boolean, "linspace: the dtype bool, expected numbers");
    const auto steps = static_cast<double>(count - 1);
    // Halved, a distance of finite numbers is finite; but the smallest numbers have no half.
    const double whole =
        std::isinf(end - start) ? (end / 2 - start / 2) / steps * 2 : (end - start) / steps;
    const double step = count > 1 ? whole : 0;
    return generate({count}, dtype, [=](std::int64_t i) {
        // From the nearer end, so that both are exact.
        return i < (count + 1) / 2 ? start + static_cast<double>(i) * step
                                   : end - static_cast<double>(count - 1 - i) * step;
    });
}

Tensor eye(std::int64_t rows, std::int64_t columns, DType dtype) {
    KAEL_CHECK(rows >= 0 && columns >= 0,
               "eye: " << rows << " rows and " << columns << " columns, expected 0 or more");
    return generate({rows, columns}, dtype, [=](std::int64_t i) {
        return std::int64_t{i / columns == i % columns ? 1 : 0};
    });
}

Tensor rand(const Shape& shape, DType dtype) {
    // Cut to what the dtype holds, for rounding could make it 1.
    const int digits = precision(floating("rand", dtype));
    return draw(shape, dtype, [digits](RandomStream& stream) {
        return std::ldexp(std::floor(std::ldexp(stream.next_uniform(), digits)), -digits);
    });
}

Tensor randn(const Shape& shape, DType dtype) {
    return draw(shape, floating("randn", dtype),
                [](RandomStream& stream) { return stream.next_normal(); });
}

} // namespace kael
