#include "tracked.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace kael::fuzz {

DType result_dtype(const std::vector<Value>& values) {
    std::optional<DType> groups[3];
    for (const Value& value : values) {
        auto& group = groups[value.tracked == nullptr ? 2 : value.shape().empty() ? 1 : 0];
        group = group ? common_dtype(*group, value.dtype()) : value.dtype();
    }
    std::optional<DType> result;
    for (const auto& group : groups) {
        if (group && (!result || kind(*group) > kind(*result))) {
            result = group;
        }
    }
    return *result;
}

Number element(const Tensor& tensor, std::size_t i) {
    Index index(tensor.shape().size());
    std::size_t rest = i;
    std::int64_t place = tensor.offset();
    for (std::size_t d = index.size(); d-- > 0;) {
        const auto size = static_cast<std::size_t>(tensor.shape()[d]);
        place += static_cast<std::int64_t>(rest % size) * tensor.strides()[d];
        rest /= size;
    }
    return decoded(tensor.storage()->data() + place * bytes_of(tensor.dtype()), tensor.dtype());
}

} // namespace kael::fuzz
