// Conversion between element types. The rules stand in docs/tensors.md.
#include <cmath>
#include <concepts>
#include <limits>
#include <type_traits>

#include "kael/error.h"
#include "kael/tensor.h"
#include "kael/threads.h"

#include "base/half.h"
#include "tensor/blocks.h"
#include "tensor/defined.h"
#include "tensor/forward_views.h"

namespace kael {

namespace {

constexpr std::int64_t kConvertGrain = 65536;

// One type per dtype, where the C++ type alone does not tell which it is.
struct Float16 {
    std::uint16_t bits;
};
struct BFloat16 {
    std::uint16_t bits;
};
struct Boolean {
    std::uint8_t byte;
};

template <std::integral To>
To saturate(double value) {
    // As doubles the limits of a 64-bit integer are -2^63 and 2^63: the upper one is out already.
    constexpr double kLeast = static_cast<double>(std::numeric_limits<To>::min());
    constexpr To kHalf = To{1} << (std::numeric_limits<To>::digits - 1);
    constexpr double kBeyond = 2.0 * static_cast<double>(kHalf);
    if (!(value > kLeast)) { // NaN too
        return std::isnan(value) ? To{0} : std::numeric_limits<To>::min();
    }
    return value >= kBeyond ? std::numeric_limits<To>::max() : static_cast<To>(value);
}

// An integer as a double that rounds to 16 bits as the integer itself would: bits that no double
// holds leave a trace in the last bit kept.
double integer_to_double_round_to_odd(std::int64_t value) {
    constexpr std::int64_t kLost = 0x7ff; // 63 - 52 bits
    constexpr std::int64_t kExact = std::int64_t{1} << 53;
    if (value > -kExact && value < kExact) {
        return static_cast<double>(value);
    }
    const std::int64_t kept = value & ~kLost;
    return static_cast<double>((value & kLost) != 0 ? kept | (kLost + 1) : kept);
}

// ---- Every source as a number, every number as a target --------------------------------------

template <typename From>
auto load(From value) {
    if constexpr (std::is_same_v<From, Float16>) {
        return float16_to_float(value.bits);
    } else if constexpr (std::is_same_v<From, BFloat16>) {
        return bfloat16_to_float(value.bits);
    } else if constexpr (std::is_same_v<From, Boolean>) {
        return static_cast<std::uint8_t>(value.byte != 0);
    } else {
        return value;
    }
}

template <typename Number>
float as_float_for_16_bits(Number value) {
    if constexpr (std::is_same_v<Number, float>) {
        return value;
    } else if constexpr (std::is_same_v<Number, double>) {
        return double_to_float_round_to_odd(value);
    } else {
        return double_to_float_round_to_odd(integer_to_double_round_to_odd(value));
    }
}

template <typename To, typename Number>
To store(Number value) {
    if constexpr (std::is_same_v<To, Float16>) {
        return {float_to_float16(as_float_for_16_bits(value))};
    } else if constexpr (std::is_same_v<To, BFloat16>) {
        return {float_to_bfloat16(as_float_for_16_bits(value))};
    } else if constexpr (std::is_same_v<To, Boolean>) {
        return {static_cast<std::uint8_t>(value != Number{0})};
    } else if constexpr (std::integral<To> && std::floating_point<Number>) {
        return saturate<To>(static_cast<double>(value));
    } else {
        return static_cast<To>(value); // rounds, or keeps the low bits
    }
}

template <typename To, typename From>
void convert(const std::byte* source, std::int64_t count, std::byte* target) {
    const From* from = reinterpret_cast<const From*>(source);
    To* to = reinterpret_cast<To*>(target);
    for (std::int64_t i = 0; i < count; ++i) {
        to[i] = store<To>(load(from[i]));
    }
}

template <typename T>
struct Tag {
    using Type = T;
};

// Calls body(Tag<T>) with the type of `dtype`.
template <typename Body>
void with_type(DType dtype, Body&& body) {
    switch (dtype) {
    case DType::float32:
        return body(Tag<float>{});
    case DType::float64:
        return body(Tag<double>{});
    case DType::float16:
        return body(Tag<Float16>{});
    case DType::bfloat16:
        return body(Tag<BFloat16>{});
    case DType::int64:
        return body(Tag<std::int64_t>{});
    case DType::int32:
        return body(Tag<std::int32_t>{});
    case DType::int8:
        return body(Tag<std::int8_t>{});
    case DType::uint8:
        return body(Tag<std::uint8_t>{});
    case DType::boolean:
        return body(Tag<Boolean>{});
    }
}

} // namespace

void convert_elements(DType from, const std::byte* source, std::int64_t count, DType to,
                      std::byte* target) {
    with_type(from, [&](auto source_type) {
        with_type(to, [&](auto target_type) {
            convert<typename decltype(target_type)::Type, typename decltype(source_type)::Type>(
                source, count, target);
        });
    });
}

Tensor forward::to(const Tensor& x, DType dtype) {
    check_defined(x, "to");
    if (dtype == x.dtype()) {
        return x;
    }
    const Tensor result = Tensor::empty(x.shape(), dtype);
    const Tensor source = x.is_contiguous() ? x : clone(x);
    const DType from = x.dtype();
    const std::byte* const source_bytes = source.data_ptr_raw();
    std::byte* const target_bytes = result.storage()->data();
    parallel_for(0, x.numel(), kConvertGrain, [&](std::int64_t first, std::int64_t last) {
        convert_elements(from, source_bytes + first * item_size(from), last - first, dtype,
                         target_bytes + first * item_size(dtype));
    });
    return result;
}

} // namespace kael
