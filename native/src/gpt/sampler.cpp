#include "gpt/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kael/error.h"

#include "gpt/logit_adjustments.h"

namespace kael::gpt {

namespace {

constexpr std::int64_t kBlock = 16; // logits looked at together, so that compilers use vectors

// Candidates that are sorted before it is known how many a nucleus has, and how many times more
// each time they were not enough.
constexpr std::int64_t kFirstCandidates = 256;
constexpr std::int64_t kMoreCandidates = 16;

std::int64_t first_equal(const float* logits, float value, std::int64_t count) {
    std::int64_t id = 0;
    for (; id + kBlock <= count; id += kBlock) {
        std::uint32_t equal = 0;
        for (std::int64_t lane = 0; lane < kBlock; ++lane) {
            equal |= logits[id + lane] == value ? 1U : 0U;
        }
        if (equal != 0) {
            break;
        }
    }
    while (logits[id] != value) {
        ++id;
    }
    return id;
}

// The first index whose running sum passes draw * total; the last one of positive weight where
// rounding keeps the sum from getting there. Indices of weight 0 are never chosen.
std::size_t cut(const std::vector<double>& weights, double draw) {
    const double target = draw * sum_of(weights);
    double sum = 0;
    std::size_t chosen = 0;
    for (std::size_t index = 0; index < weights.size(); ++index) {
        if (weights[index] > 0) {
            chosen = index;
            sum += weights[index];
            if (sum > target) {
                break;
            }
        }
    }
    return chosen;
}

bool fits_float(double number) {
    return std::fabs(number) <= static_cast<double>(std::numeric_limits<float>::max());
}

} // namespace

void check_sampling(const SamplingOptions& options, std::int64_t vocab_size) {
    const double temperature = options.temperature;
    KAEL_CHECK(temperature == 0 || (temperature >= 0.001 && std::isfinite(temperature)),
               "temperature is " << temperature << ", expected 0 or a number of at least 0.001");
    KAEL_CHECK(options.top_k >= 0, "top_k is " << options.top_k << ", expected 0 or more");
    KAEL_CHECK(options.top_p >= 0 && options.top_p <= 1,
               "top_p is " << options.top_p << ", expected a number from 0 to 1");
    KAEL_CHECK(options.min_p >= 0 && options.min_p <= 1,
               "min_p is " << options.min_p << ", expected a number from 0 to 1");
    KAEL_CHECK(options.repetition_penalty > 0 && std::isfinite(options.repetition_penalty),
               "repetition_penalty is " << options.repetition_penalty
                                        << ", expected a finite number above 0");
    KAEL_CHECK(fits_float(options.presence_penalty),
               "presence_penalty is " << options.presence_penalty
                                      << ", expected a number in the range of float32");
    KAEL_CHECK(fits_float(options.frequency_penalty),
               "frequency_penalty is " << options.frequency_penalty
                                       << ", expected a number in the range of float32");
    for (const LogitBias& entry : options.logit_bias) {
        KAEL_CHECK(entry.token >= 0 && entry.token < vocab_size,
                   "logit_bias names the token " << entry.token << ", expected 0 to "
                                                 << vocab_size - 1);
        KAEL_CHECK(fits_float(entry.bias), "the logit_bias of token "
                                               << entry.token << " is " << entry.bias
                                               << ", expected a number in the range of float32");
    }
}

std::int64_t Sampler::pick(const float* logits, std::int64_t count, const SamplingOptions& options,
                           double draw) {
    const float largest = largest_logit(logits, count);
    if (options.temperature == 0) {
        return first_equal(logits, largest, count);
    }
    const SoftmaxWeight weight(largest, options.temperature);
    const bool has_top_k = options.top_k > 0 && options.top_k < count;
    if (!has_top_k && options.top_p == 1 && options.min_p == 0) {
        weight.fill(logits, count, weights_);
        return static_cast<std::int64_t>(cut(weights_, draw));
    }
    filter(logits, count, options, weight);
    std::sort(candidates_.begin(), candidates_.end(), has_lower_id);
    weights_.clear();
    for (const Candidate& candidate : candidates_) {
        weights_.push_back(weight(candidate.logit));
    }
    return candidates_[cut(weights_, draw)].id;
}

// Fills candidates_ with what top_k, top_p and min_p leave.
void Sampler::filter(const float* logits, std::int64_t count, const SamplingOptions& options,
                     const SoftmaxWeight& weight) {
    const std::int64_t top_k = options.top_k == 0 ? count : std::min(options.top_k, count);
    if (options.top_p < 1) {
        select_nucleus(logits, count, top_k, options.top_p, weight);
    } else {
        select_top(logits, count, top_k, candidates_);
    }
    if (options.min_p > 0) {
        // Of probabilities, only their ratio to the largest counts, which is the weight.
        std::erase_if(candidates_, [&](const Candidate& candidate) {
            return weight(candidate.logit) < options.min_p;
        });
    }
}

// Of the top_k, the fewest that rank first and have at least top_p of their weight together.
void Sampler::select_nucleus(const float* logits, std::int64_t count, std::int64_t top_k,
                             double top_p, const SoftmaxWeight& weight) {
    if (top_k < count) {
        select_top(logits, count, top_k, candidates_);
        std::sort(candidates_.begin(), candidates_.end(), ranks_before);
        double total = 0;
        for (const Candidate& candidate : candidates_) {
            total += weight(candidate.logit);
        }
        static_cast<void>(cut_nucleus(top_p * total, weight));
        return;
    }
    weight.fill(logits, count, weights_);
    const double target = top_p * sum_of(weights_);
    std::int64_t wanted = kFirstCandidates;
    do {
        select_top(logits, count, wanted, candidates_);
        std::sort(candidates_.begin(), candidates_.end(), ranks_before);
        wanted *= kMoreCandidates;
    } while (!cut_nucleus(target, weight) && static_cast<std::int64_t>(candidates_.size()) < count);
}

// Cuts candidates_, which stand in order of rank, behind the first whose weight and that of all
// before it reach `target`. False, and nothing is cut, when all of them do not.
bool Sampler::cut_nucleus(double target, const SoftmaxWeight& weight) {
    double sum = 0;
    for (std::size_t index = 0; index < candidates_.size(); ++index) {
        sum += weight(candidates_[index].logit);
        if (sum >= target) {
            candidates_.resize(index + 1);
            return true;
        }
    }
    return false;
}

std::int64_t sample_next(const float* logits, std::int64_t count, const SamplingOptions& options,
                         double draw, const TokenHistory& history) {
    KAEL_CHECK(count >= 1, "there are " << count << " logits, expected at least one");
    check_sampling(options, count);
    KAEL_CHECK(draw >= 0 && draw < 1, "draw is " << draw << ", expected a number in [0, 1)");
    LogitAdjustments adjustments(options);
    adjustments.add_prompt(history.prompt, count);
    for (const std::int64_t token : history.generated) {
        adjustments.add_generated(token, count);
    }
    return Sampler().pick(adjustments.apply(logits, count), count, options, draw);
}

} // namespace kael::gpt
