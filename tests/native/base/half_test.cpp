#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "base/half.h"

namespace {

// A 16-bit format as its definition in words: sign, exponent, fraction.
struct Format {
    std::string name;
    int fraction_bits;
    int bias;
    std::uint16_t infinity;
    std::function<float(std::uint16_t)> widen;
    std::function<std::uint16_t(float)> narrow;

    [[nodiscard]] double value(std::uint16_t half) const {
        const int magnitude = half & 0x7fff;
        const int fraction = magnitude & ((1 << fraction_bits) - 1);
        const int exponent = magnitude >> fraction_bits;
        const double size = exponent == 0 ? std::ldexp(fraction, 1 - bias - fraction_bits)
                                          : std::ldexp((1 << fraction_bits) + fraction,
                                                       exponent - bias - fraction_bits);
        return half >= 0x8000 ? -size : size;
    }
};

class Half : public testing::TestWithParam<Format> {};

TEST_P(Half, EveryPatternWidensToItsValueAndComesBack) {
    const Format& format = GetParam();
    for (std::uint32_t pattern = 0; pattern <= 0xffff; ++pattern) {
        const auto half = static_cast<std::uint16_t>(pattern);
        const float wide = format.widen(half);
        if ((half & 0x7fff) > format.infinity) {
            EXPECT_TRUE(std::isnan(wide)) << pattern;
            EXPECT_GT(format.narrow(wide) & 0x7fff, format.infinity) << pattern;
            continue;
        }
        EXPECT_EQ(std::signbit(wide), half >= 0x8000) << pattern;
        if ((half & 0x7fff) == format.infinity) {
            EXPECT_TRUE(std::isinf(wide)) << pattern;
        } else {
            EXPECT_EQ(static_cast<double>(wide), format.value(half)) << pattern;
        }
        EXPECT_EQ(format.narrow(wide), half) << pattern;
    }
}

// Between each two neighbours: what lies below the middle goes down, above up, the middle to the
// even one. Past the largest number the neighbour is what would follow if the exponent went on.
TEST_P(Half, EveryMiddleBetweenNeighboursRoundsToEven) {
    const Format& format = GetParam();
    for (std::uint16_t lower = 0; lower < format.infinity; ++lower) {
        const auto upper = static_cast<std::uint16_t>(lower + 1);
        const auto even = static_cast<std::uint16_t>(lower % 2 == 0 ? lower : upper);
        // Exact: one bit more than the format has.
        const auto middle = static_cast<float>((format.value(lower) + format.value(upper)) / 2);
        const float below = std::nextafter(middle, 0.0F);
        const float above = std::nextafter(middle, std::numeric_limits<float>::infinity());
        EXPECT_EQ(format.narrow(below), lower);
        EXPECT_EQ(format.narrow(middle), even);
        EXPECT_EQ(format.narrow(above), upper);
        EXPECT_EQ(format.narrow(-below), lower | 0x8000);
        EXPECT_EQ(format.narrow(-middle), even | 0x8000);
        EXPECT_EQ(format.narrow(-above), upper | 0x8000);
    }
}

TEST_P(Half, KB065NanStaysNanWhateverItsPayload) {
    const Format& format = GetParam();
    for (const std::uint32_t bits : {0x7f800001U, 0x7fff8c22U, 0x7fc00000U, 0x7fffffffU,
                                     0xff800001U, 0xffffffffU, 0x7f808000U}) {
        const std::uint16_t half = format.narrow(std::bit_cast<float>(bits));
        EXPECT_TRUE(std::isnan(format.widen(half))) << std::hex << bits << " became " << half;
    }
}

TEST_P(Half, LargeFloatsAndInfinityBecomeInfinity) {
    const Format& format = GetParam();
    EXPECT_EQ(format.narrow(std::numeric_limits<float>::max()), format.infinity);
    EXPECT_EQ(format.narrow(std::numeric_limits<float>::infinity()), format.infinity);
    EXPECT_EQ(format.narrow(-std::numeric_limits<float>::infinity()), format.infinity | 0x8000);
}

INSTANTIATE_TEST_SUITE_P(Formats, Half,
                         testing::Values(Format{"float16", 10, 15, 0x7c00, kael::float16_to_float,
                                                kael::float_to_float16},
                                         Format{"bfloat16", 7, 127, 0x7f80, kael::bfloat16_to_float,
                                                kael::float_to_bfloat16}),
                         [](const auto& parameter) { return parameter.param.name; });

// Values that torch 2.13 gives for the same floats.
TEST(HalfValues, RoundAsTorchDoes) {
    EXPECT_EQ(kael::float_to_float16(65519.0F), 0x7bff);
    EXPECT_EQ(kael::float_to_float16(65520.0F), 0x7c00);
    EXPECT_EQ(kael::float_to_float16(0x1p-25F), 0);
    EXPECT_EQ(kael::float_to_float16(std::nextafter(0x1p-25F, 1.0F)), 1);
    EXPECT_EQ(kael::float_to_float16(0x1p-24F), 1);
    EXPECT_EQ(kael::float_to_float16(1.0F + 0x1p-11F), 0x3c00);
    EXPECT_EQ(kael::float_to_float16(1.0F + 3 * 0x1p-11F), 0x3c02);
    EXPECT_EQ(kael::float_to_bfloat16(std::bit_cast<float>(0x3f808000U)), 0x3f80);
    EXPECT_EQ(kael::float_to_bfloat16(std::bit_cast<float>(0x3f818000U)), 0x3f82);
}

// A double that a float rounds into the middle between two halves must not be rounded twice.
TEST(RoundToOdd, ADoubleNextToAMiddleDoesNotReachItOnTheWayThroughFloat) {
    const double middle = 1.0 + 0x1p-11;
    const auto narrow = [](double value) {
        return kael::float_to_float16(kael::double_to_float_round_to_odd(value));
    };
    EXPECT_EQ(narrow(middle), 0x3c00);
    EXPECT_EQ(narrow(std::nextafter(middle, 2.0)), 0x3c01);
    EXPECT_EQ(narrow(std::nextafter(-middle, -2.0)), 0xbc01);
    EXPECT_EQ(narrow(std::nextafter(1.0 + 3 * 0x1p-11, 0.0)), 0x3c01);
    EXPECT_EQ(narrow(1e300), 0x7c00);
    EXPECT_EQ(narrow(-1e300), 0xfc00);
    EXPECT_EQ(narrow(1e-300), 0);
    EXPECT_EQ(narrow(-0.0), 0x8000);
    EXPECT_TRUE(std::isnan(kael::double_to_float_round_to_odd(std::nan(""))));
    EXPECT_EQ(kael::double_to_float_round_to_odd(std::numeric_limits<double>::infinity()),
              std::numeric_limits<float>::infinity());
}

} // namespace
