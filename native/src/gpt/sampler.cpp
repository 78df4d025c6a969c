#include "gpt/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kael/error.h"

#include "gpt/logit_adjustments.h"

namespace kael::gpt {

namespace {

constexpr std::int64_t kBlock = 16; // logits looked at together, so that compilers use vectors

// A nucleus is found by sorting logits into buckets by their distance from the largest, in so many
// a unit of the exponent. What is further away, at a weight of e^-40 each, shares the last bucket.
constexpr double kBucketsPerUnit = 64;
constexpr std::size_t kBuckets = 40 * static_cast<std::size_t>(kBucketsPerUnit) + 1;

std::size_t bucket_of(double below_largest) {
    return static_cast<std::size_t>(
        std::min(below_largest * kBucketsPerUnit, static_cast<double>(kBuckets - 1)));
}

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
    return has_top_k ? pick_of_top(logits, count, options, weight, draw)
                     : pick_of_all(logits, count, options, weight, draw);
}

// What the filters drop gets the weight 0.
std::int64_t Sampler::pick_of_all(const float* logits, std::int64_t count,
                                  const SamplingOptions& options, const SoftmaxWeight& weight,
                                  double draw) {
    weight.fill(logits, count, weights_);
    if (options.top_p < 1) {
        keep_nucleus(logits, options.top_p, weight);
    }
    // Of probabilities, only their ratio to the largest counts, which is the weight.
    if (options.min_p > 0) {
        for (double& each : weights_) {
            each = each < options.min_p ? 0.0 : each;
        }
    }
    return static_cast<std::int64_t>(cut(weights_, draw));
}

// Of all, the fewest that rank first and have at least top_p of the weight together. Whole buckets
// first, in order; only the one in which top_p is reached needs to be sorted.
void Sampler::keep_nucleus(const float* logits, double top_p, const SoftmaxWeight& weight) {
    bucket_weights_.assign(kBuckets, 0.0);
    for (std::size_t id = 0; id < weights_.size(); ++id) {
        bucket_weights_[bucket_of(weight.below_largest(logits[id]))] += weights_[id];
    }
    const double target = top_p * sum_of(bucket_weights_);
    double sum = 0;
    std::size_t edge = 0;
    while (edge + 1 < kBuckets && sum + bucket_weights_[edge] < target) {
        sum += bucket_weights_[edge++];
    }
    candidates_.clear();
    for (std::size_t id = 0; id < weights_.size(); ++id) {
        const std::size_t bucket = bucket_of(weight.below_largest(logits[id]));
        if (bucket == edge) {
            candidates_.push_back({logits[id], static_cast<std::int64_t>(id)});
        } else if (bucket > edge) {
            weights_[id] = 0;
        }
    }
    std::sort(candidates_.begin(), candidates_.end(), ranks_before);
    bool is_complete = false;
    for (const Candidate& candidate : candidates_) {
        double& each = weights_[static_cast<std::size_t>(candidate.id)];
        sum += each;
        each = is_complete ? 0.0 : each;
        is_complete = is_complete || sum >= target;
    }
}

std::int64_t Sampler::pick_of_top(const float* logits, std::int64_t count,
                                  const SamplingOptions& options, const SoftmaxWeight& weight,
                                  double draw) {
    select_top(logits, count, options.top_k, candidates_);
    if (options.top_p < 1) {
        std::sort(candidates_.begin(), candidates_.end(), ranks_before);
        double total = 0;
        for (const Candidate& candidate : candidates_) {
            total += weight(candidate.logit);
        }
        double sum = 0;
        std::size_t kept = 0;
        do {
            sum += weight(candidates_[kept++].logit);
        } while (kept < candidates_.size() && sum < options.top_p * total);
        candidates_.resize(kept);
    }
    std::sort(candidates_.begin(), candidates_.end(), has_lower_id);
    weights_.clear();
    for (const Candidate& candidate : candidates_) {
        const double each = weight(candidate.logit);
        weights_.push_back(each < options.min_p ? 0.0 : each);
    }
    return candidates_[cut(weights_, draw)].id;
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
