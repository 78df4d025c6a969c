#include "tensor/column_sums.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "kael/threads.h"

#include "tensor/blocks.h"
#include "tensor/pairwise.h"

namespace kael::forward {

namespace {

// Columns that are summed side by side: their lanes stay in the fastest cache.
constexpr std::int64_t kColumns = 64;
// As reductions::sum_lanes has.
constexpr std::int64_t kLanes = 8;
// Elements that a thread must have for it to be worth waking.
constexpr std::int64_t kGrain = 16384;

using Sums = std::array<double, kColumns>;

struct AddSums {
    using State = Sums;
    [[nodiscard]] Sums combine(const Sums& a, const Sums& b) const {
        Sums sum;
        std::transform(a.begin(), a.end(), b.begin(), sum.begin(), std::plus<>());
        return sum;
    }
};

// `rows` rows of `columns` (at most kColumns) elements, `stride` apart.
template <typename T>
Sums sum_block(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t columns) {
    std::array<Sums, kLanes> lanes{};
    for (std::int64_t row = 0; row < rows; ++row) {
        double* const lane = lanes[static_cast<std::size_t>(row % kLanes)].data();
        const T* const from = x + row * stride;
        for (std::int64_t column = 0; column < columns; ++column) {
            lane[column] += double{from[column]};
        }
    }
    for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
        for (std::size_t lane = 0; lane < half; ++lane) {
            lanes[lane] = AddSums{}.combine(lanes[lane], lanes[lane + half]);
        }
    }
    return lanes[0];
}

template <typename T>
void sum_columns(const T* x, std::int64_t rows, std::int64_t width, T* out) {
    const std::int64_t groups = (width + kColumns - 1) / kColumns;
    parallel_for(
        0, groups, kGrain / (rows * kColumns) + 1, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t group = begin; group < end; ++group) {
                const std::int64_t first = group * kColumns;
                const std::int64_t columns = std::min(kColumns, width - first);
                const auto sums = std::make_unique_for_overwrite<Pairwise<AddSums>>();
                for_each_block(0, rows, [&](std::int64_t row, std::int64_t count) {
                    sums->add(AddSums{}, sum_block(x + row * width + first, count, width, columns));
                });
                const Sums total = sums->total(AddSums{});
                std::transform(total.begin(), total.begin() + columns, out + first,
                               [](double sum) { return static_cast<T>(sum); });
            }
        });
}

} // namespace

bool are_columns(const Tensor& x, const std::vector<int>& dimensions) {
    const auto count = static_cast<int>(dimensions.size());
    return (x.dtype() == DType::float32 || x.dtype() == DType::float64) && x.numel() > 0 &&
           count > 0 && count < x.rank() && dimensions.back() == count - 1 && x.is_contiguous();
}

Tensor column_sums(const Tensor& x, int count) {
    std::int64_t rows = 1;
    for (int i = 0; i < count; ++i) {
        rows *= x.size(i);
    }
    const std::int64_t width = x.numel() / rows;
    const Tensor result = Tensor::empty({width}, x.dtype());
    if (x.dtype() == DType::float64) {
        sum_columns(x.data<double>(), rows, width,
                    reinterpret_cast<double*>(result.storage()->data()));
    } else {
        sum_columns(x.data<float>(), rows, width,
                    reinterpret_cast<float*>(result.storage()->data()));
    }
    return result;
}

} // namespace kael::forward
