#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "base/checked_arithmetic.h"

namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();

TEST(CheckedArithmetic, ResultsThatFitAreExact) {
    EXPECT_EQ(kael::checked_multiply(kMost / 7, 7, "x"), kMost / 7 * 7);
    EXPECT_EQ(kael::checked_multiply(kLeast, 1, "x"), kLeast);
    EXPECT_EQ(kael::checked_add(kMost, kLeast, "x"), -1);
    EXPECT_EQ(kael::checked_subtract(kLeast, kLeast, "x"), 0);
}

TEST(CheckedArithmetic, ResultsThatDoNotFitAreErrorsThatNameThem) {
    EXPECT_THROW(static_cast<void>(kael::checked_multiply(kLeast, -1, "x")), kael::Error);
    EXPECT_THROW(static_cast<void>(kael::checked_add(kLeast, -1, "x")), kael::Error);
    EXPECT_THROW(static_cast<void>(kael::checked_subtract(0, kLeast, "x")), kael::Error);
    try {
        static_cast<void>(kael::checked_multiply(std::int64_t{1} << 62, 4, "the byte count"));
        FAIL();
    } catch (const kael::Error& error) {
        EXPECT_EQ(error.message(),
                  "the byte count 4611686018427387904 * 4 does not fit in 64 bits");
    }
}

} // namespace
