#include "gpt/top_logits.h"

#include <algorithm>
#include <limits>

namespace kael::gpt {

namespace {

constexpr std::int64_t kBlock = 16; // logits looked at together, so that compilers use vectors

// Whether any of kBlock logits is above `limit`.
bool any_above(const float* logits, float limit) {
    std::uint32_t above = 0;
    for (std::int64_t lane = 0; lane < kBlock; ++lane) {
        above |= logits[lane] > limit ? 1U : 0U;
    }
    return above != 0;
}

// Cuts down to the `wanted` that rank first, the last of them last.
void keep_best(std::int64_t wanted, Candidates& candidates) {
    if (static_cast<std::int64_t>(candidates.size()) <= wanted) {
        return;
    }
    const auto worst = candidates.begin() + (wanted - 1);
    std::nth_element(candidates.begin(), worst, candidates.end(), ranks_before);
    candidates.erase(worst + 1, candidates.end());
}

} // namespace

bool ranks_before(const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

bool has_lower_id(const Candidate& a, const Candidate& b) {
    return a.id < b.id;
}

void select_top(const float* logits, std::int64_t count, std::int64_t wanted,
                Candidates& candidates) {
    // Only logits above the smallest candidate are collected, and the collection is cut back when
    // it has doubled.
    wanted = std::min(wanted, count);
    const std::int64_t limit = wanted + std::max<std::int64_t>(wanted, 1024);
    candidates.clear();
    bool is_full = false; // from then on `smallest` is the smallest candidate worth keeping
    float smallest = -std::numeric_limits<float>::infinity();
    for (std::int64_t first = 0; first < count; first += kBlock) {
        const std::int64_t last = std::min(first + kBlock, count);
        if (is_full && last - first == kBlock && !any_above(logits + first, smallest)) {
            continue;
        }
        for (std::int64_t id = first; id < last; ++id) {
            // An equal logit of a higher id never displaces one that is already there.
            if (!is_full || logits[id] > smallest) {
                candidates.push_back({logits[id], id});
            }
        }
        if (static_cast<std::int64_t>(candidates.size()) >= limit) {
            keep_best(wanted, candidates);
            is_full = true;
            smallest = candidates.back().logit;
        }
    }
    keep_best(wanted, candidates);
}

} // namespace kael::gpt
