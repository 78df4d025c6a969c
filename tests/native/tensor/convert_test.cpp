// Conversion between every pair of types, against the rules of docs/tensors.md worked out here in
// another way: by search among all values of the target, or in wider arithmetic.
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "kael/error.h"
#include "kael/tensor.h"

namespace {

using kael::DType;
using kael::Tensor;

// The 64 mantissa bits of x86, or the 113 of a quadruple: both hold every source value exactly.
using Exact = long double;

template <typename T>
Tensor tensor_of(const std::vector<T>& values, DType dtype) {
    const auto count = static_cast<std::int64_t>(values.size());
    return Tensor::from_bytes(values.data(), count * static_cast<std::int64_t>(sizeof(T)), {count},
                              dtype);
}

template <typename T>
std::vector<T> values_of(const Tensor& tensor) {
    return {tensor.data<T>(), tensor.data<T>() + tensor.numel()};
}

// ---- The values of the 16-bit formats, from their definition ------------------------------------

Exact half_value(std::uint16_t bits, int fraction_bits, int bias) {
    const int magnitude = bits & 0x7fff;
    const int fraction = magnitude & ((1 << fraction_bits) - 1);
    const int exponent = magnitude >> fraction_bits;
    const Exact size = exponent == 0
                           ? std::ldexp(static_cast<Exact>(fraction), 1 - bias - fraction_bits)
                           : std::ldexp(static_cast<Exact>((1 << fraction_bits) + fraction),
                                        exponent - bias - fraction_bits);
    return bits >= 0x8000 ? -size : size;
}

// The non-negative values with their bits; infinity stands where the next number would.
std::map<Exact, std::uint16_t> half_table(DType dtype) {
    const bool brain = dtype == DType::bfloat16;
    std::map<Exact, std::uint16_t> table;
    for (std::uint16_t bits = 0; bits <= (brain ? 0x7f80 : 0x7c00); ++bits) {
        table[half_value(bits, brain ? 7 : 10, brain ? 127 : 15)] = bits;
    }
    return table;
}

const std::map<Exact, std::uint16_t>& half_values(DType dtype) {
    static const std::map<Exact, std::uint16_t> ieee = half_table(DType::float16);
    static const std::map<Exact, std::uint16_t> brain = half_table(DType::bfloat16);
    return dtype == DType::bfloat16 ? brain : ieee;
}

std::uint16_t nearest_half(Exact value, DType dtype) {
    const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    const Exact size = std::abs(value);
    const auto above = half_values(dtype).lower_bound(size);
    if (above == half_values(dtype).end()) {
        return sign | half_values(dtype).rbegin()->second;
    }
    if (above->first == size || above == half_values(dtype).begin()) {
        return sign | above->second;
    }
    const auto below = std::prev(above);
    const Exact up = above->first - size;
    const Exact down = size - below->first;
    const bool take_above = up < down || (up == down && above->second % 2 == 0);
    return sign | (take_above ? above->second : below->second);
}

// ---- Sources ----------------------------------------------------------------------------------

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<double> interesting_doubles() {
    std::vector<double> values = {0.0,
                                  -0.0,
                                  0.5,
                                  -0.5,
                                  0.9999,
                                  -0.9999,
                                  1.0,
                                  1.5,
                                  -1.0,
                                  2.5,
                                  127.0,
                                  127.5,
                                  128.0,
                                  -128.0,
                                  -128.9,
                                  -129.0,
                                  255.0,
                                  255.9,
                                  256.0,
                                  300.0,
                                  65503.9,
                                  65519.0,
                                  65520.0,
                                  2147483647.0,
                                  2147483647.5,
                                  2147483648.0,
                                  -2147483648.0,
                                  -2147483649.0,
                                  0x1p53,
                                  0x1p62,
                                  9223372036854774784.0,
                                  0x1p63,
                                  -0x1p63,
                                  -0x1.0000000000001p63,
                                  0x1p64,
                                  1e30,
                                  -1e30,
                                  3.3895e38,
                                  3.3961e38,
                                  3.4e38,
                                  3.5e38,
                                  1e300,
                                  -1e300,
                                  1e-5,
                                  6e-8,
                                  2.98e-8,
                                  1e-40,
                                  1e-46,
                                  5e-324,
                                  kInfinity,
                                  -kInfinity,
                                  1 + 0x1p-11,
                                  1 + 0x1p-8,
                                  16777217.0};
    std::mt19937_64 random(5);
    for (int i = 0; i < 4000; ++i) {
        const double fraction = 1.0 + static_cast<double>(random() >> 12) * 0x1p-52;
        const int exponent = static_cast<int>(random() % 200) - 100;
        values.push_back(std::ldexp(random() % 2 == 0 ? fraction : -fraction, exponent));
        // Next to the middle of two 16-bit floats, where rounding twice would show.
        const double middle = static_cast<double>(
            std::bit_cast<float>(static_cast<std::uint32_t>(random() & 0xffff0000U) | 0x8000U));
        if (std::isfinite(middle)) {
            values.insert(values.end(), {middle, std::nextafter(middle, kInfinity),
                                         std::nextafter(middle, -kInfinity)});
        }
    }
    return values;
}

std::vector<std::int64_t> interesting_integers() {
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    std::vector<std::int64_t> values = {
        0,          1,           -1,    127,        128,
        -128,       -129,        255,   256,        257,
        300,        65519,       65520, 16777217,   2147483647,
        2147483648, -2147483649, kMost, -kMost - 1, (std::int64_t{1} << 53) + 1};
    for (int bit = 8; bit < 62; ++bit) {
        // The middle of two bfloat16, and its neighbours.
        const std::int64_t middle = (std::int64_t{1} << bit) + (std::int64_t{1} << bit) / 256;
        values.insert(values.end(), {middle - 1, middle, middle + 1, -middle, -middle - 1});
    }
    return values;
}

// ---- Expectations ----------------------------------------------------------------------------

template <typename To>
To saturated(Exact value) {
    const Exact whole = std::trunc(value);
    if (whole < static_cast<Exact>(std::numeric_limits<To>::min())) {
        return std::numeric_limits<To>::min();
    }
    if (whole > static_cast<Exact>(std::numeric_limits<To>::max())) {
        return std::numeric_limits<To>::max();
    }
    return static_cast<To>(whole);
}

template <typename From>
class Conversions {
public:
    Conversions(const std::vector<From>& values, DType dtype)
        : values_(values), source_(tensor_of(values, dtype)) {}

