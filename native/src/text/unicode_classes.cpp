#include "text/unicode_classes.h"

#include <iterator>

#include "text/unicode_tables.h"

namespace kael::text {

CharacterClass classify(char32_t code_point) noexcept {
    const std::uint32_t block = code_point / kUnicodeBlockSize;
    if (block >= std::size(kUnicodeBlockNumbers)) {
        return CharacterClass::other;
    }
    const std::uint32_t place = code_point % kUnicodeBlockSize;
    const unsigned four_classes = kUnicodeBlocks[kUnicodeBlockNumbers[block]][place / 4];
    return static_cast<CharacterClass>((four_classes >> (place % 4 * 2)) & 3U);
}

} // namespace kael::text
