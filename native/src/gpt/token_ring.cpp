#include "gpt/token_ring.h"

#include <algorithm>
#include <bit>
#include <chrono>

#include "kael/error.h"

namespace kael::gpt {

namespace {

std::int64_t monotonic_nanoseconds() noexcept {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

} // namespace

TokenRing* TokenRing::create(std::int64_t max_tokens, Wakeup::Mechanism mechanism) {
    KAEL_CHECK(max_tokens >= 0 && max_tokens <= kMaxTokens,
               "a token ring for " << max_tokens << " tokens, expected 0 to " << kMaxTokens);
    return new TokenRing(max_tokens, mechanism);
}

TokenRing::TokenRing(std::int64_t max_tokens, Wakeup::Mechanism mechanism)
    : max_tokens_(static_cast<std::uint64_t>(max_tokens)),
      mask_(std::bit_ceil(std::max(max_tokens_, std::uint64_t{1})) - 1),
      records_(std::make_unique_for_overwrite<Record[]>(mask_ + 1)), wakeup_(mechanism) {}

bool TokenRing::push(std::int64_t token) noexcept {
    return push(token, monotonic_nanoseconds());
}

bool TokenRing::push(std::int64_t token, std::int64_t nanoseconds) noexcept {
    const std::uint64_t pushed = pushed_.load(std::memory_order_relaxed);
    // acquire: the consumer has read the record that this one replaces.
    if (pushed - taken_.load(std::memory_order_acquire) > mask_) {
        return false;
    }
    records_[pushed & mask_] = {token, nanoseconds};
    pushed_.store(pushed + 1, std::memory_order_release);

    const bool is_first = pushed == 0;
    const bool is_final = pushed + 1 == max_tokens_;
    is_waiting_ = !is_first && !is_final && nanoseconds - last_wake_ < kWakeIntervalNanoseconds;
    if (!is_waiting_) {
        is_slow_ = !is_first && nanoseconds - last_push_ >= kWakeIntervalNanoseconds;
        last_wake_ = nanoseconds;
        wakeup_.wake();
    }
    last_push_ = nanoseconds;
    return true;
}

bool TokenRing::stopping() noexcept {
    if (is_waiting_ && is_slow_) {
        is_waiting_ = false;
        wakeup_.wake();
    }
    return stopping_.load(std::memory_order_relaxed);
}

void TokenRing::finish() noexcept {
    done_.store(true, std::memory_order_release); // after the last token
    wakeup_.wake();
    give_up();
}

void TokenRing::release() noexcept {
    give_up();
}

void TokenRing::give_up() noexcept {
    if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        delete this;
    }
}

} // namespace kael::gpt
