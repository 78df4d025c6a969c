// Logarithms of the probabilities that the model itself gives to tokens.
#pragma once

#include <cstdint>
#include <vector>

#include "kael/gpt.h"

#include "gpt/top_logits.h"

namespace kael::gpt {

// Writes rows of 1 + top entries (GenerateOptions::logprobs), with buffers that are kept from call
// to call.
class LogprobWriter {
public:
    // The row of `token`, which is picked or given, by the logits [count] that stand before it.
    void write(const float* logits, std::int64_t count, std::int64_t token, std::int64_t top,
               TokenLogprob* row);

private:
    Candidates candidates_;
    std::vector<double> weights_;
};

} // namespace kael::gpt
