#include "tensor/overlap.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "tensor/layout.h"

namespace kael {

namespace {

// The bytes from the first element to behind the last one.
std::pair<std::uintptr_t, std::uintptr_t> extent(const Tensor& tensor) {
    std::int64_t last = 0;
    for (std::size_t i = 0; i < tensor.shape().size(); ++i) {
        last += (tensor.shape()[i] - 1) * tensor.strides()[i];
    }
    const auto begin = reinterpret_cast<std::uintptr_t>(tensor.data_ptr_raw());
    return {begin, begin + static_cast<std::uintptr_t>((last + 1) * item_size(tensor.dtype()))};
}

} // namespace

bool has_distinct_elements(const Tensor& tensor) {
    if (tensor.numel() < 2) {
        return true;
    }
    const Layout layout = coalesce(tensor.shape(), tensor.strides());
    std::vector<std::pair<std::int64_t, std::int64_t>> dimensions; // stride, size
    dimensions.reserve(layout.shape.size());
    for (std::size_t i = 0; i < layout.shape.size(); ++i) {
        dimensions.emplace_back(layout.strides[i], layout.shape[i]);
    }
    std::sort(dimensions.begin(), dimensions.end());
    // Each dimension steps over all that the shorter strides reach. Views of a row-major tensor do;
    // an interleaving that does not, and is distinct all the same, can only be made by hand.
    std::int64_t reach = 0;
    for (const auto& [stride, size] : dimensions) {
        if (stride <= reach) {
            return false;
        }
        reach += (size - 1) * stride;
    }
    return true;
}

bool spoils(const Tensor& written, const Tensor& read) {
    if (written.numel() == 0 || read.numel() == 0) {
        return false;
    }
    const auto [write_begin, write_end] = extent(written);
    const auto [read_begin, read_end] = extent(read);
    if (write_end <= read_begin || read_end <= write_begin) {
        return false;
    }
    const bool same = write_begin == read_begin && written.dtype() == read.dtype() &&
                      written.shape() == read.shape() && written.strides() == read.strides();
    return !same;
}

} // namespace kael
