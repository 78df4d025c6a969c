#include <poll.h>
#include <string>
#include <sys/resource.h>

#include <gtest/gtest.h>

#include "base/wakeup.h"
#include "message_of.h"

namespace {

using kael::Wakeup;
using kael::test::message_of;

bool readable(int descriptor) {
    pollfd watched{descriptor, POLLIN, 0};
    return ::poll(&watched, 1, 0) == 1;
}

class WakeupTest : public testing::TestWithParam<Wakeup::Mechanism> {};

TEST_P(WakeupTest, IsReadableFromAWakeToTheNextClear) {
    const Wakeup wakeup(GetParam());
    EXPECT_FALSE(readable(wakeup.descriptor()));
    wakeup.wake();
    wakeup.wake();
    EXPECT_TRUE(readable(wakeup.descriptor()));
    wakeup.clear();
    EXPECT_FALSE(readable(wakeup.descriptor()));
    wakeup.clear();
    wakeup.wake();
    EXPECT_TRUE(readable(wakeup.descriptor()));
}

TEST_P(WakeupTest, NeverBlocksHoweverOftenItIsCalled) {
    const Wakeup wakeup(GetParam());
    for (int i = 0; i < 20'000; ++i) { // 160 KB: more than a pipe holds
        wakeup.wake();
    }
    EXPECT_TRUE(readable(wakeup.descriptor()));
    wakeup.clear();
    EXPECT_FALSE(readable(wakeup.descriptor()));
}

TEST_P(WakeupTest, WithoutADescriptorLeftItSaysSo) {
    // UBSan looks at a type for the first time through a pipe, and finds fault where it gets none.
    EXPECT_EQ(message_of([] { KAEL_CHECK(false, "looked at"); }), "looked at");
    rlimit saved = {};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &saved), 0);
    const rlimit none = {0, saved.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    const std::string message =
        message_of([] { const Wakeup wakeup(GetParam()); }, kael::ErrorCode::io_error);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &saved), 0);
    EXPECT_TRUE(message.ends_with(" to wake the event loop with: Too many open files")) << message;
}

INSTANTIATE_TEST_SUITE_P(Mechanisms, WakeupTest,
                         testing::Values(Wakeup::Mechanism::best, Wakeup::Mechanism::pipe),
                         [](const auto& param) {
                             return param.param == Wakeup::Mechanism::best ? "Best" : "Pipe";
                         });

} // namespace
