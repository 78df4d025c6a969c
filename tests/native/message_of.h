// What an error says, for tests that compare it.
#pragma once

#include <string>

#include <gtest/gtest.h>

#include "kael/error.h"

namespace kael::test {

// The message of the Error that call() throws, which must carry `code`.
template <typename Call>
std::string message_of(Call&& call, ErrorCode code = ErrorCode::invalid_argument) {
    try {
        call();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), code) << error.message();
        return error.message();
    }
    return "nothing was thrown";
}

} // namespace kael::test
