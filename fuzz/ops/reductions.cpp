#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "run.h"

namespace kael::fuzz {

namespace {

// The elements along a dimension, for each index into the others.
std::vector<std::vector<Number>> rows_of(const Tracked& x, std::size_t dimension) {
    if (x.shape().empty()) {
        return {{x.at(std::size_t{0})}};
    }
    Shape others = x.shape();
    others[dimension] = 1;
    std::vector<std::vector<Number>> rows(static_cast<std::size_t>(count_of(others)));
    for_each_index(x.shape(), [&](Index index) {
        const Number value = x.at(index);
        index[dimension] = 0;
        rows[position(others, index)].push_back(value);
    });
    return rows;
}

// The reverse of rows_of.
Expected joined(const std::vector<std::vector<Number>>& rows, Shape shape, std::size_t dimension,
                std::int64_t length, DType dtype) {
    Expected result = {dtype, shape, {}};
    if (shape.empty()) {
        result.values = rows.front();
        return result;
    }
    Shape others = shape;
    others[dimension] = 1;
    result.shape[dimension] = length;
    for_each_index(result.shape, [&](Index index) {
        const auto i = static_cast<std::size_t>(index[dimension]);
        index[dimension] = 0;
        result.values.push_back(rows[position(others, index)][i]);
    });
    return result;
}

} // namespace

void Run::reduce() {
    const Reduction& row = kReductions[input_.below(std::size(kReductions))];
    const Tracked x = any();
    const bool keep = input_.rarely(2);
    Verdict verdict = Verdict::right;
    Shape dimensions;
    std::vector<bool> gone(x.shape().size(), false);
    for (std::size_t i = input_.below(3); i > 0; --i) {
        const int dimension = this->dimension(x.tensor, verdict);
        dimensions.push_back(dimension);
        if (verdict == Verdict::right) {
            verdict = gone[wrap(dimension, x.tensor)] ? Verdict::wrong : verdict;
            gone[wrap(dimension, x.tensor)] = true;
        }
    }
    if (verdict == Verdict::open) { // of a tensor without dimensions
        verdict = dimensions.size() > 1 ? Verdict::wrong : Verdict::open;
    }
    if (dimensions.empty()) {
        gone.assign(gone.size(), true);
    }
    std::int64_t length = 1;
    Shape shape;
    for (std::size_t d = 0; d < gone.size(); ++d) {
        length *= gone[d] ? x.shape()[d] : 1;
        shape.insert(shape.end(), gone[d] && !keep ? 0 : 1, gone[d] ? 1 : x.shape()[d]);
    }
    if ((row.floats_only && !is_real(x.dtype())) || (row.needs_elements && length == 0)) {
        verdict = Verdict::wrong;
    }
    std::vector<Argument> arguments = {x.tensor};
    if (std::string_view(row.name) == "norm") {
        arguments.emplace_back(2.0);
    }
    arguments.emplace_back(dimensions);
    arguments.emplace_back(keep);
    check(row.name, std::move(arguments), verdict, [&] {
        const bool sums = row.answers == Answers::sum && !is_real(x.dtype());
        const DType dtype = row.answers == Answers::boolean                       ? DType::boolean
                            : sums                                                ? DType::int64
                            : row.answers == Answers::real && !is_real(x.dtype()) ? DType::float32
                                                                                  : x.dtype();
        std::vector<std::vector<Number>> rows(static_cast<std::size_t>(count_of(shape)));
        for_each_index(x.shape(), [&](const Index& index) {
            Index place;
            for (std::size_t d = 0; d < gone.size(); ++d) {
                place.insert(place.end(), gone[d] && !keep ? 0 : 1, gone[d] ? 0 : index[d]);
            }
            rows[position(shape, place)].push_back(x.at(index));
        });
        Expected result = {dtype, shape, {}};
        for (const std::vector<Number>& values : rows) {
            const Reduced reduced = row.of(values, x.dtype());
            result.values.push_back(reduced.value);
            result.slack.push_back(reduced.slack);
        }
        return std::vector<Expected>{result};
    });
}

void Run::place_of_extreme() {
    const Tracked x = any();
    const bool is_largest = input_.rarely(2);
    const bool keep = input_.rarely(2);
    const bool over_all = input_.rarely(2);
    Verdict verdict = Verdict::right;
    const int dimension = over_all ? 0 : this->dimension(x.tensor, verdict);
    const std::int64_t length = over_all || x.tensor.rank() == 0 ? x.tensor.numel()
                                : verdict == Verdict::right      ? x.tensor.size(dimension)
                                                                 : 0;
    if (length == 0) {
        verdict = Verdict::wrong;
    }
    std::vector<Argument> arguments = {x.tensor, {}, keep};
    if (!over_all) {
        arguments[1] = std::int64_t{dimension};
    }
    check(is_largest ? "argmax" : "argmin", std::move(arguments), verdict, [&] {
        const std::vector<std::vector<Number>> rows =
            over_all ? std::vector<std::vector<Number>>{x.values()}
                     : rows_of(x, wrap(dimension, x.tensor));
        Expected result = {DType::int64, x.shape(), {}};
        if (over_all) {
            result.shape.assign(keep ? x.shape().size() : 0, 1);
        } else if (!x.shape().empty()) {
            const auto d = static_cast<std::ptrdiff_t>(wrap(dimension, x.tensor));
            result.shape.erase(result.shape.begin() + d);
            result.shape.insert(result.shape.begin() + d, keep ? 1 : 0, 1);
        }
        for (const std::vector<Number>& row : rows) {
            const auto is_nan = [&](Number v) { return is_real(x.dtype()) && std::isnan(v.real); };
            auto best = std::ranges::find_if(row, is_nan);
            if (best == row.end()) {
                best = row.begin();
                for (auto other = row.begin(); other != row.end(); ++other) {
                    const bool is_better = is_largest ? is_less(*best, *other, x.dtype())
                                                      : is_less(*other, *best, x.dtype());
                    best = is_better ? other : best;
                }
            }
            result.values.push_back({0, best - row.begin()});
        }
        return std::vector<Expected>{result};
    });
}

void Run::along() {
    const Tracked x = any();
    const char* const name = input_.one_of({"cumsum", "softmax", "log_softmax"});
    const bool sums = name[0] == 'c';
    Verdict verdict = Verdict::right;
    const int dimension = this->dimension(x.tensor, verdict);
    if (!sums && !is_real(x.dtype())) {
        verdict = Verdict::wrong;
    }
    check(name, {x.tensor, std::int64_t{dimension}}, verdict, [&] {
        std::vector<std::vector<Number>> rows = rows_of(x, wrap(dimension, x.tensor));
        std::vector<std::vector<Number>> slacks;
        for (std::vector<Number>& row : rows) {
            std::vector<Number>& slack = slacks.emplace_back(row.size());
            if (sums) {
                std::vector<Number> so_far;
                std::vector<Number> totals;
                for (std::size_t i = 0; i < row.size(); ++i) {
                    so_far.push_back(row[i]);
                    const Reduced total = sum_of(so_far, x.dtype());
                    totals.push_back(total.value);
                    slack[i].real = total.slack;
                }
                row = totals;
                continue;
            }
            // Beside an infinite one nothing is left to divide.
            const LogSumExp parts = parts_of_logsumexp(row, x.dtype());
            const double most = std::isinf(parts.most) ? kUnknown : parts.most;
            const double unit = x.dtype() == DType::float64 ? 1e-12 : 1e-6;
            const double size = largest_size(row);
            for (std::size_t i = 0; i < row.size(); ++i) {
                const double logarithm = row[i].real - most - parts.log_of_sum;
                const double tolerance = unit * (1 + (std::isfinite(size) ? size : 0));
                row[i].real = name[0] == 'l' ? logarithm : std::exp(logarithm);
                slack[i].real = name[0] == 'l' && std::isinf(logarithm) ? 0 : tolerance;
            }
        }
        const DType dtype = is_real(x.dtype()) ? x.dtype() : DType::int64;
        const std::int64_t length = x.shape().empty() ? 1 : x.tensor.size(dimension);
        const std::size_t d = wrap(dimension, x.tensor);
        Expected result = joined(rows, x.shape(), d, length, dtype);
        for (const Number slack : joined(slacks, x.shape(), d, length, DType::float64).values) {
            result.slack.push_back(slack.real);
        }
        return std::vector<Expected>{result};
    });
}

void Run::sort() {
    const Tracked x = any();
    Verdict verdict = Verdict::right;
    const int dimension = this->dimension(x.tensor, verdict);
    const bool descending = input_.rarely(2);
    const std::int64_t length = x.shape().empty()           ? 1
                                : verdict == Verdict::right ? x.tensor.size(dimension)
                                                            : 0;
    const std::size_t what = input_.below(3);
    const std::int64_t count = what == 2 ? around(length) : length;
    const bool is_fitting = count >= 0 && count <= length;
    if (!is_fitting) {
        verdict = Verdict::wrong;
    }
    std::vector<Argument> arguments = {x.tensor, std::int64_t{dimension}, descending};
    if (what == 2) {
        arguments.insert(arguments.begin() + 1, count);
        verdict = x.shape().empty() && count != 1 ? Verdict::open : verdict;
    }
    constexpr const char* kNames[] = {"sort", "argsort", "topk"};
    check(kNames[what], std::move(arguments), verdict, [&] {
        std::vector<std::vector<Number>> rows = rows_of(x, wrap(dimension, x.tensor));
        std::vector<std::vector<Number>> places;
        for (std::vector<Number>& row : rows) {
            std::vector<std::size_t> order(row.size());
            std::iota(order.begin(), order.end(), std::size_t{0});
            // Equal ones stay in their order.
            std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
                const bool is_before = is_less(row[a], row[b], x.dtype());
                const bool is_behind = is_less(row[b], row[a], x.dtype());
                return is_before == is_behind ? a < b : descending ? is_behind : is_before;
            });
            std::vector<Number>& place = places.emplace_back();
            std::vector<Number> sorted;
            for (const std::size_t i : order) {
                place.push_back({0, static_cast<std::int64_t>(i)});
                sorted.push_back(row[i]);
            }
            row = sorted;
        }
        const std::size_t d = wrap(dimension, x.tensor);
        std::vector<Expected> results = {joined(rows, x.shape(), d, count, x.dtype()),
                                         joined(places, x.shape(), d, count, DType::int64)};
        if (what == 1) {
            results.erase(results.begin());
        }
        return results;
    });
}

} // namespace kael::fuzz
