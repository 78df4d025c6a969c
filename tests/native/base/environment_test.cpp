#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "kael/error.h"

#include "base/environment.h"

namespace {

class Environment : public testing::Test {
protected:
    static constexpr const char* kName = "KAEL_TEST_VARIABLE";
    void TearDown() override { unsetenv(kName); }
    static void set(const char* value) { setenv(kName, value, 1); }
};

TEST_F(Environment, AVariableIsItsValueOrNothing) {
    EXPECT_EQ(kael::environment_variable(kName), std::nullopt);
    set("");
    EXPECT_EQ(kael::environment_variable(kName), "");
    set("some text");
    EXPECT_EQ(kael::environment_variable(kName), "some text");
}

TEST_F(Environment, AnIntegerInItsRangeIsTaken) {
    EXPECT_EQ(kael::environment_integer(kName, 1, 256), std::nullopt);
    set("");
    EXPECT_EQ(kael::environment_integer(kName, 1, 256), std::nullopt);
    for (const char* value : {"1", "256", "007"}) {
        set(value);
        EXPECT_EQ(kael::environment_integer(kName, 1, 256), std::atoi(value));
    }
}

TEST_F(Environment, AnythingElseIsAnErrorThatNamesVariableValueAndRange) {
    for (const char* value :
         {"0", "257", "-1", "+4", " 4", "4 ", "4x", "x", "1.0", "0x10", "99999999999999999999"}) {
        set(value);
        try {
            static_cast<void>(kael::environment_integer(kName, 1, 256));
            FAIL() << value;
        } catch (const kael::Error& error) {
            EXPECT_EQ(error.message(), "the environment variable KAEL_TEST_VARIABLE is \"" +
                                           std::string(value) +
                                           "\", expected a whole number from 1 to 256");
        }
    }
}

} // namespace
