#include <atomic>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <random>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "kael/error.h"
#include "kael/tensor.h"

#include "base/allocator.h"

namespace {

using kael::CachingAllocator;

constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;

#if defined(__linux__) && !defined(KAEL_NO_CACHING_ALLOCATOR)
// Bytes of address space that this process uses.
std::int64_t address_space() {
    std::int64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    return pages * sysconf(_SC_PAGESIZE);
}
#endif

bool is_aligned(const std::byte* block, std::int64_t alignment) {
    return reinterpret_cast<std::uintptr_t>(block) % static_cast<std::uintptr_t>(alignment) == 0;
}

void fill(std::byte* block, std::int64_t bytes, int value) {
    std::memset(block, value, static_cast<std::size_t>(bytes));
}

TEST(Allocator, BlocksOfEverySizeAreAlignedAndWritableToTheLastByte) {
    for (const bool caching : {true, false}) {
        CachingAllocator allocator(caching, 64 * kMebibyte);
        std::vector<std::pair<std::byte*, std::int64_t>> blocks;
        for (std::int64_t size = 1; size <= 8 * kMebibyte; size *= 2) {
            for (const std::int64_t bytes : {size - 1, size, size + 1}) {
                std::byte* block = allocator.allocate(bytes);
                EXPECT_TRUE(is_aligned(block, CachingAllocator::kAlignment)) << bytes;
                if (caching && bytes >= CachingAllocator::kHugePage) {
                    EXPECT_TRUE(is_aligned(block, CachingAllocator::kHugePage)) << bytes;
                }
                fill(block, bytes, static_cast<int>(blocks.size()));
                blocks.emplace_back(block, bytes);
            }
        }
        // Nobody else's writes went into a block.
        for (std::size_t i = 0; i < blocks.size(); ++i) {
            const auto [block, bytes] = blocks[i];
            const auto mine = static_cast<std::byte>(i);
            EXPECT_TRUE(bytes == 0 || (block[0] == mine && block[bytes - 1] == mine));
            allocator.release(block, bytes);
        }
        EXPECT_EQ(allocator.statistics().allocated_bytes, 0);
    }
}

TEST(Allocator, AFreedBlockServesTheNextRequestOfItsSize) {
    CachingAllocator allocator(true, 64 * kMebibyte);
    for (const std::int64_t bytes : {std::int64_t{100}, 5 * kMebibyte}) {
        std::byte* first = allocator.allocate(bytes);
        allocator.release(first, bytes);
        std::byte* second = allocator.allocate(bytes);
        EXPECT_EQ(first, second);
        std::byte* third = allocator.allocate(bytes);
        EXPECT_NE(third, second);
        allocator.release(second, bytes);
        allocator.release(third, bytes);
    }
}

TEST(Allocator, ABlockWastesAtMostAnEighth) {
    CachingAllocator allocator(true, 0);
    for (std::int64_t bytes = 512; bytes < 64 * kMebibyte; bytes += bytes / 7 + 1) {
        std::byte* block = allocator.allocate(bytes);
        const std::int64_t taken = allocator.statistics().allocated_bytes;
        EXPECT_GE(taken, bytes);
        EXPECT_LE(taken, bytes + bytes / 8 + CachingAllocator::kAlignment) << bytes;
        allocator.release(block, bytes);
    }
}

TEST(Allocator, StatisticsCountWhatIsHeldCachedAndTheMost) {
    CachingAllocator allocator(true, 64 * kMebibyte);
    std::byte* small = allocator.allocate(64);
    std::byte* large = allocator.allocate(kMebibyte);
    EXPECT_EQ(allocator.statistics().allocated_bytes, kMebibyte + 64);
    EXPECT_EQ(allocator.statistics().cached_bytes, 0);
    allocator.release(large, kMebibyte);
    EXPECT_EQ(allocator.statistics().allocated_bytes, 64);
    EXPECT_EQ(allocator.statistics().cached_bytes, kMebibyte);
    EXPECT_EQ(allocator.statistics().peak_bytes, kMebibyte + 64);
    allocator.release_cached_memory();
    EXPECT_EQ(allocator.statistics().cached_bytes, 0);
    allocator.release(small, 64);
    EXPECT_EQ(allocator.statistics().allocated_bytes, 0);
}

TEST(Allocator, WithoutCachingNothingIsKept) {
    CachingAllocator allocator(false, 64 * kMebibyte);
    std::byte* block = allocator.allocate(100);
    EXPECT_EQ(allocator.statistics().allocated_bytes, 100);
    allocator.release(block, 100);
    EXPECT_EQ(allocator.statistics().cached_bytes, 0);
}

TEST(Allocator, KB083SmallSurvivorsDoNotMakeTheCacheGrow) {
    constexpr std::int64_t kLimit = 256 * kMebibyte;
    CachingAllocator allocator(true, kLimit);
    constexpr std::int64_t kLarge = 91 * kMebibyte;
    constexpr std::int64_t kMiddle = 45 * kMebibyte + kMebibyte / 2;
    constexpr std::int64_t kSmall = 2 * kMebibyte;
    std::vector<std::byte*> survivors;
    std::int64_t cached = 0;
    for (int round = 0; round < 100; ++round) {
        std::byte* large = allocator.allocate(kLarge);
        std::byte* middle = allocator.allocate(kMiddle);
        survivors.push_back(allocator.allocate(kSmall));
        allocator.release(large, kLarge);
        allocator.release(middle, kMiddle);
        if (round == 0) {
            cached = allocator.statistics().cached_bytes;
        }
        EXPECT_EQ(allocator.statistics().cached_bytes, cached);
    }
    EXPECT_LE(cached, kLimit);
    for (std::byte* survivor : survivors) {
        allocator.release(survivor, kSmall);
    }
    EXPECT_LE(allocator.statistics().cached_bytes, allocator.statistics().peak_bytes);
}

TEST(Allocator, TheBlocksUnusedForLongestLeaveAFullCache) {
    CachingAllocator allocator(true, 0);
    std::byte* first = allocator.allocate(512);
    std::byte* second = allocator.allocate(256);
    std::byte* third = allocator.allocate(512);
    allocator.release(first, 512);
    allocator.release(second, 256);
    allocator.release(third, 512);
    EXPECT_EQ(allocator.statistics().cached_bytes, 1280); // as much as was held
    std::byte* fourth = allocator.allocate(700);
    EXPECT_EQ(allocator.statistics().cached_bytes, 512);
    EXPECT_EQ(allocator.allocate(512), third);
    EXPECT_EQ(allocator.statistics().cached_bytes, 0);
    allocator.release(fourth, 700);
    allocator.release(third, 512);
}

TEST(Allocator, ATrainingStepFindsTheMemoryOfTheLastOne) {
    CachingAllocator allocator(true, 0);
    const std::vector<std::int64_t> sizes = {3 * kMebibyte, 5 * kMebibyte, 100, 7 * kMebibyte};
    std::vector<std::byte*> first;
    for (const std::int64_t bytes : sizes) {
        first.push_back(allocator.allocate(bytes));
    }
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        allocator.release(first[i], sizes[i]);
    }
    const std::int64_t peak = allocator.statistics().peak_bytes;
    EXPECT_EQ(allocator.statistics().cached_bytes, peak);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        EXPECT_EQ(allocator.allocate(sizes[i]), first[i]);
    }
    EXPECT_EQ(allocator.statistics().cached_bytes, 0);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        allocator.release(first[i], sizes[i]);
    }
}

