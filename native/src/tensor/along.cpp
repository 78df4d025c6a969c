// Operators that answer a tensor of the same shape and look along one dimension of it.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kael/error.h"
#include "kael/reduce.h"
#include "kael/threads.h"

#include "kernels/cpu/kernels.h"
#include "tensor/dimensions.h"
#include "tensor/reductions.h"

namespace kael::forward {

namespace {

// Elements that a thread must have for it to be worth waking.
constexpr std::int64_t kGrain = 8192;

// Calls row(source, count, target) for every row along `dimension`, with elements of type T, which
// is that of `compute`.
template <typename T, typename Row>
Tensor along(const Tensor& x, int dimension, DType compute, DType result, Row&& row) {
    const bool moves = x.rank() > 1;
    const Tensor moved = moves ? x.transpose(dimension, -1) : x;
    const Tensor source = moved.to(compute).contiguous();
    const Tensor target = Tensor::empty(moved.shape(), compute);
    const std::int64_t length = x.rank() == 0 ? 1 : moved.shape().back();
    if (x.numel() > 0) {
        const T* const from = reinterpret_cast<const T*>(source.data_ptr_raw());
        T* const to = reinterpret_cast<T*>(target.storage()->data());
        parallel_for(0, x.numel() / length, kGrain / length,
                     [&](std::int64_t first, std::int64_t last) {
                         row(from + first * length, to + first * length, last - first, length);
                     });
    }
    const Tensor converted = target.to(result);
    return moves ? converted.transpose(dimension, -1).contiguous() : converted;
}

DType compute_type(const std::string& name, const Tensor& x) {
    KAEL_CHECK(is_floating_point(x.dtype()), name << ": a tensor of dtype " << kael::name(x.dtype())
                                                  << ", expected a floating-point one");
    return x.dtype() == DType::float64 ? DType::float64 : DType::float32;
}

template <typename T>
T largest_of(const T* elements, std::int64_t count) {
    return reductions::Extreme<T, reductions::Larger>{}.block(elements, count, 0);
}

// The kernel wants room up to the next multiple of 16, and answers zeros where all elements are
// -infinity.
void softmax_rows(const float* from, float* to, std::int64_t rows, std::int64_t length) {
    const kernels::CpuKernels& kernels = kernels::cpu_kernels();
    std::vector<float> scores(static_cast<std::size_t>((length + 15) / 16 * 16));
    for (std::int64_t row = 0; row < rows; ++row, from += length, to += length) {
        if (largest_of(from, length) == -std::numeric_limits<float>::infinity()) {
            std::fill(to, to + length, std::numeric_limits<float>::quiet_NaN());
            continue;
        }
        std::copy(from, from + length, scores.begin());
        kernels.softmax(scores.data(), length);
        std::copy(scores.begin(), scores.begin() + length, to);
    }
}

void softmax_rows(const double* from, double* to, std::int64_t rows, std::int64_t length) {
    for (std::int64_t row = 0; row < rows; ++row, from += length, to += length) {
        const double largest = largest_of(from, length);
        for (std::int64_t i = 0; i < length; ++i) {
            to[i] = std::exp(from[i] - largest);
        }
        const double sum =
            reductions::sum_lanes<double>(to, length, [](double value) { return value; });
        for (std::int64_t i = 0; i < length; ++i) {
            to[i] /= sum;
        }
    }
}

template <typename T>
void log_softmax_rows(const T* from, T* to, std::int64_t rows, std::int64_t length) {
    for (std::int64_t row = 0; row < rows; ++row, from += length, to += length) {
        const T largest = largest_of(from, length);
        const double sum = reductions::sum_lanes<double>(from, length, [largest](T value) {
            return static_cast<double>(std::exp(value - largest));
        });
        const double logarithm = std::log(sum);
        for (std::int64_t i = 0; i < length; ++i) {
            to[i] = static_cast<T>(static_cast<double>(from[i] - largest) - logarithm);
        }
    }
}

} // namespace

Tensor cumsum(const Tensor& x, int dimension) {
    dimension = wrap_dimension(x, dimension, "cumsum");
    const auto rows = [](auto* from, auto* to, std::int64_t count, std::int64_t length) {
        using T = std::remove_cvref_t<decltype(*from)>;
        for (std::int64_t row = 0; row < count; ++row, from += length, to += length) {
            reductions::Wide<T> sum = 0;
            for (std::int64_t i = 0; i < length; ++i) {
                sum += static_cast<reductions::Wide<T>>(from[i]);
                to[i] = static_cast<T>(sum);
            }
        }
    };
    if (!is_floating_point(x.dtype())) {
        return along<std::int64_t>(x, dimension, DType::int64, DType::int64, rows);
    }
    return along<double>(x, dimension, DType::float64, x.dtype(), rows);
}

Tensor softmax(const Tensor& x, int dimension) {
    dimension = wrap_dimension(x, dimension, "softmax");
    const auto rows = [](auto* from, auto* to, std::int64_t count, std::int64_t length) {
        softmax_rows(from, to, count, length);
    };
    return compute_type("softmax", x) == DType::float64
               ? along<double>(x, dimension, DType::float64, x.dtype(), rows)
               : along<float>(x, dimension, DType::float32, x.dtype(), rows);
}

Tensor log_softmax(const Tensor& x, int dimension) {
    dimension = wrap_dimension(x, dimension, "log_softmax");
    const auto rows = [](auto* from, auto* to, std::int64_t count, std::int64_t length) {
        log_softmax_rows(from, to, count, length);
    };
    return compute_type("log_softmax", x) == DType::float64
               ? along<double>(x, dimension, DType::float64, x.dtype(), rows)
               : along<float>(x, dimension, DType::float32, x.dtype(), rows);
}

} // namespace kael::forward
