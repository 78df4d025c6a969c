// Byte pair encoding of one word: while a pair of neighbours has a merge, the one of lowest rank is
// merged, the leftmost first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "text/merge_table.h"

namespace kael::text {

// Holds scratch memory: one thread at a time.
class WordMerger {
public:
    explicit WordMerger(const MergeTable& merges) noexcept : merges_(&merges) {}

    // Merges in place and answers how many ids are left at the front of `ids`; fewer than 2^32 ids.
    // O(n log n): short words are searched for their best pair, longer ones keep a heap.
    [[nodiscard]] std::size_t merge(std::span<TokenId> ids);

private:
    std::size_t merge_short(std::span<TokenId> ids) noexcept;
    std::size_t merge_long(std::span<TokenId> ids);
    void offer(std::uint32_t position, TokenId left, TokenId right);

    // A token of a long word, in a doubly linked list. Positions are those of the first id.
    struct Node {
        std::uint32_t previous;
        std::uint32_t next;
        Merge merge; // with the next node; none for the last node and for one that was merged away
    };

    const MergeTable* merges_;
    std::vector<Node> nodes_;
    std::vector<std::uint64_t> queue_; // a heap of rank << 32 | position
};

} // namespace kael::text
