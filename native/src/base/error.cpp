#include "kael/error.h"

#include <cstddef>
#include <string_view>

#include "base/escaped.h"
#include "base/utf8.h"

namespace kael {

namespace {

// A path or a name in a message may hold line ends, other control characters, and bytes that are no
// UTF-8: escaped here, for every message, as in C.
std::string one_line(std::string_view message) {
    std::string line;
    line.reserve(message.size());
    for (std::size_t index = 0; index < message.size();) {
        const auto [character, length] = decode_utf8(message, index);
        if (character >= 0x20 && character != 0x7F && character != kInvalidCharacter) {
            line.append(message, index, length);
        } else {
            append_escaped(line, static_cast<unsigned char>(message[index]));
        }
        index += length; // a byte where it is escaped
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
