// Bytes that a line of text cannot hold, as in C.
#pragma once

#include <string>

namespace kael {

// Appends "\n", "\r", "\t" or "\x" and two digits for the byte.
inline void append_escaped(std::string& out, unsigned char byte) {
    constexpr const char* kDigits = "0123456789abcdef";
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
    default:
        out += "\\x";
        out += kDigits[byte >> 4];
        out += kDigits[byte & 0xFU];
    }
}

} // namespace kael
