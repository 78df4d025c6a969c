#include "kael/error.h"

namespace kael {

namespace {

// A path or a name in a message may hold line ends and other control characters: escaped here, for
// every message, as in C.
std::string one_line(const std::string& message) {
    constexpr const char* kDigits = "0123456789abcdef";
    std::string line;
    line.reserve(message.size());
    for (const char character : message) {
        const auto byte = static_cast<unsigned char>(character);
        if (byte >= 0x20 && byte != 0x7F) {
            line += character;
        } else if (character == '\n') {
            line += "\\n";
        } else if (character == '\r') {
            line += "\\r";
        } else if (character == '\t') {
            line += "\\t";
        } else {
            line += "\\x";
            line += kDigits[byte >> 4];
            line += kDigits[byte & 0xF];
        }
    }
    return line;
}

std::string describe(const char* file, int line, const char* condition,
                     const std::string& message) {
    std::ostringstream text;
    text << "kael error at " << file << ':' << line << ": check '" << condition
         << "' failed: " << message;
    return text.str();
}

} // namespace

Error::Error(ErrorCode code, const char* file, int line, const char* condition,
             const std::string& message)
    : std::runtime_error(describe(file, line, condition, one_line(message))), code_(code),
      message_(one_line(message)) {}

} // namespace kael
