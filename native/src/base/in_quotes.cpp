#include "base/in_quotes.h"

#include <cstddef>

namespace kael {

namespace {

constexpr std::size_t kMaxQuotedBytes = 120;

unsigned char byte_at(std::string_view text, std::size_t index) {
    return static_cast<unsigned char>(text[index]);
}

// The length of the UTF-8 sequence at `index`, or 0 where there is none (Unicode 15, table 3-7).
std::size_t utf8_length(std::string_view text, std::size_t index) {
    const unsigned char lead = byte_at(text, index);
    if (lead < 0x80) {
        return 1;
    }
    const std::size_t length = lead < 0xC2   ? 0
                               : lead < 0xE0 ? 2
                               : lead < 0xF0 ? 3
                               : lead < 0xF5 ? 4
                                             : 0;
    if (length == 0 || text.size() - index < length) {
        return 0;
    }
    const unsigned char lowest = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const unsigned char highest = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (byte_at(text, index + 1) < lowest || byte_at(text, index + 1) > highest) {
        return 0;
    }
    for (std::size_t i = 2; i < length; ++i) {
        if ((byte_at(text, index + i) & 0xC0) != 0x80) {
            return 0;
        }
    }
    return length;
}

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
        const unsigned char byte = byte_at(text, index);
        const std::size_t length = utf8_length(text, index);
        const bool plain =
            byte >= 0x20 && byte != 0x7F && byte != '"' && byte != '\\' && length != 0;
        if (plain) {
            out.append(text, index, length);
        } else {
            append_escaped(out, byte);
        }
        index += plain ? length : 1;
    }
    out += '"';
    if (index < text.size()) {
        out += "... (" + std::to_string(text.size()) + " bytes)";
    }
    return out;
}

} // namespace kael
