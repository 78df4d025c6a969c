// Whether tokens are worth a team of threads.
#pragma once

#include <algorithm>
#include <cstdint>

namespace kael::gpt {

// Threads of a team wait for each other some fifty times a token. Where another process has one of
// the processors, each thread that shares it makes all others wait for whole slices of the
// scheduler's time, and one thread alone is faster. So a team that loses much of its time steps
// back for some tokens and is then tried: it goes on if it is faster than one thread was, else it
// steps back for so long that what the trial lost is a small part of that time.
class TeamWatch {
public:
    // Of the token that comes now.
    [[nodiscard]] bool is_alone() const noexcept { return tokens_alone_ > 0; }

    // After a token of one thread.
    void token_alone(double seconds) noexcept {
        alone_seconds_ += seconds;
        if (--tokens_alone_ == 0) {
            tokens_on_trial_ = kTrial;
            team_seconds_ = 0;
        }
    }

    // After a token of a team, `lost` of whose time (0 to 1) its quickest member waited.
    void token_of_team(double seconds, double lost) noexcept {
        if (tokens_on_trial_ > 0) {
            token_on_trial(seconds);
        } else if (lost <= kMuch) {
            bad_in_a_row_ = 0;
        } else if (++bad_in_a_row_ >= kTooOften || lost > kMost) {
            step_back(kShortestPause);
        }
    }

private:
    // On a quiet machine a few hundredths are lost to unequal shares.
    static constexpr double kMuch = 0.25;
    static constexpr double kMost = 0.75;
    static constexpr int kTooOften = 2;
    static constexpr int kTrial = 5;
    static constexpr double kShareOfTrials = 1.0 / 32; // of the time alone that follows, to lose
    static constexpr std::int64_t kShortestPause = 16;
    static constexpr std::int64_t kLongestPause = 1024;

    void token_on_trial(double seconds) noexcept {
        const double alone = alone_seconds_ / static_cast<double>(pause_); // a token
        const double enough = alone * (kTrial - 1);
        const bool wakes = tokens_on_trial_ == kTrial; // threads that have slept meanwhile
        --tokens_on_trial_;
        if (wakes && seconds < enough) {
            return;
        }
        team_seconds_ += seconds;
        if (team_seconds_ >= enough) {
            const int tokens = std::max(1, kTrial - 1 - tokens_on_trial_);
            tokens_on_trial_ = 0;
            const double loss = (team_seconds_ - alone * tokens) / alone; // in tokens
            step_back(std::clamp(static_cast<std::int64_t>(std::min(1e6, loss / kShareOfTrials)),
                                 kShortestPause, kLongestPause));
        }
    }

    void step_back(std::int64_t tokens) noexcept {
        pause_ = tokens;
        tokens_alone_ = tokens;
        alone_seconds_ = 0;
        bad_in_a_row_ = 0;
    }

    int bad_in_a_row_ = 0;
    std::int64_t pause_ = 0; // the last one
    std::int64_t tokens_alone_ = 0;
    int tokens_on_trial_ = 0;
    double alone_seconds_ = 0;
    double team_seconds_ = 0;
};

} // namespace kael::gpt
