// Logits and their weights in a softmax. The same arithmetic on every machine: no function of the C
// library takes part.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace kael::gpt {

// The largest of the logits. NaN anywhere, or nothing finite, is an error.
[[nodiscard]] float largest_logit(const float* logits, std::int64_t count);

// (logit - largest) / temperature. An infinite logit counts as the largest finite number.
[[nodiscard]] inline double softmax_exponent(float logit, float largest,
                                             double inverse_temperature) {
    constexpr float kLargest = std::numeric_limits<float>::max();
    const float finite = logit < kLargest ? logit : kLargest;
    const double below = static_cast<double>(finite) - static_cast<double>(largest);
    return below * inverse_temperature;
}

// The weight of a logit: e^((logit - largest) / temperature), 1 for the largest.
class SoftmaxWeight {
public:
    // Temperatures are those that check_sampling accepts, 0 excluded.
    SoftmaxWeight(float largest, double temperature);

    [[nodiscard]] double operator()(float logit) const;
    // The exponent without its sign, which never falls when the logit does: 0 for the largest.
    [[nodiscard]] double below_largest(float logit) const {
        return -softmax_exponent(logit, largest_, inverse_temperature_);
    }

    // Of all logits, on several threads.
    void fill(const float* logits, std::int64_t count, std::vector<double>& weights) const;

private:
    float largest_;
    double inverse_temperature_;
};

// In order, from the first to the last.
[[nodiscard]] double sum_of(const std::vector<double>& weights);

} // namespace kael::gpt
