// What operators do to numbers, as docs/tensors.md describes them: to one of each operand, or to
// all that a reduction is over.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "number.h"

namespace kael::fuzz {

inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

inline DType compute_dtype(DType dtype) {
    return !is_real(dtype)           ? DType::int64
           : dtype == DType::float64 ? DType::float64
                                     : DType::float32;
}

enum class Produces { common, real, boolean };
enum class Rule { none, not_zero, not_negative };

// What an operator does to one element of each operand. `slack` is 0 where the result is exact.
struct Elementwise {
    const char* name;
    std::size_t arity;
    Produces produces;
    bool takes_bools;
    double (*real)(const double*);
    std::int64_t (*integer)(const std::int64_t*); // null: floats only
    bool is_exact = true;
    double slack = 0;
    Rule rule = Rule::none;
};

inline std::uint64_t bits(std::int64_t value) {
    return static_cast<std::uint64_t>(value);
}

inline std::int64_t power(std::int64_t x, std::int64_t y) {
    std::uint64_t result = 1;
    for (std::uint64_t square = bits(x); y > 0; y /= 2, square *= square) {
        result *= y % 2 != 0 ? square : 1;
    }
    return static_cast<std::int64_t>(result);
}

inline std::int64_t divided(std::int64_t x, std::int64_t y) {
    return y == -1 ? static_cast<std::int64_t>(0 - bits(x)) : x / y;
}

inline std::int64_t remainder(std::int64_t x, std::int64_t y) {
    const std::int64_t rest = y == -1 ? 0 : x % y;
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

inline double remainder(double x, double y) {
    const double rest = std::fmod(x, y);
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

// As PyTorch and Python have it: what is infinite holds no number of whole divisors.
inline double floor_divided(double x, double y) {
    return std::isinf(x) && y != 0 ? kUnknown : std::floor(x / y);
}

inline double largest(double x, double y) {
    return std::isnan(x) || std::isnan(y) ? kUnknown : std::max(x, y);
}

inline double least(double x, double y) {
    return std::isnan(x) || std::isnan(y) ? kUnknown : std::min(x, y);
}

inline double gelu_tanh(double x) {
    const double inner = std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x);
    return x * 0.5 * (1 + std::tanh(inner));
}

using Reals = const double*;
using Integers = const std::int64_t*;

#define KAEL_REAL(...) [](Reals x) -> double { return __VA_ARGS__; }
#define KAEL_INTEGER(...) [](Integers x) -> std::int64_t { return __VA_ARGS__; }
#define KAEL_BOTH(...) KAEL_REAL(__VA_ARGS__), KAEL_INTEGER(__VA_ARGS__)

inline constexpr auto kSame = Produces::common;
inline constexpr auto kReal = Produces::real;
inline constexpr auto kBool = Produces::boolean;

inline const Elementwise kElementwise[] = {
    {"neg", 1, kSame, false, KAEL_REAL(-x[0]),
     KAEL_INTEGER(static_cast<std::int64_t>(0 - bits(x[0])))},
    {"abs", 1, kSame, false, KAEL_REAL(std::abs(x[0])),
     KAEL_INTEGER(x[0] < 0 ? static_cast<std::int64_t>(0 - bits(x[0])) : x[0])},
    {"sign", 1, kSame, true, KAEL_REAL(std::isnan(x[0]) ? x[0] : (x[0] > 0) - (x[0] < 0)),
     KAEL_INTEGER((x[0] > 0) - (x[0] < 0))},
    {"floor", 1, kSame, false, KAEL_REAL(std::floor(x[0])), KAEL_INTEGER(x[0])},
    {"ceil", 1, kSame, false, KAEL_REAL(std::ceil(x[0])), KAEL_INTEGER(x[0])},
    {"round", 1, kSame, false, KAEL_REAL(std::nearbyint(x[0])), KAEL_INTEGER(x[0])},
    {"trunc", 1, kSame, false, KAEL_REAL(std::trunc(x[0])), KAEL_INTEGER(x[0])},
    {"relu", 1, kSame, false, KAEL_REAL(x[0] < 0 ? 0 : x[0]), KAEL_INTEGER(x[0] < 0 ? 0 : x[0])},
    {"square", 1, kSame, false, KAEL_REAL(x[0] * x[0]),
     KAEL_INTEGER(static_cast<std::int64_t>(bits(x[0]) * bits(x[0])))},
    {"exp", 1, kReal, true, KAEL_REAL(std::exp(x[0])), nullptr, false},
    {"expm1", 1, kReal, true, KAEL_REAL(std::expm1(x[0])), nullptr, false},
    {"log", 1, kReal, true, KAEL_REAL(std::log(x[0])), nullptr, false},
    {"log1p", 1, kReal, true, KAEL_REAL(std::log1p(x[0])), nullptr, false},
    {"sqrt", 1, kReal, true, KAEL_REAL(std::sqrt(x[0])), nullptr},
    {"rsqrt", 1, kReal, true, KAEL_REAL(1 / std::sqrt(x[0])), nullptr, false},
    {"reciprocal", 1, kReal, true, KAEL_REAL(1 / x[0]), nullptr},
    {"sin", 1, kReal, true, KAEL_REAL(std::sin(x[0])), nullptr, false},
    {"cos", 1, kReal, true, KAEL_REAL(std::cos(x[0])), nullptr, false},
    {"tanh", 1, kReal, true, KAEL_REAL(std::tanh(x[0])), nullptr, false},
    {"sigmoid", 1, kReal, true, KAEL_REAL(1 / (1 + std::exp(-x[0]))), nullptr, false, 1e-30},
    {"erf", 1, kReal, true, KAEL_REAL(std::erf(x[0])), nullptr, false},
    {"gelu", 1, kSame, false,
     KAEL_REAL(x[0] == -kInfinity ? 0 : x[0] * 0.5 * std::erfc(-x[0] / std::sqrt(2.0))), nullptr,
     false, 1e-6},
    {"gelu_tanh", 1, kSame, false, KAEL_REAL(x[0] == -kInfinity ? 0 : gelu_tanh(x[0])), nullptr,
     false, 1e-6},
    {"logical_not", 1, kBool, true, KAEL_BOTH(x[0] == 0)},
    {"isnan", 1, kBool, true, KAEL_REAL(std::isnan(x[0])), KAEL_INTEGER(0 * x[0])},
    {"isinf", 1, kBool, true, KAEL_REAL(std::isinf(x[0])), KAEL_INTEGER(0 * x[0])},
    {"isfinite", 1, kBool, true, KAEL_REAL(std::isfinite(x[0])), KAEL_INTEGER(0 * x[0] + 1)},

    {"add", 2, kSame, true, KAEL_REAL(x[0] + x[1]),
     KAEL_INTEGER(static_cast<std::int64_t>(bits(x[0]) + bits(x[1])))},
    {"sub", 2, kSame, false, KAEL_REAL(x[0] - x[1]),
     KAEL_INTEGER(static_cast<std::int64_t>(bits(x[0]) - bits(x[1])))},
    {"mul", 2, kSame, true, KAEL_REAL(x[0] * x[1]),
     KAEL_INTEGER(static_cast<std::int64_t>(bits(x[0]) * bits(x[1])))},
    {"div", 2, kReal, true, KAEL_REAL(x[0] / x[1]), nullptr},
    {"floor_divide", 2, kSame, false, KAEL_REAL(floor_divided(x[0], x[1])),
     KAEL_INTEGER(divided(x[0], x[1]) -
                  (x[1] != -1 && x[0] % x[1] != 0 && (x[0] < 0) != (x[1] < 0))),
     false, 1, Rule::not_zero},
    {"trunc_divide", 2, kSame, false, KAEL_REAL(std::trunc(x[0] / x[1])),
     KAEL_INTEGER(divided(x[0], x[1])), false, 1, Rule::not_zero},
    {"remainder", 2, kSame, false, KAEL_REAL(remainder(x[0], x[1])),
     KAEL_INTEGER(remainder(x[0], x[1])), true, 0, Rule::not_zero},
    {"fmod", 2, kSame, false, KAEL_REAL(std::fmod(x[0], x[1])),
     KAEL_INTEGER(x[1] == -1 ? 0 : x[0] % x[1]), true, 0, Rule::not_zero},
    {"pow", 2, kSame, false, KAEL_REAL(std::pow(x[0], x[1])), KAEL_INTEGER(power(x[0], x[1])),
     false, 0, Rule::not_negative},
    {"maximum", 2, kSame, true, KAEL_REAL(largest(x[0], x[1])), KAEL_INTEGER(std::max(x[0], x[1]))},
    {"minimum", 2, kSame, true, KAEL_REAL(least(x[0], x[1])), KAEL_INTEGER(std::min(x[0], x[1]))},
    {"clamp_min", 2, kSame, false, KAEL_REAL(largest(x[0], x[1])),
     KAEL_INTEGER(std::max(x[0], x[1]))},
    {"clamp_max", 2, kSame, false, KAEL_REAL(least(x[0], x[1])),
     KAEL_INTEGER(std::min(x[0], x[1]))},
    {"eq", 2, kBool, true, KAEL_BOTH(x[0] == x[1])},
    {"ne", 2, kBool, true, KAEL_BOTH(x[0] != x[1])},
    {"lt", 2, kBool, true, KAEL_BOTH(x[0] < x[1])},
    {"le", 2, kBool, true, KAEL_BOTH(x[0] <= x[1])},
    {"gt", 2, kBool, true, KAEL_BOTH(x[0] > x[1])},
    {"ge", 2, kBool, true, KAEL_BOTH(x[0] >= x[1])},
    {"logical_and", 2, kBool, true, KAEL_BOTH(x[0] != 0 && x[1] != 0)},
    {"logical_or", 2, kBool, true, KAEL_BOTH(x[0] != 0 || x[1] != 0)},
    {"logical_xor", 2, kBool, true, KAEL_BOTH((x[0] != 0) != (x[1] != 0))},

    {"clamp", 3, kSame, false, KAEL_REAL(least(largest(x[0], x[1]), x[2])),
     KAEL_INTEGER(std::min(std::max(x[0], x[1]), x[2]))},
};

#undef KAEL_REAL
#undef KAEL_INTEGER
#undef KAEL_BOTH

// Sums of floats are rounded on the way, by so much at most.
struct Sum {
    double value = 0;
    double slack = 0;

    void add(double term, double unit) {
        value += term;
        if (std::isfinite(term)) {
            slack += std::abs(term) * unit;
        }
    }
    // Nothing is known of sums that may leave the range on the way.
    [[nodiscard]] double known_slack(std::size_t count, double unit, double range) const {
        return slack / unit > range / 4 ? kUnknown : slack * static_cast<double>(count + 1);
    }
};

inline constexpr double kDoubleUnit = 0x1p-52;
inline constexpr double kDoubleRange = std::numeric_limits<double>::max();

struct Reduced {
    Number value;
    double slack = 0;
};

inline double as_real(Number value, DType dtype) {
    return is_real(dtype) ? value.real : static_cast<double>(value.integer);
}

inline Reduced sum_of(const std::vector<Number>& values, DType dtype) {
    if (!is_real(dtype)) {
        std::uint64_t total = 0;
        for (const Number value : values) {
            total += bits(value.integer);
        }
        return {{0, static_cast<std::int64_t>(total)}};
    }
    Sum sum;
    for (const Number value : values) {
        sum.add(value.real, kDoubleUnit);
    }
    return {{sum.value, 0}, sum.known_slack(values.size(), kDoubleUnit, kDoubleRange)};
}

inline Reduced product_of(const std::vector<Number>& values, DType dtype) {
    if (!is_real(dtype)) {
        std::uint64_t total = 1;
        for (const Number value : values) {
            total *= bits(value.integer);
        }
        return {{0, static_cast<std::int64_t>(total)}};
    }
    double product = 1;
    double scale = 0;
    for (const Number value : values) {
        product *= value.real;
        scale += value.real != 0 && std::isfinite(value.real)
                     ? std::abs(std::log2(std::abs(value.real)))
                     : 0;
    }
    return {{product, 0},
            scale > 1000             ? kUnknown
            : std::isfinite(product) ? std::abs(product) * 1e-12
                                     : 1};
}

inline Reduced mean_of(const std::vector<Number>& values, DType dtype) {
    Reduced sum = sum_of(values, dtype);
    const auto count = static_cast<double>(values.size());
    return {{sum.value.real / count, 0}, values.empty() ? 0 : sum.slack / count};
}

inline double largest_size(const std::vector<Number>& values) {
    double size = 0;
    for (const Number value : values) {
        size = std::isnan(value.real) ? size : std::max(size, std::abs(value.real));
    }
    return size;
}

inline Reduced variance_of(const std::vector<Number>& values, DType dtype) {
    const double mean = mean_of(values, dtype).value.real;
    double squares = 0;
    for (const Number value : values) {
        squares += (value.real - mean) * (value.real - mean);
    }
    const double size = largest_size(values);
    const double variance =
        values.size() < 2 ? kUnknown : squares / (static_cast<double>(values.size()) - 1);
    return {{variance, 0},
            values.size() > 1 && size > 1e150 && std::isfinite(size) ? kUnknown
            : std::isfinite(variance) ? 1e-12 * (variance + size * size)
                                      : 0};
}

inline Reduced deviation_of(const std::vector<Number>& values, DType dtype) {
    const Reduced variance = variance_of(values, dtype);
    const double deviation = std::sqrt(variance.value.real);
    return {{deviation, 0},
            std::isnan(variance.slack) ? kUnknown : std::sqrt(variance.slack) + 1e-12};
}

inline Reduced norm_of(const std::vector<Number>& values, DType /*dtype*/) {
    double squares = 0;
    for (const Number value : values) {
        squares += value.real * value.real;
    }
    const double size = largest_size(values);
    const bool is_safe = size == 0 || std::isinf(size) || (size > 1e-150 && size < 1e150);
    const double norm = std::sqrt(squares);
    return {{norm, 0}, is_safe ? (std::isfinite(norm) ? norm * 1e-12 : 0) : kUnknown};
}

// log(sum(exp(x))) as two numbers, whose sum may have lost the second.
struct LogSumExp {
    double most;       // the largest; NaN beside a NaN
    double log_of_sum; // of exp(x - most)
};

inline LogSumExp parts_of_logsumexp(const std::vector<Number>& values, DType dtype) {
    double most = -kInfinity;
    for (const Number value : values) {
        most = largest(most, as_real(value, dtype));
    }
    double sum = 0;
    for (const Number value : values) {
        sum += std::exp(as_real(value, dtype) - most);
    }
    return {most, std::log(sum)};
}

inline Reduced logsumexp_of(const std::vector<Number>& values, DType dtype) {
    const LogSumExp parts = parts_of_logsumexp(values, dtype);
    const double result = std::isinf(parts.most) ? parts.most : parts.most + parts.log_of_sum;
    return {{result, 0}, std::isfinite(result) ? (1 + std::abs(result)) * 0x1p-20 : 0};
}

template <bool Largest>
Reduced extreme_of(const std::vector<Number>& values, DType dtype) {
    Number best = values.front();
    for (const Number value : values) {
        if (is_real(dtype)) {
            best.real = Largest ? largest(best.real, value.real) : least(best.real, value.real);
        } else {
            best.integer = Largest ? std::max(best.integer, value.integer)
                                   : std::min(best.integer, value.integer);
        }
    }
    return {best};
}

inline bool is_true(Number value, DType dtype) {
    return is_real(dtype) ? value.real != 0 : value.integer != 0;
}

inline Reduced any_of(const std::vector<Number>& values, DType dtype) {
    return {{0, std::ranges::any_of(values, [&](Number v) { return is_true(v, dtype); }) ? 1 : 0}};
}

inline Reduced all_of(const std::vector<Number>& values, DType dtype) {
    return {{0, std::ranges::all_of(values, [&](Number v) { return is_true(v, dtype); }) ? 1 : 0}};
}

enum class Answers { sum, same, real, boolean }; // the dtype of the result

struct Reduction {
    const char* name;
    Answers answers;
    bool floats_only;
    bool needs_elements;
    Reduced (*of)(const std::vector<Number>&, DType);
};

inline const Reduction kReductions[] = {
    {"sum", Answers::sum, false, false, sum_of},
    {"prod", Answers::sum, false, false, product_of},
    {"mean", Answers::same, true, false, mean_of},
    {"var", Answers::same, true, false, variance_of},
    {"std", Answers::same, true, false, deviation_of},
    {"norm", Answers::same, true, false, norm_of},
    {"logsumexp", Answers::real, false, false, logsumexp_of},
    {"amax", Answers::same, false, true, extreme_of<true>},
    {"amin", Answers::same, false, true, extreme_of<false>},
    {"any", Answers::boolean, false, false, any_of},
    {"all", Answers::boolean, false, false, all_of},
};

// Whether `a` comes before `b` in ascending order: NaN is the largest.
inline bool is_less(Number a, Number b, DType dtype) {
    if (!is_real(dtype)) {
        return a.integer < b.integer;
    }
    return std::isnan(b.real) ? !std::isnan(a.real) : a.real < b.real;
}

} // namespace kael::fuzz
