#include <string>

#include <gtest/gtest.h>

#include "kael/error.h"

namespace {

TEST(Error, WhatNamesFileLineConditionAndMessage) {
    try {
        const int index = 5;
        KAEL_CHECK(index < 3, "index " << index << ", expected less than 3");
        FAIL() << "nothing was thrown";
    } catch (const kael::Error& error) {
        const std::string text = error.what();
        EXPECT_TRUE(text.starts_with("kael error at tests/native/base/error_test.cpp:")) << text;
        EXPECT_TRUE(text.ends_with(": check 'index < 3' failed: index 5, expected less than 3"))
            << text;
        EXPECT_EQ(error.message(), "index 5, expected less than 3");
        EXPECT_EQ(error.code(), kael::ErrorCode::invalid_argument);
    }
}

// A path or a name may be any bytes; whoever reads the message expects a line of text.
TEST(Error, MessageIsOneLineOfUtf8) {
    const kael::Error error(kael::ErrorCode::invalid_argument, "file", 1, "condition",
                            "a\n\x01 \xFF \xC3( caf\xC3\xA9 \xE2\x82");
    EXPECT_EQ(error.message(), "a\\n\\x01 \\xff \\xc3( caf\xC3\xA9 \\xe2\\x82");
    EXPECT_TRUE(std::string(error.what()).ends_with(error.message())) << error.what();
}

} // namespace
