// Picking a token from logits.
#pragma once

#include <cstdint>
#include <vector>

namespace kael::gpt {

// Throws unless temperature is 0 or finite and at least 0.001, and top_k is 0 or more.
void check_sampling(double temperature, std::int64_t top_k);

// sample_next (kael/gpt.h) with buffers that are kept from call to call. The same arithmetic on
// every machine: no function of the C library takes part.
class Sampler {
public:
    [[nodiscard]] std::int64_t pick(const float* logits, std::int64_t count, double temperature,
                                    std::int64_t top_k, double draw);

private:
    struct Candidate {
        float logit;
        std::int64_t id;
    };

    void select_top(const float* logits, std::int64_t count, std::int64_t top_k);
    void keep_best(std::int64_t count);

    std::vector<Candidate> candidates_;
    std::vector<double> weights_;
};

} // namespace kael::gpt
