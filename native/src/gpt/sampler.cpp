#include "gpt/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kael/error.h"
#include "kael/gpt.h"
#include "kael/threads.h"

namespace kael::gpt {

namespace {

constexpr std::int64_t kBlock = 16; // logits looked at together, so that compilers use vectors
constexpr std::int64_t kParallelGrain = 4096;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();

// The largest logit. NaN anywhere, or nothing finite, is an error.
float largest_logit(const float* logits, std::int64_t count) {
    float largest[kBlock];
    std::uint32_t finite[kBlock] = {};
    std::uint32_t broken[kBlock] = {};
    std::fill_n(largest, kBlock, -kInfinity);
    const auto look = [&](std::int64_t lane, float logit) {
        largest[lane] = logit > largest[lane] ? logit : largest[lane];
        finite[lane] |= std::fabs(logit) < kInfinity ? 1U : 0U;
        broken[lane] |= logit != logit ? 1U : 0U;
    };
    std::int64_t first = 0;
    for (; first + kBlock <= count; first += kBlock) {
        for (std::int64_t lane = 0; lane < kBlock; ++lane) {
            look(lane, logits[first + lane]);
        }
    }
    for (std::int64_t lane = 0; first + lane < count; ++lane) {
        look(lane, logits[first + lane]);
    }
    const bool any_broken = std::any_of(broken, broken + kBlock, [](auto bit) { return bit != 0; });
    KAEL_CHECK(!any_broken,
               "the logit of token "
                   << std::find_if(logits, logits + count, [](float x) { return x != x; }) - logits
                   << " of " << count << " is NaN, expected numbers");
    KAEL_CHECK(std::any_of(finite, finite + kBlock, [](auto bit) { return bit != 0; }),
               "none of the " << count << " logits is finite, expected at least one");
    return *std::max_element(largest, largest + kBlock);
}

// Whether any of kBlock logits is above `limit`.
bool any_above(const float* logits, float limit) {
    std::uint32_t above = 0;
    for (std::int64_t lane = 0; lane < kBlock; ++lane) {
        above |= logits[lane] > limit ? 1U : 0U;
    }
    return above != 0;
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

// e^x for x in [-infinity, 0]: 0 below -708.8, within 1e-15 of itself elsewhere, 1 for 0. x = n ln
// 2
// + r with |r| <= ln 2 / 2, and e^r by its series up to r^13 / 13!. Without a branch, so that a
// loop over it uses vectors.
double exponential(double x) {
    constexpr double kLowest = -800.0;  // its result is 0, and n fits
    constexpr double kRound = 0x1.8p52; // added, it leaves the nearest integer in the low bits
    constexpr double kZero = -1023.0;   // the n whose power of two is written as 0
    constexpr double kLog2High = 0x1.62e42fefa38p-1;
    constexpr double kLog2Low = 0x1.ef35793c7673p-45;
    const double bounded = x > kLowest ? x : kLowest;
    const double n = (bounded * 0x1.71547652b82fep0 + kRound) - kRound;
    const double r = (bounded - n * kLog2High) - n * kLog2Low;
    const double power = n > kZero ? n : kZero;
    double sum = 1.0 / 6227020800.0;
    sum = sum * r + 1.0 / 479001600.0;
    sum = sum * r + 1.0 / 39916800.0;
    sum = sum * r + 1.0 / 3628800.0;
    sum = sum * r + 1.0 / 362880.0;
    sum = sum * r + 1.0 / 40320.0;
    sum = sum * r + 1.0 / 5040.0;
    sum = sum * r + 1.0 / 720.0;
    sum = sum * r + 1.0 / 120.0;
    sum = sum * r + 1.0 / 24.0;
    sum = sum * r + 1.0 / 6.0;
    sum = sum * r + 0.5;
    sum = sum * r + 1.0;
    sum = sum * r + 1.0;
    const auto bits = std::bit_cast<std::uint64_t>(power + kRound) + 1023;
    return sum * std::bit_cast<double>(bits << 52);
}

// The weight of a logit in the softmax: 1 for the largest. An infinite one counts as the largest
// finite number.
double weight(float logit, float largest, double inverse_temperature) {
    const float finite = logit < kLargest ? logit : kLargest;
    const double below = static_cast<double>(finite) - static_cast<double>(largest);
    return exponential(below * inverse_temperature);
}

// The first index whose running sum passes draw * total; the last one of positive weight where
// rounding keeps the sum from getting there. Indices of weight 0 are never chosen.
std::size_t cut(const std::vector<double>& weights, double draw) {
    double total = 0;
    for (const double weight : weights) {
        total += weight;
    }
    const double target = draw * total;
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

} // namespace

void check_sampling(double temperature, std::int64_t top_k) {
    KAEL_CHECK(temperature == 0 || (temperature >= 0.001 && std::isfinite(temperature)),
               "temperature is " << temperature << ", expected 0 or a number of at least 0.001");
    KAEL_CHECK(top_k >= 0, "top_k is " << top_k << ", expected 0 or more");
}

std::int64_t Sampler::pick(const float* logits, std::int64_t count, double temperature,
                           std::int64_t top_k, double draw) {
    check_sampling(temperature, top_k);
    KAEL_CHECK(count >= 1, "there are " << count << " logits, expected at least one");
    KAEL_CHECK(draw >= 0 && draw < 1, "draw is " << draw << ", expected a number in [0, 1)");
    const float largest = largest_logit(logits, count);
    if (temperature == 0) {
        return first_equal(logits, largest, count);
    }
    const float finite_largest = std::min(largest, kLargest);
    const double inverse_temperature = 1 / temperature;
    if (top_k == 0 || top_k >= count) {
        weights_.resize(static_cast<std::size_t>(count));
        double* weights = weights_.data();
        parallel_for(0, count, kParallelGrain, [=](std::int64_t first, std::int64_t last) {
            for (std::int64_t id = first; id < last; ++id) {
                weights[id] = weight(logits[id], finite_largest, inverse_temperature);
            }
        });
        return static_cast<std::int64_t>(cut(weights_, draw));
    }
    select_top(logits, count, top_k);
    weights_.clear();
    for (const Candidate& candidate : candidates_) {
        weights_.push_back(weight(candidate.logit, finite_largest, inverse_temperature));
    }
    return candidates_[cut(weights_, draw)].id;
}

// Fills candidates_ with the top_k largest logits in order of id. Only logits above the smallest
// candidate are collected, and the collection is cut back when it has doubled: O(count) altogether.
void Sampler::select_top(const float* logits, std::int64_t count, std::int64_t top_k) {
    const std::int64_t limit = top_k + std::max<std::int64_t>(top_k, 1024);
    candidates_.clear();
    bool is_full = false; // from then on `smallest` is the smallest candidate worth keeping
    float smallest = -kInfinity;
    for (std::int64_t first = 0; first < count; first += kBlock) {
        const std::int64_t last = std::min(first + kBlock, count);
        if (is_full && last - first == kBlock && !any_above(logits + first, smallest)) {
            continue;
        }
        for (std::int64_t id = first; id < last; ++id) {
            // An equal logit of a higher id never displaces one that is already there.
            if (!is_full || logits[id] > smallest) {
                candidates_.push_back({logits[id], id});
            }
        }
        if (static_cast<std::int64_t>(candidates_.size()) >= limit) {
            keep_best(top_k);
            is_full = true;
            smallest = candidates_.back().logit;
        }
    }
    keep_best(top_k);
    std::sort(candidates_.begin(), candidates_.end(),
              [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
}

// Cuts candidates_ down to the best `count`, the worst of them last.
void Sampler::keep_best(std::int64_t count) {
    if (static_cast<std::int64_t>(candidates_.size()) <= count) {
        return;
    }
    const auto worst = candidates_.begin() + (count - 1);
    std::nth_element(candidates_.begin(), worst, candidates_.end(),
                     [](const Candidate& a, const Candidate& b) {
                         return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
                     });
    candidates_.erase(worst + 1, candidates_.end());
}

std::int64_t sample_next(const float* logits, std::int64_t count, double temperature,
                         std::int64_t top_k, double draw) {
    Sampler sampler;
    return sampler.pick(logits, count, temperature, top_k, draw);
}

} // namespace kael::gpt
