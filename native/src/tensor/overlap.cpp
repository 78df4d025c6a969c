#include "tensor/overlap.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "kael/error.h"

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

bool overlap(const Tensor& a, const Tensor& b) {
    if (a.numel() == 0 || b.numel() == 0) {
        return false;
    }
    const auto [first_begin, first_end] = extent(a);
    const auto [second_begin, second_end] = extent(b);
    return first_begin < second_end && second_begin < first_end;
}

bool spoils(const Tensor& written, const Tensor& read) {
    const bool same = written.data_ptr_raw() == read.data_ptr_raw() &&
                      written.dtype() == read.dtype() && written.shape() == read.shape() &&
                      written.strides() == read.strides();
    return !same && overlap(written, read);
}

void check_destination(const Tensor& tensor, const std::string& name) {
    KAEL_CHECK(
        has_distinct_elements(tensor),
        name << ": several elements of the tensor of shape " << to_string(tensor.shape())
             << " and strides " << to_string(tensor.strides())
             << " share memory (it was expanded), expected a place for each: write into a clone");
    const Storage& storage = *tensor.storage();
    KAEL_CHECK(!storage.is_read_only(),
               name << ": the tensor's memory is read-only ("
                    << (storage.origin().empty() ? "borrowed" : storage.origin())
                    << "), expected memory that may be written: write into a clone");
}

} // namespace kael
