// Shapes with strides, reduced to what an inner loop must know.
#pragma once

#include <cstdint>
#include <optional>

#include "kael/tensor.h"

namespace kael {

// The same elements in the same order with the fewest dimensions: those of size 1 are gone, and
// neighbours that one stride can walk are one. No dimension is left for a single element. Not for
// empty tensors.
struct Layout {
    Shape shape;
    Shape strides;
};
[[nodiscard]] Layout coalesce(const Shape& shape, const Shape& strides);

// The strides under which `to` walks the elements of (`from`, `strides`) in the same order; nothing
// when no strides can. Both shapes have the same element count.
[[nodiscard]] std::optional<Shape> view_strides(const Shape& from, const Shape& strides,
                                                const Shape& to);

// Copies elements of `item_bytes` (1, 2, 4 or 8) from a strided source into row-major `target`.
void copy_strided(const std::byte* source, const Shape& shape, const Shape& strides,
                  std::int64_t item_bytes, std::byte* target);

} // namespace kael
