// Memory for tensors: blocks aligned to 64 bytes, kept for reuse after they are freed.
#pragma once

#include <cstddef>
#include <cstdint>

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

} // namespace kael
