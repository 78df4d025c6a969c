#include "base/allocator.h"

#include <algorithm>
#include <bit>
#include <new>
#include <pthread.h>
#include <sys/mman.h>

#include "kael/error.h"

#include "base/environment.h"

namespace kael {

// The head of a cached block, kept in the block itself.
struct CachingAllocator::FreeBlock {
    FreeBlock* newer_in_class;
    FreeBlock* older_in_class;
    FreeBlock* newer;
    FreeBlock* older;
    SizeClass size;
};

namespace {

// No processor of today addresses more, and every size computed below this limit fits.
constexpr std::int64_t kAddressSpace = std::int64_t{1} << 47;

// What a process may keep beyond the most that its tensors have held.
constexpr std::int64_t kProcessCacheLimit = std::int64_t{128} << 20;

// `bytes` is a size class, and from kHugePage on those are multiples of every system's pages.
std::byte* map_aligned(std::int64_t bytes) noexcept {
    const std::size_t size = static_cast<std::size_t>(bytes);
    const std::size_t alignment = CachingAllocator::kHugePage;
    void* mapping = ::mmap(nullptr, size + alignment, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) {
        return nullptr;
    }
    std::byte* first = static_cast<std::byte*>(mapping);
    const std::size_t before =
        (alignment - reinterpret_cast<std::uintptr_t>(first) % alignment) % alignment;
    std::byte* block = first + before;
    if (before > 0) {
        ::munmap(first, before);
    }
    ::munmap(block + size, alignment - before);
#if defined(MADV_HUGEPAGE)
    ::madvise(block, size, MADV_HUGEPAGE); // a hint: no kernel owes it to us
#endif
    return block;
}

// Null when there is no memory.
std::byte* system_allocate(std::int64_t bytes, bool map_large_blocks) noexcept {
    if (map_large_blocks && bytes >= CachingAllocator::kHugePage) {
        return map_aligned(bytes);
    }
    return static_cast<std::byte*>(::operator new(static_cast<std::size_t>(bytes),
                                                  std::align_val_t{CachingAllocator::kAlignment},
                                                  std::nothrow));
}

void system_release(void* block, std::int64_t bytes, bool map_large_blocks) noexcept {
    if (map_large_blocks && bytes >= CachingAllocator::kHugePage) {
        ::munmap(block, static_cast<std::size_t>(bytes));
        return;
    }
    ::operator delete(block, std::align_val_t{CachingAllocator::kAlignment});
}

} // namespace

CachingAllocator::CachingAllocator(bool caching, std::int64_t cache_limit)
    : caching_(caching), cache_limit_(cache_limit) {
    static_assert(sizeof(FreeBlock) <= kAlignment);
}

CachingAllocator::~CachingAllocator() {
    release_cached_memory();
}

CachingAllocator::SizeClass CachingAllocator::size_class(std::int64_t bytes) {
    const std::uint64_t last = static_cast<std::uint64_t>(bytes < 1 ? 1 : bytes) - 1;
    constexpr std::uint64_t kSmall = std::uint64_t{kAlignment} * kClassesPerDoubling;
    if (last < kSmall) {
        const std::uint64_t units = last / kAlignment + 1;
        return {static_cast<int>(units - 1), static_cast<std::int64_t>(units * kAlignment)};
    }
    // Steps of so many parts of the power of two below.
    const int doubling = static_cast<int>(std::bit_width(last / kSmall)) - 1;
    const std::uint64_t step = std::uint64_t{kAlignment} << doubling;
    const std::uint64_t units = last / step + 1; // kClassesPerDoubling + 1 to twice that
    const int index =
        (doubling + 1) * kClassesPerDoubling + static_cast<int>(units) - kClassesPerDoubling - 1;
    return {index, static_cast<std::int64_t>(units * step)};
}

std::byte* CachingAllocator::allocate(std::int64_t bytes) {
    std::byte* const block = take(bytes);
    if (AllocationObserver* const observer = observer_.load(std::memory_order_acquire)) {
        observer->allocated(block, bytes);
    }
    return block;
}

std::byte* CachingAllocator::take(std::int64_t bytes) {
    KAEL_CHECK(bytes >= 0, "a block of " << bytes << " bytes, expected 0 or more");
    KAEL_CHECK_AS(ErrorCode::out_of_memory, bytes < kAddressSpace,
                  "no memory for " << bytes << " bytes: more than an address space holds");
    const SizeClass size = caching_ ? size_class(bytes) : SizeClass{0, bytes};
    if (caching_) {
        const std::lock_guard lock(mutex_);
        if (std::byte* block = take_cached(size.index)) {
            count_allocation(size.bytes);
            return block;
        }
        shrink_cache(cache_room(statistics_.allocated_bytes + size.bytes));
    }
    std::byte* block = system_allocate(size.bytes, caching_);
    if (block == nullptr) {
        release_cached_memory();
        block = system_allocate(size.bytes, caching_);
    }
    KAEL_CHECK_AS(ErrorCode::out_of_memory, block != nullptr,
                  "no memory for " << bytes << " bytes; tensors hold "
                                   << statistics().allocated_bytes << " bytes");
    const std::lock_guard lock(mutex_);
    count_allocation(size.bytes);
    return block;
}

void CachingAllocator::release(std::byte* block, std::int64_t bytes) noexcept {
    if (AllocationObserver* const observer = observer_.load(std::memory_order_acquire)) {
        observer->released(block); // before another thread can get the same block
    }
    const SizeClass size = caching_ ? size_class(bytes) : SizeClass{0, bytes};
    std::unique_lock lock(mutex_);
    statistics_.allocated_bytes -= size.bytes;
    const std::int64_t room = cache_room(statistics_.allocated_bytes);
    if (!caching_ || size.bytes > room) {
        lock.unlock();
        system_release(block, size.bytes, caching_);
        return;
    }
    shrink_cache(room - size.bytes);
    FreeBlock*& head = free_[static_cast<std::size_t>(size.index)];
    FreeBlock* cached = new (block) FreeBlock{nullptr, head, nullptr, newest_, size};
    (head != nullptr ? head->newer_in_class : head) = cached;
    head = cached;
    (newest_ != nullptr ? newest_->newer : oldest_) = cached;
    newest_ = cached;
    statistics_.cached_bytes += size.bytes;
}

std::byte* CachingAllocator::take_cached(int index) noexcept {
    FreeBlock* block = free_[static_cast<std::size_t>(index)];
    if (block == nullptr) {
        return nullptr;
    }
    unlink(block);
    return reinterpret_cast<std::byte*>(block);
}

void CachingAllocator::unlink(FreeBlock* block) noexcept {
    FreeBlock*& head = free_[static_cast<std::size_t>(block->size.index)];
    (block->newer_in_class != nullptr ? block->newer_in_class->older_in_class : head) =
        block->older_in_class;
    if (block->older_in_class != nullptr) {
        block->older_in_class->newer_in_class = block->newer_in_class;
    }
    (block->newer != nullptr ? block->newer->older : newest_) = block->older;
    (block->older != nullptr ? block->older->newer : oldest_) = block->newer;
    statistics_.cached_bytes -= block->size.bytes;
}

void CachingAllocator::give_back(FreeBlock* block) noexcept {
    const std::int64_t bytes = block->size.bytes;
    unlink(block);
    system_release(block, bytes, true);
}

std::int64_t CachingAllocator::cache_room(std::int64_t allocated_bytes) const noexcept {
    const std::int64_t below_peak = statistics_.peak_bytes - allocated_bytes;
    return cache_limit_ + std::max<std::int64_t>(below_peak, 0);
}

void CachingAllocator::shrink_cache(std::int64_t bytes) noexcept {
    while (statistics_.cached_bytes > bytes) {
        give_back(oldest_);
    }
}

void CachingAllocator::count_allocation(std::int64_t bytes) noexcept {
    statistics_.allocated_bytes += bytes;
    if (statistics_.allocated_bytes > statistics_.peak_bytes) {
        statistics_.peak_bytes = statistics_.allocated_bytes;
    }
}

void CachingAllocator::release_cached_memory() noexcept {
    const std::lock_guard lock(mutex_);
    while (oldest_ != nullptr) {
        give_back(oldest_);
    }
}

AllocatorStatistics CachingAllocator::statistics() const {
    const std::lock_guard lock(mutex_);
    return statistics_;
}

namespace {

bool caching_wanted() {
#if defined(KAEL_NO_CACHING_ALLOCATOR)
    return false;
#else
    return !environment_variable("KAEL_NO_CACHING_ALLOCATOR").has_value();
#endif
}

void lock_allocator() {
    process_allocator().mutex().lock();
}
void unlock_allocator() {
    process_allocator().mutex().unlock();
}
[[maybe_unused]] const int kForkHandlers =
    pthread_atfork(lock_allocator, unlock_allocator, unlock_allocator);

} // namespace

CachingAllocator& process_allocator() {
    // Never destroyed: a tensor may outlive every static object.
    static CachingAllocator* const allocator =
        new CachingAllocator(caching_wanted(), kProcessCacheLimit);
    return *allocator;
}

bool caching_allocator_enabled() {
    return process_allocator().is_caching();
}

AllocatorStatistics allocator_statistics() {
    return process_allocator().statistics();
}

void release_cached_memory() {
    process_allocator().release_cached_memory();
}

} // namespace kael
