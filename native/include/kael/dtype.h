// Element types.
#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>

namespace kael {

// The values are those of kael_dtype in kael.h.
enum class DType : std::int32_t {
    float32 = 0,
    float64 = 1,
    float16 = 2,
    bfloat16 = 3,
    int64 = 4,
    int32 = 5,
    int8 = 6,
    uint8 = 7,
    boolean = 8, // one byte, 0 or 1
};

// Bytes per element.
[[nodiscard]] std::int64_t item_size(DType dtype);

// "float32", "bool", ...
[[nodiscard]] std::string_view name(DType dtype);

[[nodiscard]] bool is_floating_point(DType dtype);
// float16 or bfloat16, which operators compute as float32.
[[nodiscard]] bool is_half(DType dtype);

// Whether elements of `dtype` may be read as `T`. float16 and bfloat16 are std::uint16_t, their
// bits; boolean is std::uint8_t, since a byte of a file may hold more than 0 and 1.
template <typename T>
[[nodiscard]] constexpr bool is_element_type(DType dtype) {
    switch (dtype) {
    case DType::float32:
        return std::is_same_v<T, float>;
    case DType::float64:
        return std::is_same_v<T, double>;
    case DType::float16:
    case DType::bfloat16:
        return std::is_same_v<T, std::uint16_t>;
    case DType::int64:
        return std::is_same_v<T, std::int64_t>;
    case DType::int32:
        return std::is_same_v<T, std::int32_t>;
    case DType::int8:
        return std::is_same_v<T, std::int8_t>;
    case DType::uint8:
    case DType::boolean:
        return std::is_same_v<T, std::uint8_t>;
    }
    return false;
}

} // namespace kael
