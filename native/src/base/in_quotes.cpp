#include "base/in_quotes.h"

#include <cstddef>

#include "base/escaped.h"
#include "base/utf8.h"

namespace kael {

namespace {

constexpr std::size_t kMaxQuotedBytes = 120;

} // namespace

std::string in_quotes(std::string_view text) {
    std::string out = "\"";
    std::size_t index = 0;
    while (index < text.size() && index < kMaxQuotedBytes) {
        const auto [character, length] = decode_utf8(text, index);
        const bool plain = character >= 0x20 && character != 0x7F && character != '"' &&
                           character != '\\' && character != kInvalidCharacter;
        if (plain) {
            out.append(text, index, length);
        } else if (character == '"' || character == '\\') {
            out += '\\';
            out += text[index];
        } else {
            append_escaped(out, static_cast<unsigned char>(text[index]));
        }
        index += length; // a byte where it is not plain
    }
    out += '"';
    if (index < text.size()) {
        out += "... (" + std::to_string(text.size()) + " bytes)";
    }
    return out;
}

} // namespace kael
