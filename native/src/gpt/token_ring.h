// Tokens from the thread that generates them to the thread that runs an event loop.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/wakeup.h"

namespace kael::gpt {

/*
 * A lock-free queue with one producer (the generating thread) and one consumer (the loop's thread),
 * a descriptor that tells the loop when to look, and a flag that tells the generation to stop. It
 * belongs to one request, since the next one may start before this one's tokens are read.
 *
 * Two owners: the producer's last touch is finish(), the consumer's is release(). The later of the
 * two frees the ring and closes its descriptor. The consumer can see the end between the producer's
 * storing of it and its wake, so that with a single owner the wake would hit a closed descriptor,
 * or a stranger's.
 *
 * The ring holds every token that its generation may announce, so that the producer never waits for
 * a reader.
 */
class TokenRing {
public:
    struct Record {
        std::int64_t token;
        std::int64_t nanoseconds; // monotonic clock, when the token was pushed
    };
    struct Drained {
        std::int64_t count; // records taken
        bool done;          // the producer has finished and nothing is left
    };

    static constexpr std::int64_t kMaxTokens = std::int64_t{1} << 24;
    // Waking a loop costs 7 to 30 us, more than a small model's token. A token pushed sooner than
    // this after the last wake waits for the next one, or where passes of the model take longer
    // than this and give several tokens, for stopping(), which is asked before the next pass.
    static constexpr std::int64_t kWakeIntervalNanoseconds = 1'000'000;

    // Owned by both sides from the start; max_tokens from 0 to kMaxTokens.
    static TokenRing* create(std::int64_t max_tokens,
                             Wakeup::Mechanism mechanism = Wakeup::Mechanism::best);

    // Either side.
    [[nodiscard]] int descriptor() const noexcept { return wakeup_.descriptor(); }

    // Producer. False when the ring is full: the caller announced more than it promised.
    [[nodiscard]] bool push(std::int64_t token) noexcept;
    [[nodiscard]] bool push(std::int64_t token, std::int64_t nanoseconds) noexcept;
    [[nodiscard]] bool stopping() noexcept;
    void finish() noexcept; // *this may be gone afterwards

    // Consumer.
    void stop() noexcept { stopping_.store(true, std::memory_order_relaxed); }
    // Calls take(record) for up to `capacity` records, oldest first.
    template <typename Take>
    Drained drain(std::int64_t capacity, Take&& take) noexcept;
    void release() noexcept; // *this may be gone afterwards

private:
    TokenRing(std::int64_t max_tokens, Wakeup::Mechanism mechanism);
    ~TokenRing() = default;
    void give_up() noexcept;

    static constexpr std::size_t kCacheLine = 64;

    const std::uint64_t max_tokens_;
    const std::uint64_t mask_; // capacity - 1; the capacity is a power of two
    const std::unique_ptr<Record[]> records_;
    const Wakeup wakeup_;
    std::atomic<int> owners_{2};

    // Counts since creation; a record's place is its count & mask_.
    alignas(kCacheLine) std::atomic<std::uint64_t> pushed_{0};
    std::atomic<bool> done_{false};
    // The producer's own:
    std::int64_t last_wake_ = 0;
    std::int64_t last_push_ = 0;
    bool is_waiting_ = false; // the last token, for a wake
    bool is_slow_ = false;    // the token of the last wake came long after the one before it
    alignas(kCacheLine) std::atomic<std::uint64_t> taken_{0};
    std::atomic<bool> stopping_{false};
};

template <typename Take>
TokenRing::Drained TokenRing::drain(std::int64_t capacity, Take&& take) noexcept {
    // Descriptor, then end mark, then tokens: what arrives after each step is announced again, and
    // an end that was seen has every token before it.
    wakeup_.clear();
    const bool done = done_.load(std::memory_order_acquire);
    const std::uint64_t taken = taken_.load(std::memory_order_relaxed);
    const std::uint64_t waiting = pushed_.load(std::memory_order_acquire) - taken;
    const std::uint64_t count = std::min(waiting, static_cast<std::uint64_t>(capacity));
    for (std::uint64_t i = 0; i < count; ++i) {
        take(records_[(taken + i) & mask_]);
    }
    taken_.store(taken + count, std::memory_order_release);
    if (count < waiting) {
        wakeup_.wake(); // the descriptor stays readable while anything is left
    }
    return {static_cast<std::int64_t>(count), done && count == waiting};
}

} // namespace kael::gpt
