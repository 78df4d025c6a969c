// Guesses at how a text goes on, from what stands in it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kael::gpt {

// Looks for the last tokens of a text further up in it, and guesses that what followed there
// follows again. A wrong guess costs time: the better the guesses were, the more tokens there are
// in the next, and after one that was all wrong there are none for a while.
class PromptLookup {
public:
    // Guesses of at most so many tokens; of 0: none at all.
    explicit PromptLookup(std::int64_t most);

    // At most `room` tokens that may follow `text`, which begins as it did in the call before: what
    // was added since then tells how good the guess was. Valid until the next call.
    [[nodiscard]] std::span<const std::int64_t> guess(std::span<const std::int64_t> text,
                                                      std::int64_t room);

private:
    void judge(std::span<const std::int64_t> text);
    [[nodiscard]] static std::int64_t follower(std::span<const std::int64_t> text);

    std::int64_t most_;
    std::int64_t length_;          // of the next guess
    std::int64_t pause_ = 0;       // calls that get no guess
    std::int64_t next_pause_;      // after a guess that is all wrong
    std::int64_t text_length_ = 0; // at the call before
    std::vector<std::int64_t> guess_;
};

} // namespace kael::gpt
