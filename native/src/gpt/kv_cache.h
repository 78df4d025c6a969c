// Keys and values of the positions that a model has seen, in the layout of kernels.h.
#pragma once

#include <cstdint>

#include "kael/gpt.h"

#include "gpt/float_buffer.h"

namespace kael::gpt {

// One block of memory, in which each head of each layer has its keys and its values side by side.
// It grows with the positions in use, at least by doubling, up to what the model can use.
class KeyValueCache {
public:
    explicit KeyValueCache(const Config& config);

    // Positions there is room for, a multiple of kernels::kKeyBlock.
    [[nodiscard]] std::int64_t capacity() const noexcept { return capacity_; }

    // Makes room for `positions` and keeps the first `used`. Pointers into the cache end here.
    void reserve(std::int64_t positions, std::int64_t used);

    // [block][head dimension][16]
    [[nodiscard]] float* keys(std::int64_t layer, std::int64_t head) const noexcept {
        return memory_.data() + (layer * heads_ + head) * 2 * capacity_ * head_dimension_;
    }
    // [position][head dimension]
    [[nodiscard]] float* values(std::int64_t layer, std::int64_t head) const noexcept {
        return keys(layer, head) + capacity_ * head_dimension_;
    }

private:
    KeyValueCache(const KeyValueCache& shape, std::int64_t capacity);

    std::int64_t layers_;
    std::int64_t heads_;
    std::int64_t head_dimension_;
    std::int64_t most_; // positions
    std::int64_t capacity_ = 0;
    FloatBuffer memory_;
};

} // namespace kael::gpt
