// What is added to or taken from logits before a token is picked from them: biases and penalties.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "kael/gpt.h"

namespace kael::gpt {

// Follows one generation. `options` are checked ones and outlive it.
class LogitAdjustments {
public:
    explicit LogitAdjustments(const SamplingOptions& options);

    // Tokens of the prompt and tokens generated, of which penalties take notice. Throws for an id
    // outside the vocabulary.
    void add_prompt(std::span<const std::int64_t> ids, std::int64_t vocab_size);
    void add_generated(std::int64_t id, std::int64_t vocab_size);

    // The logits adjusted, valid until the next call; `logits` themselves where nothing is to be
    // adjusted.
    [[nodiscard]] const float* apply(const float* logits, std::int64_t count);

private:
    const SamplingOptions& options_;
    bool penalizes_repetition_;
    bool penalizes_generated_;
    // How often each token was generated: 0 for those that stand in the prompt alone.
    std::unordered_map<std::int64_t, std::int64_t> generated_;
    std::vector<float> adjusted_;
};

} // namespace kael::gpt
