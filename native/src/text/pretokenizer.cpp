#include "text/pretokenizer.h"

#include <array>
#include <cstdint>

#include "base/utf8.h"
#include "text/unicode_classes.h"

namespace kael::text {

namespace {

constexpr CharacterClass classify_ascii(unsigned byte) {
    if ((byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z')) {
        return CharacterClass::letter;
    }
    if (byte >= '0' && byte <= '9') {
        return CharacterClass::number;
    }
    return byte == ' ' || (byte >= '\t' && byte <= '\r') ? CharacterClass::space
                                                         : CharacterClass::other;
}

constexpr auto kAsciiClasses = [] {
    std::array<CharacterClass, 128> classes{};
    for (unsigned byte = 0; byte < classes.size(); ++byte) {
        classes[byte] = classify_ascii(byte);
    }
    return classes;
}();

struct Character {
    CharacterClass character_class;
    std::size_t length; // in bytes
};

inline Character character_at(std::string_view text, std::size_t position) noexcept {
    const auto byte = static_cast<std::uint8_t>(text[position]);
    if (byte < kAsciiClasses.size()) {
        return {kAsciiClasses[byte], 1};
    }
    const Utf8Character decoded = decode_utf8(text, position);
    return {classify(decoded.code_point), decoded.length};
}

// Where the run of `wanted` that `position` is in or behind ends.
std::size_t end_of_run(std::string_view text, std::size_t position,
                       CharacterClass wanted) noexcept {
    while (position < text.size()) {
        const Character character = character_at(text, position);
        if (character.character_class != wanted) {
            break;
        }
        position += character.length;
    }
    return position;
}

// The length of the contraction at `begin`, where an apostrophe stands, or 0.
std::size_t contraction_length(std::string_view text, std::size_t begin) noexcept {
    const std::string_view rest = text.substr(begin + 1, 2);
    if (rest.empty()) {
        return 0;
    }
    if (rest[0] == 's' || rest[0] == 't' || rest[0] == 'm' || rest[0] == 'd') {
        return 2;
    }
    return rest == "re" || rest == "ve" || rest == "ll" ? 3 : 0;
}

// `\s+(?!\S)|\s+` at `begin`, where white space stands: the whole run when the text ends with it;
// otherwise all but its last character, which may belong to the next piece, unless it is the only
// one.
std::size_t end_of_spaces(std::string_view text, std::size_t begin) noexcept {
    std::size_t last = begin;
    std::size_t end = begin;
    while (end < text.size()) {
        const Character character = character_at(text, end);
        if (character.character_class != CharacterClass::space) {
            return last == begin ? end : last;
        }
        last = end;
        end += character.length;
    }
    return end;
}

} // namespace

std::size_t end_of_piece(std::string_view text, std::size_t begin) noexcept {
    if (text[begin] == '\'') {
        if (const std::size_t length = contraction_length(text, begin); length > 0) {
            return begin + length;
        }
    }
    const Character first = character_at(text, begin);
    const std::size_t next = begin + first.length;
    if (first.character_class != CharacterClass::space) {
        return end_of_run(text, next, first.character_class);
    }
    if (text[begin] == ' ' && next < text.size()) {
        const Character second = character_at(text, next);
        if (second.character_class != CharacterClass::space) {
            return end_of_run(text, next + second.length, second.character_class);
        }
    }
    return end_of_spaces(text, begin);
}

} // namespace kael::text
