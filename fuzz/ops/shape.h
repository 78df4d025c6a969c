// Shapes, and the places of elements in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "kael/tensor.h"

namespace kael::fuzz {

using Index = Shape;

std::int64_t count_of(const Shape& shape);

// In row-major order.
void for_each_index(const Shape& shape, const std::function<void(const Index&)>& body);

std::size_t position(const Shape& shape, const Index& index);

bool broadcasts(const std::vector<Shape>& shapes, Shape& result);

// Of a dimension that there is, counted from either end.
std::size_t wrap(int dimension, const Tensor& x);

} // namespace kael::fuzz
