// Logits and their weights in a softmax. The same arithmetic on every machine: no function of the C
// library takes part.
#pragma once

#include <cstdint>
#include <vector>

namespace kael::gpt {

// The largest of the logits. NaN anywhere, or nothing finite, is an error.
[[nodiscard]] float largest_logit(const float* logits, std::int64_t count);

// The weight of a logit: e^((logit - largest) / temperature), 1 for the largest. An infinite logit
// counts as the largest finite number.
class SoftmaxWeight {
public:
    // Temperatures are those that check_sampling accepts, 0 excluded.
    SoftmaxWeight(float largest, double temperature);

    [[nodiscard]] double operator()(float logit) const;

    // Of all logits, on several threads.
    void fill(const float* logits, std::int64_t count, std::vector<double>& weights) const;

private:
    float largest_;
    double inverse_temperature_;
};

// In order, from the first to the last.
[[nodiscard]] double sum_of(const std::vector<double>& weights);

} // namespace kael::gpt
