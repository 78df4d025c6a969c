// Recordings of what the allocator hands out.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "kael/allocator.h"
#include "kael/error.h"

#include "base/allocator.h"
#include "base/current_operator.h"

namespace kael {
namespace {

TEST(MemoryRecording, KnowsThePeakByOperator) {
    MemoryRecording recording;
    std::byte* first = nullptr;
    std::byte* second = nullptr;
    {
        const OperatorScope scope("outer");
        first = process_allocator().allocate(100);
        const OperatorScope inner("inner");
        second = process_allocator().allocate(300);
    }
    process_allocator().release(second, 300);
    std::byte* const third = process_allocator().allocate(50);
    recording.stop();
    process_allocator().release(first, 100);
    process_allocator().release(third, 50);
    const MemoryTimeline timeline = recording.timeline();
    EXPECT_EQ(timeline.peak_bytes, 400);
    EXPECT_EQ(timeline.live_bytes, 150);
    EXPECT_EQ(timeline.allocations, 3);
    EXPECT_EQ(timeline.peak_by_operator,
              (std::vector<std::pair<std::string, std::int64_t>>{{"inner", 300}, {"outer", 100}}));
    ASSERT_EQ(timeline.events.size(), 4U);
    EXPECT_EQ(timeline.events[2].bytes, -300);
    EXPECT_EQ(timeline.events[2].operation, "inner"); // that asked for it
    EXPECT_EQ(timeline.events[3].operation, "");
}

TEST(MemoryRecording, DropsWhatItHasNoRoomFor) {
    const MemoryRecording recording(1);
    process_allocator().release(process_allocator().allocate(100), 100);
    const MemoryTimeline timeline = recording.timeline();
    EXPECT_EQ(timeline.events.size(), 1U);
    EXPECT_EQ(timeline.dropped_events, 1);
    EXPECT_EQ(timeline.live_bytes, 0);
    EXPECT_THROW(const MemoryRecording wrong(-1), Error);
}

TEST(MemoryRecording, BeginsAndEndsWhileOtherThreadsAllocate) {
    std::atomic<bool> done = false;
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
        threads.emplace_back([&] {
            while (!done) {
                process_allocator().release(process_allocator().allocate(64), 64);
            }
        });
    }
    for (int i = 0; i < 200; ++i) {
        const MemoryRecording recording;
        const MemoryTimeline timeline = recording.timeline();
        ASSERT_LE(timeline.live_bytes, 128);
        ASSERT_LE(timeline.live_bytes, timeline.peak_bytes);
    }
    done = true;
    for (std::thread& thread : threads) {
        thread.join();
    }
}

} // namespace
} // namespace kael
