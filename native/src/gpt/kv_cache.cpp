#include "gpt/kv_cache.h"

#include <algorithm>
#include <utility>

#include "kernels/cpu/kernels.h"

namespace kael::gpt {

namespace {

std::int64_t round_up_to_block(std::int64_t positions) {
    return (positions + kernels::kKeyBlock - 1) / kernels::kKeyBlock * kernels::kKeyBlock;
}

} // namespace

KeyValueCache::KeyValueCache(const Config& config)
    : layers_(config.layers), heads_(config.heads), head_dimension_(config.head_dimension()),
      most_(round_up_to_block(config.max_positions)) {}

KeyValueCache::KeyValueCache(const KeyValueCache& shape, std::int64_t capacity)
    : layers_(shape.layers_), heads_(shape.heads_), head_dimension_(shape.head_dimension_),
      most_(shape.most_), capacity_(capacity),
      memory_(layers_ * heads_ * 2 * capacity * head_dimension_) {}

void KeyValueCache::reserve(std::int64_t positions, std::int64_t used) {
    if (positions <= capacity_) {
        return;
    }
    const std::int64_t wanted =
        std::min(std::max(round_up_to_block(positions), 2 * capacity_), most_);
    if (used == 0) {
        memory_ = FloatBuffer(); // never both at once
        capacity_ = 0;           // also where there is no memory for more
    }
    KeyValueCache grown(*this, wanted);
    for (std::int64_t layer = 0; used > 0 && layer < layers_; ++layer) {
        for (std::int64_t head = 0; head < heads_; ++head) {
            std::copy_n(keys(layer, head), round_up_to_block(used) * head_dimension_,
                        grown.keys(layer, head));
            std::copy_n(values(layer, head), used * head_dimension_, grown.values(layer, head));
        }
    }
    *this = std::move(grown);
}

} // namespace kael::gpt
