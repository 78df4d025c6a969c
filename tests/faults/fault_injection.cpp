#include "fault_injection.h"

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdlib>
#include <fcntl.h>
#include <new>
#include <ostream>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "kael/error.h"
#include "kael/kael.h"

namespace kael::test {

namespace {

constexpr int kNothing = -1;

std::atomic<int> armed{kNothing};
std::atomic<std::int64_t> calls_left{0}; // until the one that fails
std::atomic<std::int64_t> blocks{0};
std::atomic<std::int64_t> mapped_bytes{0};
std::atomic<std::int64_t> descriptors{0};

// Counts a call that the fault is about.
bool is_next(Fault fault) {
    return armed == static_cast<int>(fault) && calls_left.fetch_sub(1) == 1;
}

bool memory_is_out() {
    return is_next(Fault::allocation) || is_next(Fault::no_memory) ||
           (armed == static_cast<int>(Fault::no_memory) && calls_left < 1);
}

void* allocate(std::size_t size, std::size_t alignment) noexcept {
    if (memory_is_out()) {
        return nullptr;
    }
    // aligned_alloc() wants a multiple of the alignment.
    void* block = std::aligned_alloc(alignment, (size + alignment) / alignment * alignment);
    blocks += block != nullptr ? 1 : 0;
    return block;
}

void* allocate_or_throw(std::size_t size, std::size_t alignment) {
    void* block = allocate(size, alignment);
    if (block == nullptr) {
        throw std::bad_alloc();
    }
    return block;
}

void release(void* block) noexcept {
    blocks -= block != nullptr ? 1 : 0;
    std::free(block);
}

} // namespace

} // namespace kael::test

// ---- What is replaced
// ----------------------------------------------------------------------------

using kael::test::Fault;

constexpr std::size_t kUsual = __STDCPP_DEFAULT_NEW_ALIGNMENT__;