    void check() {
        check_half(DType::float16);
        check_half(DType::bfloat16);
        check_float<float>(DType::float32);
        check_float<double>(DType::float64);
        check_integer<std::int64_t>(DType::int64);
        check_integer<std::int32_t>(DType::int32);
        check_integer<std::int8_t>(DType::int8);
        check_integer<std::uint8_t>(DType::uint8);
        const auto truth = values_of<std::uint8_t>(source_.to(DType::boolean));
        for (std::size_t i = 0; i < values_.size(); ++i) {
            EXPECT_EQ(truth[i], values_[i] != From{0} ? 1 : 0) << values_[i];
        }
    }

private:
    void check_half(DType dtype) {
        const auto found = values_of<std::uint16_t>(source_.to(dtype));
        for (std::size_t i = 0; i < values_.size(); ++i) {
            EXPECT_EQ(found[i], nearest_half(static_cast<Exact>(values_[i]), dtype))
                << std::hexfloat << static_cast<Exact>(values_[i]) << " to " << kael::name(dtype);
        }
    }

    template <typename To>
    void check_float(DType dtype) {
        const auto found = values_of<To>(source_.to(dtype));
        for (std::size_t i = 0; i < values_.size(); ++i) {
            EXPECT_EQ(std::bit_cast<Bits<To>>(found[i]),
                      std::bit_cast<Bits<To>>(static_cast<To>(static_cast<Exact>(values_[i]))))
                << std::hexfloat << static_cast<Exact>(values_[i]);
        }
    }

    template <typename To>
    void check_integer(DType dtype) {
        const auto found = values_of<To>(source_.to(dtype));
        for (std::size_t i = 0; i < values_.size(); ++i) {
            if constexpr (std::is_integral_v<From>) { // the low bits
                const Exact modulus = std::ldexp(Exact{1}, 8 * static_cast<int>(sizeof(To)));
                const Exact difference =
                    static_cast<Exact>(found[i]) - static_cast<Exact>(values_[i]);
                EXPECT_EQ(std::fmod(difference, modulus), 0) << values_[i];
            } else {
                EXPECT_EQ(found[i], saturated<To>(static_cast<Exact>(values_[i]))) << values_[i];
            }
        }
    }

    template <typename To>
    using Bits = std::conditional_t<sizeof(To) == 4, std::uint32_t, std::uint64_t>;

