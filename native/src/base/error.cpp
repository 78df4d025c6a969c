#include "kael/error.h"

namespace kael {

namespace {

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
    : std::runtime_error(describe(file, line, condition, message)), code_(code), message_(message) {
}

} // namespace kael
