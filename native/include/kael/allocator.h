// Memory for tensors: blocks aligned to 64 bytes, kept for reuse after they are freed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace kael {

// False after KAEL_NO_CACHING_ALLOCATOR, as an environment variable (read once, any value) or a
// compile definition.
[[nodiscard]] bool caching_allocator_enabled();

struct AllocatorStatistics {
    std::int64_t allocated_bytes; // handed out now
    std::int64_t cached_bytes;    // kept for reuse
    std::int64_t peak_bytes;      // the most handed out at one time
};
[[nodiscard]] AllocatorStatistics allocator_statistics();

// Gives every cached block back to the system.
void release_cached_memory();

// A block that was handed out or taken back.
struct MemoryEvent {
    double seconds;          // since the recording began
    std::int64_t bytes;      // as they were asked for; negative: taken back
    std::int64_t live_bytes; // afterwards
    std::string operation;   // of the operator that asked for the block; empty outside of operators
};

// What was allocated since a recording began; earlier blocks do not count.
struct MemoryTimeline {
    std::int64_t peak_bytes;     // the most alive at one time
    std::int64_t live_bytes;     // now, or when the recording ended
    std::int64_t allocations;    // how many
    std::int64_t dropped_events; // that `events` has no room for; the other numbers count them
    std::vector<std::pair<std::string, std::int64_t>>
        peak_by_operator; // at the peak, largest first, then by name
    std::vector<MemoryEvent> events;
};

// Records what the tensors of the process allocate, on every thread, until stop() or the end of its
// life. Several may run at once. Slows every allocation down while it runs, and costs about 32
// bytes for each event and 64 for each block that is alive.
class MemoryRecording {
public:
    explicit MemoryRecording(std::int64_t most_events = 100'000);
    ~MemoryRecording();
    MemoryRecording(const MemoryRecording&) = delete;
    MemoryRecording& operator=(const MemoryRecording&) = delete;

    void stop(); // a second time does nothing
    // Any thread, also while it records.
    [[nodiscard]] MemoryTimeline timeline() const;

    struct Log;

private:
    std::unique_ptr<Log> log_;
};

} // namespace kael
