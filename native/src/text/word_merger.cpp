#include "text/word_merger.h"

#include <algorithm>
#include <array>
#include <functional>

namespace kael::text {

namespace {

constexpr std::size_t kShortWord = 96; // where the heap begins to win, about
constexpr std::uint32_t kEnd = 0xFFFFFFFF;

} // namespace

std::size_t WordMerger::merge(std::span<TokenId> ids) {
    return ids.size() <= kShortWord ? merge_short(ids) : merge_long(ids);
}

std::size_t WordMerger::merge_short(std::span<TokenId> ids) noexcept {
    std::array<Merge, kShortWord> merges; // merges[i] is the one of ids[i] and ids[i + 1]
    std::size_t pairs = ids.empty() ? 0 : ids.size() - 1;
    for (std::size_t i = 0; i < pairs; ++i) {
        merges[i] = merges_->find(ids[i], ids[i + 1]);
    }
    while (pairs > 0) {
        std::size_t best = 0;
        for (std::size_t i = 1; i < pairs; ++i) {
            best = merges[i] < merges[best] ? i : best;
        }
        if (!merges[best].exists()) {
            break;
        }
        ids[best] = merges[best].result();
        for (std::size_t i = best + 1; i < pairs; ++i) {
            ids[i] = ids[i + 1];
            merges[i - 1] = merges[i];
        }
        --pairs;
        if (best > 0) {
            merges[best - 1] = merges_->find(ids[best - 1], ids[best]);
        }
        if (best < pairs) {
            merges[best] = merges_->find(ids[best], ids[best + 1]);
        }
    }
    return ids.empty() ? 0 : pairs + 1;
}

void WordMerger::offer(std::uint32_t position, TokenId left, TokenId right) {
    const Merge merge = merges_->find(left, right);
    nodes_[position].merge = merge;
    if (merge.exists()) {
        queue_.push_back(std::uint64_t{merge.rank()} << 32 | position);
    }
}

std::size_t WordMerger::merge_long(std::span<TokenId> ids) {
    const auto count = static_cast<std::uint32_t>(ids.size());
    nodes_.assign(count, Node{});
    queue_.clear();
    for (std::uint32_t i = 0; i < count; ++i) {
        nodes_[i].previous = i - 1; // of the first one: kEnd
        nodes_[i].next = i + 1 < count ? i + 1 : kEnd;
        if (i + 1 < count) {
            offer(i, ids[i], ids[i + 1]);
        }
    }
    std::ranges::make_heap(queue_, std::greater{});

    const auto offer_in_heap = [&](std::uint32_t position, TokenId left, TokenId right) {
        const std::size_t before = queue_.size();
        offer(position, left, right);
        if (queue_.size() > before) {
            std::ranges::push_heap(queue_, std::greater{});
        }
    };
    while (!queue_.empty()) {
        std::ranges::pop_heap(queue_, std::greater{});
        const auto rank = static_cast<std::uint32_t>(queue_.back() >> 32);
        const auto position = static_cast<std::uint32_t>(queue_.back());
        queue_.pop_back();
        Node& node = nodes_[position];
        // Out of date when a token of the pair was merged since. A pair never comes back, because
        // tokens only grow, so its rank tells.
        if (!node.merge.exists() || node.merge.rank() != rank) {
            continue;
        }
        Node& removed = nodes_[node.next];
        ids[position] = node.merge.result();
        node.next = removed.next;
        node.merge = Merge{};
        removed.merge = Merge{};
        if (node.next != kEnd) {
            nodes_[node.next].previous = position;
            offer_in_heap(position, ids[position], ids[node.next]);
        }
        if (node.previous != kEnd) {
            offer_in_heap(node.previous, ids[node.previous], ids[position]);
        }
    }

    std::size_t kept = 0;
    for (std::uint32_t i = 0; i != kEnd; i = nodes_[i].next) {
        ids[kept++] = ids[i];
    }
    return kept;
}

} // namespace kael::text
