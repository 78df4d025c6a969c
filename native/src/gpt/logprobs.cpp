#include "gpt/logprobs.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "gpt/softmax.h"

namespace kael::gpt {

void LogprobWriter::write(const float* logits, std::int64_t count, std::int64_t token,
                          std::int64_t top, TokenLogprob* row) {
    const float largest = std::min(largest_logit(logits, count), std::numeric_limits<float>::max());
    SoftmaxWeight(largest, 1).fill(logits, count, weights_);
    const double log_sum = std::log(sum_of(weights_));
    const auto logprob = [&](float logit) {
        return std::min(static_cast<double>(logit) - static_cast<double>(largest), 0.0) - log_sum;
    };
    *row++ = {token, logprob(logits[token])};
    if (top == 0) {
        return;
    }
    select_top(logits, count, top, candidates_);
    std::sort(candidates_.begin(), candidates_.end(), ranks_before);
    for (const Candidate& candidate : candidates_) {
        *row++ = {candidate.id, logprob(candidate.logit)};
    }
    std::fill_n(row, top - static_cast<std::int64_t>(candidates_.size()), kNoTokenLogprob);
}

} // namespace kael::gpt
