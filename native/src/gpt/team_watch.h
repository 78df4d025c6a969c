// Whether tokens are worth a team of threads.
#pragma once

#include <algorithm>
#include <cstdint>

namespace kael::gpt {

// Threads of a team wait for each other some fifty times a token. Where another process has one of
// the processors, each thread that shares it makes all others wait for whole slices of the
// scheduler's time, and one thread alone is faster. So a team that loses much of its time steps
// back for some tokens, for twice as many each time that it finds nothing changed.
class TeamWatch {
public:
    // Of the token that comes now.
    [[nodiscard]] bool is_alone() const noexcept { return tokens_alone_ > 0; }

    void token_alone() noexcept { --tokens_alone_; }

    // After a token of a team, `lost` of whose time (0 to 1) its quickest member waited.
    void token_of_team(double lost) noexcept {
        if (lost <= kMuch) {
            bad_in_a_row_ = 0;
            if (++good_in_a_row_ >= kTrusted) {
                pause_ = kShortestPause;
            }
            return;
        }
        good_in_a_row_ = 0;
        const bool is_on_trial = pause_ > kShortestPause; // since it stepped back
        if (++bad_in_a_row_ >= kTooOften || is_on_trial) {
            tokens_alone_ = pause_;
            pause_ = std::min(2 * pause_, kLongestPause);
            bad_in_a_row_ = 0;
        }
    }

private:
    // On a quiet machine a few hundredths are lost to unequal shares.
    static constexpr double kMuch = 0.25;
    static constexpr int kTooOften = 2;
    static constexpr int kTrusted = 16;
    static constexpr std::int64_t kShortestPause = 16;
    static constexpr std::int64_t kLongestPause = 512;

    int bad_in_a_row_ = 0;
    int good_in_a_row_ = 0;
    std::int64_t pause_ = kShortestPause;
    std::int64_t tokens_alone_ = 0;
};

} // namespace kael::gpt
