// Numbers as docs/tensors.md describes them, one at a time and without any of the library's code:
// what fuzz_ops holds the library against.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kael/dtype.h"

namespace kael::fuzz {

// One element: `real` of a float, else `integer`, which is 0 or 1 of a bool.
struct Number {
    double real = 0;
    std::int64_t integer = 0;
};

struct FloatFormat {
    int digits; // of the significand, in bits
    int least;  // the exponent of the smallest number above 0
    double largest;
};

inline bool is_real(DType dtype) {
    return dtype <= DType::bfloat16;
}

inline std::int64_t bytes_of(DType dtype) {
    constexpr std::int64_t kBytes[] = {4, 8, 2, 2, 8, 4, 1, 1, 1};
    return kBytes[static_cast<int>(dtype)];
}

inline FloatFormat format(DType dtype) {
    switch (dtype) {
    case DType::float16:
        return {11, -24, 65504};
    case DType::bfloat16:
        return {8, -133, 0x1.FEp127};
    case DType::float32:
        return {24, -149, 0x1.FFFFFEp127};
    default:
        return {53, -1074, std::numeric_limits<double>::max()};
    }
}

// To the nearest number of the format, ties to even.
inline double rounded(double value, DType dtype) {
    if (dtype == DType::float64 || value == 0 || !std::isfinite(value)) {
        return value;
    }
    const FloatFormat to = format(dtype);
    int exponent = 0;
    std::frexp(value, &exponent);
    const int unit = std::max(exponent - to.digits, to.least);
    const double result = std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit);
    return std::abs(result) > to.largest
               ? std::copysign(std::numeric_limits<double>::infinity(), value)
               : result;
}

// The low bits.
inline std::int64_t wrapped(std::int64_t value, DType dtype) {
    switch (dtype) {
    case DType::int32:
        return static_cast<std::int32_t>(static_cast<std::uint64_t>(value));
    case DType::int8:
        return static_cast<std::int8_t>(static_cast<std::uint64_t>(value));
    case DType::uint8:
        return static_cast<std::uint8_t>(static_cast<std::uint64_t>(value));
    case DType::boolean:
        return value != 0 ? 1 : 0;
    default:
        return value;
    }
}

// Once: what a double cannot hold leaves a mark in its last bit.
inline double rounded_integer(std::int64_t value, DType dtype) {
    if (dtype == DType::float64) {
        return static_cast<double>(value);
    }
    const bool is_long = value > (std::int64_t{1} << 52) || value < -(std::int64_t{1} << 52);
    const std::int64_t low = is_long ? value & 0xFFF : 0;
    return rounded(static_cast<double>((value - low) | (low != 0 ? 0x1000 : 0)), dtype);
}

inline std::int64_t truncated(double value, DType dtype) {
    if (std::isnan(value)) {
        return 0;
    }
    if (dtype == DType::boolean) {
        return value != 0 ? 1 : 0;
    }
    const int bits = static_cast<int>(8 * bytes_of(dtype)) - (dtype == DType::uint8 ? 0 : 1);
    const double limit = std::ldexp(1.0, bits);
    if (value >= limit) {
        return static_cast<std::int64_t>((std::uint64_t{1} << bits) - 1);
    }
    const std::int64_t least =
        dtype == DType::uint8 ? 0 : static_cast<std::int64_t>(~((std::uint64_t{1} << bits) - 1));
    return value <= static_cast<double>(least) ? least : static_cast<std::int64_t>(value);
}

inline Number converted(Number value, DType from, DType to) {
    if (!is_real(from)) {
        return is_real(to) ? Number{rounded_integer(value.integer, to), 0}
                           : Number{0, wrapped(value.integer, to)};
    }
    if (is_real(to)) {
        return {rounded(value.real, to), 0};
    }
    if (to == DType::boolean) {
        return {0, value.real != 0 ? 1 : 0}; // NaN is true
    }
    return {0, truncated(value.real, to)};
}

template <typename T>
T loaded(const std::byte* bytes) {
    T value;
    std::memcpy(&value, bytes, sizeof(T));
    return value;
}

