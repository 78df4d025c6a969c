#include "shape.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

namespace kael::fuzz {

std::int64_t count_of(const Shape& shape) {
    return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

void for_each_index(const Shape& shape, const std::function<void(const Index&)>& body) {
    Index index(shape.size(), 0);
    for (std::int64_t i = count_of(shape); i > 0; --i) {
        body(index);
        for (std::size_t d = shape.size(); d-- > 0 && ++index[d] == shape[d];) {
            index[d] = 0;
        }
    }
}

std::size_t position(const Shape& shape, const Index& index) {
    std::int64_t place = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) {
        place = place * shape[d] + index[d];
    }
    return static_cast<std::size_t>(place);
}

bool broadcasts(const std::vector<Shape>& shapes, Shape& result) {
    result.clear();
    for (const Shape& shape : shapes) {
        result.insert(result.begin(),
                      shape.size() > result.size() ? shape.size() - result.size() : 0, 1);
        for (std::size_t i = 0; i < shape.size(); ++i) {
            std::int64_t& size = result[result.size() - 1 - i];
            const std::int64_t other = shape[shape.size() - 1 - i];
            if (size != other && size != 1 && other != 1) {
                return false;
            }
            size = size == 1 ? other : size;
        }
    }
    return true;
}

std::size_t wrap(int dimension, const Tensor& x) {
    return static_cast<std::size_t>(dimension < 0 ? dimension + x.rank() : dimension);
}

} // namespace kael::fuzz
