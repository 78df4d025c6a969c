#include "gpt/prompt_lookup.h"

#include <algorithm>

namespace kael::gpt {

namespace {

// Of so many tokens that stand further up as they do at the end, what followed is guessed; more do
// not make it likelier.
constexpr std::int64_t kFewestAlike = 2;
constexpr std::int64_t kMostAlike = 4;

// Few enough to cost little where they are wrong, beside one token that is computed alone.
constexpr std::int64_t kFirstLength = 4;

// Tokens without a guess after one that was all wrong, doubled each time: guesses that are never
// right cost below 1 % of the time.
constexpr std::int64_t kShortestPause = 4;
constexpr std::int64_t kLongestPause = 64;

} // namespace

PromptLookup::PromptLookup(std::int64_t most)
    : most_(most), length_(std::min(kFirstLength, most)), next_pause_(kShortestPause) {
    guess_.reserve(static_cast<std::size_t>(most));
}

std::span<const std::int64_t> PromptLookup::guess(std::span<const std::int64_t> text,
                                                  std::int64_t room) {
    judge(text);
    guess_.clear();
    const std::int64_t count = std::min(length_, room);
    if (count <= 0) {
        return {};
    }
    if (pause_ > 0) {
        --pause_;
        return {};
    }
    const std::int64_t next = follower(text);
    // What followed may reach to the end of the text, and then goes on with the guess itself: the
    // text has begun to go in circles.
    for (std::int64_t index = next; next > 0 && std::ssize(guess_) < count; ++index) {
        const std::int64_t beyond = index - std::ssize(text);
        guess_.push_back(beyond < 0 ? text[static_cast<std::size_t>(index)]
                                    : guess_[static_cast<std::size_t>(beyond)]);
    }
    text_length_ = std::ssize(text);
    return guess_;
}

void PromptLookup::judge(std::span<const std::int64_t> text) {
    if (guess_.empty()) {
        return;
    }
    const auto came = text.subspan(static_cast<std::size_t>(text_length_));
    const std::int64_t right = std::ranges::mismatch(guess_, came).in1 - guess_.begin();
    if (right == std::ssize(guess_)) {
        length_ = std::min(2 * length_, most_);
    } else {
        length_ = std::min(right + 1, most_);
    }
    if (right > 0) {
        next_pause_ = kShortestPause;
    } else {
        pause_ = next_pause_;
        next_pause_ = std::min(2 * next_pause_, kLongestPause);
    }
}

// Where the token stands that followed when most of the last tokens stood there before, and of
// several such places the last one; 0 where there is none.
std::int64_t PromptLookup::follower(std::span<const std::int64_t> text) {
    const auto alike_before = [&](std::int64_t end) {
        std::int64_t alike = 0;
        while (alike < std::min(kMostAlike, end) &&
               text[static_cast<std::size_t>(end - 1 - alike)] ==
                   text[text.size() - 1 - static_cast<std::size_t>(alike)]) {
            ++alike;
        }
        return alike;
    };
    std::int64_t best = 0;
    std::int64_t most_alike = kFewestAlike - 1;
    for (std::int64_t end = std::ssize(text) - 1; end >= kFewestAlike && most_alike < kMostAlike;
         --end) {
        const std::int64_t alike = alike_before(end);
        if (alike > most_alike) {
            most_alike = alike;
            best = end;
        }
    }
    return best;
}

} // namespace kael::gpt
