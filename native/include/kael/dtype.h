// Element types.
#pragma once

#include <cstdint>
#include <string_view>

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

} // namespace kael
