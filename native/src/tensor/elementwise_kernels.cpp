#include "tensor/elementwise_kernels.h"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstring>
#include <limits>
#include <numbers>
#include <type_traits>

#include "kernels/cpu/kernels.h"

namespace kael {

namespace {

// Integers wrap: computed without a sign, where that is defined.
constexpr std::uint64_t bits(std::int64_t value) {
    return static_cast<std::uint64_t>(value);
}
constexpr std::int64_t wrapped(std::uint64_t value) {
    return static_cast<std::int64_t>(value);
}

template <typename T>
constexpr bool is_nan(T value) {
    return value != value;
}

// ---- One tensor
// -------------------------------------------------------------------------------------------------

struct Neg {
    static std::int64_t of(std::int64_t x) { return wrapped(-bits(x)); }
    template <std::floating_point T>
    static T of(T x) {
        return -x;
    }
};
struct Abs {
    static std::int64_t of(std::int64_t x) { return x < 0 ? wrapped(-bits(x)) : x; }
    template <std::floating_point T>
    static T of(T x) {
        return std::abs(x);
    }
};
struct Sign {
    template <typename T>
    static T of(T x) {
        return is_nan(x) ? x : static_cast<T>(static_cast<T>(x > 0) - static_cast<T>(x < 0));
    }
};
struct Relu {
    template <typename T>
    static T of(T x) {
        return x < 0 ? T{0} : x; // NaN stays
    }
};
struct Square {
    static std::int64_t of(std::int64_t x) { return wrapped(bits(x) * bits(x)); }
    template <std::floating_point T>
    static T of(T x) {
        return x * x;
    }
};

// An integer is whole already.
template <typename Rounding>
struct Whole {
    static std::int64_t of(std::int64_t x) { return x; }
    template <std::floating_point T>
    static T of(T x) {
        return Rounding::of(x);
    }
};
struct Floor {
    template <typename T>
    static T of(T x) {
        return std::floor(x);
    }
};
struct Ceil {
    template <typename T>
    static T of(T x) {
        return std::ceil(x);
    }
};
struct Round {
    template <typename T>
    static T of(T x) {
        return std::nearbyint(x); // ties to even
    }
};
struct Trunc {
    template <typename T>
    static T of(T x) {
        return std::trunc(x);
    }
};

struct Exp {
    template <typename T>
    static T of(T x) {
        return std::exp(x);
    }
};
struct Expm1 {
    template <typename T>
    static T of(T x) {
        return std::expm1(x);
    }
};
struct Log {
    template <typename T>
    static T of(T x) {
        return std::log(x);
    }
};
struct Log1p {
    template <typename T>
    static T of(T x) {
        return std::log1p(x);
    }
};
struct Sqrt {
    template <typename T>
    static T of(T x) {
        return std::sqrt(x);
    }
};
struct Rsqrt {
    template <typename T>
    static T of(T x) {
        return T{1} / std::sqrt(x);
    }
};
struct Reciprocal {
    template <typename T>
    static T of(T x) {
        return T{1} / x;
    }
};
struct Sin {
    template <typename T>
    static T of(T x) {
        return std::sin(x);
    }
};
struct Cos {
    template <typename T>
    static T of(T x) {
        return std::cos(x);
    }
};
struct Tanh {
    template <typename T>
    static T of(T x) {
        return std::tanh(x);
    }
};
struct Sigmoid {
    template <typename T>
    static T of(T x) {
        const T e = std::exp(-std::abs(x)); // never overflows
        return (x < 0 ? e : T{1}) / (T{1} + e);
    }
};

// Both GELUs as x times a weight in [0, 1] without cancellation; at -infinity, where that is
// infinity times 0, the limit.
struct Erf {
    template <typename T>
    static T of(T x) {
        return std::erf(x);
    }
};
struct GeluErf {
    static double of(double x) {
        return x == -std::numeric_limits<double>::infinity()
                   ? -0.0
                   : x * (0.5 * std::erfc(-x * (std::numbers::sqrt2 / 2)));
    }
};
struct GeluTanh {
    static double of(double x) {
        if (x == -std::numeric_limits<double>::infinity()) {
            return -0.0;
        }
        constexpr double kTwiceRoot = 2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
        return x / (1 + std::exp(-kTwiceRoot * (x + 0.044715 * x * x * x)));
    }
};

struct LogicalNot {
    template <typename T>
    static bool of(T x) {
        return x == 0;
    }
};
struct IsNan {
    template <typename T>
    static bool of(T x) {
        return is_nan(x);
    }
};
struct IsInf {
    template <typename T>
    static bool of(T x) {
        return !is_nan(x) && is_nan(x - x);
    }
};
struct IsFinite {
    template <typename T>
    static bool of(T x) {
        return !is_nan(x - x);
    }
};

// ---- Two tensors
// ------------------------------------------------------------------------------------------------

struct Add {
    static std::int64_t of(std::int64_t x, std::int64_t y) { return wrapped(bits(x) + bits(y)); }
    template <std::floating_point T>
    static T of(T x, T y) {
        return x + y;
    }
};
struct Sub {
    static std::int64_t of(std::int64_t x, std::int64_t y) { return wrapped(bits(x) - bits(y)); }
    template <std::floating_point T>
    static T of(T x, T y) {
        return x - y;
    }
};
struct Mul {
    static std::int64_t of(std::int64_t x, std::int64_t y) { return wrapped(bits(x) * bits(y)); }
    template <std::floating_point T>
    static T of(T x, T y) {
        return x * y;
    }
};
struct Div {
    template <typename T>
    static T of(T x, T y) {
        return x / y;
    }
};

// The rule of IntegerRule::not_zero holds for all four below. The most negative integer has no
// quotient by -1: it wraps.
struct TruncDivide {
    static std::int64_t of(std::int64_t x, std::int64_t y) {
        return y == -1 ? wrapped(-bits(x)) : x / y;
    }
    template <std::floating_point T>
    static T of(T x, T y) {
        return std::trunc(x / y);
    }
};
struct Fmod {
    static std::int64_t of(std::int64_t x, std::int64_t y) { return y == -1 ? 0 : x % y; }
    template <std::floating_point T>
    static T of(T x, T y) {
        return std::fmod(x, y);
    }
};
struct Remainder {
    template <typename T>
    static T of(T x, T y) {
        const T rest = Fmod::of(x, y);
        return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
    }
};
struct FloorDivide {
    static std::int64_t of(std::int64_t x, std::int64_t y) {
        const std::int64_t quotient = TruncDivide::of(x, y);
        return Fmod::of(x, y) != 0 && (x < 0) != (y < 0) ? quotient - 1 : quotient;
    }
    // As Python: the floor of the exact quotient, which x / y may have been rounded up to.
    template <std::floating_point T>
    static T of(T x, T y) {
        if (y == 0) {
            return x / y;
        }
        const T rest = std::fmod(x, y);
        T quotient = (x - rest) / y;
        if (rest != 0 && (rest < 0) != (y < 0)) {
            quotient -= 1;
        }
        if (quotient == 0) {
            return std::copysign(T{0}, x / y);
        }
        const T floor = std::floor(quotient);
        return quotient - floor > T{0.5} ? floor + 1 : floor;
    }
};
struct Pow {
    static std::int64_t of(std::int64_t x, std::int64_t y) {
        std::uint64_t result = 1;
        for (std::uint64_t power = bits(x); y > 0; y >>= 1, power *= power) {
            result *= (y & 1) != 0 ? power : 1;
        }
        return wrapped(result);
    }
    template <std::floating_point T>
    static T of(T x, T y) {
        if (y == 2) { // by far the most frequent power
            return x * x;
        }
        // Where the other is NaN too; of one that signals, std::pow would be NaN.
        return y == 0 || x == 1 ? T{1} : std::pow(x, y);
    }
};

struct Maximum {
    template <typename T>
    static T of(T x, T y) {
        return x > y || is_nan(x) ? x : y;
    }
};
struct Minimum {
    template <typename T>
    static T of(T x, T y) {
        return x < y || is_nan(x) ? x : y;
    }
};

struct Eq {
    template <typename T>
    static bool of(T x, T y) {
        return x == y;
    }
};
struct Ne {
    template <typename T>
    static bool of(T x, T y) {
        return x != y;
    }
};
struct Lt {
    template <typename T>
    static bool of(T x, T y) {
        return x < y;
    }
};
struct Le {
    template <typename T>
    static bool of(T x, T y) {
        return x <= y;
    }
};
struct Gt {
    template <typename T>
    static bool of(T x, T y) {
        return x > y;
    }
};
struct Ge {
    template <typename T>
    static bool of(T x, T y) {
        return x >= y;
    }
};
struct LogicalAnd {
    template <typename T>
    static bool of(T x, T y) {
        return x != 0 && y != 0;
    }
};
struct LogicalOr {
    template <typename T>
    static bool of(T x, T y) {
        return x != 0 || y != 0;
    }
};
struct LogicalXor {
    template <typename T>
    static bool of(T x, T y) {
        return (x != 0) != (y != 0);
    }
};

// ---- Three tensors
// ----------------------------------------------------------------------------------------------

struct Clamp {
    template <typename T>
    static T of(T x, T least, T most) {
        return Minimum::of(Maximum::of(x, least), most);
    }
};

// ---- Loops
// ------------------------------------------------------------------------------------------------------

template <typename Result>
using Stored = std::conditional_t<std::is_same_v<Result, bool>, std::uint8_t, Result>;

template <typename F, typename T>
void unary_loop(const std::byte* const* inputs, std::byte* output, std::int64_t count) {
    using Out = Stored<decltype(F::of(T{}))>;
    const T* __restrict const x = reinterpret_cast<const T*>(inputs[0]);
    Out* __restrict const out = reinterpret_cast<Out*>(output);
    for (std::int64_t i = 0; i < count; ++i) {
        out[i] = static_cast<Out>(F::of(x[i]));
    }
}

template <typename F, typename T>
void binary_loop(const std::byte* const* inputs, std::byte* output, std::int64_t count) {
    using Out = Stored<decltype(F::of(T{}, T{}))>;
    const T* const x = reinterpret_cast<const T*>(inputs[0]);
    const T* const y = reinterpret_cast<const T*>(inputs[1]);
    Out* __restrict const out = reinterpret_cast<Out*>(output);
    for (std::int64_t i = 0; i < count; ++i) {
        out[i] = static_cast<Out>(F::of(x[i], y[i]));
    }
}

template <typename F, typename T>
void ternary_loop(const std::byte* const* inputs, std::byte* output, std::int64_t count) {
    const T* const x = reinterpret_cast<const T*>(inputs[0]);
    const T* const y = reinterpret_cast<const T*>(inputs[1]);
    const T* const z = reinterpret_cast<const T*>(inputs[2]);
    T* __restrict const out = reinterpret_cast<T*>(output);
    for (std::int64_t i = 0; i < count; ++i) {
        out[i] = F::of(x[i], y[i], z[i]);
    }
}

template <typename T>
void where_loop(const std::byte* const* inputs, std::byte* output, std::int64_t count) {
    const std::uint8_t* const condition = reinterpret_cast<const std::uint8_t*>(inputs[0]);
    const T* const x = reinterpret_cast<const T*>(inputs[1]);
    const T* const y = reinterpret_cast<const T*>(inputs[2]);
    T* __restrict const out = reinterpret_cast<T*>(output);
    for (std::int64_t i = 0; i < count; ++i) {
        out[i] = condition[i] != 0 ? x[i] : y[i];
    }
}

// The kernels that GPT-2 runs on, which work in place.
template <auto Member>
void kernel_loop(const std::byte* const* inputs, std::byte* output, std::int64_t count) {
    std::memcpy(output, inputs[0], static_cast<std::size_t>(count) * sizeof(float));
    (kernels::cpu_kernels().*Member)(reinterpret_cast<float*>(output), count);
}

template <typename F>
constexpr ElementwiseKernels kUnary = {unary_loop<F, float>, unary_loop<F, double>,
                                       unary_loop<F, std::int64_t>};
template <typename F>
constexpr ElementwiseKernels kUnaryReal = {unary_loop<F, float>, unary_loop<F, double>, nullptr};
template <typename F, auto Member>
constexpr ElementwiseKernels kGelu = {kernel_loop<Member>, unary_loop<F, double>, nullptr};
template <typename F>
constexpr ElementwiseKernels kBinary = {binary_loop<F, float>, binary_loop<F, double>,
                                        binary_loop<F, std::int64_t>};
template <typename F>
constexpr ElementwiseKernels kBinaryReal = {binary_loop<F, float>, binary_loop<F, double>, nullptr};
template <typename F>
constexpr ElementwiseKernels kTernary = {ternary_loop<F, float>, ternary_loop<F, double>,
                                         ternary_loop<F, std::int64_t>};
constexpr ElementwiseKernels kWhere = {where_loop<float>, where_loop<double>,
                                       where_loop<std::int64_t>};

constexpr ResultKind kCommon = ResultKind::common;
constexpr ResultKind kReal = ResultKind::real;
constexpr ResultKind kBoolean = ResultKind::boolean;
constexpr Bools kYes = Bools::accepted;
constexpr Bools kNo = Bools::refused;

constexpr ElementwiseRow kRows[] = {
    {"neg", 1, kCommon, kNo, kUnary<Neg>},
    {"abs", 1, kCommon, kNo, kUnary<Abs>},
    {"sign", 1, kCommon, kYes, kUnary<Sign>},
    {"floor", 1, kCommon, kNo, kUnary<Whole<Floor>>},
    {"ceil", 1, kCommon, kNo, kUnary<Whole<Ceil>>},
    {"round", 1, kCommon, kNo, kUnary<Whole<Round>>},
    {"trunc", 1, kCommon, kNo, kUnary<Whole<Trunc>>},
    {"relu", 1, kCommon, kNo, kUnary<Relu>},
    {"square", 1, kCommon, kNo, kUnary<Square>},
    {"exp", 1, kReal, kYes, kUnaryReal<Exp>},
    {"expm1", 1, kReal, kYes, kUnaryReal<Expm1>},
    {"log", 1, kReal, kYes, kUnaryReal<Log>},
    {"log1p", 1, kReal, kYes, kUnaryReal<Log1p>},
    {"sqrt", 1, kReal, kYes, kUnaryReal<Sqrt>},
    {"rsqrt", 1, kReal, kYes, kUnaryReal<Rsqrt>},
    {"reciprocal", 1, kReal, kYes, kUnaryReal<Reciprocal>},
    {"sin", 1, kReal, kYes, kUnaryReal<Sin>},
    {"cos", 1, kReal, kYes, kUnaryReal<Cos>},
    {"tanh", 1, kReal, kYes, kUnaryReal<Tanh>},
    {"sigmoid", 1, kReal, kYes, kUnaryReal<Sigmoid>},
    {"erf", 1, kReal, kYes, kUnaryReal<Erf>},
    {"gelu", 1, kCommon, kNo, kGelu<GeluErf, &kernels::CpuKernels::gelu_erf>},
    {"gelu_tanh", 1, kCommon, kNo, kGelu<GeluTanh, &kernels::CpuKernels::gelu_tanh>},
    {"logical_not", 1, kBoolean, kYes, kUnary<LogicalNot>},
    {"isnan", 1, kBoolean, kYes, kUnary<IsNan>},
    {"isinf", 1, kBoolean, kYes, kUnary<IsInf>},
    {"isfinite", 1, kBoolean, kYes, kUnary<IsFinite>},

    {"add", 2, kCommon, kYes, kBinary<Add>},
    {"sub", 2, kCommon, kNo, kBinary<Sub>},
    {"mul", 2, kCommon, kYes, kBinary<Mul>},
    {"div", 2, kReal, kYes, kBinaryReal<Div>},
    {"floor_divide", 2, kCommon, kNo, kBinary<FloorDivide>, IntegerRule::not_zero},
    {"trunc_divide", 2, kCommon, kNo, kBinary<TruncDivide>, IntegerRule::not_zero},
    {"remainder", 2, kCommon, kNo, kBinary<Remainder>, IntegerRule::not_zero},
    {"fmod", 2, kCommon, kNo, kBinary<Fmod>, IntegerRule::not_zero},
    {"pow", 2, kCommon, kNo, kBinary<Pow>, IntegerRule::not_negative},
    {"maximum", 2, kCommon, kYes, kBinary<Maximum>},
    {"minimum", 2, kCommon, kYes, kBinary<Minimum>},
    {"clamp_min", 2, kCommon, kNo, kBinary<Maximum>},
    {"clamp_max", 2, kCommon, kNo, kBinary<Minimum>},
    {"eq", 2, kBoolean, kYes, kBinary<Eq>},
    {"ne", 2, kBoolean, kYes, kBinary<Ne>},
    {"lt", 2, kBoolean, kYes, kBinary<Lt>},
    {"le", 2, kBoolean, kYes, kBinary<Le>},
    {"gt", 2, kBoolean, kYes, kBinary<Gt>},
    {"ge", 2, kBoolean, kYes, kBinary<Ge>},
    {"logical_and", 2, kBoolean, kYes, kBinary<LogicalAnd>},
    {"logical_or", 2, kBoolean, kYes, kBinary<LogicalOr>},
    {"logical_xor", 2, kBoolean, kYes, kBinary<LogicalXor>},

    {"clamp", 3, kCommon, kNo, kTernary<Clamp>},
    {"where", 3, kCommon, kYes, kWhere, IntegerRule::none, true},
};

} // namespace

std::span<const ElementwiseRow> elementwise_rows() {
    return kRows;
}

} // namespace kael
