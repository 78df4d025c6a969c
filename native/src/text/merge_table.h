// The merges of a byte-level BPE vocabulary, found by their two tokens.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kael::text {

using TokenId = std::uint32_t;

// Rank and result in one number, so that merges compare by rank: the lower, the earlier it is done.
class Merge {
public:
    constexpr Merge() = default; // no merge; greater than every merge
    constexpr Merge(std::uint32_t rank, TokenId result)
        : bits_(std::uint64_t{rank} << 32 | result) {}

    [[nodiscard]] constexpr bool exists() const noexcept { return bits_ != ~std::uint64_t{0}; }
    [[nodiscard]] constexpr std::uint32_t rank() const noexcept {
        return static_cast<std::uint32_t>(bits_ >> 32);
    }
    [[nodiscard]] constexpr TokenId result() const noexcept { return static_cast<TokenId>(bits_); }
    friend constexpr auto operator<=>(Merge, Merge) = default;

private:
    std::uint64_t bits_ = ~std::uint64_t{0};
};

// An open-addressing hash table. Reading is safe from any number of threads.
class MergeTable {
public:
    // Room for `capacity` merges. All token ids and ranks must be less than 2^32 - 1.
    explicit MergeTable(std::size_t capacity)
        : slots_(std::bit_ceil(2 * capacity + 2)), shift_(64 - std::countr_zero(slots_.size())) {}

    // Inserts unless the pair is there; answers the merge that the table then holds for it.
    Merge insert(TokenId left, TokenId right, Merge merge) noexcept {
        Slot& slot = slots_[place(key_of(left, right))];
        if (!slot.merge.exists()) {
            slot = {key_of(left, right), merge};
        }
        return slot.merge;
    }

    [[nodiscard]] Merge find(TokenId left, TokenId right) const noexcept {
        return slots_[place(key_of(left, right))].merge;
    }

private:
    struct Slot {
        std::uint64_t key = 0;
        Merge merge;
    };

    static std::uint64_t key_of(TokenId left, TokenId right) noexcept {
        return std::uint64_t{left} << 32 | right;
    }

    // The slot that holds `key`, or the free one where it belongs.
    [[nodiscard]] std::size_t place(std::uint64_t key) const noexcept {
        constexpr std::uint64_t kFibonacci = 0x9E3779B97F4A7C15; // 2^64 / golden ratio
        std::uint64_t mixed = key * kFibonacci;
        mixed = (mixed ^ mixed >> 32) * kFibonacci;
        std::size_t index = mixed >> shift_;
        while (slots_[index].merge.exists() && slots_[index].key != key) {
            index = (index + 1) & (slots_.size() - 1);
        }
        return index;
    }

    std::vector<Slot> slots_; // a power of two, at most half of them taken
    int shift_;
};

} // namespace kael::text