// The element whose bytes these are.
inline Number decoded(const std::byte* bytes, DType dtype) {
    switch (dtype) {
    case DType::float32:
        return {loaded<float>(bytes), 0};
    case DType::float64:
        return {loaded<double>(bytes), 0};
    case DType::float16: {
        const auto bits = loaded<std::uint16_t>(bytes);
        const int exponent = bits >> 10 & 0x1F;
        const int fraction = bits & 0x3FF;
        double value = 0;
        if (exponent == 0x1F) {
            value = fraction != 0 ? std::numeric_limits<double>::quiet_NaN()
                                  : std::numeric_limits<double>::infinity();
        } else {
            value = exponent == 0 ? std::ldexp(fraction, -24)
                                  : std::ldexp(0x400 + fraction, exponent - 25);
        }
        return {(bits & 0x8000) != 0 ? -value : value, 0};
    }
    case DType::bfloat16: {
        const std::uint32_t bits = std::uint32_t{loaded<std::uint16_t>(bytes)} << 16;
        float value;
        std::memcpy(&value, &bits, sizeof(value));
        return {value, 0};
    }
    case DType::int64:
        return {0, loaded<std::int64_t>(bytes)};
    case DType::int32:
        return {0, loaded<std::int32_t>(bytes)};
    case DType::int8:
        return {0, loaded<std::int8_t>(bytes)};
    case DType::uint8:
        return {0, loaded<std::uint8_t>(bytes)};
    case DType::boolean:
        return {0, loaded<std::uint8_t>(bytes) != 0 ? 1 : 0};
    }
    return {};
}

// Whether `got` is `wanted`, rounded, or no further from it than `slack` and the few last bits that
// come with one. A slack of NaN says that nothing is known.
inline bool is_close(Number got, Number wanted, DType dtype, double slack) {
    if (std::isnan(slack)) {
        return true;
    }
    if (!is_real(dtype)) {
        return got.integer == wanted.integer;
    }
    if (std::isnan(wanted.real) || std::isnan(got.real)) {
        return std::isnan(wanted.real) && std::isnan(got.real);
    }
    const double exact = rounded(wanted.real, dtype);
    if (got.real == exact) {
        return true;
    }
    if (slack == 0) {
        return false;
    }
    const FloatFormat shape = format(dtype);
    if (std::isinf(got.real) || std::isinf(exact)) { // at the edge of the format
        const double other = std::isinf(got.real) ? wanted.real : got.real;
        return std::signbit(got.real) == std::signbit(exact) &&
               std::abs(other) + slack >= shape.largest * (1 - std::ldexp(1.0, 4 - shape.digits));
    }
    const double last = std::max(std::ldexp(std::abs(wanted.real), 3 - shape.digits),
                                 std::ldexp(1.0, shape.least + 1));
    return std::abs(got.real - wanted.real) <= slack + last;
}

// The dtype table of docs/tensors.md.
inline DType common_dtype(DType a, DType b) {
    constexpr DType kTable[9][9] = {
        {DType::float32, DType::float64, DType::float32, DType::float32, DType::float32,
         DType::float32, DType::float32, DType::float32, DType::float32},
        {DType::float64, DType::float64, DType::float64, DType::float64, DType::float64,
         DType::float64, DType::float64, DType::float64, DType::float64},
        {DType::float32, DType::float64, DType::float16, DType::float32, DType::float16,
         DType::float16, DType::float16, DType::float16, DType::float16},
        {DType::float32, DType::float64, DType::float32, DType::bfloat16, DType::bfloat16,
         DType::bfloat16, DType::bfloat16, DType::bfloat16, DType::bfloat16},
        {DType::float32, DType::float64, DType::float16, DType::bfloat16, DType::int64,
         DType::int64, DType::int64, DType::int64, DType::int64},
        {DType::float32, DType::float64, DType::float16, DType::bfloat16, DType::int64,
         DType::int32, DType::int32, DType::int32, DType::int32},
        {DType::float32, DType::float64, DType::float16, DType::bfloat16, DType::int64,
         DType::int32, DType::int8, DType::int32, DType::int8},
        {DType::float32, DType::float64, DType::float16, DType::bfloat16, DType::int64,
         DType::int32, DType::int32, DType::uint8, DType::uint8},
        {DType::float32, DType::float64, DType::float16, DType::bfloat16, DType::int64,
         DType::int32, DType::int8, DType::uint8, DType::boolean}};
    return kTable[static_cast<int>(a)][static_cast<int>(b)];
}

// 0 of a bool, 1 of an integer, 2 of a float.
inline int kind(DType dtype) {
    return dtype == DType::boolean ? 0 : is_real(dtype) ? 2 : 1;
}

} // namespace kael::fuzz
