// 64-bit arithmetic that fails instead of wrapping.
#pragma once

#include <cstdint>
#include <optional>

#include "kael/error.h"

namespace kael {

// Nothing when the result does not fit.
[[nodiscard]] inline std::optional<std::int64_t> try_multiply(std::int64_t a, std::int64_t b) {
    std::int64_t result = 0;
    if (__builtin_mul_overflow(a, b, &result)) {
        return std::nullopt;
    }
    return result;
}

[[nodiscard]] inline std::optional<std::int64_t> try_add(std::int64_t a, std::int64_t b) {
    std::int64_t result = 0;
    if (__builtin_add_overflow(a, b, &result)) {
        return std::nullopt;
    }
    return result;
}

[[nodiscard]] inline std::optional<std::int64_t> try_subtract(std::int64_t a, std::int64_t b) {
    std::int64_t result = 0;
    if (__builtin_sub_overflow(a, b, &result)) {
        return std::nullopt;
    }
    return result;
}

// `what` names the result in the error: "the byte count".
[[nodiscard]] inline std::int64_t checked_multiply(std::int64_t a, std::int64_t b,
                                                   const char* what) {
    const std::optional<std::int64_t> result = try_multiply(a, b);
    KAEL_CHECK(result.has_value(), what << " " << a << " * " << b << " does not fit in 64 bits");
    return *result;
}

[[nodiscard]] inline std::int64_t checked_add(std::int64_t a, std::int64_t b, const char* what) {
    const std::optional<std::int64_t> result = try_add(a, b);
    KAEL_CHECK(result.has_value(), what << " " << a << " + " << b << " does not fit in 64 bits");
    return *result;
}

[[nodiscard]] inline std::int64_t checked_subtract(std::int64_t a, std::int64_t b,
                                                   const char* what) {
    const std::optional<std::int64_t> result = try_subtract(a, b);
    KAEL_CHECK(result.has_value(), what << " " << a << " - " << b << " does not fit in 64 bits");
    return *result;
}

} // namespace kael
