#include "base/in_quotes.h"

#include <cstddef>

#include "base/utf8.h"

namespace kael {

namespace {

constexpr std::size_t kMaxQuotedBytes = 120;

void append_escaped(std::string& out, unsigned char byte) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    switch (byte) {
    case '\n':
        out += "\\n";
        return;
    case '\r':
        out += "\\r";
        return;
    case '\t':
        out += "\\t";
        return;
    case '"':
    case '\\':
        out += '\\';
        out += static_cast<char>(byte);
        return;
    default:
        out += "\\x";
        out += kDigits[byte >> 4];
        out += kDigits[byte & 0xF];
    }
}

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
