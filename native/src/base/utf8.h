// UTF-8 where every byte counts: each belongs to a character, valid or not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kael {

inline constexpr char32_t kInvalidCharacter = 0xFFFFFFFF; // no code point

struct Utf8Character {
    char32_t code_point;
    std::size_t length; // in bytes
};

// The character at `position`, which is less than text.size(). A byte that does not begin a valid
// sequence (Unicode 16.0, table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF) is a
// kInvalidCharacter of one byte.
[[nodiscard]] inline Utf8Character decode_utf8(std::string_view text,
                                               std::size_t position) noexcept {
    const auto byte = [&](std::size_t index) {
        return static_cast<std::uint8_t>(text[position + index]);
    };
    const auto is_continuation = [&](std::size_t index) { return (byte(index) & 0xC0U) == 0x80U; };
    const std::size_t available = text.size() - position;
    const std::uint32_t lead = byte(0);
    if (lead < 0x80) {
        return {lead, 1};
    }
    if (lead >= 0xC2 && lead <= 0xDF && available >= 2 && is_continuation(1)) {
        return {(lead & 0x1FU) << 6 | (byte(1) & 0x3FU), 2};
    }
    if (lead >= 0xE0 && lead <= 0xEF && available >= 3 && is_continuation(1) &&
        is_continuation(2)) {
        const char32_t code_point =
            (lead & 0x0FU) << 12 | (byte(1) & 0x3FU) << 6 | (byte(2) & 0x3FU);
        const bool surrogate = code_point >= 0xD800 && code_point <= 0xDFFF;
        if (code_point >= 0x800 && !surrogate) {
            return {code_point, 3};
        }
    }
    if (lead >= 0xF0 && lead <= 0xF4 && available >= 4 && is_continuation(1) &&
        is_continuation(2) && is_continuation(3)) {
        const char32_t code_point = (lead & 0x07U) << 18 | (byte(1) & 0x3FU) << 12 |
                                    (byte(2) & 0x3FU) << 6 | (byte(3) & 0x3FU);
        if (code_point >= 0x10000 && code_point <= 0x10FFFF) {
            return {code_point, 4};
        }
    }
    return {kInvalidCharacter, 1};
}

} // namespace kael
