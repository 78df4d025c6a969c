#include "base/wakeup.h"

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

#include "kael/error.h"

#if defined(__linux__)
#include <sys/eventfd.h>
#endif
#if !defined(_WIN32)
#include <fcntl.h>
#include <unistd.h>
#endif

namespace kael {

#if defined(_WIN32)

Wakeup::Wakeup(Mechanism) {
    KAEL_CHECK_AS(ErrorCode::unsupported, false,
                  "a descriptor that wakes an event loop is not available on Windows");
}
Wakeup::~Wakeup() = default;
void Wakeup::wake() const noexcept {}
void Wakeup::clear() const noexcept {}
void Wakeup::open_pipe() {}

#else

Wakeup::Wakeup(Mechanism mechanism) {
#if defined(__linux__)
    if (mechanism == Mechanism::best) {
        read_end_ = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        const int error = errno;
        KAEL_CHECK_AS(ErrorCode::io_error, read_end_ >= 0,
                      "no eventfd to wake the event loop with: " << std::strerror(error));
        write_end_ = read_end_;
        return;
    }
#endif
    static_cast<void>(mechanism);
    open_pipe();
}

void Wakeup::open_pipe() {
    std::array<int, 2> ends{};
    const bool opened = ::pipe(ends.data()) == 0;
    const int error = errno;
    KAEL_CHECK_AS(ErrorCode::io_error, opened,
                  "no pipe to wake the event loop with: " << std::strerror(error));
    for (const int end : ends) {
        ::fcntl(end, F_SETFD, FD_CLOEXEC);
        ::fcntl(end, F_SETFL, O_NONBLOCK);
    }
    read_end_ = ends[0];
    write_end_ = ends[1];
}

Wakeup::~Wakeup() {
    ::close(read_end_);
    if (write_end_ != read_end_) {
        ::close(write_end_);
    }
}

void Wakeup::wake() const noexcept {
    // An eventfd takes exactly eight bytes. A pipe that is full is readable already, so that the
    // only failure to expect, EAGAIN, is no failure.
    const std::uint64_t one = 1;
    while (::write(write_end_, &one, sizeof one) < 0 && errno == EINTR) {
    }
}

void Wakeup::clear() const noexcept {
    std::array<char, 512> buffer{};
    for (;;) {
        const ssize_t count = ::read(read_end_, buffer.data(), buffer.size());
        const bool interrupted = count < 0 && errno == EINTR;
        const bool filled = count == static_cast<ssize_t>(buffer.size());
        if (!interrupted && !filled) {
            return;
        }
    }
}

#endif

} // namespace kael