TEST(Allocator, HeldAndCachedTogetherNeverPassThePeakAndTheLimit) {
    constexpr std::int64_t kLimit = 1 * kMebibyte;
    CachingAllocator allocator(true, kLimit);
    std::mt19937 random(5);
    std::vector<std::pair<std::byte*, std::int64_t>> held;
    for (int round = 0; round < 2000; ++round) {
        if (held.size() < 6 && random() % 2 == 0) {
            const std::int64_t bytes = static_cast<std::int64_t>(random() % 3'000'000);
            held.emplace_back(allocator.allocate(bytes), bytes);
        } else if (!held.empty()) {
            const std::size_t which = random() % held.size();
            allocator.release(held[which].first, held[which].second);
            held[which] = held.back();
            held.pop_back();
        }
        const kael::AllocatorStatistics now = allocator.statistics();
        ASSERT_LE(now.cached_bytes + now.allocated_bytes, now.peak_bytes + kLimit);
    }
    for (const auto& [block, bytes] : held) {
        allocator.release(block, bytes);
    }
}

TEST(Allocator, WhatCannotBeHadIsOutOfMemoryAndNamesTheBytes) {
    CachingAllocator allocator(true, 64 * kMebibyte);
    allocator.release(allocator.allocate(1000), 1000);
    for (const std::int64_t bytes : {(std::int64_t{1} << 47) - 1, std::int64_t{1} << 47,
                                     std::numeric_limits<std::int64_t>::max()}) {
        try {
            static_cast<void>(allocator.allocate(bytes));
            FAIL() << bytes;
        } catch (const kael::Error& error) {
            EXPECT_EQ(error.code(), kael::ErrorCode::out_of_memory);
            EXPECT_NE(error.message().find(std::to_string(bytes)), std::string::npos)
                << error.message();
        }
    }
    EXPECT_EQ(allocator.statistics().allocated_bytes, 0);
    EXPECT_THROW(static_cast<void>(allocator.allocate(-1)), kael::Error);
}

