#include <cstddef>
#include <cstdint>
#include <vector>

#include "run.h"

namespace kael::fuzz {

void Run::matmul() {
    const Tracked a = any();
    const Tracked b = any();
    Shape left = a.shape();
    Shape right = b.shape();
    Shape batch;
    bool is_right =
        a.dtype() == b.dtype() && a.dtype() != DType::boolean && !left.empty() && !right.empty();
    if (is_right) {
        left.insert(left.begin(), left.size() == 1 ? 1 : 0, 1);
        right.insert(right.end(), right.size() == 1 ? 1 : 0, 1);
        is_right =
            left.back() == *(right.end() - 2) &&
            broadcasts({Shape(left.begin(), left.end() - 2), Shape(right.begin(), right.end() - 2)},
                       batch);
    }
    check("matmul", {a.tensor, b.tensor}, right_if(is_right), [&] {
        Expected result = {a.dtype(), batch, {}};
        Shape full = batch;
        full.push_back(*(left.end() - 2));
        full.push_back(right.back());
        result.shape.insert(result.shape.end(), a.shape().size() == 1 ? 0 : 1, full.end()[-2]);
        result.shape.insert(result.shape.end(), b.shape().size() == 1 ? 0 : 1, full.back());
        const bool is_double = a.dtype() == DType::float64;
        const double unit = is_double ? 0x1p-51 : 0x1p-22;
        const double range = format(is_double ? DType::float64 : DType::float32).largest;
        const auto at = [](const Tracked& x, const Shape& shape, Index index) {
            index.erase(index.begin(), index.end() - static_cast<std::ptrdiff_t>(shape.size()));
            for (std::size_t d = 0; d + 2 < shape.size(); ++d) {
                index[d] = shape[d] == 1 ? 0 : index[d];
            }
            return x.at(position(shape, index));
        };
        for_each_index(full, [&](const Index& index) {
            Sum sum;
            std::uint64_t integers = 0;
            const auto terms = static_cast<std::size_t>(left.back());
            for (std::int64_t k = 0; k < left.back(); ++k) {
                Index row = index;
                Index column = index;
                row.back() = k;
                column.end()[-2] = k;
                const Number x = at(a, left, row);
                const Number y = at(b, right, column);
                sum.add(x.real * y.real, unit);
                integers += bits(x.integer) * bits(y.integer);
            }
            const auto total = static_cast<std::int64_t>(integers);
            result.values.push_back(
                {sum.value, is_real(a.dtype()) ? 0 : wrapped(total, a.dtype())});
            // Products may fall below the smallest number.
            result.slack.push_back(sum.known_slack(terms, unit, range) +
                                   (is_double ? 1e-300 : 1e-37));
        });
        return std::vector<Expected>{result};
    });
}

} // namespace kael::fuzz