    const std::vector<From>& values_;
    Tensor source_;
};

TEST(Convert, Float64ToEveryType) {
    Conversions<double>(interesting_doubles(), DType::float64).check();
}

TEST(Convert, Float32ToEveryType) {
    std::vector<float> values;
    for (const double value : interesting_doubles()) {
        values.push_back(static_cast<float>(value));
    }
    Conversions<float>(values, DType::float32).check();
}

TEST(Convert, IntegersToEveryType) {
    const std::vector<std::int64_t> wide = interesting_integers();
    Conversions<std::int64_t>(wide, DType::int64).check();
    std::vector<std::int32_t> middle;
    for (const std::int64_t value : wide) {
        middle.push_back(static_cast<std::int32_t>(value));
    }
    Conversions<std::int32_t>(middle, DType::int32).check();
    std::vector<std::int8_t> small_signed;
    std::vector<std::uint8_t> small_unsigned;
    for (int value = -128; value < 128; ++value) {
        small_signed.push_back(static_cast<std::int8_t>(value));
        small_unsigned.push_back(static_cast<std::uint8_t>(value + 128));
    }
    Conversions<std::int8_t>(small_signed, DType::int8).check();
    Conversions<std::uint8_t>(small_unsigned, DType::uint8).check();
}

TEST(Convert, HalvesGoThroughTheFloatThatTheyAre) {
    std::vector<std::uint16_t> every(65536);
    for (std::size_t bits = 0; bits < every.size(); ++bits) {
        every[bits] = static_cast<std::uint16_t>(bits);
    }
    const std::vector<DType> others = {DType::float64, DType::int64, DType::int32,
                                       DType::int8,    DType::uint8, DType::boolean};
    for (const DType half : {DType::float16, DType::bfloat16}) {
        const Tensor source = tensor_of(every, half);
        const Tensor wide = source.to(DType::float32);
        const auto* floats = wide.data<float>();
        for (std::size_t bits = 0; bits < every.size(); ++bits) {
            const bool brain = half == DType::bfloat16;
            const bool finite = (bits & 0x7fff) < (brain ? 0x7f80 : 0x7c00);
            const auto expected = static_cast<float>(
                half_value(static_cast<std::uint16_t>(bits), brain ? 7 : 10, brain ? 127 : 15));
            ASSERT_TRUE(!finite || std::bit_cast<std::uint32_t>(floats[bits]) ==
                                       std::bit_cast<std::uint32_t>(expected))
                << bits;
        }
        for (const DType other : others) {
            const Tensor direct = source.to(other);
            const Tensor indirect = wide.to(other);
            ASSERT_EQ(direct.nbytes(), indirect.nbytes());
            if (other != DType::float64) { // payloads of NaN aside
                EXPECT_EQ(std::memcmp(direct.data_ptr_raw(), indirect.data_ptr_raw(),
                                      static_cast<std::size_t>(direct.nbytes())),
                          0);
            }
        }
    }
}

TEST(Convert, KB065NanStaysNanAmongFloatsAndBecomesZeroOrTrueElsewhere) {
    const double nan = std::nan("");
    const Tensor source = tensor_of<double>({nan, -nan}, DType::float64);
    for (const DType dtype : {DType::float16, DType::bfloat16, DType::float32}) {
        const Tensor back = source.to(dtype).to(DType::float64);
        EXPECT_TRUE(std::isnan(back.data<double>()[0])) << kael::name(dtype);
        EXPECT_TRUE(std::isnan(back.data<double>()[1])) << kael::name(dtype);
    }
    for (const DType dtype : {DType::int64, DType::int32, DType::int8, DType::uint8}) {
        EXPECT_EQ(source.to(dtype).to(DType::int64).data<std::int64_t>()[0], 0);
    }
    EXPECT_EQ(source.to(DType::boolean).data<std::uint8_t>()[0], 1);
}

TEST(Convert, AnyByteButZeroIsTrue) {
    const Tensor source = tensor_of<std::uint8_t>({0, 1, 2, 255}, DType::boolean);
    EXPECT_EQ(values_of<float>(source.to(DType::float32)), (std::vector<float>{0, 1, 1, 1}));
    EXPECT_EQ(values_of<std::uint8_t>(source.to(DType::uint8)),
              (std::vector<std::uint8_t>{0, 1, 1, 1}));
}

TEST(Convert, TheSameTypeIsTheSameTensorAndAViewKeepsItsOrder) {
    const Tensor source = tensor_of<float>({1, 2, 3, 4, 5, 6}, DType::float32).view({2, 3});
    EXPECT_EQ(source.to(DType::float32).storage(), source.storage());
    const Tensor converted = source.transpose(0, 1).slice(0, 1, 3).to(DType::int32);
    EXPECT_TRUE(converted.is_contiguous());
    EXPECT_EQ(values_of<std::int32_t>(converted), (std::vector<std::int32_t>{2, 5, 3, 6}));
    EXPECT_EQ(Tensor::zeros({0, 3}, DType::float32).to(DType::int8).shape(), (kael::Shape{0, 3}));
}

TEST(Convert, AnUnknownTypeIsRefused) {
    EXPECT_THROW(
        static_cast<void>(tensor_of<float>({1}, DType::float32).to(static_cast<DType>(77))),
        kael::Error);
    EXPECT_THROW(static_cast<void>(Tensor().to(DType::float32)), kael::Error);
}

} // namespace