TEST(Allocator, ThreadsAllocateReleaseAndEmptyTheCacheAtOnce) {
    CachingAllocator allocator(true, kMebibyte);
    std::vector<std::thread> threads;
    for (unsigned thread = 0; thread < 4; ++thread) {
        threads.emplace_back([&allocator, thread] {
            std::mt19937 random(thread);
            std::vector<std::pair<std::byte*, std::int64_t>> held;
            for (int round = 0; round < 3000; ++round) {
                if (held.size() < 8 && random() % 2 == 0) {
                    const std::int64_t bytes = static_cast<std::int64_t>(random() % 40'000);
                    std::byte* block = allocator.allocate(bytes);
                    fill(block, bytes, static_cast<int>(thread));
                    held.emplace_back(block, bytes);
                } else if (!held.empty()) {
                    const auto [block, bytes] = held.back();
                    for (std::int64_t i = 0; i < bytes; i += 997) {
                        ASSERT_EQ(block[i], static_cast<std::byte>(thread));
                    }
                    allocator.release(block, bytes);
                    held.pop_back();
                }
                if (round % 500 == 0) {
                    allocator.release_cached_memory();
                }
            }
            for (const auto& [block, bytes] : held) {
                allocator.release(block, bytes);
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(allocator.statistics().allocated_bytes, 0);
    EXPECT_LE(allocator.statistics().cached_bytes, kMebibyte + allocator.statistics().peak_bytes);
}

TEST(Allocator, AChildForkedWhileAnotherThreadIsInTheAllocatorCanAllocate) {
    std::atomic<bool> stop{false};
    std::thread other([&] {
        while (!stop) { // holds the allocator's lock most of the time
            static_cast<void>(kael::allocator_statistics());
        }
    });
    for (int round = 0; round < 50 && !testing::Test::HasFailure(); ++round) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(10); // a lock inherited from the other thread would wait for ever
            _exit(kael::Storage::allocate(1000)->byte_count() == 1000 ? 0 : 1);
        }
        int status = -1;
        waitpid(child, &status, 0);
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    }
    stop = true;
    other.join();
}

// Sanitizers reserve more address space than any limit that would show something.
#if defined(__linux__) && !defined(KAEL_NO_CACHING_ALLOCATOR)
TEST(Allocator, TheCacheIsGivenBackBeforeARequestFails) {
    const pid_t child = fork();
    if (child == 0) {
        CachingAllocator allocator(true, 1024 * kMebibyte);
        constexpr std::int64_t kBytes = 256 * kMebibyte;
        std::byte* block = allocator.allocate(kBytes);
        rlimit limit = {};
        getrlimit(RLIMIT_AS, &limit);
        limit.rlim_cur = static_cast<rlim_t>(address_space()) + 64 * kMebibyte;
        setrlimit(RLIMIT_AS, &limit);
        allocator.release(block, kBytes);
        // Only in the place of the cached block.
        std::byte* larger = allocator.allocate(kBytes + 32 * kMebibyte);
        _exit(larger != nullptr && allocator.statistics().cached_bytes == 0 ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}
#endif

} // namespace
