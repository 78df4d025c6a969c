// Where tensors' memory comes from. Freed blocks wait in lists by size class for the next tensor of
// that class, because asking the system means page faults: several milliseconds for the activations
// of one forward pass.
//
// A block is never split and never joined: small survivors cannot pin large blocks. What is kept is
// bounded, the longest unused block going first: what is handed out and what is cached are together
// at most the most that was handed out at one time, and a limit above it. So a training finds the
// memory of its last step again.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "kael/allocator.h"

namespace kael {

// Told of blocks by the thread that asks for them or gives them back, with no lock held.
class AllocationObserver {
public:
    virtual ~AllocationObserver() = default;
    virtual void allocated(const std::byte* block, std::int64_t bytes) noexcept = 0;
    virtual void released(const std::byte* block) noexcept = 0;
};

// Any thread may use one allocator, and release what another thread allocated.
class CachingAllocator {
public:
    // With `caching` off every block goes back to the system at once and has exactly the size asked
    // for, so that a sanitizer sees each misuse. `cache_limit`: the bytes that are
    // kept beyond the peak of what was handed out.
    CachingAllocator(bool caching, std::int64_t cache_limit);
    CachingAllocator(const CachingAllocator&) = delete;
    CachingAllocator& operator=(const CachingAllocator&) = delete;
    // Gives back what is cached. Blocks still handed out are lost.
    ~CachingAllocator();

    // `bytes` >= 0 of uninitialised memory, aligned to kAlignment; from kHugePage on aligned to
    // that and backed by huge pages where the system has them (3 to 5 % faster to stream). Never
    // null. Gives the cache back and tries once more before it throws out_of_memory.
    [[nodiscard]] std::byte* allocate(std::int64_t bytes);
    // `bytes` as passed to allocate.
    void release(std::byte* block, std::int64_t bytes) noexcept;

    // Null for none. It must live on: another thread may be calling the one before.
    void set_observer(AllocationObserver* observer) noexcept { observer_.store(observer); }

    void release_cached_memory() noexcept;
    [[nodiscard]] AllocatorStatistics statistics() const;
    [[nodiscard]] bool is_caching() const noexcept { return caching_; }

    // Held across fork(), so that the child does not inherit it locked by a thread it lacks.
    [[nodiscard]] std::mutex& mutex() noexcept { return mutex_; }

    static constexpr std::int64_t kAlignment = 64;
    static constexpr std::int64_t kHugePage = std::int64_t{2} << 20;

private:
    struct FreeBlock;

    // So that at most 1 / 32 of a block is unused.
    static constexpr int kClassesPerDoubling = 32;
    static constexpr int kClasses = 48 * kClassesPerDoubling;
    struct SizeClass {
        int index;
        std::int64_t bytes;
    };
    static SizeClass size_class(std::int64_t bytes);

    std::byte* take(std::int64_t bytes);
    std::byte* take_cached(int index) noexcept;
    void unlink(FreeBlock* block) noexcept;
    void give_back(FreeBlock* block) noexcept;
    // The bytes that may be cached while so many are handed out.
    [[nodiscard]] std::int64_t cache_room(std::int64_t allocated_bytes) const noexcept;
    void shrink_cache(std::int64_t bytes) noexcept;
    void count_allocation(std::int64_t bytes) noexcept;

    const bool caching_;
    const std::int64_t cache_limit_;
    std::atomic<AllocationObserver*> observer_ = nullptr;
    mutable std::mutex mutex_;
    std::array<FreeBlock*, kClasses> free_{};
    FreeBlock* newest_ = nullptr;
    FreeBlock* oldest_ = nullptr;
    AllocatorStatistics statistics_{};
};

// The one that tensors use.
[[nodiscard]] CachingAllocator& process_allocator();

} // namespace kael
