// Remembers the ids of words within one call: most words of a text are repetitions.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "text/merge_table.h"

namespace kael::text {

// Direct-mapped: a word replaces the one that has its slot. One thread at a time.
class WordCache {
public:
    static constexpr std::size_t kMaxWordBytes = 16;

    // `length` is about how many bytes of text there will be; a short text gets few slots.
    explicit WordCache(std::size_t length)
        : slots_(std::bit_ceil(std::clamp(length / kBytesPerSlot, kMinSlots, kMaxSlots))),
          shift_(64 - std::countr_zero(slots_.size())) {}

    // The ids of `word`, which has 1 to kMaxWordBytes bytes; none when they are not known.
    [[nodiscard]] std::span<const TokenId> find(std::string_view word) const noexcept {
        const Key key(word);
        const Slot& slot = slots_[place(key)];
        const bool found =
            slot.front == key.front && slot.back == key.back && slot.length == key.length;
        return std::span(slot.ids).first(found ? slot.count : 0);
    }

    // Does nothing when there are more ids than a slot holds.
    void insert(std::string_view word, std::span<const TokenId> ids) noexcept {
        if (ids.size() > kMaxIds) {
            return;
        }
        const Key key(word);
        Slot& slot = slots_[place(key)];
        slot.front = key.front;
        slot.back = key.back;
        slot.length = key.length;
        slot.count = static_cast<std::uint8_t>(ids.size());
        std::ranges::copy(ids, slot.ids.begin());
    }

private:
    static constexpr std::size_t kBytesPerSlot = 16;
    static constexpr std::size_t kMinSlots = 16;
    static constexpr std::size_t kMaxSlots = 16384;
    static constexpr std::size_t kMaxIds = 3;

    // All bytes of a word: the first and the last 8 or 4, which may overlap, or one by one.
    struct Key {
        explicit Key(std::string_view word) noexcept
            : length(static_cast<std::uint8_t>(word.size())) {
            const char* const data = word.data();
            if (length >= 8) {
                std::memcpy(&front, data, 8);
                std::memcpy(&back, data + length - 8, 8);
            } else if (length >= 4) {
                std::memcpy(&front, data, 4);
                std::memcpy(&back, data + length - 4, 4);
            } else {
                const auto byte = [&](std::size_t index) {
                    return std::uint64_t{static_cast<std::uint8_t>(data[index])};
                };
                front = byte(0) | byte(length / 2U) << 8 | byte(length - 1U) << 16;
            }
        }

        std::uint64_t front = 0;
        std::uint64_t back = 0;
        std::uint8_t length;
    };

    struct Slot {
        std::uint64_t front = 0;
        std::uint64_t back = 0;
        std::array<TokenId, kMaxIds> ids{};
        std::uint8_t length = 0; // 0 when the slot is free
        std::uint8_t count = 0;
    };
    static_assert(sizeof(Slot) == 32);

    [[nodiscard]] std::size_t place(const Key& key) const noexcept {
        constexpr std::uint64_t kFibonacci = 0x9E3779B97F4A7C15; // 2^64 / golden ratio
        std::uint64_t mixed = (key.front + key.length) * kFibonacci;
        mixed = ((mixed ^ mixed >> 32) + key.back) * kFibonacci;
        return mixed >> shift_;
    }

    std::vector<Slot> slots_; // a power of two
    int shift_;
};

} // namespace kael::text
