// The classes of characters that GPT-2's pattern tells apart.
#pragma once

#include <cstdint>

namespace kael::text {

// letter is \p{L}, number is \p{N} and space is the property White_Space, all of one pinned version
// of Unicode (kUnicodeVersion in unicode_tables.h).
enum class CharacterClass : std::uint8_t { other, letter, number, space };

// Any value: what is no code point is `other`.
[[nodiscard]] CharacterClass classify(char32_t code_point) noexcept;

} // namespace kael::text
