// The one error type of kael. Everything that fails throws it; the C interface turns it into a
// kael_status.
#pragma once

#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string>

namespace kael {

// The values are those of kael_status in kael.h.
enum class ErrorCode : std::int32_t {
    invalid_argument = 1, // a value outside what the function allows
    not_found = 2,        // a file, folder or name that does not exist
    io_error = 3,         // the operating system refused to open, read, map or write
    invalid_file = 4,     // content that breaks its format, or disagrees with another file
    unsupported = 5,      // valid, but something that this build does not do
    out_of_memory = 6,
    callback_failed = 7, // a caller's callback answered that it failed
    internal = 8,        // a bug in kael
    anomaly = 9,         // what anomaly detection was asked to find (kael/anomaly.h)
};

// what() is "kael error at FILE:LINE: check 'CONDITION' failed: MESSAGE"; message() is the MESSAGE
// alone, one line of UTF-8 that names what was wrong, what was expected and where: control
// characters in `message`, and bytes that are no UTF-8, are escaped as in C ("\n", "\xff").
class Error : public std::runtime_error {
public:
    Error(ErrorCode code, const char* file, int line, const char* condition,
          const std::string& message);

    [[nodiscard]] ErrorCode code() const noexcept { return code_; }
    [[nodiscard]] const std::string& message() const noexcept { return message_; }

private:
    ErrorCode code_;
    std::string message_;
};

} // namespace kael

// Throws kael::Error with `code` unless `condition` holds. `message` is streamed: KAEL_CHECK(i < n,
// "index " << i). NOLINTBEGIN(bugprone-macro-parentheses): `message` is a chain of << operands and
// cannot be parenthesised.
#define KAEL_CHECK_AS(code, condition, message)                                                    \
    do {                                                                                           \
        if (!(condition)) [[unlikely]] {                                                           \
            std::ostringstream kael_check_stream;                                                  \
            kael_check_stream << message;                                                          \
            throw ::kael::Error((code), __FILE__, __LINE__, #condition, kael_check_stream.str());  \
        }                                                                                          \
    } while (false)
// NOLINTEND(bugprone-macro-parentheses)

#define KAEL_CHECK(condition, message)                                                             \
    KAEL_CHECK_AS(::kael::ErrorCode::invalid_argument, condition, message)
