// The largest of many logits.
#pragma once

#include <cstdint>
#include <vector>

namespace kael::gpt {

struct Candidate {
    float logit;
    std::int64_t id;
};
using Candidates = std::vector<Candidate>;

// Likelier first, of equal logits the lower id.
[[nodiscard]] bool ranks_before(const Candidate& a, const Candidate& b);
[[nodiscard]] bool has_lower_id(const Candidate& a, const Candidate& b);

// Fills `candidates` with the `wanted` (at least 1) that rank first, or with all where there are no
// more, in no particular order. O(count).
void select_top(const float* logits, std::int64_t count, std::int64_t wanted,
                Candidates& candidates);

} // namespace kael::gpt
