// 16-bit floats as their bits. Loops over these functions vectorise. Conversions to 16 bits round
// to nearest, ties to even; NaN stays NaN.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace kael {

// `yes` where the condition holds, else `no`. Masks instead of ?: since gcc would move a float
// operation into the branch that uses it, and then not vectorise the loop.
[[nodiscard]] inline std::uint32_t select_bits(bool condition, std::uint32_t yes,
                                               std::uint32_t no) {
    const std::uint32_t mask = 0u - static_cast<std::uint32_t>(condition);
    return (yes & mask) | (no & ~mask);
}

// IEEE 754 binary16: 1 sign bit, 5 exponent bits (bias 15), 10 bits of fraction.
[[nodiscard]] inline float float16_to_float(std::uint16_t half) {
    const std::uint32_t sign = (std::uint32_t{half} & 0x8000u) << 16;
    const std::uint32_t magnitude = std::uint32_t{half} & 0x7fffu;
    // The exponent's bias grows by 112; the exponent of infinity and NaN by 224, to 255.
    const std::uint32_t rebias = select_bits(magnitude >= 0x7c00u, 224u << 23, 112u << 23);
    const std::uint32_t normal = (magnitude << 13) + rebias;
    // Below 2^-14 the value is a whole number of 2^-24. Signed: the conversion that every processor
    // has.
    const float subnormal = static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24f;
    const std::uint32_t bits =
        select_bits(magnitude < 0x0400u, std::bit_cast<std::uint32_t>(subnormal), normal);
    return std::bit_cast<float>(bits | sign);
}

[[nodiscard]] inline std::uint16_t float_to_float16(float value) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (bits >> 16) & 0x8000u;
    const std::uint32_t magnitude = bits & 0x7fffffffu;
    // Half a unit of the last place kept, less one when the place is even.
    const std::uint32_t rounded = magnitude + 0x0fffu + ((magnitude >> 13) & 1u);
    const std::uint32_t normal = (rounded - (112u << 23)) >> 13;
    // A float in [0.5, 1) counts in units of 2^-24, as subnormal halves do: the addition rounds.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u;
    const std::uint32_t not_a_number = 0x7e00u | ((magnitude >> 13) & 0x03ffu);

    std::uint32_t half = select_bits(magnitude < 0x38800000u, subnormal, normal); // 2^-14
    half = select_bits(magnitude >= 0x477ff000u, 0x7c00u, half);                  // 65520
    half = select_bits(magnitude > 0x7f800000u, not_a_number, half);
    return static_cast<std::uint16_t>(half | sign);
}

// bfloat16: the upper half of a float.
[[nodiscard]] inline float bfloat16_to_float(std::uint16_t half) {
    return std::bit_cast<float>(std::uint32_t{half} << 16);
}

[[nodiscard]] inline std::uint16_t float_to_bfloat16(float value) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    // The quiet bit keeps a NaN whose payload is cut off from becoming infinity.
    const std::uint32_t not_a_number = (bits >> 16) | 0x0040u;
    return static_cast<std::uint16_t>(
        select_bits((bits & 0x7fffffffu) > 0x7f800000u, not_a_number, rounded));
}

// The double cut to a float, with the float's last bit set when anything was lost (round to odd):
// rounding that to 16 bits gives what rounding the double at once would.
[[nodiscard]] inline float double_to_float_round_to_odd(double value) {
    const float nearest = static_cast<float>(value);
    const double back = static_cast<double>(nearest);
    if (back == value || value != value) {
        return nearest;
    }
    std::uint32_t bits = std::bit_cast<std::uint32_t>(nearest);
    if ((value > 0) ? back > value : back < value) {
        --bits; // towards zero; from infinity to the largest float
    }
    return std::bit_cast<float>(bits | 1u);
}

} // namespace kael
