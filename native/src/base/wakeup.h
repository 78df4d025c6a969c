// A file descriptor that one thread makes readable to wake another one's event loop.
#pragma once

namespace kael {

// wake() may run on any thread while clear() runs on one other. The descriptor stays open until the
// destructor, so whoever may still call wake() must share the ownership: a late write to a number
// that the process has given to somebody else would corrupt a stranger's stream.
class Wakeup {
public:
    enum class Mechanism {
        best, // eventfd where there is one (Linux), else a pipe
        pipe,
    };

    // Throws io_error when the process has no descriptors left, unsupported where an event loop
    // cannot watch one.
    explicit Wakeup(Mechanism mechanism = Mechanism::best);
    ~Wakeup();
    Wakeup(const Wakeup&) = delete;
    Wakeup& operator=(const Wakeup&) = delete;
    Wakeup(Wakeup&&) = delete;
    Wakeup& operator=(Wakeup&&) = delete;

    // Readable from a wake() until the next clear(). Watch it, never read or close it.
    [[nodiscard]] int descriptor() const noexcept { return read_end_; }

    // Never blocks; any number of calls before a clear() count as one.
    void wake() const noexcept;
    void clear() const noexcept;

private:
    void open_pipe();

    int read_end_ = -1;
    int write_end_ = -1; // the same number as read_end_ for an eventfd
};

} // namespace kael
