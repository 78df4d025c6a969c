#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>
#include <numeric>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "kael/error.h"
#include "kael/threads.h"

#include "child_process.h"

// ThreadSanitizer ends a child that starts threads unless it is asked not to.
extern "C" const char* __tsan_default_options();
extern "C" const char* __tsan_default_options() { // NOLINT(bugprone-reserved-identifier)
    return "die_after_fork=0";
}

namespace {

// Restores the number of threads that a test changes.
class Threads : public testing::Test {
protected:
    void TearDown() override { kael::set_num_threads(count_); }

private:
    const int count_ = kael::get_num_threads();
};

using kael::test::exit_code_of_child;
using Range = std::pair<std::int64_t, std::int64_t>;

// The ranges of a loop, sorted. Each is written to the slot of its first element, so that the
// recording itself needs no lock.
std::vector<Range> ranges(std::int64_t begin, std::int64_t end, std::int64_t grain) {
    constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::min();
    std::vector<std::int64_t> last(static_cast<std::size_t>(std::max<std::int64_t>(end - begin, 0)),
                                   kNone);
    kael::parallel_for(begin, end, grain, [&](std::int64_t from, std::int64_t to) {
        last[static_cast<std::size_t>(from - begin)] = to;
    });
    std::vector<Range> found;
    for (std::size_t i = 0; i < last.size(); ++i) {
        if (last[i] != kNone) {
            found.emplace_back(begin + static_cast<std::int64_t>(i), last[i]);
        }
    }
    return found;
}

TEST_F(Threads, RangesCoverTheLoopOnceAndAreAtLeastAsLongAsTheGrain) {
    for (const int threads : {1, 2, 3, 7, 16}) {
        kael::set_num_threads(threads);
        for (const std::int64_t begin : {std::int64_t{0}, std::int64_t{-13}}) {
            for (const std::int64_t length : {0, 1, 2, 5, 6, 7, 100}) {
                for (const std::int64_t grain : {-1, 0, 1, 2, 5, 1000}) {
                    const std::vector<Range> found = ranges(begin, begin + length, grain);
                    std::int64_t next = begin;
                    for (const Range& range : found) {
                        EXPECT_EQ(range.first, next);
                        EXPECT_LT(range.first, range.second);
                        if (found.size() > 1) {
                            EXPECT_GE(range.second - range.first, grain);
                        }
                        next = range.second;
                    }
                    EXPECT_EQ(next, begin + length);
                    EXPECT_LE(found.size(), static_cast<std::size_t>(threads));
                }
            }
        }
    }
}

TEST_F(Threads, ALoopUsesAllThreadsWhenThereIsEnoughWork) {
    kael::set_num_threads(5);
    EXPECT_EQ(ranges(0, 1000, 1).size(), 5U);
}

TEST_F(Threads, ALoopThatDoesNotFitIn64BitsIsRefused) {
    EXPECT_THROW(kael::parallel_for(std::numeric_limits<std::int64_t>::min(), 1, 1,
                                    [](std::int64_t, std::int64_t) {}),
                 kael::Error);
}

TEST_F(Threads, CountsOutsideTheLimitsAreRefused) {
    for (const int count : {-1, 0, 257, std::numeric_limits<int>::max()}) {
        EXPECT_THROW(kael::set_num_threads(count), kael::Error) << count;
    }
    for (const int count : {1, 256}) {
        kael::set_num_threads(count);
        EXPECT_EQ(kael::get_num_threads(), count);
    }
}

TEST_F(Threads, KB073KB074NestedLoopsRunOnTheThreadThatTheyAreIn) {
    kael::set_num_threads(4);
    std::atomic<int> inner{0};
    kael::parallel_for(0, 4, 1, [&](std::int64_t, std::int64_t) {
        const std::thread::id outer = std::this_thread::get_id();
        kael::parallel_for(0, 1000, 1, [&](std::int64_t first, std::int64_t last) {
            EXPECT_EQ(std::this_thread::get_id(), outer);
            EXPECT_EQ(last - first, 1000);
            ++inner;
        });
        kael::run_team([&](const kael::TeamMember& member) {
            EXPECT_EQ(member.size(), 1);
            member.barrier();
        });
    });
    EXPECT_EQ(inner, 4);
}

TEST_F(Threads, KB073CallersOnSeveralThreadsAtOnceAllFinish) {
    kael::set_num_threads(3);
    constexpr int kCallers = 4;
    constexpr std::int64_t kLength = 1000;
    std::vector<std::int64_t> sums(kCallers, 0);
    std::vector<std::thread> callers;
    for (int caller = 0; caller < kCallers; ++caller) {
        callers.emplace_back([&sums, caller] {
            for (int round = 0; round < 200; ++round) {
                std::atomic<std::int64_t> sum{0};
                kael::parallel_for(0, kLength, 10, [&](std::int64_t first, std::int64_t last) {
                    for (std::int64_t i = first; i < last; ++i) {
                        sum += i;
                    }
                });
                sums[static_cast<std::size_t>(caller)] += sum;
            }
        });
    }
    for (std::thread& caller : callers) {
        caller.join();
    }
    for (const std::int64_t sum : sums) {
        EXPECT_EQ(sum, 200 * kLength * (kLength - 1) / 2);
    }
}

TEST_F(Threads, TheCountMayChangeWhileLoopsRun) {
    std::atomic<bool> stop{false};
    std::thread changer([&] {
        for (int count = 1; !stop; count = count % 6 + 1) {
            kael::set_num_threads(count);
        }
    });
    for (int round = 0; round < 500; ++round) {
        std::atomic<std::int64_t> covered{0};
        kael::parallel_for(0, 100, 1,
                           [&](std::int64_t first, std::int64_t last) { covered += last - first; });
        EXPECT_EQ(covered, 100);
    }
    stop = true;
    changer.join();
}

TEST_F(Threads, KB076TheFirstExceptionReachesTheCallerAfterAllRangesEnded) {
    kael::set_num_threads(4);
    for (int thrower = 0; thrower < 4; ++thrower) {
        std::atomic<int> ended{0};
        try {
            kael::parallel_for(0, 4, 1, [&](std::int64_t first, std::int64_t) {
                if (first == thrower) {
                    throw std::runtime_error("range " + std::to_string(first));
                }
                ++ended;
            });
            FAIL() << "nothing was thrown";
        } catch (const std::runtime_error& error) {
            EXPECT_EQ(error.what(), "range " + std::to_string(thrower));
        }
        EXPECT_EQ(ended, 3);
    }
    EXPECT_THROW(
        kael::parallel_for(0, 4, 1, [](std::int64_t, std::int64_t) { throw std::bad_alloc(); }),
        std::bad_alloc);
    EXPECT_EQ(ranges(0, 4, 1).size(), 4U) << "the pool works after an exception";
}

TEST_F(Threads, ATeamRunsEachMemberOnceOnAThreadOfItsOwn) {
    kael::set_num_threads(4);
    std::vector<std::thread::id> threads(4);
    const std::thread::id caller = std::this_thread::get_id();
    kael::run_team([&](const kael::TeamMember& member) {
        EXPECT_EQ(member.size(), 4);
        threads[static_cast<std::size_t>(member.index())] = std::this_thread::get_id();
        member.barrier();
        for (int i = 0; i < 4; ++i) {
            EXPECT_EQ(threads[static_cast<std::size_t>(i)] == std::this_thread::get_id(),
                      i == member.index());
        }
    });
    EXPECT_EQ(threads[0], caller);
}

TEST_F(Threads, ABarrierMakesTheWritesOfAllMembersVisible) {
    for (const int count : {1, 2, 3, 8}) {
        kael::set_num_threads(count);
        constexpr int kSteps = 300;
        std::vector<std::int64_t> values(static_cast<std::size_t>(count), 0);
        kael::run_team([&](const kael::TeamMember& member) {
            std::int64_t& mine = values[static_cast<std::size_t>(member.index())];
            for (int step = 1; step <= kSteps; ++step) {
                mine = step;
                member.barrier();
                const std::int64_t sum =
                    std::accumulate(values.begin(), values.end(), std::int64_t{0});
                EXPECT_EQ(sum, std::int64_t{step} * member.size());
                member.barrier();
            }
        });
    }
}

TEST_F(Threads, AMemberThatThrowsLeavesTheTeamAndTheOthersGoOn) {
    kael::set_num_threads(4);
    for (int thrower = 0; thrower < 4; ++thrower) {
        std::atomic<int> ended{0};
        EXPECT_THROW(kael::run_team([&](const kael::TeamMember& member) {
                         member.barrier();
                         if (member.index() == thrower) {
                             throw std::runtime_error("gone");
                         }
                         for (int step = 0; step < 50; ++step) {
                             member.barrier();
                         }
                         ++ended;
                     }),
                     std::runtime_error);
        EXPECT_EQ(ended, 3);
    }
}

TEST_F(Threads, AfterForkParentAndChildBothHaveAPool) {
    kael::set_num_threads(3);
    EXPECT_EQ(ranges(0, 30, 1).size(), 3U);
    EXPECT_EQ(exit_code_of_child([] { return static_cast<int>(ranges(0, 30, 1).size()); }), 3);
    EXPECT_EQ(ranges(0, 30, 1).size(), 3U);
}

TEST_F(Threads, AChildForkedWhileAnotherThreadUsesThePoolHasItsOwn) {
#if defined(__SANITIZE_THREAD__) // by GCC; Clang's sees this test
    GTEST_SKIP() << "in the child GCC's ThreadSanitizer still counts the threads of the parent";
#endif
    kael::set_num_threads(2);
    std::atomic<bool> stop{false};
    std::thread user([&] {
        while (!stop) {
            kael::parallel_for(0, 2, 1, [](std::int64_t, std::int64_t) {});
        }
    });
    for (int round = 0; round < 20; ++round) {
        EXPECT_EQ(exit_code_of_child([] { return static_cast<int>(ranges(0, 30, 1).size()); }), 2);
    }
    stop = true;
    user.join();
}

#if defined(__GLIBC__)
TEST_F(Threads, WhereTheSystemRefusesThreadsTheLoopRunsOnThoseThatThereAre) {
    kael::set_num_threads(2);
    EXPECT_EQ(ranges(0, 30, 1).size(), 2U);
    const int failures = exit_code_of_child([] {
        // A stack that no address space holds, for every thread started from here on.
        pthread_attr_t usual;
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, std::size_t{1} << 50);
        if (pthread_getattr_default_np(&usual) != 0 ||
            pthread_setattr_default_np(&attributes) != 0) {
            return 1;
        }
        kael::set_num_threads(4);
        int wrong = 0;
        for (int round = 0; round < 3; ++round) {
            wrong += ranges(0, 30, 1) == std::vector<Range>{{0, 30}} ? 0 : 1;
        }
        kael::run_team([&](const kael::TeamMember& member) { wrong += member.size() - 1; });
        // They are asked for again when the count is set, and not before.
        pthread_setattr_default_np(&usual);
        wrong += ranges(0, 30, 1).size() == 1 ? 0 : 1;
        kael::set_num_threads(4);
        wrong += ranges(0, 30, 1).size() == 4 ? 0 : 1;
        return wrong;
    });
    EXPECT_EQ(failures, 0);
}
#endif

} // namespace
