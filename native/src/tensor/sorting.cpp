// Which elements come first along a dimension.
#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "kael/error.h"
#include "kael/indexing.h"
#include "kael/threads.h"

#include "tensor/dimensions.h"
#include "tensor/forward_views.h"

namespace kael::forward {

namespace {

// Elements that a thread must have for it to be worth waking.
constexpr std::int64_t kGrain = 4096;

template <typename T>
bool is_nan(T x) {
    return x != x;
}

// Whether the element at `a` comes before the one at `b`: NaN is larger than every number, and
// equal elements stay in their order.
template <typename T>
struct Before {
    const T* elements;
    bool descending;

    bool operator()(std::int64_t a, std::int64_t b) const {
        const T first = elements[descending ? b : a];
        const T second = elements[descending ? a : b];
        if (first < second || (is_nan(second) && !is_nan(first))) {
            return true;
        }
        return (first == second || (is_nan(first) && is_nan(second))) && a < b;
    }
};

// The order of each row of `x`, of which the first `count` are written.
template <typename T>
void sort_rows(const Tensor& x, std::int64_t length, std::int64_t count, bool descending,
               const Tensor& result) {
    const T* const from = reinterpret_cast<const T*>(x.data_ptr_raw());
    std::int64_t* const to = reinterpret_cast<std::int64_t*>(result.storage()->data());
    parallel_for(
        0, x.numel() / length, kGrain / length + 1, [&](std::int64_t begin, std::int64_t end) {
            std::vector<std::int64_t> order(static_cast<std::size_t>(length));
            for (std::int64_t row = begin; row < end; ++row) {
                std::iota(order.begin(), order.end(), std::int64_t{0});
                const Before<T> before{from + row * length, descending};
                if (count < length) {
                    std::partial_sort(order.begin(), order.begin() + count, order.end(), before);
                } else {
                    std::sort(order.begin(), order.end(), before);
                }
                std::copy_n(order.begin(), count, to + row * count);
            }
        });
}

} // namespace

Tensor argsort(const Tensor& x, int dimension, bool descending, std::optional<std::int64_t> count,
               const std::string& name) {
    dimension = wrap_dimension(x, dimension, name);
    const bool moves = x.rank() > 1;
    const Tensor moved = moves ? transpose(x, dimension, -1) : x;
    const std::int64_t length = x.rank() == 0 ? 1 : moved.shape().back();
    const std::int64_t kept = count.value_or(length);
    KAEL_CHECK(kept >= 0 && kept <= length, name << ": " << kept << " elements of dimension "
                                                 << dimension << " of a tensor of shape "
                                                 << to_string(x.shape()) << ", expected 0 to "
                                                 << length);
    Shape shape = moved.shape();
    // A scalar has no dimension to shorten: it is kept whole, as by PyTorch.
    const std::int64_t written = shape.empty() ? 1 : kept;
    if (!shape.empty()) {
        shape.back() = kept;
    }
    const Tensor result = Tensor::empty(shape, DType::int64);
    if (result.numel() > 0) {
        const auto sort = [&]<typename T>(DType dtype) {
            const Tensor converted = to(moved, dtype);
            sort_rows<T>(converted.is_contiguous() ? converted : clone(converted), length, written,
                         descending, result);
        };
        if (!is_floating_point(x.dtype())) {
            sort.template operator()<std::int64_t>(DType::int64);
        } else if (x.dtype() == DType::float64) {
            sort.template operator()<double>(DType::float64);
        } else {
            sort.template operator()<float>(DType::float32);
        }
    }
    return moves ? clone(transpose(result, dimension, -1)) : result;
}

} // namespace kael::forward
