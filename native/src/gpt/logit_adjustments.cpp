#include "gpt/logit_adjustments.h"

#include "kael/error.h"

namespace kael::gpt {

namespace {

void check_seen(std::int64_t id, std::int64_t vocab_size) {
    KAEL_CHECK(id >= 0 && id < vocab_size,
               "the text so far holds the token " << id << ", expected 0 to " << vocab_size - 1);
}

} // namespace

LogitAdjustments::LogitAdjustments(const SamplingOptions& options)
    : options_(options), penalizes_repetition_(options.repetition_penalty != 1),
      penalizes_generated_(options.presence_penalty != 0 || options.frequency_penalty != 0) {}

void LogitAdjustments::add_prompt(std::span<const std::int64_t> ids, std::int64_t vocab_size) {
    for (const std::int64_t id : ids) {
        check_seen(id, vocab_size);
        if (penalizes_repetition_) {
            generated_.try_emplace(id, 0);
        }
    }
}

void LogitAdjustments::add_generated(std::int64_t id, std::int64_t vocab_size) {
    check_seen(id, vocab_size);
    if (penalizes_repetition_ || penalizes_generated_) {
        ++generated_[id];
    }
}

const float* LogitAdjustments::apply(const float* logits, std::int64_t count) {
    if (options_.logit_bias.empty() && generated_.empty()) {
        return logits;
    }
    adjusted_.assign(logits, logits + count);
    // Each in float64: no sum of what check_sampling accepts overflows there.
    for (const LogitBias& entry : options_.logit_bias) {
        float& logit = adjusted_[static_cast<std::size_t>(entry.token)];
        logit = static_cast<float>(static_cast<double>(logit) + entry.bias);
    }
    for (const auto& [id, times] : generated_) { // in any order: each changes one logit of its own
        float& logit = adjusted_[static_cast<std::size_t>(id)];
        double value = static_cast<double>(logit);
        value =
            value < 0 ? value * options_.repetition_penalty : value / options_.repetition_penalty;
        if (times > 0) {
            value -=
                options_.presence_penalty + options_.frequency_penalty * static_cast<double>(times);
        }
        logit = static_cast<float>(value);
    }
    return adjusted_.data();
}

} // namespace kael::gpt
