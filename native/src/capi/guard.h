// What every function of the C interface shares: no exception leaves it, null arguments are refused
// by name.
#pragma once

#include <exception>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "kael/error.h"
#include "kael/kael.h"

namespace kael::capi {

// Keeps the error for kael_last_error on this thread and returns its status.
kael_status remember(std::exception_ptr error) noexcept;

// Runs `body`, turning whatever it throws into a status.
template <typename Body>
kael_status guard(Body&& body) noexcept {
    try {
        std::forward<Body>(body)();
        return KAEL_OK;
    } catch (...) {
        return remember(std::current_exception());
    }
}

// Keeps `text` for the caller until the next call on this thread.
void answer_text(std::string text, const char** data, std::int64_t* length);

[[nodiscard]] std::string_view text(const char* data, std::int64_t length, const char* argument);
[[nodiscard]] std::filesystem::path path(const char* data, std::int64_t length,
                                         const char* argument);

} // namespace kael::capi

// Refuses a null pointer argument by its name.
#define KAEL_REQUIRE(argument)                                                                     \
    KAEL_CHECK((argument) != nullptr, "the argument " #argument " is null")
