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

} // namespace
