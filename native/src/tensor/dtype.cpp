#include "kael/dtype.h"

#include "kael/error.h"

namespace kael {

namespace {

struct Properties {
    std::int64_t item_size;
    std::string_view name;
    bool is_floating_point;
};

Properties properties(DType dtype) {
    switch (dtype) {
    case DType::float32:
        return {4, "float32", true};
    case DType::float64:
        return {8, "float64", true};
    case DType::float16:
        return {2, "float16", true};
    case DType::bfloat16:
        return {2, "bfloat16", true};
    case DType::int64:
        return {8, "int64", false};
    case DType::int32:
        return {4, "int32", false};
    case DType::int8:
        return {1, "int8", false};
    case DType::uint8:
        return {1, "uint8", false};
    case DType::boolean:
        return {1, "bool", false};
    }
    // A value from across the C interface.
    KAEL_CHECK(false,
               "the dtype " << static_cast<std::int32_t>(dtype) << " is unknown, expected 0 to 8");
}

} // namespace

std::int64_t item_size(DType dtype) {
    return properties(dtype).item_size;
}

std::string_view name(DType dtype) {
    return properties(dtype).name;
}

bool is_floating_point(DType dtype) {
    return properties(dtype).is_floating_point;
}

bool is_half(DType dtype) {
    return dtype == DType::float16 || dtype == DType::bfloat16;
}

} // namespace kael
