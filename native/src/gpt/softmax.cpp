#include "gpt/softmax.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kael/error.h"
#include "kael/threads.h"

namespace kael::gpt {

namespace {

constexpr std::int64_t kBlock = 16; // logits looked at together, so that compilers use vectors
constexpr std::int64_t kParallelGrain = 4096;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();

// e^x for x in [-infinity, 0]: 0 below -708.8, within 1e-15 of itself elsewhere, 1 for 0.
// x = n ln 2 + r with |r| <= ln 2 / 2, and e^r by its series up to r^13 / 13!. Without a branch, so
// that a loop over it uses vectors.
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

double weight(float logit, float largest, double inverse_temperature) {
    return exponential(softmax_exponent(logit, largest, inverse_temperature));
}

} // namespace

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

SoftmaxWeight::SoftmaxWeight(float largest, double temperature)
    : largest_(std::min(largest, kLargest)), inverse_temperature_(1 / temperature) {}

double SoftmaxWeight::operator()(float logit) const {
    return weight(logit, largest_, inverse_temperature_);
}

void SoftmaxWeight::fill(const float* logits, std::int64_t count,
                         std::vector<double>& weights) const {
    weights.resize(static_cast<std::size_t>(count));
    double* out = weights.data();
    const float largest = largest_;
    const double inverse_temperature = inverse_temperature_;
    parallel_for(0, count, kParallelGrain, [=](std::int64_t first, std::int64_t last) {
        for (std::int64_t id = first; id < last; ++id) {
            out[id] = weight(logits[id], largest, inverse_temperature);
        }
    });
}

double sum_of(const std::vector<double>& weights) {
    double sum = 0;
    for (const double weight : weights) {
        sum += weight;
    }
    return sum;
}

} // namespace kael::gpt
