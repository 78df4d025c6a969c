// Picking a token from logits.
#pragma once

#include <cstdint>
#include <vector>

#include "kael/gpt.h"

#include "gpt/softmax.h"
#include "gpt/top_logits.h"

namespace kael::gpt {

// Throws unless every option is what kael/gpt.h allows, for a vocabulary of this size.
void check_sampling(const SamplingOptions& options, std::int64_t vocab_size);

// What sample_next (kael/gpt.h) does after the logits are adjusted, with buffers that are kept from
// call to call. Options are checked ones, `draw` is in [0, 1).
class Sampler {
public:
    [[nodiscard]] std::int64_t pick(const float* logits, std::int64_t count,
                                    const SamplingOptions& options, double draw);

private:
    [[nodiscard]] std::int64_t pick_of_all(const float* logits, std::int64_t count,
                                           const SamplingOptions& options,
                                           const SoftmaxWeight& weight, double draw);
    [[nodiscard]] std::int64_t pick_of_top(const float* logits, std::int64_t count,
                                           const SamplingOptions& options,
                                           const SoftmaxWeight& weight, double draw);
    void keep_nucleus(const float* logits, double top_p, const SoftmaxWeight& weight);

    std::vector<double> weights_; // of all logits, or of candidates_
    Candidates candidates_;
    std::vector<double> bucket_weights_;
};

} // namespace kael::gpt