// All of them: a sanitizer's runtime has its own for each that is left out.
void* operator new(std::size_t size) {
    return kael::test::allocate_or_throw(size, kUsual);
}
void* operator new[](std::size_t size) {
    return kael::test::allocate_or_throw(size, kUsual);
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
    return kael::test::allocate(size, kUsual);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
    return kael::test::allocate(size, kUsual);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
    return kael::test::allocate_or_throw(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
    return kael::test::allocate_or_throw(size, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
    return kael::test::allocate(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
    return kael::test::allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* block) noexcept {
    kael::test::release(block);
}
void operator delete[](void* block) noexcept {
    kael::test::release(block);
}
void operator delete(void* block, std::size_t) noexcept {
    kael::test::release(block);
}
void operator delete[](void* block, std::size_t) noexcept {
    kael::test::release(block);
}
void operator delete(void* block, const std::nothrow_t&) noexcept {
    kael::test::release(block);
}
void operator delete[](void* block, const std::nothrow_t&) noexcept {
    kael::test::release(block);
}
void operator delete(void* block, std::align_val_t) noexcept {
    kael::test::release(block);
}
void operator delete[](void* block, std::align_val_t) noexcept {
    kael::test::release(block);
}
void operator delete(void* block, std::size_t, std::align_val_t) noexcept {
    kael::test::release(block);
}
void operator delete[](void* block, std::size_t, std::align_val_t) noexcept {
    kael::test::release(block);
}
void operator delete(void* block, std::align_val_t, const std::nothrow_t&) noexcept {
    kael::test::release(block);
}
void operator delete[](void* block, std::align_val_t, const std::nothrow_t&) noexcept {
    kael::test::release(block);
}

// The linker's --wrap: a call of open() becomes one of __wrap_open(), and __real_open() is open().
extern "C" {

int __real_open(const char* path, int flags, ...);
int __real_close(int descriptor);
int __real_eventfd(unsigned count, int flags);
int __real_fstat(int descriptor, struct stat* status);
ssize_t __real_pread(int descriptor, void* buffer, std::size_t count, off_t offset);
ssize_t __real_write(int descriptor, const void* bytes, std::size_t count);
int __real_fsync(int descriptor);
void* __real_mmap(void* address, std::size_t length, int protection, int flags, int descriptor,
                  off_t offset);
int __real_munmap(void* address, std::size_t length);

int __wrap_open(const char* path, int flags, ...);
int __wrap_close(int descriptor);
int __wrap_eventfd(unsigned count, int flags);
int __wrap_fstat(int descriptor, struct stat* status);
ssize_t __wrap_pread(int descriptor, void* buffer, std::size_t count, off_t offset);
ssize_t __wrap_write(int descriptor, const void* bytes, std::size_t count);
int __wrap_fsync(int descriptor);
void* __wrap_mmap(void* address, std::size_t length, int protection, int flags, int descriptor,
                  off_t offset);
int __wrap_munmap(void* address, std::size_t length);

int __wrap_open(const char* path, int flags, ...) {
    if (kael::test::is_next(Fault::open_refused)) {
        errno = EMFILE;
        return -1;
    }
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    const int descriptor = __real_open(path, flags, mode);
    kael::test::descriptors += descriptor >= 0 ? 1 : 0;
    return descriptor;
}

int __wrap_close(int descriptor) {
    --kael::test::descriptors;
    return __real_close(descriptor);
}

int __wrap_eventfd(unsigned count, int flags) {
    if (kael::test::is_next(Fault::event_refused)) {
        errno = EMFILE;
        return -1;
    }
    const int descriptor = __real_eventfd(count, flags);
    kael::test::descriptors += descriptor >= 0 ? 1 : 0;
    return descriptor;
}

int __wrap_fstat(int descriptor, struct stat* status) {
    if (kael::test::is_next(Fault::size_refused)) {
        errno = EIO;
        return -1;
    }
    return __real_fstat(descriptor, status);
}

ssize_t __wrap_pread(int descriptor, void* buffer, std::size_t count, off_t offset) {
    if (kael::test::is_next(Fault::read_refused)) {
        errno = EIO;
        return -1;
    }
    if (kael::test::is_next(Fault::read_interrupted)) {
        errno = EINTR;
        return -1;
    }
    if (kael::test::is_next(Fault::read_at_the_end)) {
        return 0;
    }
    const bool is_short = kael::test::is_next(Fault::read_short);
    return __real_pread(descriptor, buffer, is_short ? 1 : count, offset);
}

ssize_t __wrap_write(int descriptor, const void* bytes, std::size_t count) {
    if (kael::test::is_next(Fault::write_refused)) {
        errno = ENOSPC;
        return -1;
    }
    const bool is_short = kael::test::is_next(Fault::write_short);
    return __real_write(descriptor, bytes, is_short ? 1 : count);
}

int __wrap_fsync(int descriptor) {
    if (kael::test::is_next(Fault::sync_refused)) {
        errno = EIO;
        return -1;
    }
    return __real_fsync(descriptor);
}

void* __wrap_mmap(void* address, std::size_t length, int protection, int flags, int descriptor,
                  off_t offset) {
    if (kael::test::is_next(Fault::map_refused)) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    void* mapping = __real_mmap(address, length, protection, flags, descriptor, offset);
    kael::test::mapped_bytes += mapping != MAP_FAILED ? static_cast<std::int64_t>(length) : 0;
    return mapping;
}

int __wrap_munmap(void* address, std::size_t length) {
    kael::test::mapped_bytes -= static_cast<std::int64_t>(length);
    return __real_munmap(address, length);
}
}

// ---- What is expected
// ----------------------------------------------------------------------------

namespace kael::test {

namespace {

// What a body must give back.
struct Held {
    std::int64_t blocks;
    std::int64_t mapped_bytes;
    std::int64_t descriptors;

    bool operator==(const Held&) const = default;
    friend std::ostream& operator<<(std::ostream& output, const Held& held) {
        return output << held.blocks << " blocks, " << held.mapped_bytes << " mapped bytes, "
                      << held.descriptors << " descriptors";
    }
};

Held held() {
    return {blocks, mapped_bytes, descriptors};
}

bool must_succeed(Fault fault) {
    return fault == Fault::read_short || fault == Fault::read_interrupted ||
           fault == Fault::write_short;
}

ErrorCode expected_code(Fault fault) {
    return fault == Fault::allocation || fault == Fault::no_memory ? ErrorCode::out_of_memory
                                                                   : ErrorCode::io_error;
}

struct Failure {
    ErrorCode code;
    std::string message;
};

Failure failure_of(const std::exception_ptr& thrown) {
    try {
        std::rethrow_exception(thrown);
    } catch (const Refused& refused) {
        return {static_cast<ErrorCode>(refused.status), kael_last_error_message(nullptr)};
    } catch (const Error& error) {
        return {error.code(), error.message()};
    } catch (const std::bad_alloc&) {
        return {ErrorCode::out_of_memory, "out of memory"};
    }
}

void expect_fitting_error(Fault fault, const Failure& failure) {
    EXPECT_FALSE(must_succeed(fault)) << failure.message;
    EXPECT_EQ(failure.code, expected_code(fault)) << failure.message;
    EXPECT_FALSE(failure.message.empty());
    EXPECT_EQ(failure.message.find('\n'), std::string::npos) << failure.message;
}

} // namespace

void expect_clean_failures(Fault fault, const std::function<std::uint64_t()>& body) {
    const std::uint64_t expected = body(); // also fills what is kept on purpose
    ASSERT_EQ(body(), expected);
    const Held before = held();
    bool fired = true;
    std::int64_t run = 0;
    while (fired) {
        ++run;
        std::uint64_t result = 0;
        std::exception_ptr thrown;
        calls_left = run;
        armed = static_cast<int>(fault);
        try {
            result = body();
        } catch (...) {
            thrown = std::current_exception();
        }
        armed = kNothing;
        fired = calls_left < 1;
        if (thrown != nullptr) {
            expect_fitting_error(fault, failure_of(thrown));
            EXPECT_TRUE(fired);
            thrown = nullptr;
        } else {
            EXPECT_EQ(result, expected);
        }
        EXPECT_EQ(body(), expected);
        EXPECT_EQ(held(), before);
        if (testing::Test::HasFailure()) {
            FAIL() << "with call " << run << " of its kind failing";
        }
    }
    EXPECT_GT(run, 1) << "the fault never came";
}

} // namespace kael::test
